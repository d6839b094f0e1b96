//! Loops over indices, for data that all ranks have.

use std::cell::RefMut;
use std::fmt;
use std::ops::Range;

use super::doall::{Asked, ByCaller, Done, RankLoop, Run, Running, UnitBlock, blame};
use super::metrics::{Begun, BlockTimer};
use super::settings::{LoopKind, Settings};
use super::summary::Summary;
use super::{LOOK, NAME};
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::rank::driver::Driver;
use crate::rank::executor::Executor;
use crate::session::{Announcement, Config, Session};

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
    driver: Driver<'static, 'static, ByCaller>,
    /// Until the end of the loop.
    run: Option<Run<()>>,
    start: u64,
    timer: BlockTimer,
    /// The block that was given out last, and when.
    block: Option<(UnitBlock, Begun)>,
    summary: Option<Summary>,
}

/// This rank's part of a loop over indices, as it is announced so.
pub(super) fn of_indices(
    endpoint: &mut Endpoint,
    config: &Config,
    name: &str,
    indices: &Range<u64>,
    settings: &Settings,
    what: Announcement,
) -> Result<RankLoop<()>> {
    let what = settings.announced(what.with("indices", format_args!("{indices:?}")));
    let units = indices.end.saturating_sub(indices.start);
    let mut rank_loop = RankLoop::new(name, units, settings.clone());
    let rank = endpoint.rank();
    rank_loop.check(LoopKind::Indices, rank).inspect_err(|error| endpoint.report(error))?;
    endpoint.begin_run(&what, config.join_limit)?;
    if let Some(range) = rank_loop.wants(rank, endpoint.size())? {
        rank_loop.give(range, ())?;
    }
    Ok(rank_loop)
}

impl<'s> Ranges<'s> {
    /// A loop over these indices; none if the range ends before it starts. With options, it is begun by
    /// [`ParallelFor::ranges`](super::ParallelFor::ranges).
    ///
    /// # Errors
    /// If another skeleton is running, or rank 0 runs something else.
    pub fn new(session: &'s Session, name: &str, indices: Range<u64>) -> Result<Self> {
        let what = Announcement::new(format!("runs the ranges {name:?}"));
        Ranges::announced(session, name, &indices, &Settings::new(), what)
    }

    /// The ranges of these indices, as they are announced so.
    pub(super) fn announced(
        session: &'s Session,
        name: &str,
        indices: &Range<u64>,
        settings: &Settings,
        what: Announcement,
    ) -> Result<Self> {
        let (mut endpoint, config) = (session.endpoint()?, session.config());
        let mut rank_loop = of_indices(&mut endpoint, config, name, indices, settings, what)?;
        let mut run = rank_loop.begin(&mut endpoint, config, 1)?;
        let (rank, clock, waker) = (endpoint.rank(), endpoint.clock(), endpoint.transport().waker());
        let code = ByCaller::default();
        let executor = Executor::at_first_task(None, rank, config.driver, waker, clock, code, None);
        let mut driver = Driver::new(&mut endpoint, executor, config, NAME);
        driver.begin(&mut endpoint, &mut Running::new(&mut rank_loop, &mut run))?;
        let timer = BlockTimer::new(clock);
        let run = Some(run);
        Ok(Ranges {
            endpoint,
            rank_loop,
            driver,
            run,
            start: indices.start,
            timer,
            block: None,
            summary: None,
        })
    }

    /// The next indices of this rank, to be done before it asks again; `None` when all ranks are done.
    ///
    /// # Errors
    /// The failure of another rank, and a rank that is silent for longer than [`Config::join_limit`](crate::Config::join_limit). The
    /// caller's own thread communicates, too: a rank is silent while it does what it was given.
    // It is no iterator: it can fail, and what it gives must be done before the next is asked for.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Range<u64>>> {
        if self.step(Asked::Next)? {
            self.summary = self.run.take().and_then(|run| self.rank_loop.end(run));
        }
        Ok(self.given())
    }

    /// What was given out last.
    fn given(&self) -> Option<Range<u64>> {
        let (block, _) = self.block.as_ref()?;
        Some(self.start + block.range.start..self.start + block.range.end)
    }

    /// Goes on until there is a block, or `asked` has no answer. Returns whether the loop is over.
    fn step(&mut self, asked: Asked) -> Result<bool> {
        let Some(run) = &mut self.run else { return Ok(false) };
        let done = self.block.take().map(|(block, begun)| {
            let end = if let Asked::Rest(rest) = &asked { rest.start } else { block.range.end };
            Done::Block(block.range.start..end, (), self.timer.end(&begun))
        });
        let rank = self.endpoint.rank();
        let mut running = Running::asked(&mut self.rank_loop, run, asked);
        let code = self.driver.step(&mut self.endpoint, &mut running, done);
        let block = code.map(|code| code.and_then(|ByCaller(block)| block.take()));
        let is_over = running.is_over();
        let block = block.map_err(|error| self.rank_loop.placed(error.at_rank(rank)))?;
        self.block = block.map(|block| (block, self.timer.begin()));
        Ok(is_over)
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
        let (Some(given), Some((block, begun))) = (self.given(), &self.block) else {
            return Ok(rest.end..rest.end);
        };
        if rest.end != given.end || !(given.start..=given.end).contains(&rest.start) {
            let error = Error::new(ErrorKind::User, format!("{rest:?} is not what is left of {given:?}"));
            let error = blame(&error, &block.range, self.start, None);
            return Err(self.rank_loop.placed(error).at_rank(self.endpoint.rank()));
        }
        if rest.is_empty() || rest.start == given.start || self.timer.since(begun) < LOOK {
            return Ok(rest);
        }
        self.step(Asked::Rest(rest.start - self.start..rest.end - self.start))?;
        Ok(self.given().unwrap_or(rest.end..rest.end))
    }

    /// How it went: on rank 0, after [`next`](Ranges::next) has given `None`.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }
}

impl fmt::Debug for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ranges").field("loop", &self.rank_loop).finish_non_exhaustive()
    }
}
