//! Names of the chunk policies of farms.

use std::num::NonZeroUsize;
use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

/// Division of the tasks of a farm into chunks.
///
/// ```
/// use armature_planner::farm::{Chunking, Published};
///
/// assert_eq!("awf-b".parse(), Ok(Chunking::Policy(Published::AwfB)));
/// assert_eq!("32".parse(), Ok(Chunking::fixed(32)));
/// assert_eq!(Chunking::Policy(Published::Daf).to_string(), "daf");
/// assert_eq!(Chunking::default(), Chunking::Auto);
/// assert!("0".parse::<Chunking>().unwrap_err().message().contains("awf-b"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Chunking {
    /// Automatic selection: begins with small chunks, measures the tasks, and selects a policy by simulation.
    #[default]
    Auto,
    /// One chunk for each worker; all chunks have the same size.
    Static,
    /// Chunks of the given number of tasks. [`Chunking::fixed`] creates this variant from a plain number.
    Fixed(NonZeroUsize),
    /// A published policy, such as factoring or guided self-scheduling.
    Policy(Published),
}

/// Chunk policies of the literature. M is the number of tasks of an iteration, n the number of workers, R the number of tasks not yet dispatched, and
/// µ and σ are mean and standard deviation of the time of a task.
///
/// A *batch* is n chunks of equal size, which are dispatched one at a time on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Published {
    /// Self-scheduling: one task at a time (Tang and Yew, *Processor Self-Scheduling for Multiple-Nested Parallel Loops*, 1986).
    SelfScheduling,
    /// Fixed size chunking (Cesar et al., *Modeling Master/Worker applications for automatic performance tuning*, 2006): batches of a fraction
    /// f of all tasks. f is 0.25 in the first two iterations. In later iterations f is the best of 0.1, 0.2, … 1 in a simulation of the last
    /// iteration.
    Fsc,
    /// Dynamic predictive factoring (Cesar et al., 2006): batches of a fraction f of the remaining tasks, with f as in [`Fsc`](Published::Fsc).
    Dpf,
    /// Dynamic adjusting factoring (Cesar et al., 2006, equations 1 and 2): batches of R/x with x = 2 + (σ/µ)√(n/2), less 1 for the first batch. R,
    /// n, µ and σ are explained at [`Published`].
    Daf,
    /// Guided self-scheduling: chunks of ⌈R/n⌉ tasks, with R remaining tasks and n workers (Polychronopoulos and Kuck, *Guided Self-Scheduling: A
    /// Practical Scheduling Scheme for Parallel Supercomputers*, 1987).
    Gss,
    /// Trapezoid self-scheduling: chunks from M/(2n) tasks down to 1 in equal steps, with M tasks in total and n workers (Tzen and Ni, *Trapezoid
    /// Self-Scheduling: A Practical Scheduling Scheme for Parallel Compilers*, 1993).
    Tss,
    /// Factoring with batches of half of the remaining tasks (Flynn Hummel, Schonberg and Flynn, *Factoring: A Method for Scheduling Parallel Loops*,
    /// 1992).
    Fac2,
    /// Factoring by mean and standard deviation of the task times, for independent tasks (Flynn Hummel, Schonberg and Flynn, 1992).
    Fac,
    /// Adaptive weighted factoring (Cariño and Banicescu, *Dynamic load balancing with adaptive factoring methods in scientific applications*,
    /// 2008).
    AwfB,
    /// Adaptive factoring, by mean and standard deviation of the task times of each worker (Banicescu and Liu, *Adaptive Factoring: A Dynamic
    /// Scheduling Method Tuned to the Rate of Weight Changes*, 2000).
    Af,
    /// Chunks of the constant size of Kruskal and Weiss (*Allocating Independent Subtasks on Parallel Processors*, 1985).
    KruskalWeiss,
}

const NAMES: [(Chunking, &str); 13] = [
    (Chunking::Auto, "auto"),
    (Chunking::Static, "static"),
    (Chunking::Policy(Published::SelfScheduling), "ss"),
    (Chunking::Policy(Published::Fsc), "fsc"),
    (Chunking::Policy(Published::Dpf), "dpf"),
    (Chunking::Policy(Published::Daf), "daf"),
    (Chunking::Policy(Published::Gss), "gss"),
    (Chunking::Policy(Published::Tss), "tss"),
    (Chunking::Policy(Published::Fac2), "fac2"),
    (Chunking::Policy(Published::Fac), "fac"),
    (Chunking::Policy(Published::AwfB), "awf-b"),
    (Chunking::Policy(Published::Af), "af"),
    (Chunking::Policy(Published::KruskalWeiss), "fsc-kw"),
];

impl Chunking {
    /// Returns the chunking into chunks of the given number of tasks.
    ///
    /// # Panics
    /// If `tasks` is 0.
    pub const fn fixed(tasks: usize) -> Self {
        match NonZeroUsize::new(tasks) {
            Some(tasks) => Chunking::Fixed(tasks),
            None => panic!("a chunk of 0 tasks, expected at least 1"),
        }
    }

    /// Returns every kind of chunking without a parameter, `Auto` first.
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
        text.parse().map(Chunking::Fixed).map_err(|_| {
            let names: Vec<&str> = NAMES.iter().map(|&(_, name)| name).collect();
            let expected = names.join(", ");
            let message =
                format!("there is no chunking {text:?}; expected a number of tasks or one of {expected}");
            Error::new(ErrorKind::Options, message)
        })
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
