//! Collection of all units (rows or indices) of a DOALL loop on rank 0, and their broadcast to all ranks.

use std::time::Duration;

use super::messages::{Tag, UnitMigration};
use super::unit_queue::Segment;
use crate::comm::endpoint::Endpoint;
use crate::comm::waiting::Limits;
use crate::error::{Error, ErrorKind, Result};
use crate::loops::pack::{Packer, Unpacker};
use crate::loops::units::Units;
use crate::session::{Announcement, NextPiece, PIECE};
use crate::user_code;

/// Gathers the data of all units (rows or indices) of a loop (`units` in number) on rank 0; returns `None` on other ranks. Rank 0 waits at most
/// `limit` for the units of another rank.
///
/// # Errors
/// If a rank does not send its units in time, or the units received are not all units exactly once.
pub(in crate::loops) fn gather<U: Units>(
    endpoint: &mut Endpoint,
    name: &str,
    units: u64,
    mine: UnitMigration<U>,
    limit: Duration,
) -> Result<Option<U>> {
    let what = Announcement::new(format!("gathers the loop {name:?}")).with("units", units);
    let run = endpoint.begin_run(&what.with("storage", std::any::type_name::<U>()), limit)?;
    let (rank, size) = (endpoint.rank(), endpoint.size());
    let here = |error: Error| error.in_loop(name).at_rank(rank);
    if rank > 0 {
        let message = mine.encode(run, Tag::Gather).map_err(here)?;
        endpoint.send_ready(0, message)?;
        return Ok(None);
    }
    // The units (rows or indices) of rank 0 must be sendable, too, although they are not sent in this call: another rank might hold them in the next
    // run, and the error must not depend on the rank.
    mine.segments.iter().try_for_each(|segment| segment.units.check_travel()).map_err(here)?;
    let mut all = mine.segments;
    let mut missing: Vec<usize> = (1..size).collect();
    let awaited = std::cell::RefCell::new(missing.clone());
    endpoint
        .wait_until(
            limit,
            |_, message| {
                if let Some(message) = message {
                    let at = missing.iter().position(|&from| from == message.from);
                    let Some(at) = at else {
                        let text = format!("rank {} sent its units twice", message.from);
                        return Err(Error::new(ErrorKind::Wire, text));
                    };
                    missing.swap_remove(at);
                    awaited.borrow_mut().clone_from(&missing);
                    all.extend(UnitMigration::decode_gathered(message, units)?.segments);
                }
                Ok(missing.is_empty().then_some(()))
            },
            || format!("for the units of ranks {:?}", awaited.borrow()),
        )
        .and_then(|()| together(all, units))
        .map(Some)
        .map_err(|error| if error.kind() == ErrorKind::Peer { error } else { error.in_loop(name).at_rank(0) })
}

/// Broadcasts the `units` units (rows or indices) of a loop that rank 0 has [gathered](gather) to all ranks.
///
/// # Errors
/// The errors of [`Endpoint::broadcast`].
pub(super) fn spread<U: Units>(
    endpoint: &mut Endpoint,
    name: &str,
    units: u64,
    all: Option<U>,
    limits: Limits,
) -> Result<U> {
    let what =
        Announcement::new(format!("gives all ranks the units of the loop {name:?}")).with("units", units);
    let rank = endpoint.rank();
    // The broadcast sends the units (rows or indices) in several messages. Splitting the units of each message off at the end moves no unit in
    // memory more than once.
    let mut left = usize::try_from(units).unwrap_or(usize::MAX);
    let most = all.as_ref().map_or(1, |all| (PIECE / (all.bytes() / left.max(1)).max(1)).max(1));
    let mut rest = all;
    let mut encode = || {
        let start = left.saturating_sub(most);
        let piece = match &mut rest {
            Some(all) if start > 0 => Some(all.split_off(start)),
            _ => rest.take(),
        };
        let mut packer = Packer::default();
        packer.number((left - start) as u64);
        left = start;
        if let Some(piece) = piece {
            user_code::call(|| piece.pack(&mut packer))?;
        }
        Ok((packer.finish(), start == 0))
    };
    let mut pieces = Vec::new();
    let mut decode = |body, parts| {
        let mut unpacker = Unpacker::new(body, parts);
        let count = unpacker.count()?;
        pieces.push((count, user_code::call(|| U::unpack(&mut unpacker, count))?));
        unpacker.end()
    };
    let next: Option<NextPiece<'_>> = if rank == 0 { Some(&mut encode) } else { None };
    let mut all = U::empty();
    let there = endpoint.broadcast(what, limits, next, &mut decode).and_then(|()| {
        let count: usize = pieces.iter().map(|(count, _)| count).sum();
        pieces.into_iter().rev().for_each(|(_, piece)| all.append(piece));
        match units == count as u64 {
            true => Ok(all),
            false => Err(Error::new(ErrorKind::Wire, format!("{count} units arrived, expected {units}"))),
        }
    });
    there.map_err(
        |error| if error.kind() == ErrorKind::Peer { error } else { error.in_loop(name).at_rank(rank) },
    )
}

fn together<U: Units>(mut segments: Vec<Segment<U>>, units: u64) -> Result<U> {
    segments.sort_by_key(|segment| segment.first);
    let mut all = U::empty();
    let mut end = 0;
    for segment in segments {
        if segment.first != end {
            return Err(Error::new(ErrorKind::Wire, format!("unit {end} is missing or arrived twice")));
        }
        end += segment.count;
        all.append(segment.units);
    }
    if end != units {
        return Err(Error::new(ErrorKind::Wire, format!("{end} units arrived, expected {units}")));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_gathered_once() {
        let segment =
            |first: u64, count: u64| Segment::new(first, count, (first..first + count).collect::<Vec<_>>());
        assert_eq!(together(vec![segment(3, 2), segment(0, 3)], 5).unwrap(), [0, 1, 2, 3, 4]);
        assert!(together::<Vec<u64>>(vec![], 0).unwrap().is_empty());
        for wrong in [vec![segment(0, 3)], vec![segment(0, 3), segment(2, 3)], vec![segment(1, 4)]] {
            assert_eq!(together(wrong, 5).unwrap_err().kind(), ErrorKind::Wire);
        }
    }
}
