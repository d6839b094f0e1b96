//! Loops as closures, for data that all ranks have.

use std::any::type_name;
use std::ops::Range;

use super::doall::Segment;
use super::parallel_for::ParallelFor;
use super::summary::Summary;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::session::{Announcement, Session};
use crate::user_code;
use crate::wire::{Item, Movable};

/// Calls `body` with ranges of these indices, on whichever rank is free. Each index is in exactly one range.
///
/// [`map`] and [`reduce`] return results; [`ParallelFor`] is the same loop with options. Returns a [`Summary`] on rank 0 and `None` on other ranks.
///
/// # Errors
/// An error or a panic of `body`, with the rank, the loop and the indices; a rank that is silent for longer than
/// [`Config::peer_limit`](crate::Config::peer_limit). Under MPI a failure ends the job instead of returning.
///
/// ```
/// use armature::loops::parallel_for;
///
/// let config = armature::Config::new().ranks(2);
/// let done = std::sync::Mutex::new(vec![]);
/// armature::run(&config, |session| {
///     parallel_for(session, "note", 10..20, |range| Ok(done.lock().unwrap().extend(range)))?;
///     Ok(())
/// })?;
/// let mut done = done.into_inner().unwrap();
/// done.sort();
/// assert_eq!(done, (10..20).collect::<Vec<u64>>());
/// # Ok::<(), armature::Error>(())
/// ```
pub fn parallel_for(
    session: &Session,
    name: &str,
    indices: Range<u64>,
    body: impl FnMut(Range<u64>) -> Result<(), BoxError> + Movable,
) -> Result<Option<Summary>> {
    ParallelFor::new(name, indices).run(session, body)
}

/// Computes a value for each of these indices and returns the values in index order on all ranks. [`ParallelFor::collect`] has options, and returns
/// the values on rank 0 alone unless `on_all_ranks` is set.
///
/// ```
/// use armature::loops::map;
///
/// let config = armature::Config::new().ranks(3);
/// let squares = armature::run(&config, |session| Ok(map(session, "square", 0..5, |n| n * n)?))?;
/// assert_eq!(squares, [0, 1, 4, 9, 16]);
/// # Ok::<(), armature::Error>(())
/// ```
///
/// # Errors
/// The errors of [`parallel_for`]; values that serde cannot encode.
pub fn map<V: Item + Clone>(
    session: &Session,
    name: &str,
    indices: Range<u64>,
    value: impl FnMut(u64) -> V + Movable,
) -> Result<Vec<V>> {
    let map = ParallelFor::new(name, indices);
    let values = map.values(session, "map", value)?;
    map.share(session, values).map(|(values, _)| values)
}

/// Computes a value for each of these indices and folds the values in index order; returns the result on all ranks. The result is bit-identical to
/// the serial fold on any number of ranks, because rank 0 receives all values and folds them.
///
/// [`reduce_any_order`] sends only one result from each rank, for many values whose order does not matter.
///
/// ```
/// use armature::loops::reduce;
///
/// let config = armature::Config::new().ranks(3);
/// let sum = armature::run(&config, |session| {
///     Ok(reduce(session, "harmonic", 1..1_000, |n| 1.0 / n as f64, 0.0, |sum, x| sum + x)?)
/// })?;
/// assert_eq!(sum, (1..1_000).map(|n| 1.0 / n as f64).fold(0.0, |sum, x| sum + x));
/// # Ok::<(), armature::Error>(())
/// ```
///
/// # Errors
/// The errors of [`map`].
pub fn reduce<V: Item + Clone, A: Item + Clone>(
    session: &Session,
    name: &str,
    indices: Range<u64>,
    value: impl FnMut(u64) -> V + Movable,
    start: A,
    fold: impl FnMut(A, V) -> A,
) -> Result<A> {
    let reduce = ParallelFor::new(name, indices);
    let values = reduce.values(session, "reduce", value)?;
    // `fold` is user code as well: a panic in it becomes an error.
    let folded = values
        .map(|(values, _)| user_code::call(|| Ok::<_, BoxError>(values.into_iter().fold(start, fold))))
        .transpose();
    let folded = folded.map_err(|error| error.in_loop(name).at_rank(0))?;
    only(reduce.share(session, folded.map(|folded| (vec![folded], ())))?.0)
}

/// Computes a value for each of these indices and combines the values in an order that differs from run to run; returns the result on all ranks.
///
/// Each rank combines its own values, beginning with `start`. Rank 0 then combines the results of the ranks, beginning with `start` again, so `start`
/// must be a neutral element of `combine`.
///
/// ```
/// use armature::loops::reduce_any_order;
///
/// let config = armature::Config::new().ranks(3);
/// let largest = armature::run(&config, |session| {
///     Ok(reduce_any_order(session, "largest", 0..1_000, |n| n * 7 % 1_000, 0, u64::max)?)
/// })?;
/// assert_eq!(largest, 999);
/// # Ok::<(), armature::Error>(())
/// ```
///
/// # Errors
/// The errors of [`map`].
pub fn reduce_any_order<A: Item + Clone>(
    session: &Session,
    name: &str,
    indices: Range<u64>,
    mut value: impl FnMut(u64) -> A + Movable,
    start: A,
    mut combine: impl FnMut(A, A) -> A + Movable,
) -> Result<A> {
    let mut mine = Some(start.clone());
    let what =
        Announcement::new(format!("runs reduce_any_order {name:?}")).with("values of type", type_name::<A>());
    let reduce = ParallelFor::new(name, indices);
    reduce.announced(session, what, |range, at| {
        for index in range {
            *at = Some(index);
            mine = mine.take().map(|before| combine(before, value(index)));
        }
        Ok(())
    })?;
    let (rank, ranks) = (session.rank() as u64, session.size() as u64);
    let all = reduce.gather(session, ranks, vec![Segment::new(rank, 1, Vec::from_iter(mine))])?;
    let result = all.map(|all| {
        user_code::call(|| Ok::<_, BoxError>(all.into_iter().fold(start, combine)))
            .map_err(|error| error.in_loop(name).at_rank(0))
    });
    only(reduce.share(session, result.transpose()?.map(|result| (vec![result], ())))?.0)
}

/// Returns the single value that rank 0 has broadcast.
fn only<T>(values: Vec<T>) -> Result<T> {
    values.into_iter().next().ok_or_else(|| Error::new(ErrorKind::Wire, "there is no result"))
}
