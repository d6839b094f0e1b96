//! Values for all ranks, between skeletons: what one rank has for all, and what each rank has brought together.
//!
//! Messages go along a binomial [tree] between ranks, each from one rank to another, so that every wait has a limit and nobody waits
//! for a rank that has died. Each call is a run that all ranks must come to, like that of a skeleton: it begins with the word of
//! rank 0 about what is done, which each rank compares with its own before it sends anything ([agreement](super::agreement)).
//! A value of rank 0 goes with that word. What ranks bring together comes up the tree when they have it, in the order of the
//! ranks, and the result goes down once more.

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

/// What ranks do with values of type `T`: `what` follows "rank 1".
fn announced<T>(what: &str) -> Announcement {
    Announcement::new(what).with("values of type", type_name::<T>())
}

/// Values for all ranks. Every rank calls these in the same order, between skeletons as well as around them; none may be called
/// from inside a skeleton.
///
/// A rank that does something else meanwhile, or calls with another type, ends the job with both sides in one sentence. Ranks wait
/// for each other as long as they do before a skeleton ([`Config::join_limit`](crate::Config::join_limit)), and an error says who waited for whom, and
/// where in the program.
///
/// Where a farm or a workflow has gone on without ranks that died, `broadcast` and `barrier` do, too. The others
/// need a value of each rank and end the job.
impl Session {
    /// Gives all ranks the value that rank 0 has. What the other ranks hand over is dropped; `None` will do.
    ///
    /// Rank 0 does not wait for the others. A value of another rank comes to all by
    /// `session.all_reduce(mine, |a, b| a.or(b))` of an `Option` that only this rank fills.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if rank 0 has `None`, or does something else; [`ErrorKind::Wire`] if the value cannot be encoded;
    /// [`ErrorKind::Timeout`] at the limit. On MPI a failure ends the job instead of returning.
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// armature::run(&armature::Config::new().ranks(3), |session| {
    ///     // Only rank 0 has a farm's results; all ranks are to go on with the largest.
    ///     let results = Farm::new("square", |x: u64| x * x % 17).collect(session, 0..10)?;
    ///     let largest = session.broadcast(results.map(|(results, _)| results.into_iter().max()))?;
    ///     assert_eq!(largest, Some(16));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), armature::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast<T: Item>(&self, value: Option<T>) -> Result<T> {
        self.together(Location::caller(), |endpoint, limits| {
            let items = match (endpoint.rank(), value) {
                (0, None) => {
                    let text =
                        "rank 0 broadcasts None, expected Some value: it is the one that all ranks get";
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

    /// Brings a value of each rank together on rank 0, in the order of the ranks; `None` on the others.
    ///
    /// # Errors
    /// As [`broadcast`](Session::broadcast); [`ErrorKind::Timeout`] also where a rank has died.
    ///
    /// ```
    /// let config = armature::Config::new().ranks(3);
    /// let squares = armature::run(&config, |session| Ok(session.gather(session.rank().pow(2))?))?;
    /// assert_eq!(squares, Some(vec![0, 1, 4]));
    /// # Ok::<(), armature::Error>(())
    /// ```
    #[track_caller]
    pub fn gather<T: Item>(&self, value: T) -> Result<Option<Vec<T>>> {
        self.together(Location::caller(), |endpoint, limits| {
            let course = Course::begin_empty(endpoint, announced::<T>("gathers values"), limits)?;
            course.ascend(endpoint, &Codec::of_type(), vec![value], append)
        })
    }

    /// Brings a value of each rank together on all ranks, in the order of the ranks.
    ///
    /// # Errors
    /// As [`gather`](Session::gather).
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
    pub fn all_gather<T: Item>(&self, value: T) -> Result<Vec<T>> {
        let what = announced::<T>("gathers values for all ranks");
        self.together(Location::caller(), |endpoint, limits| from_all(endpoint, what, limits, value))
    }

    /// Combines a value of each rank into one, which all ranks get.
    ///
    /// `combine` gets values of neighbouring ranks, those of the lower ranks first, and must be associative; that it commutes is not
    /// needed. All ranks get the same to the bit. With a `combine` that is associative for numbers only up to
    /// rounding, as a sum of `f64` is, the result may differ between numbers of ranks, but not from run to run on the same number.
    ///
    /// # Errors
    /// As [`gather`](Session::gather); a panic of `combine`.
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
    pub fn all_reduce<T: Item>(&self, value: T, combine: impl FnMut(T, T) -> T) -> Result<T> {
        let what = announced::<T>("reduces values for all ranks");
        self.together(Location::caller(), |endpoint, limits| reduced(endpoint, what, limits, value, combine))
    }

    /// Returns the value of `result` if it is `Ok` on all ranks, and otherwise an error on all ranks, so that ranks go on together or fail
    /// together. For work outside of skeletons that may fail on one rank, such as opening a file.
    ///
    /// # Errors
    /// On a rank with an error: that error, as the [`source`](std::error::Error::source). On the other ranks: [`ErrorKind::Peer`] with the
    /// rank and the text of the error of the lowest rank that has one. Also those of [`gather`](Session::gather).
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
    pub fn consensus<T, E: Into<BoxError>>(&self, result: Result<T, E>) -> Result<T> {
        let result = user_code::call(|| result).map_err(|error| error.at_rank(self.rank));
        let mine = result.as_ref().err().map(|error| (self.rank, error.message().to_string()));
        let what = Announcement::new("comes to a consensus");
        let first = self.together(Location::caller(), |endpoint, limits| {
            reduced(endpoint, what, limits, mine, Option::or)
        })?;
        match first {
            Some((rank, text)) if result.is_ok() => Err(Error::new(ErrorKind::Peer, text).at_rank(rank)),
            _ => result,
        }
    }

    /// Returns when all ranks have called it.
    ///
    /// # Errors
    /// As [`broadcast`](Session::broadcast).
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        self.together(Location::caller(), |endpoint, limits| {
            let what = Announcement::new("comes to a barrier").without_the_dead();
            let mut course = Course::begin_empty(endpoint, what, limits)?;
            course.ascend(endpoint, &Codec::<u8>::of_type(), Vec::new(), append)?;
            course.descend_value(endpoint, Some(()))
        })
    }

    /// Does something with all ranks; an error says where in the program.
    pub(super) fn together<R>(
        &self,
        at: &Location<'_>,
        work: impl FnOnce(&mut Endpoint, Limits) -> Result<R>,
    ) -> Result<R> {
        let place = |error: Error| Error::new(error.kind(), format!("{} (at {at})", error.message()));
        self.reported(place, work)
    }
}

/// The values of all ranks combined, on all ranks.
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

/// A value of each rank, on all ranks.
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

/// The one value that is there.
fn only<T>(values: Vec<T>) -> Result<T> {
    let count = values.len();
    let mut values = values.into_iter();
    match (values.next(), count) {
        (Some(value), 1) => Ok(value),
        _ => Err(Error::new(ErrorKind::Wire, format!("{count} values have come, expected one"))),
    }
}
