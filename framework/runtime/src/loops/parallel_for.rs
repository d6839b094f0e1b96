//! Parallel loops over a range of indices, with options.

use std::any::type_name;
use std::ops::Range;

use super::doall::{Body, Segment, UnitMigration, gather};
use super::ranges::{Ranges, of_indices};
use super::settings::{Settings, loop_options};
use super::summary::Summary;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::outcome::Outcome;
use crate::session::{Announcement, Session};
use crate::user_code;
use crate::wire::{Codec, Item, Movable};

/// A loop over indices, for data that all ranks have: every rank can process every index, and indices move from slow ranks to fast ones.
///
/// Every rank creates the same loop and runs it in the same way. [`map`](super::map) and [`reduce`](super::reduce) are short forms without
/// options.
///
/// ```
/// use armature::Balance;
/// use armature::loops::ParallelFor;
///
/// let config = armature::Config::new().ranks(3);
/// let squares = armature::run(&config, |session| {
///     let squares = ParallelFor::new("square", 10..15).block_size(2).balance(Balance::Off);
///     Ok(squares.collect(session, |n| n * n)?.into_parts())
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
    /// Creates a loop over the indices in `indices`; over no index if the range ends before it starts.
    pub fn new(name: &str, indices: Range<u64>) -> Self {
        ParallelFor { name: name.to_string(), indices, settings: Settings::default() }
    }

    loop_options!(common);
    loop_options!(block_size);

    pub(super) fn change(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(&mut self.settings);
        self
    }

    /// Calls `body` with ranges of the indices, on whichever rank is free; each index is in exactly one range.
    ///
    /// # Errors
    /// An error or a panic of `body`, with the rank, the loop and the indices; options that cannot be used; a rank that is silent for
    /// longer than [`Config::peer_limit`](crate::Config::peer_limit).
    ///
    /// ```
    /// use armature::loops::ParallelFor;
    ///
    /// let config = armature::Config::new().ranks(2);
    /// let done = std::sync::Mutex::new(vec![]);
    /// armature::run(&config, |session| {
    ///     ParallelFor::new("note", 10..20).run(session, |range| Ok(done.lock().unwrap().extend(range)))?;
    ///     Ok(())
    /// })?;
    /// let mut done = done.into_inner().unwrap();
    /// done.sort();
    /// assert_eq!(done, (10..20).collect::<Vec<u64>>());
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn run(
        &self,
        session: &mut Session,
        mut body: impl FnMut(Range<u64>) -> Result<(), BoxError> + Movable,
    ) -> Result<Outcome<(), Summary>> {
        let what = Announcement::new(format!("runs the loop {:?}", self.name));
        self.announced(session, what, &mut |range, _| body(range)).map(Outcome::of)
    }

    /// Starts the loop without a closure: the program asks for one range of indices after the other and processes it itself.
    ///
    /// # Errors
    /// If the options cannot be used, or rank 0 calls another operation.
    pub fn ranges<'s>(&self, session: &'s mut Session) -> Result<Ranges<'s>> {
        let what = Announcement::new(format!("runs the ranges {:?}", self.name));
        Ranges::announced(session, &self.name, &self.indices, &self.settings, what)
    }

    /// Computes a value for each index and returns the values in the order of the indices, on rank 0.
    ///
    /// # Errors
    /// The errors of [`run`](ParallelFor::run); values that serde cannot encode.
    pub fn collect<V: Item + Clone>(
        &self,
        session: &mut Session,
        value: impl FnMut(u64) -> V + Movable,
    ) -> Result<Outcome<Vec<V>, Summary>> {
        self.values(session, "collect", value).map(Outcome::new)
    }

    /// Like [`collect`](ParallelFor::collect), but returns the values on every rank.
    ///
    /// # Errors
    /// The errors of [`collect`](ParallelFor::collect).
    pub fn collect_on_all<V: Item + Clone>(
        &self,
        session: &mut Session,
        value: impl FnMut(u64) -> V + Movable,
    ) -> Result<Vec<V>> {
        let values = self.values(session, "collect_on_all", value)?;
        self.share(session, values.map(|(values, _)| values))
    }

    /// Computes a value for each index and combines the values in an order that differs from run to run; returns the result on all ranks.
    ///
    /// Each rank combines its own values, beginning with `start`. Rank 0 then combines the results of the ranks, beginning with `start`
    /// again, so `start` must be a neutral element of `combine`.
    ///
    /// # Errors
    /// The errors of [`collect`](ParallelFor::collect); a panic of `combine`.
    ///
    /// ```
    /// use armature::loops::ParallelFor;
    ///
    /// let largest = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let largest = ParallelFor::new("largest", 0..1_000).block_size(10);
    ///     Ok(largest.reduce(session, |n| n * 7 % 1_000, 0, u64::max)?)
    /// })?;
    /// assert_eq!(largest, 999);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn reduce<A: Item + Clone>(
        &self,
        session: &mut Session,
        mut value: impl FnMut(u64) -> A + Movable,
        start: A,
        mut combine: impl FnMut(A, A) -> A + Movable,
    ) -> Result<A> {
        let mut mine = Some(start.clone());
        let what = Announcement::new(format!("runs reduce {:?}", self.name));
        self.announced(session, what.with("values of type", type_name::<A>()), &mut |range, at| {
            for index in range {
                *at = Some(index);
                mine = mine.take().map(|before| combine(before, value(index)));
            }
            Ok(())
        })?;
        let (rank, ranks) = (session.rank() as u64, session.size() as u64);
        let all = self.gather(session, ranks, vec![Segment::new(rank, 1, Vec::from_iter(mine))])?;
        self.share_fold(session, all, start, combine)
    }

    /// Computes a value for each index and folds the values in the order of the indices; returns the result on all ranks. The result is
    /// bit-identical to the serial fold on any number of ranks, because rank 0 receives all values and folds them.
    ///
    /// [`reduce`](ParallelFor::reduce) sends only one result from each rank, for many values whose order does not matter.
    ///
    /// # Errors
    /// The errors of [`collect`](ParallelFor::collect); a panic of `fold`.
    ///
    /// ```
    /// use armature::loops::ParallelFor;
    ///
    /// let sum = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let harmonic = ParallelFor::new("harmonic", 1..1_000);
    ///     Ok(harmonic.fold_in_order(session, |n| 1.0 / n as f64, 0.0, |sum, x| sum + x)?)
    /// })?;
    /// assert_eq!(sum, (1..1_000).map(|n| 1.0 / n as f64).fold(0.0, |sum, x| sum + x));
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn fold_in_order<V: Item + Clone, A: Item + Clone>(
        &self,
        session: &mut Session,
        value: impl FnMut(u64) -> V + Movable,
        start: A,
        fold: impl FnMut(A, V) -> A,
    ) -> Result<A> {
        let values = self.values(session, "fold_in_order", value)?;
        self.share_fold(session, values.map(|(values, _)| values), start, fold)
    }

    fn share_fold<V, A: Item + Clone>(
        &self,
        session: &mut Session,
        values: Option<Vec<V>>,
        start: A,
        fold: impl FnMut(A, V) -> A,
    ) -> Result<A> {
        // A panic in `fold`, which is user code, becomes an error.
        let folded =
            values.map(|values| user_code::call(|| Ok::<_, BoxError>(values.into_iter().fold(start, fold))));
        let folded = folded.transpose().map_err(|error| error.in_loop(&self.name).at_rank(0))?;
        let result = self.share(session, folded.map(|folded| vec![folded]))?;
        result
            .into_iter()
            .next()
            .ok_or_else(|| Error::new(ErrorKind::Wire, "the result of the reduction is missing"))
    }

    /// Runs the loop; `what` announces it to the other ranks, which must call the same operation. `body` may store the index that it processes, for
    /// error messages.
    fn announced(
        &self,
        session: &mut Session,
        what: Announcement,
        body: &mut Code<'_>,
    ) -> Result<Option<Summary>> {
        let (endpoint, config) = session.endpoint();
        let mut body = Indices { start: self.indices.start, at: None, body };
        let mut rank_loop = of_indices(endpoint, config, &self.name, &self.indices, &self.settings, what)?;
        rank_loop
            .run(endpoint, config, 1, (&mut body, self.indices.start))
            .inspect_err(|error| endpoint.report(error))
    }

    /// Computes the values of all indices and returns them in the order of the indices on rank 0. `function` is the name of the calling method.
    fn values<V: Item + Clone>(
        &self,
        session: &mut Session,
        function: &str,
        mut value: impl FnMut(u64) -> V + Movable,
    ) -> Result<Option<(Vec<V>, Summary)>> {
        let what = Announcement::new(format!("runs {function} {:?}", self.name));
        let what = what.with("values of type", type_name::<V>());
        let (first, count) = (self.indices.start, self.indices.end.saturating_sub(self.indices.start));
        let mut segments: Vec<Segment<Vec<V>>> = Vec::new();
        let summary = self.announced(session, what, &mut |range, at| {
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

    fn gather<V: Item + Clone>(
        &self,
        session: &mut Session,
        units: u64,
        segments: Vec<Segment<Vec<V>>>,
    ) -> Result<Option<Vec<V>>> {
        let (endpoint, config) = session.endpoint();
        let mine = UnitMigration { round: 0, segments };
        gather(endpoint, &self.name, units, mine, config.join_limit)
            .inspect_err(|error| endpoint.report(error))
    }

    fn share<V: Item>(&self, session: &mut Session, values: Option<Vec<V>>) -> Result<Vec<V>> {
        let what = format!("the loop {:?}", self.name);
        session.share(&what, &Codec::of_type(), values, |error| error.in_loop(&self.name))
    }
}

/// User code that processes a range of indices. It stores the index that it processes in the second argument, for error messages.
type Code<'b> = dyn FnMut(Range<u64>, &mut Option<u64>) -> Result<(), BoxError> + Send + 'b;

struct Indices<'b> {
    start: u64,
    at: Option<u64>,
    body: &'b mut Code<'b>,
}

impl Body<()> for Indices<'_> {
    fn create(&mut self, _: Range<u64>) -> Result<(), BoxError> {
        Ok(())
    }

    fn compute(&mut self, range: Range<u64>, (): &mut (), _: usize) -> Result<(), BoxError> {
        (self.body)(self.start + range.start..self.start + range.end, &mut self.at)
    }

    fn failed_in(&self) -> Option<u64> {
        self.at.map(|index| index - self.start)
    }
}
