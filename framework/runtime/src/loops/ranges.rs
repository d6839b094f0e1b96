//! Loops over indices in which the program asks for one range of indices after the other, instead of passing a closure.

use std::fmt;
use std::ops::Range;

use super::doall::{ByCaller, CallerRequest, Done, RankLoop, Run, Running, UnitBlock, blame};
use super::metrics::{BlockTimer, StartTimes};
use super::settings::{LoopKind, Settings};
use super::summary::Summary;
use super::{NAME, POLL_INTERVAL};
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::rank::driver::RankDriver;
use crate::rank::executor::Executor;
use crate::session::{Announcement, Config, Session};

/// A loop over indices in the code of the program: each rank asks for ranges of indices and processes them itself.
///
/// While the loop runs, indices move from slow ranks to fast ones.
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
/// Every rank has to ask until it gets `None`, because the other ranks wait for the ranges that it received. The loop borrows the session, so that no
/// other skeleton can run on the session meanwhile.
pub struct Ranges<'s> {
    endpoint: &'s mut Endpoint,
    rank_loop: RankLoop<()>,
    driver: RankDriver<'static, 'static, ByCaller>,
    run: Option<Run>,
    start: u64,
    timer: BlockTimer,
    /// Last range of indices returned to the program, and the time at which the program received it.
    block: Option<(UnitBlock, StartTimes)>,
    summary: Option<Summary>,
}

/// Returns the state of a loop over indices on this rank. All ranks must have announced the same loop (`what`).
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
    endpoint.begin_work(&what, config.join_limit)?;
    rank_loop.expect_speeds(config);
    if let Some(range) = rank_loop.wants(rank, endpoint.size())? {
        rank_loop.set_units(range, ())?;
    }
    Ok(rank_loop)
}

impl<'s> Ranges<'s> {
    /// Creates a loop over the indices in `indices`; over no index if the range ends before it starts.
    /// [`ParallelFor::ranges`](super::ParallelFor::ranges) creates such a loop with options.
    ///
    /// # Errors
    /// If rank 0 calls another operation.
    pub fn new(session: &'s mut Session, name: &str, indices: Range<u64>) -> Result<Self> {
        let what = Announcement::new(format!("runs the ranges {name:?}"));
        Ranges::announced(session, name, &indices, &Settings::default(), what)
    }

    pub(super) fn announced(
        session: &'s mut Session,
        name: &str,
        indices: &Range<u64>,
        settings: &Settings,
        what: Announcement,
    ) -> Result<Self> {
        let (endpoint, config) = session.endpoint();
        let mut rank_loop = of_indices(endpoint, config, name, indices, settings, what)?;
        let mut run = rank_loop.begin(endpoint, config, 1)?;
        let (rank, clock, waker) = (endpoint.rank(), endpoint.clock(), endpoint.transport().waker());
        let code = ByCaller::default();
        let executor = Executor::at_first_job(None, rank, config.driver, waker, clock, code, None);
        let mut driver = RankDriver::new(endpoint, executor, config, NAME);
        driver.begin(endpoint, &mut Running::new(&mut rank_loop, &mut run))?;
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

    /// Returns the next range of indices, which must be processed before the next call; `None` when all ranks have finished.
    ///
    /// # Errors
    /// A failure of another rank; a rank that is silent for longer than [`Config::join_limit`](crate::Config::join_limit). The calling
    /// thread communicates as well, so a rank is silent while it processes a range.
    // There is no implementation of `Iterator`, because a call can fail, and because a range must be processed before the next call.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Range<u64>>> {
        if self.step(CallerRequest::Next)? {
            self.summary = self.run.take().and_then(|run| self.rank_loop.end(run));
        }
        Ok(self.caller_block())
    }

    fn caller_block(&self) -> Option<Range<u64>> {
        let (block, _) = self.block.as_ref()?;
        Some(self.start + block.range.start..self.start + block.range.end)
    }

    /// Processes messages until the program's request is answered: with a range of indices to process, or with none left. Returns true after the end
    /// of the loop.
    fn step(&mut self, caller_request: CallerRequest) -> Result<bool> {
        let Some(run) = &mut self.run else { return Ok(false) };
        let done = self.block.take().map(|(block, start)| {
            let end =
                if let CallerRequest::Rest(rest) = &caller_request { rest.start } else { block.range.end };
            Done::Block(block.range.start..end, (), self.timer.end(&start))
        });
        let rank = self.endpoint.rank();
        let mut running = Running::caller_request(&mut self.rank_loop, run, caller_request);
        let code = self.driver.step(self.endpoint, &mut running, done);
        let block = code.map(|code| code.and_then(|ByCaller(block)| block.take()));
        let has_finished = running.has_finished();
        let block = block.map_err(|error| self.rank_loop.placed(error.at_rank(rank)))?;
        self.block = block.map(|block| (block, self.timer.begin()));
        Ok(has_finished)
    }

    /// Reports progress within a range: all indices before `rest` are done. Returns the rest of the range that this rank still has to
    /// process.
    ///
    /// Ranges are short enough for ranks to communicate often, unless some indices take much longer than earlier ones, or
    /// [`ParallelFor::block_size`](super::ParallelFor::block_size) makes ranges long because of work that is done once per range. In these cases a
    /// program can call this function within a range: indices behind `rest` may then move to other ranks although the program has received them
    /// already. A call costs one reading of the clock, except once in a millisecond.
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
    /// [`ErrorKind::User`] if `rest` is not the end of the last range; the errors of [`next`](Ranges::next).
    pub fn hook(&mut self, rest: Range<u64>) -> Result<Range<u64>> {
        let (Some(caller_block), Some((block, start))) = (self.caller_block(), &self.block) else {
            return Ok(rest.end..rest.end);
        };
        if rest.end != caller_block.end || !(caller_block.start..=caller_block.end).contains(&rest.start) {
            let error = Error::new(
                ErrorKind::User,
                format!(
                    "the hook got {rest:?} as the remaining range, expected an end part of {caller_block:?}"
                ),
            );
            let error = blame(&error, &block.range, self.start, None);
            return Err(self.rank_loop.placed(error).at_rank(self.endpoint.rank()));
        }
        if rest.is_empty() || rest.start == caller_block.start || self.timer.since(start) < POLL_INTERVAL {
            return Ok(rest);
        }
        self.step(CallerRequest::Rest(rest.start - self.start..rest.end - self.start))?;
        Ok(self.caller_block().unwrap_or(rest.end..rest.end))
    }

    /// Returns the summary of the loop, on rank 0 after [`next`](Ranges::next) has returned `None`.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }
}

impl fmt::Debug for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ranges").field("loop", &self.rank_loop).finish_non_exhaustive()
    }
}
