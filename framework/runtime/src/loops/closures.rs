//! Loops as closures, for data that all ranks have.

use std::any::type_name;
use std::ops::Range;
use std::time::Duration;

use super::doall::{Segment, UnitMigration, gather};
use super::ranges::Ranges;
use super::settings::Settings;
use super::summary::Summary;
use super::units::sealed::Storage;
use crate::comm::endpoint::Endpoint;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::session::{Announcement, Session};
use crate::user_code;
use crate::wire::Item;

/// Does `body` for ranges of these indices, on whichever rank has time; together they are all indices, each once.
///
/// For what shall come of it see [`map`] and [`reduce`]; [`Ranges`] is the same without a closure. Returns a [`Summary`] on
/// rank 0.
///
/// # Errors
/// An error or a panic of `body`, with the rank, the loop and the indices; a rank that is silent for longer than
/// [`Config::peer_limit`](crate::Config::peer_limit). On MPI a failure ends the job instead of returning.
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
    body: impl FnMut(Range<u64>) -> Result<(), BoxError>,
) -> Result<Option<Summary>> {
    parallel_for_with(session, name, indices, Settings::new(), body)
}

/// [`parallel_for`], run in this way.
///
/// # Errors
/// As [`parallel_for`], and settings that cannot be used.
pub fn parallel_for_with(
    session: &Session,
    name: &str,
    indices: Range<u64>,
    settings: Settings,
    body: impl FnMut(Range<u64>) -> Result<(), BoxError>,
) -> Result<Option<Summary>> {
    announced(
        session,
        name,
        indices,
        settings,
        Announcement::new(format!("runs parallel_for {name:?}")),
        body,
    )
}

/// [`parallel_for_with`], as part of what is announced so.
fn announced(
    session: &Session,
    name: &str,
    indices: Range<u64>,
    settings: Settings,
    what: Announcement,
    mut body: impl FnMut(Range<u64>) -> Result<(), BoxError>,
) -> Result<Option<Summary>> {
    let mut ranges = Ranges::announced(session, name, indices, settings, what)?;
    let mut all = || -> Result<()> {
        while let Some(range) = ranges.next()? {
            user_code::call(|| body(range)).map_err(|error| ranges.blame(&error))?;
        }
        Ok(())
    };
    let ended = all();
    ranges.end(ended)
}

/// A value for each of these indices, in their order, on all ranks.
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
/// As [`parallel_for`]; values that serde cannot encode.
pub fn map<V: Item + Clone>(
    session: &Session,
    name: &str,
    indices: Range<u64>,
    value: impl FnMut(u64) -> V,
) -> Result<Vec<V>> {
    let values = values(session, name, indices, "map", value)?;
    share(session, name, values)
}

/// The values of these indices, folded in the order of the indices; all ranks get the result. It is that of the serial
/// fold to the bit, on any number of ranks: rank 0 gets the values and folds them.
///
/// Where values are many, and the order is of no consequence, [`reduce_any_order`] sends only one result from each rank.
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
/// As [`map`].
pub fn reduce<V: Item + Clone, A: Item + Clone>(
    session: &Session,
    name: &str,
    indices: Range<u64>,
    value: impl FnMut(u64) -> V,
    start: A,
    fold: impl FnMut(A, V) -> A,
) -> Result<A> {
    let values = values(session, name, indices, "reduce", value)?;
    // The fold is the user's own, too.
    let folded = values
        .map(|values| user_code::call(|| Ok::<_, BoxError>(values.into_iter().fold(start, fold))))
        .transpose();
    let folded = folded.map_err(|error| error.in_loop(name).at_rank(0));
    share(session, name, folded?)
}

