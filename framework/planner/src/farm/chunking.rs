//! Names of the chunk policies.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

/// Policy that divides tasks into chunks. M is the number of tasks of an iteration, n the number of workers, R the number of tasks not yet
/// dispatched, and µ and σ are mean and standard deviation of the time of a task.
///
/// A *batch* is n chunks of equal size, which are dispatched one at a time on request.
///
/// ```
/// use armature_planner::farm::Chunking;
///
/// assert_eq!("awf-b".parse(), Ok(Chunking::AwfB));
/// assert_eq!("32".parse(), Ok(Chunking::Fixed(32)));
/// assert_eq!(Chunking::Daf.to_string(), "daf");
/// assert_eq!(Chunking::default(), Chunking::Auto);
/// assert!("0".parse::<Chunking>().unwrap_err().message().contains("awf-b"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Chunking {
    /// Begins with safe chunks, measures, and selects one of the other policies by simulation.
    #[default]
    Auto,
    /// One chunk of M/n tasks for each worker.
    Static,
    /// Self-scheduling: one task at a time.
    SelfScheduling,
    /// Chunks of a fixed number of tasks.
    Fixed(u64),
    /// Fixed size chunking of Cesar et al. (2006): batches of a fraction f of all tasks. f is 0.25 in the first two iterations. In later iterations
    /// f is the best of 0.1, 0.2, … 1 in a simulation of the last iteration.
    Fsc,
    /// Dynamic predictive factoring of Cesar et al.: batches of a fraction f of the remaining tasks, with f as in `Fsc`.
    Dpf,
    /// Dynamic adjusting factoring of Cesar et al., (1) and (2): batches of R/x with x = 2 + (σ/µ)√(n/2), less 1 for the first batch.
    Daf,
    /// Guided self-scheduling: ⌈R/n⌉.
    Gss,
    /// Trapezoid self-scheduling: from M/(2n) down to 1 in equal steps.
    Tss,
    /// Factoring with batches of R/2.
    Fac2,
    /// Factoring by µ and σ, for independent tasks (Flynn Hummel, Schonberg and Flynn, 1992).
    Fac,
    /// Adaptive weighted factoring (Cariño and Banicescu, 2008).
    AwfB,
    /// Adaptive factoring: µ and σ of each worker (Banicescu and Liu, 2000).
    Af,
    /// Fixed chunks of the size of Kruskal and Weiss (1985).
    KruskalWeiss,
}

/// Named policies with their names.
const NAMES: [(Chunking, &str); 13] = [
    (Chunking::Auto, "auto"),
    (Chunking::Static, "static"),
    (Chunking::SelfScheduling, "ss"),
    (Chunking::Fsc, "fsc"),
    (Chunking::Dpf, "dpf"),
    (Chunking::Daf, "daf"),
    (Chunking::Gss, "gss"),
    (Chunking::Tss, "tss"),
    (Chunking::Fac2, "fac2"),
    (Chunking::Fac, "fac"),
    (Chunking::AwfB, "awf-b"),
    (Chunking::Af, "af"),
    (Chunking::KruskalWeiss, "fsc-kw"),
];

impl Chunking {
    /// Returns every policy without a parameter, `Auto` first.
    pub fn all() -> impl Iterator<Item = Chunking> {
        NAMES.iter().map(|&(chunking, _)| chunking)
    }
}

impl fmt::Display for Chunking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(chunking, _)| chunking == self) {
            Some((_, name)) => f.pad(name),
            None => match self {
                Chunking::Fixed(tasks) => f.pad(&tasks.to_string()),
                other => write!(f, "{other:?}"),
            },
        }
    }
}

impl FromStr for Chunking {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim().to_ascii_lowercase();
        if let Some(&(chunking, _)) = NAMES.iter().find(|(_, name)| *name == text) {
            return Ok(chunking);
        }
        match text.parse() {
            Ok(tasks) if tasks > 0 => Ok(Chunking::Fixed(tasks)),
            _ => {
                let names: Vec<&str> = NAMES.iter().map(|&(_, name)| name).collect();
                let expected = names.join(", ");
                let message =
                    format!("there is no chunking {text:?}; expected a number of tasks or one of {expected}");
                Err(Error::new(ErrorKind::Options, message))
            }
        }
    }
}

impl TryFrom<String> for Chunking {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Chunking> for String {
    fn from(chunking: Chunking) -> Self {
        chunking.to_string()
    }
}
