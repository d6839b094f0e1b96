//! Collective operations on values, between skeletons: broadcast, gather, all-gather, all-reduce, consensus and barrier.
//!
//! Messages are sent along a binomial [tree] of ranks, each from one rank to another, so that every wait has a limit and no rank waits for a
//! dead rank. Each call is a run that all ranks must reach, like that of a skeleton. A run begins with the announcement of rank 0, which each
//! rank compares with its own announcement before it sends anything ([agreement](super::agreement)). A value of rank 0 is sent with the
//! announcement. Values of all ranks are sent up the tree, in the order of the ranks, and the result is sent down the tree.

mod broadcast;
mod gather;
#[cfg(test)]
mod tests;
mod tree;

use std::any::type_name;
use std::panic::Location;

use broadcast::Course;
pub(crate) use broadcast::{NextPiece, PIECE};
#[cfg(test)]
pub(super) use broadcast::{encode_items, packed};

use super::{Announcement, Session};
use crate::comm::endpoint::Endpoint;
use crate::comm::waiting::Limits;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::user_code;
use crate::wire::{Codec, Item, weigh_some};

/// Returns the description of a collective operation on values of type `T`, which all ranks compare with that of rank 0. `what` describes
/// the operation in error messages, where it follows "rank 1".
fn announced<T>(what: &str) -> Announcement {
    Announcement::new(what).with("values of type", type_name::<T>())
}

/// Collective operations on values. Every rank calls the operations in the same order, between skeletons as well as before and after skeletons.
///
/// A rank that runs something else in the meantime, or calls an operation with another type, ends the job with an error that names both
/// operations. Ranks wait for each other as long as they do before a skeleton ([`Config::join_limit`](crate::Config::join_limit)). A time-out
/// error names the waiting rank, the awaited rank and the place in the program.
///
/// If a farm or a workflow has continued without dead ranks, `broadcast` and `barrier` continue without them, too. The other operations
/// need a value of each rank and end the job.
impl Session {
    /// Sends the value of rank 0 to all ranks. Values of other ranks are dropped; they can pass `None`.
    ///
    /// Rank 0 does not wait for the other ranks. To broadcast the value of another rank, use `session.all_reduce(mine, |a, b| a.or(b))`
    /// with an `Option` that is `Some` on that rank only.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if rank 0 has `None`, or calls another function than this rank; [`ErrorKind::Wire`] if the value cannot be encoded;
    /// [`ErrorKind::Timeout`] at the limit.
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// armature::run(&armature::Config::new().ranks(3), |session| {
    ///     // Only rank 0 has a farm's results; all ranks are to go on with the largest.
    ///     let results = Farm::new("square", |x: u64| x * x % 17).collect(session, 0..10)?;
    ///     let largest = session.broadcast(results.on_root().map(|results| results.into_iter().max()))?;
    ///     assert_eq!(largest, Some(16));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), armature::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast<T: Item>(&mut self, value: Option<T>) -> Result<T> {
        self.together(Location::caller(), |endpoint, limits| {
            let items = match (endpoint.rank(), value) {
                (0, None) => {
                    let text = "rank 0 broadcasts None, expected Some value, which all ranks receive";
                    return Err(Error::new(ErrorKind::Config, text));
                }
                (0, Some(value)) => Some(vec![value]),
                _ => None,
            };
            let what = announced::<T>("broadcasts a value").without_the_dead();
            let mut course = Course::begin(endpoint, what, limits)?;
            only(course.descend_items(endpoint, &Codec::of_type(), 1, items)?)
        })
    }

    /// Gathers a value of each rank on rank 0, in the order of the ranks; returns `None` on the other ranks.
    ///
    /// # Errors
    /// The errors of [`broadcast`](Session::broadcast); also [`ErrorKind::Timeout`] if a rank has died.
    ///
    /// ```
    /// let config = armature::Config::new().ranks(3);
    /// let squares = armature::run(&config, |session| Ok(session.gather(session.rank().pow(2))?))?;
    /// assert_eq!(squares, Some(vec![0, 1, 4]));
    /// # Ok::<(), armature::Error>(())
    /// ```
    #[track_caller]
    pub fn gather<T: Item>(&mut self, value: T) -> Result<Option<Vec<T>>> {
        self.together(Location::caller(), |endpoint, limits| {
            let course = Course::begin_empty(endpoint, announced::<T>("gathers values"), limits)?;
            course.ascend(endpoint, &Codec::of_type(), vec![value], append)
        })
    }

    /// Gathers a value of each rank on all ranks, in the order of the ranks.
    ///
    /// # Errors
    /// The errors of [`gather`](Session::gather).
    ///
    /// ```
    /// armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let names = session.all_gather(format!("rank {}", session.rank()))?;
    ///     assert_eq!(names, ["rank 0", "rank 1", "rank 2"]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), armature::Error>(())
    /// ```
    #[track_caller]
    pub fn all_gather<T: Item>(&mut self, value: T) -> Result<Vec<T>> {
        let what = announced::<T>("gathers values for all ranks");
        self.together(Location::caller(), |endpoint, limits| from_all(endpoint, what, limits, value))
    }

    /// Combines a value of each rank into one value, which is returned on all ranks.
    ///
    /// `combine` receives values of neighbouring ranks, those of the lower ranks first. It must be associative, but need not be
    /// commutative. The result is bitwise identical on all ranks. If `combine` is associative only up to rounding, like a sum of `f64`, the
    /// result may depend on the number of ranks, but does not change between runs on the same number of ranks.
    ///
    /// # Errors
    /// The errors of [`gather`](Session::gather); a panic of `combine`.
    ///
    /// ```
    /// armature::run(&armature::Config::new().ranks(4), |session| {
    ///     let residual = 1.0 / (1 + session.rank()) as f64;
    ///     assert_eq!(session.all_reduce(residual, f64::max)?, 1.0);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), armature::Error>(())
    /// ```
    #[track_caller]
    pub fn all_reduce<T: Item>(&mut self, value: T, combine: impl FnMut(T, T) -> T) -> Result<T> {
        let what = announced::<T>("reduces values for all ranks");
        self.together(Location::caller(), |endpoint, limits| reduced(endpoint, what, limits, value, combine))
    }

    /// Returns the value of `result` if it is `Ok` on all ranks, and otherwise an error on all ranks, so that all ranks continue or fail
    /// together. Use it for work outside of skeletons that may fail on one rank, such as opening a file.
    ///
    /// # Errors
    /// On a rank with an error: that error, as the [`source`](std::error::Error::source). On the other ranks: [`ErrorKind::Peer`] with the
    /// rank and the text of the error of the lowest rank with an error. Also the errors of [`gather`](Session::gather).
    ///
    /// ```
    /// armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let words = ["1", "2", "x"];
    ///     let number = session.consensus(words[session.rank()].parse::<u32>());
    ///     let error = number.unwrap_err();
    ///     assert_eq!(error.rank(), Some(2));
    ///     assert_eq!(error.message(), "invalid digit found in string");
    ///     // All ranks are here, and continue with something else.
    ///     session.barrier()?;
    ///     Ok(())
    /// })?;
    /// # Ok::<(), armature::Error>(())
    /// ```
    #[track_caller]
    pub fn consensus<T, E: Into<BoxError>>(&mut self, result: Result<T, E>) -> Result<T> {
        let rank = self.rank;
        let result = user_code::call(|| result).map_err(|error| error.at_rank(rank));
        let mine = result.as_ref().err().map(|error| (rank, error.message().to_string()));
        let what = Announcement::new("runs a consensus");
        let first = self.together(Location::caller(), |endpoint, limits| {
            reduced(endpoint, what, limits, mine, Option::or)
        })?;
        match first {
            Some((rank, text)) if result.is_ok() => Err(Error::new(ErrorKind::Peer, text).of_rank(rank)),
            _ => result,
        }
    }

    /// Waits until all ranks have called this function.
    ///
    /// # Errors
    /// The errors of [`broadcast`](Session::broadcast).
    #[track_caller]
    pub fn barrier(&mut self) -> Result<()> {
        self.together(Location::caller(), |endpoint, limits| {
            let what = Announcement::new("enters a barrier").without_the_dead();
            let mut course = Course::begin_empty(endpoint, what, limits)?;
            course.ascend(endpoint, &Codec::<u8>::of_type(), Vec::new(), append)?;
            course.descend_value(endpoint, Some(()))
        })
    }

    pub(super) fn together<R>(
        &mut self,
        at: &Location<'_>,
        work: impl FnOnce(&mut Endpoint, Limits) -> Result<R>,
    ) -> Result<R> {
        let place = |error: Error| Error::new(error.kind(), format!("{} (at {at})", error.message()));
        self.reported(place, work)
    }
}

