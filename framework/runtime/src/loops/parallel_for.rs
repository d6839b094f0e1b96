//! Loops over indices, with options.

use std::any::type_name;
use std::ops::Range;

use serde::{Serialize, de::DeserializeOwned};

use super::doall::{DoAll, Segment, UnitMigration, gather};
use super::ranges::{Ranges, of_indices};
use super::settings::{Settings, loop_options};
use super::summary::Summary;
use crate::error::{BoxError, Result};
use crate::session::{Announcement, Session};
use crate::wire::{Codec, Item, Movable};

/// A loop over indices, for data that all ranks have: every rank can process every index, and indices move from slow ranks to fast ones.
///
/// Every rank creates the same loop and runs it in the same way. [`parallel_for`](super::parallel_for), [`map`](super::map) and
/// [`reduce`](super::reduce) are short forms without options.
///
/// ```
/// use armature::Balance;
/// use armature::loops::ParallelFor;
///
/// let config = armature::Config::new().ranks(3);
/// let squares = armature::run(&config, |session| {
///     let squares = ParallelFor::new("square", 10..15).block_size(2).balance(Balance::Off);
///     Ok(squares.collect(session, |n| n * n)?)
/// })?;
/// let (squares, summary) = squares.unwrap();
/// assert_eq!(squares, [100, 121, 144, 169, 196]);
/// assert_eq!((summary.units, summary.movements), (5, 0));
/// # Ok::<(), armature::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a loop does nothing until it is run"]
pub struct ParallelFor {
    name: String,
    indices: Range<u64>,
    settings: Settings,
}

impl ParallelFor {
    /// Creates a loop over these indices; over none if the range ends before it starts.
    pub fn new(name: &str, indices: Range<u64>) -> Self {
        ParallelFor { name: name.to_string(), indices, settings: Settings::new() }
    }

    loop_options!(settings);
    loop_options!(common);
    loop_options!(block_size);

    fn change(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(&mut self.settings);
        self
    }

    /// Calls `body` with ranges of the indices, on whichever rank is free; each index is in exactly one range. Returns a [`Summary`] on
    /// rank 0 and `None` on other ranks.
    ///
    /// # Errors
    /// An error or a panic of `body`, with the rank, the loop and the indices; options that cannot be used; a rank that is silent for
    /// longer than [`Config::peer_limit`](crate::Config::peer_limit). Under MPI a failure ends the job instead of returning.
    pub fn run(
        &self,
        session: &Session,
        mut body: impl FnMut(Range<u64>) -> Result<(), BoxError> + Movable,
    ) -> Result<Option<Summary>> {
        let what = Announcement::new(format!("runs parallel_for {:?}", self.name));
        self.announced(session, what, |range, _| body(range))
    }

    /// Starts the loop without a closure: the caller asks for one range after the other.
    ///
    /// # Errors
    /// If another skeleton is running, the options cannot be used, or rank 0 runs something else.
    pub fn ranges<'s>(&self, session: &'s Session) -> Result<Ranges<'s>> {
        let what = Announcement::new(format!("runs the ranges {:?}", self.name));
        Ranges::announced(session, &self.name, &self.indices, &self.settings, what)
    }

    /// Computes a value for each index. Returns the values in the order of the indices, with a [`Summary`]: on rank 0, or on every rank
    /// with [`on_all_ranks`](ParallelFor::on_all_ranks). Returns `None` on other ranks.
    ///
    /// # Errors
    /// The errors of [`run`](ParallelFor::run); values that serde cannot encode.
    pub fn collect<V: Item + Clone>(
        &self,
        session: &Session,
        value: impl FnMut(u64) -> V + Movable,
    ) -> Result<Option<(Vec<V>, Summary)>> {
        let all = self.values(session, "collect", value)?;
        if self.settings.on_all_ranks { self.share(session, all).map(Some) } else { Ok(all) }
    }

    /// Runs the loop as a part of the announced operation. The body records the current index, if it knows it.
    pub(super) fn announced(
        &self,
        session: &Session,
        what: Announcement,
        body: impl FnMut(Range<u64>, &mut Option<u64>) -> Result<(), BoxError> + Movable,
    ) -> Result<Option<Summary>> {
        let (endpoint, config) = (&mut *session.endpoint()?, session.config());
        let mut body = Indices { start: self.indices.start, at: None, body };
        let mut rank_loop = of_indices(endpoint, config, &self.name, &self.indices, &self.settings, what)?;
        rank_loop
            .run(endpoint, config, 1, (&mut body, self.indices.start))
            .inspect_err(|error| endpoint.report(error))
    }

    /// Computes the values of all indices in their order on rank 0, for this function of this module.
    pub(super) fn values<V: Item + Clone>(
        &self,
        session: &Session,
        function: &str,
        mut value: impl FnMut(u64) -> V + Movable,
    ) -> Result<Option<(Vec<V>, Summary)>> {
        let what = Announcement::new(format!("runs {function} {:?}", self.name));
        let what = what.with("values of type", type_name::<V>());
        let (first, count) = (self.indices.start, self.indices.end.saturating_sub(self.indices.start));
        let mut segments: Vec<Segment<Vec<V>>> = Vec::new();
        let summary = self.announced(session, what, |range, at| {
            let (from, count) = (range.start - first, range.end - range.start);
            let values = range.map(|index| {
                *at = Some(index);
                value(index)
            });
            match segments.last_mut() {
                Some(last) if last.first + last.count == from => {
                    last.count += count;
                    last.units.extend(values);
                }
                _ => segments.push(Segment::new(from, count, values.collect())),
            }
            Ok(())
        })?;
        let values = self.gather(session, count, segments)?;
        Ok(values.zip(summary))
    }

    /// Gathers the `units` of all ranks on rank 0.
    pub(super) fn gather<V: Item + Clone>(
        &self,
        session: &Session,
        units: u64,
        segments: Vec<Segment<Vec<V>>>,
    ) -> Result<Option<Vec<V>>> {
        let endpoint = &mut *session.endpoint()?;
        let mine = UnitMigration { round: 0, segments };
        gather(endpoint, &self.name, units, mine, session.config().join_limit)
            .inspect_err(|error| endpoint.report(error))
    }

    /// Sends the values of rank 0 to all ranks.
    pub(super) fn share<V: Item, S: Serialize + DeserializeOwned>(
        &self,
        session: &Session,
        values: Option<(Vec<V>, S)>,
    ) -> Result<(Vec<V>, S)> {
        let what = format!("the loop {:?}", self.name);
        session.share(&what, &Codec::of_type(), values, |error| error.in_loop(&self.name))
    }
}

/// Adapts a closure over ranges of indices, which begin at `start`, to a loop over units without data.
struct Indices<F> {
    start: u64,
    /// Current index of the closure, if it records it.
    at: Option<u64>,
    body: F,
}

impl<F: FnMut(Range<u64>, &mut Option<u64>) -> Result<(), BoxError> + Send> DoAll for Indices<F> {
    type Units = ();

    fn create(&mut self, _: Range<u64>) -> Result<(), BoxError> {
        Ok(())
    }

    fn compute(&mut self, range: Range<u64>, (): ()) -> Result<(), BoxError> {
        (self.body)(self.start + range.start..self.start + range.end, &mut self.at)
    }

    fn failed_in(&self) -> Option<u64> {
        self.at.map(|index| index - self.start)
    }
}
