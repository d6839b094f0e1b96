//! Chunk policies of farms.

mod adaptive;
mod batches;
mod factoring;
mod fractions;
mod simple;
mod view;
mod weighted;

use super::chunking::{Chunking, Published};
pub(super) use fractions::AT_FIRST;
pub(super) use view::{Policy, View};

#[cfg(test)]
pub(super) use adaptive::real_chunk;
#[cfg(test)]
pub(super) use factoring::{daf_divisor, fac_divisor};
#[cfg(test)]
pub(super) use simple::kruskal_weiss_size;

/// Returns the policy that computes chunk sizes. `None` for [`Chunking::Auto`], which selects one of the other policies.
pub(super) fn policy(chunking: Chunking) -> Option<Box<dyn Policy>> {
    Some(match chunking {
        Chunking::Auto => return None,
        Chunking::Static => Box::new(simple::Static::default()),
        Chunking::Policy(Published::SelfScheduling) => Box::new(simple::Fixed(1)),
        Chunking::Fixed(tasks) => Box::new(simple::Fixed(tasks.get() as u64)),
        Chunking::Policy(Published::KruskalWeiss) => Box::new(simple::KruskalWeiss),
        Chunking::Policy(Published::Gss) => Box::new(simple::Gss),
        Chunking::Policy(Published::Tss) => Box::new(simple::Tss::default()),
        Chunking::Policy(Published::Fsc) => Box::new(fractions::Predictive::fsc()),
        Chunking::Policy(Published::Dpf) => Box::new(fractions::Predictive::dpf()),
        Chunking::Policy(Published::Daf) => Box::new(factoring::Daf::default()),
        Chunking::Policy(Published::Fac2) => Box::new(factoring::Factoring::fac2()),
        Chunking::Policy(Published::Fac) => Box::new(factoring::Factoring::fac()),
        Chunking::Policy(Published::AwfB) => Box::new(weighted::AwfB::default()),
        Chunking::Policy(Published::Af) => Box::new(adaptive::Af),
    })
}

#[cfg(test)]
pub(super) fn fraction(factor: f64, of_rest: bool) -> Box<dyn Policy> {
    Box::new(fractions::Fraction::new(factor, of_rest))
}
