//! Loops over indices, for data that all ranks have.

use std::cell::RefMut;
use std::fmt;
use std::ops::Range;

use super::doall::{RankLoop, UnitBlock};
use super::settings::{LoopKind, Settings};
use super::summary::Summary;
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::session::{Announcement, Session};

/// The indices of a loop, handed out to the ranks in ranges: those that a rank gets are its to do.
///
/// A rank that is asked for less gets less: indices move from slow ranks to fast ones.
///
/// ```
/// use armature::loops::Ranges;
///
/// let config = armature::Config::new().ranks(3);
/// let sum = std::sync::atomic::AtomicU64::new(0);
/// armature::run(&config, |session| {
///     let mut indices = Ranges::new(session, "sum", 0..1_000)?;
///     while let Some(range) = indices.next()? {
///         sum.fetch_add(range.sum(), std::sync::atomic::Ordering::Relaxed);
///     }
///     Ok(())
/// })?;
/// assert_eq!(sum.into_inner(), 499_500);
/// # Ok::<(), armature::Error>(())
/// ```
///
/// Every rank has to ask until there are no more: the others wait for what it was given. No other skeleton can be run
/// meanwhile.
pub struct Ranges<'s> {
    endpoint: RefMut<'s, Endpoint>,
    rank_loop: RankLoop<()>,
    start: u64,
    /// The block that was given out last.
    block: Option<UnitBlock>,
    summary: Option<Summary>,
}

impl<'s> Ranges<'s> {
    /// A loop over these indices; none if the range ends before it starts. With options, it is begun by
    /// [`ParallelFor::ranges`](super::ParallelFor::ranges).
    ///
    /// # Errors
    /// If another skeleton is running, or rank 0 runs something else.
    pub fn new(session: &'s Session, name: &str, indices: Range<u64>) -> Result<Self> {
        let what = Announcement::new(format!("runs the ranges {name:?}"));
        Ranges::announced(session, name, indices, Settings::new(), what)
    }

    /// Begins the loop, as part of what is announced so.
    pub(super) fn announced(
        session: &'s Session,
        name: &str,
        indices: Range<u64>,
        settings: Settings,
        what: Announcement,
    ) -> Result<Self> {
        let mut endpoint = session.endpoint()?;
        let what = settings.announced(what.with("indices", format_args!("{indices:?}")));
        let mut rank_loop = RankLoop::new(name, indices.end.saturating_sub(indices.start), settings);
        let rank = endpoint.rank();
        rank_loop.check(LoopKind::Indices, rank).inspect_err(|error| endpoint.report(error))?;
        endpoint.begin_run(&what, session.config().join_limit)?;
        if let Some(range) = rank_loop.wants(rank, endpoint.size())? {
            rank_loop.give(rank, range, ())?;
        }
        rank_loop.begin(&mut endpoint, session.config(), 1)?;
        Ok(Ranges { endpoint, rank_loop, start: indices.start, block: None, summary: None })
    }

    /// The next indices of this rank, to be done before it asks again; `None` when all ranks are done.
    ///
    /// # Errors
    /// A rank that is silent for longer than [`Config::peer_limit`](crate::Config::peer_limit), and the failure of another
    /// rank.
    // It is no iterator: it can fail, and what it gives must be done before the next is asked for.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Range<u64>>> {
        self.block = self.rank_loop.next(&mut self.endpoint)?;
        match &self.block {
            Some(block) => Ok(Some(self.start + block.range.start..self.start + block.range.end)),
            None => {
                self.summary = self.rank_loop.finish().or(self.summary.take());
                Ok(None)
            }
        }
    }

    /// A hook within a range: what is still to be done of it by this rank, when all before `rest` is done.
    ///
    /// How long ranges are is chosen so that ranks hear of each other often enough, but for indices that take much longer than
    /// those before, and where [`ParallelFor::block_size`](super::ParallelFor::block_size) makes ranges long, for the sake of what is done once for each. There hooks
    /// can be placed by hand: indices behind `rest` may then go to other ranks although they have been handed out. It takes a
    /// reading of the clock, but for once in a millisecond.
    ///
    /// ```
    /// # use armature::loops::Ranges;
    /// # let config = armature::Config::new().ranks(3);
    /// # let sum = std::sync::atomic::AtomicU64::new(0);
    /// # armature::run(&config, |session| {
    /// let mut indices = Ranges::new(session, "sum", 0..1_000)?;
    /// while let Some(mut range) = indices.next()? {
    ///     while let Some(index) = range.next() {
    ///         sum.fetch_add(index, std::sync::atomic::Ordering::Relaxed);
    ///         range = indices.hook(range)?;
    ///     }
    /// }
    /// # Ok(())
    /// # })?;
    /// # assert_eq!(sum.into_inner(), 499_500);
    /// # Ok::<(), armature::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::User`] if `rest` is not the end of the range that was handed out last; and as [`next`](Ranges::next).
    pub fn hook(&mut self, rest: Range<u64>) -> Result<Range<u64>> {
        let Some(block) = &self.block else { return Ok(rest.end..rest.end) };
        let given = self.start + block.range.start..self.start + block.range.end;
        if rest.end != given.end || !(given.start..=given.end).contains(&rest.start) {
            let text = format!("{rest:?} is not what is left of {given:?}");
            return Err(self.blame(&Error::new(ErrorKind::User, text)));
        }
        let left = self.rank_loop.rest(&mut self.endpoint, rest.start - self.start)?;
        let left = left
            .map_or(rest.end..rest.end, |block| self.start + block.range.start..self.start + block.range.end);
        if let Some(block) = self.block.as_mut() {
            block.range.end = left.end - self.start;
        }
        Ok(left)
    }

    /// How it went: on rank 0, after [`next`](Ranges::next) has given `None`.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// An error of user code in the block that was given out last.
    pub(super) fn blame(&self, error: &Error) -> Error {
        match &self.block {
            Some(block) => self.rank_loop.blame(error, block, self.start, self.endpoint.rank()),
            None => error.clone(),
        }
    }

    /// The end of a loop whose errors are reported to the other ranks.
    pub(super) fn end(mut self, ended: Result<()>) -> Result<Option<Summary>> {
        match ended {
            Ok(()) => Ok(self.summary),
            Err(error) => {
                self.endpoint.report(&error);
                Err(error)
            }
        }
    }
}

impl fmt::Debug for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ranges").field("loop", &self.rank_loop).finish_non_exhaustive()
    }
}
