//! Checkpoints of a DOALL loop: writes and reads the data of the units (rows or indices) that a rank holds.

use std::ops::Range;

use bytes::Bytes;

use super::unit_queue::Segment;
use crate::comm::Part;
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::loops::events::log_resumed;
use crate::loops::pack::{Packer, Unpacker};
use crate::loops::units::Units;
use crate::persist::snapshot::{
    Checkpoint, CheckpointPiece, LoadedPiece, Route, SnapshotCoordinator, SnapshotWriter, StartingPoint,
    load, starting_point,
};
use crate::session::Config;

/// Approximate number of pieces into which a rank divides its units (rows or indices) for a checkpoint. If a job resumes with other numbers of
/// units per rank, each rank reads up to one surplus piece at each end of its range of units.
const PIECES: u64 = 16;

/// One rank's part in writing the checkpoints of a DOALL loop.
#[derive(Debug)]
pub(super) struct Checkpoints {
    pub(super) writer: SnapshotWriter,
    /// On rank 0, the schedule of the checkpoints and the records of their written parts. The coordinator takes this value when a run begins.
    pub(super) snapshots: Option<SnapshotCoordinator>,
    pub(super) before: u64,
}

/// Looks for a checkpoint of the loop. If there is one, reads the units (rows or indices) of `range`, which this rank will hold.
///
/// # Errors
/// The errors of [`starting_point`] and [`load`].
pub(super) fn resume<U: Units>(
    endpoint: &mut Endpoint,
    config: &Config,
    checkpoint: &Checkpoint,
    (name, units): (&str, u64),
    range: &Range<u64>,
) -> Result<(Checkpoints, Option<U>)> {
    let ranks = endpoint.size();
    let StartingPoint { store, found, writer } =
        starting_point(endpoint, (ranks, Route::Star), checkpoint, name, units, config.join_limit)?;
    log_resumed(endpoint.rank(), name, checkpoint, found.as_ref());
    let before = found.as_ref().map_or(0, |found| found.pass);
    let now = endpoint.clock().now();
    let snapshots =
        store.map(|store| SnapshotCoordinator::new(store, (checkpoint, config), ranks, before, now));
    let mine = found.map(|found| together(&load(&checkpoint.dir, &found, range)?, range)).transpose()?;
    Ok((Checkpoints { writer, snapshots, before }, mine))
}

/// Returns the data of the units (rows or indices) of `range`, all of which are in the loaded pieces of the checkpoint.
fn together<U: Units>(pieces: &[LoadedPiece], range: &Range<u64>) -> Result<U> {
    let mut mine = U::empty();
    for piece in pieces {
        let Range { start, end } = piece.units.clone();
        let mut units: U = open(&piece.data, end - start)?;
        let (from, to) = (start.max(range.start), end.min(range.end));
        // The cast to `usize` is lossless, because the units (rows or indices) are in memory.
        drop(units.split_off((to - start) as usize));
        mine.append(units.split_off((from - start) as usize));
    }
    Ok(mine)
}

/// Divides this rank's units (rows or indices) into serialized pieces of a checkpoint. A segment is a sequence of consecutive units.
pub(super) fn pieces<'s, U: Units + 's>(
    segments: impl Iterator<Item = &'s Segment<U>>,
) -> Result<Vec<CheckpointPiece>> {
    let segments: Vec<&Segment<U>> = segments.collect();
    let held: u64 = segments.iter().map(|segment| segment.count).sum();
    let most = held.div_ceil(PIECES).max(1);
    let mut pieces = Vec::new();
    for segment in segments {
        let (mut first, mut left, mut units) = (segment.first, segment.count, segment.units.copy());
        while left > 0 {
            let count = left.min(most);
            // The cast to `usize` is lossless, because the units (rows or indices) are in memory.
            let rest = units.split_off(count as usize);
            pieces.push((first, count, bytes_of(std::mem::replace(&mut units, rest))?));
            (first, left) = (first + count, left - count);
        }
    }
    Ok(pieces)
}