/// The values of these indices, combined in an order that differs from run to run; all ranks get the result.
///
/// Each rank combines its own values, beginning with `start`, and rank 0 those of the ranks: `start` must change nothing.
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
/// As [`map`].
pub fn reduce_any_order<A: Item + Clone>(
    session: &Session,
    name: &str,
    indices: Range<u64>,
    mut value: impl FnMut(u64) -> A,
    start: A,
    mut combine: impl FnMut(A, A) -> A,
) -> Result<A> {
    let mut mine = Some(start.clone());
    let what =
        Announcement::new(format!("runs reduce_any_order {name:?}")).with("values of type", type_name::<A>());
    announced(session, name, indices, Settings::new(), what, |range| {
        for index in range {
            // It is always there.
            let before = mine.take().unwrap_or_else(|| start.clone());
            mine = Some(combine(before, value(index)));
        }
        Ok(())
    })?;
    let (rank, ranks) = (session.rank() as u64, session.size() as u64);
    let mine = UnitMigration { round: 0, segments: vec![Segment::new(rank, 1, Vec::from_iter(mine))] };
    let all = bring_together(session, name, ranks, mine)?;
    let result = all.map(|all| {
        user_code::call(|| Ok::<_, BoxError>(all.into_iter().fold(start, combine)))
            .map_err(|error| error.in_loop(name).at_rank(0))
    });
    share(session, name, result.transpose()?)
}

/// The values of all indices in their order, on rank 0, for this function of this module.
fn values<V: Item + Clone>(
    session: &Session,
    name: &str,
    indices: Range<u64>,
    function: &str,
    mut value: impl FnMut(u64) -> V,
) -> Result<Option<Vec<V>>> {
    let what =
        Announcement::new(format!("runs {function} {name:?}")).with("values of type", type_name::<V>());
    let (first, count) = (indices.start, indices.end.saturating_sub(indices.start));
    let mut segments: Vec<Segment<Vec<V>>> = Vec::new();
    announced(session, name, indices, Settings::new(), what, |range| {
        let (from, count) = (range.start - first, range.end - range.start);
        let values = range.map(&mut value);
        match segments.last_mut() {
            Some(last) if last.first + last.count == from => {
                last.count += count;
                last.units.extend(values);
            }
            _ => segments.push(Segment::new(from, count, values.collect())),
        }
        Ok(())
    })?;
    bring_together(session, name, count, UnitMigration { round: 0, segments })
}

fn bring_together<V: Item + Clone>(
    session: &Session,
    name: &str,
    units: u64,
    mine: UnitMigration<Vec<V>>,
) -> Result<Option<Vec<V>>> {
    let endpoint = &mut *session.endpoint()?;
    gather(endpoint, name, units, mine, session.config().join_limit)
        .inspect_err(|error| endpoint.report(error))
}

/// What rank 0 has, on all ranks.
fn share<T: Item + Clone>(session: &Session, name: &str, value: Option<T>) -> Result<T> {
    let endpoint = &mut *session.endpoint()?;
    spread(endpoint, name, value, session.config().join_limit).map_err(|error| {
        let error = if error.kind() == ErrorKind::Peer { error } else { error.in_loop(name) };
        let error = error.at_rank(endpoint.rank());
        endpoint.report(&error);
        error
    })
}

fn spread<T: Item + Clone>(
    endpoint: &mut Endpoint,
    name: &str,
    value: Option<T>,
    limit: Duration,
) -> Result<T> {
    let what = Announcement::new(format!("shares out the result of the loop {name:?}"));
    let run = endpoint.begin_run(&what.with("values of type", type_name::<T>()), limit)?;
    if let Some(value) = value {
        let only = Segment::new(0, 1, vec![value]);
        only.units.check_travel()?;
        for rank in 1..endpoint.size() {
            let copy = Segment::new(0, 1, only.units.clone());
            let shipment = UnitMigration { round: 0, segments: vec![copy] };
            endpoint.send_ready(rank, shipment.encode_gathered(run)?)?;
        }
        return first(vec![only]);
    }
    let message =
        endpoint.wait_until(limit, |_, message| Ok(message), || "for the result from rank 0".to_string())?;
    if message.from != 0 {
        let text = format!("rank {} sent a message instead of rank 0's result", message.from);
        return Err(Error::new(ErrorKind::Wire, text));
    }
    first(UnitMigration::decode_gathered(message, 1)?.segments)
}

fn first<T>(segments: Vec<Segment<Vec<T>>>) -> Result<T> {
    let value = segments.into_iter().flat_map(|segment| segment.units).next();
    value.ok_or_else(|| Error::new(ErrorKind::Wire, "there is no result"))
}
