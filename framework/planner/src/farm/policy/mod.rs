//! Chunk policies.

mod adaptive;
mod batches;
mod factoring;
mod fractions;
mod simple;
mod view;
mod weighted;

use super::chunking::Chunking;
pub(super) use fractions::AT_FIRST;
pub(super) use view::{Policy, View};

#[cfg(test)]
pub(super) use adaptive::real_chunk;
#[cfg(test)]
pub(super) use factoring::{daf_divisor, fac_divisor};
#[cfg(test)]
pub(super) use simple::kruskal_weiss_size;

/// Returns the policy of a name; `None` for [`Chunking::Auto`], which selects among the others.
pub(super) fn policy(chunking: Chunking) -> Option<Box<dyn Policy>> {
    Some(match chunking {
        Chunking::Auto => return None,
        Chunking::Static => Box::new(simple::Static::default()),
        Chunking::SelfScheduling => Box::new(simple::Fixed(1)),
        Chunking::Fixed(tasks) => Box::new(simple::Fixed(tasks)),
        Chunking::KruskalWeiss => Box::new(simple::KruskalWeiss),
        Chunking::Gss => Box::new(simple::Gss),
        Chunking::Tss => Box::new(simple::Tss::default()),
        Chunking::Fsc => Box::new(fractions::Predictive::fsc()),
        Chunking::Dpf => Box::new(fractions::Predictive::dpf()),
        Chunking::Daf => Box::new(factoring::Daf::default()),
        Chunking::Fac2 => Box::new(factoring::Factoring::fac2()),
        Chunking::Fac => Box::new(factoring::Factoring::fac()),
        Chunking::AwfB => Box::new(weighted::AwfB::default()),
        Chunking::Af => Box::new(adaptive::Af),
    })
}

/// Returns a policy with batches of a fixed fraction of the remaining tasks, or of all tasks, independent of measurements.
#[cfg(test)]
pub(super) fn fraction(factor: f64, of_rest: bool) -> Box<dyn Policy> {
    Box::new(fractions::Fraction::new(factor, of_rest))
}