/// Serializes units (rows or indices) as: number of parts, length of the head, lengths of the parts, head, parts. Parts contain bulk data, and
/// the head all other bytes.
fn bytes_of<U: Units>(units: U) -> Result<Vec<u8>> {
    let mut packer = Packer::default();
    units.pack(&mut packer)?;
    let (head, parts) = packer.finish();
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&(parts.len() as u64).to_le_bytes());
    let lengths = std::iter::once(head.len()).chain(parts.iter().map(Part::len));
    lengths.for_each(|length| bytes.extend_from_slice(&(length as u64).to_le_bytes()));
    bytes.extend_from_slice(&head);
    parts.iter().for_each(|part| bytes.extend_from_slice(part.bytes()));
    Ok(bytes)
}

/// Reads `count` units (rows or indices) from bytes that [`bytes_of`] has written. All lengths are checked in spite of the checksum of the
/// file, because another version of the program may have written the file.
fn open<U: Units>(bytes: &[u8], count: u64) -> Result<U> {
    let wrong = || Error::new(ErrorKind::Wire, "the units of the checkpoint do not fit this loop");
    let mut rest = bytes;
    let mut number = || {
        let (number, after) = rest.split_first_chunk::<8>()?;
        rest = after;
        usize::try_from(u64::from_le_bytes(*number)).ok()
    };
    let parts = number().filter(|parts| *parts <= bytes.len()).ok_or_else(wrong)?;
    let lengths: Option<Vec<usize>> = (0..=parts).map(|_| number()).collect();
    let mut pieces = Vec::with_capacity(parts + 1);
    for length in lengths.ok_or_else(wrong)? {
        let (piece, after) = rest.split_at_checked(length).ok_or_else(wrong)?;
        pieces.push(Bytes::copy_from_slice(piece));
        rest = after;
    }
    let parts = pieces.split_off(1).into_iter().map(Part::from).collect();
    let mut unpacker = Unpacker::new(pieces.pop().unwrap_or_default(), parts);
    let count = usize::try_from(count).map_err(|_| wrong())?;
    let units = U::unpack(&mut unpacker, count)?;
    unpacker.end()?;
    units.check(count).map_err(|what| Error::new(ErrorKind::Wire, format!("a checkpoint has {what}")))?;
    Ok(units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::Rows;

    type Both = (Rows<f64>, Vec<String>);

    fn both(range: Range<u64>) -> Both {
        let names = range.clone().map(|unit| format!("unit {unit}")).collect();
        (Rows::from_fn(range, 700, |unit, row| row.fill(unit as f64)), names)
    }

    #[test]
    fn units_are_restored_from_pieces_in_any_range() {
        let segment = |range: Range<u64>| Segment::new(range.start, range.end - range.start, both(range));
        let segments = [segment(30..97), segment(0..30), segment(97..100)];
        let mut loaded: Vec<LoadedPiece> = pieces(segments.iter())
            .unwrap()
            .into_iter()
            .map(|(first, count, data)| LoadedPiece { units: first..first + count, data })
            .collect();
        assert!((PIECES as usize..PIECES as usize + 3).contains(&loaded.len()), "{}", loaded.len());
        loaded.sort_by_key(|piece| piece.units.start);
        for range in [0..100, 29..31, 50..51, 96..100] {
            let wanted: Vec<LoadedPiece> = loaded
                .iter()
                .filter(|piece| piece.units.start < range.end && piece.units.end > range.start)
                .cloned()
                .collect();
            assert_eq!(together::<Both>(&wanted, &range).unwrap(), both(range));
        }
    }

    #[test]
    fn bytes_of_other_unit_counts_or_types_are_refused() {
        let bytes = bytes_of(both(0..5)).unwrap();
        assert_eq!(open::<Both>(&bytes, 5).unwrap(), both(0..5));
        assert!(open::<Both>(&bytes, 4).is_err() && open::<Vec<u64>>(&bytes, 5).is_err());
        assert!(open::<()>(&bytes, 5).is_err());
        for end in 0..bytes.len().min(200) {
            assert!(open::<Both>(&bytes[..end], 5).is_err(), "{end}");
        }
    }
}
