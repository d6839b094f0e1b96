//! The policies: how large the next chunk is.

mod adaptive;
mod batches;
mod factoring;
mod fractions;
mod simple;
mod weighted;

use std::fmt;

use super::{
    chunking::Chunking,
    knowledge::{ChunkDone, Knowledge},
    statistics::TaskStatistics,
};

#[cfg(test)]
pub(super) use adaptive::real_chunk;
#[cfg(test)]
pub(super) use factoring::{daf_divisor, fac_divisor};
#[cfg(test)]
pub(super) use simple::kruskal_weiss_size;

/// What a policy sees when it is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    /// Iterations begun, the present one included.
    pub iteration: u64,
    /// Tasks of the iteration, M.
    pub total: u64,
    /// Tasks not yet handed out, R; more than 0.
    pub left: u64,
    /// Workers that take part, by ascending number; never empty.
    pub workers: &'a [usize],
    /// Times of tasks so far.
    pub statistics: &'a TaskStatistics,
    /// What the caller knows.
    pub knowledge: &'a Knowledge,
}

impl View<'_> {
    /// Number of workers, n.
    pub(super) fn n(&self) -> u64 {
        self.workers.len() as u64
    }

    /// `kmin`; 1 without any data, None if no chunk is large enough.
    pub(super) fn least_chunk(&self) -> Option<u64> {
        if self.statistics.all().count() == 0 {
            return Some(1);
        }
        self.knowledge.least_chunk(self.workers.len(), self.statistics.all().mean())
    }
}

/// A policy. It may keep what it likes; what it says is held within 1 and what is left by its caller.
pub(super) trait Policy: fmt::Debug + Send {
    /// An iteration begins, or the number of tasks that are left has changed otherwise than by handing out.
    fn begin(&mut self, view: &View<'_>);

    /// Tasks of the next chunk for `worker`, of which at most `most` will be handed out.
    fn next(&mut self, worker: usize, most: u64, view: &View<'_>) -> u64;

    /// A chunk has come back. It is in the statistics already.
    fn done(&mut self, _done: &ChunkDone) {}

    /// A copy in the present state, to try what would come.
    fn copy(&self) -> Box<dyn Policy>;
}

/// The policy of a name; None for [`Chunking::Auto`], which is made of the others.
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

/// Batches of a part of what is left, or of the whole, whatever was measured.
#[cfg(test)]
pub(super) fn fraction(factor: f64, of_rest: bool) -> Box<dyn Policy> {
    Box::new(fractions::Fraction::new(factor, of_rest))
}
