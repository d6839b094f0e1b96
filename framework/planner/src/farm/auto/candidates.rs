//! What `Auto` chooses from.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::super::chunking::Chunking;
use super::super::policy::{self, Policy};

/// A policy that [`Chunking::Auto`] can choose.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Candidate {
    /// One of the policies without numbers of its own.
    Policy(Chunking),
    /// Batches of a part of all tasks: FSC.
    OfAll(f64),
    /// Batches of a part of the tasks that are left: DPF, but down to single tasks where the master can serve these.
    OfRest(f64),
    /// Trapezoid self-scheduling; first and last size as parts of an even share R/n.
    Trapezoid(f64, f64),
}

impl Candidate {
    /// Chosen while nothing is known.
    pub(super) const SAFE: Candidate = Candidate::OfRest(0.25);

    /// All, the plain ones first. Weighting workers is of use only where they differ.
    pub(super) fn all(unequal: bool) -> Vec<Candidate> {
        let mut all = vec![
            Candidate::OfRest(0.5),
            Candidate::Policy(Chunking::Static),
            Candidate::Policy(Chunking::Gss),
            Candidate::Policy(Chunking::Daf),
            Candidate::Policy(Chunking::Fac2),
        ];
        all.extend([0.2, 0.3, 0.4, 0.6, 0.7, 0.8].map(Candidate::OfRest));
        all.extend([0.05, 0.1, 1.0 / 6.0, 0.2, 0.25, 1.0 / 3.0, 0.5].map(Candidate::OfAll));
        for first in [0.25, 0.5, 0.75] {
            all.extend([0.0, 0.25, 0.5].map(|part| Candidate::Trapezoid(first, part * first)));
        }
        // Where the master takes long to serve all workers once, those that are served first get more, so that all
        // end together.
        let steep = [(1.0, 0.0), (1.0, 0.5), (1.25, 0.75), (1.5, 0.5), (2.0, 0.0)];
        all.extend(steep.map(|(first, last)| Candidate::Trapezoid(first, last)));
        if unequal {
            all.extend([Chunking::AwfB, Chunking::Af].map(Candidate::Policy));
        }
        all
    }

    /// The policy for `left` tasks on `workers` workers.
    pub(super) fn policy(self, left: u64, workers: u64) -> Box<dyn Policy> {
        let share = left as f64 / workers.max(1) as f64;
        match self {
            Candidate::OfAll(factor) => policy::fraction(factor, false),
            Candidate::OfRest(factor) => policy::fine_fraction(factor),
            Candidate::Trapezoid(first, last) => {
                policy::trapezoid((first * share).ceil() as u64, ((last * share) as u64).max(1))
            }
            Candidate::Policy(chunking) => {
                policy::policy(chunking).unwrap_or_else(|| policy::fine_fraction(0.5))
            }
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Candidate::Policy(chunking) => chunking.fmt(f),
            Candidate::OfAll(factor) => write!(f, "fsc with f = {factor:.2}"),
            Candidate::OfRest(factor) => write!(f, "dpf with f = {factor:.2}"),
            Candidate::Trapezoid(first, last) => {
                write!(f, "tss from {first:.2} to {last:.2} of an even share")
            }
        }
    }
}