/// Returns the combined values of all ranks (all-reduce), on all ranks.
fn reduced<T: Item>(
    endpoint: &mut Endpoint,
    what: Announcement,
    limits: Limits,
    value: T,
    mut combine: impl FnMut(T, T) -> T,
) -> Result<T> {
    let codec = Codec::of_type();
    let mut course = Course::begin_empty(endpoint, what, limits)?;
    let reduced = course.ascend(endpoint, &codec, vec![value], |before, after| {
        let (before, after) = (only(before)?, only(after)?);
        user_code::call(|| Ok::<_, BoxError>(vec![combine(before, after)]))
    })?;
    only(course.descend_items(endpoint, &codec, 1, reduced)?)
}

/// Returns a list with a value of each rank (all-gather), on all ranks.
pub(super) fn from_all<T: Item>(
    endpoint: &mut Endpoint,
    what: Announcement,
    limits: Limits,
    value: T,
) -> Result<Vec<T>> {
    let codec = Codec::of_type();
    let mut course = Course::begin_empty(endpoint, what, limits)?;
    let all = course.ascend(endpoint, &codec, vec![value], append)?;
    let bytes = all.as_ref().map_or(1, |all| weigh_some(all) / all.len().max(1));
    course.descend_items(endpoint, &codec, bytes, all)
}

fn append<T>(mut before: Vec<T>, mut after: Vec<T>) -> Result<Vec<T>> {
    before.append(&mut after);
    Ok(before)
}

fn only<T>(values: Vec<T>) -> Result<T> {
    let count = values.len();
    let mut values = values.into_iter();
    match (values.next(), count) {
        (Some(value), 1) => Ok(value),
        _ => Err(Error::new(ErrorKind::Wire, format!("{count} values arrived, expected one"))),
    }
}
