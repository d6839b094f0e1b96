//! Short forms of loops over indices: one call with a closure.

use std::ops::Range;

use super::parallel_for::ParallelFor;
use crate::error::Result;
use crate::session::Session;
use crate::wire::{Item, Movable};

/// Computes a value for each index in `indices`, on any free rank, and returns the values in index order on all ranks.
///
/// [`ParallelFor`] is the same loop with options.
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
/// The errors of [`ParallelFor::collect`].
pub fn map<V: Item + Clone>(
    session: &mut Session,
    name: &str,
    indices: Range<u64>,
    value: impl FnMut(u64) -> V + Movable,
) -> Result<Vec<V>> {
    ParallelFor::new(name, indices).collect_on_all(session, value)
}

/// Computes a value for each index in `indices`, on any free rank, and combines the values in an order that differs from run to run; returns the
/// result on all ranks. `start` must be a neutral element of `combine`.
///
/// [`ParallelFor::reduce`] has options. If the result depends on the order, such as a sum of `f64` to its last bits, use
/// [`ParallelFor::fold_in_order`].
///
/// ```
/// use armature::loops::reduce;
///
/// let config = armature::Config::new().ranks(3);
/// let largest = armature::run(&config, |session| {
///     Ok(reduce(session, "largest", 0..1_000, |n| n * 7 % 1_000, 0, u64::max)?)
/// })?;
/// assert_eq!(largest, 999);
/// # Ok::<(), armature::Error>(())
/// ```
///
/// # Errors
/// The errors of [`ParallelFor::reduce`].
pub fn reduce<A: Item + Clone>(
    session: &mut Session,
    name: &str,
    indices: Range<u64>,
    value: impl FnMut(u64) -> A + Movable,
    start: A,
    combine: impl FnMut(A, A) -> A + Movable,
) -> Result<A> {
    ParallelFor::new(name, indices).reduce(session, value, start, combine)
}
