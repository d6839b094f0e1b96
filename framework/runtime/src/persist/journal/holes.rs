//! Files with holes. A hole is a range of a file that was never written; it reads as zeros and occupies no disk space. Code that processes a
//! damaged file must neither read holes nor fill them.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crc32fast::Hasher;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

const PIECE: usize = 1 << 20;

/// Passes the data of `range` of a file to `each`, in blocks of bytes with their offsets in the file; holes are skipped. Changes the file position.
pub(super) fn data(
    file: &File,
    range: Range<u64>,
    mut each: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; PIECE.min(usize::try_from(range.end - range.start).unwrap_or(PIECE))];
    let mut at = range.start;
    while at < range.end {
        at = match seek(file, SeekFrom::Data(at)) {
            Ok(next) => next,
            // The error `ENXIO` of `lseek` means that the file has only holes after the offset.
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = seek(file, SeekFrom::Hole(at))?.min(range.end);
        while at < end {
            let length = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            let piece = &mut buffer[..length];
            file.read_exact_at(piece, at)?;
            each(at, piece)?;
            at += length as u64;
        }
    }
    Ok(())
}

/// Adds the bytes of `range` of a file, including holes as zeros, to a checksum. Changes the file position.
pub(super) fn hash(file: &File, range: Range<u64>, hasher: &mut Hasher) -> io::Result<()> {
    let mut at = range.start;
    data(file, range.clone(), |place, piece| {
        hasher.combine(&of_zeros(place - at));
        hasher.update(piece);
        at = place + piece.len() as u64;
        Ok(())
    })?;
    hasher.combine(&of_zeros(range.end - at));
    Ok(())
}

/// Returns the checksum of `count` zeros, combined from the checksums of 1, 2, 4, … zeros.
fn of_zeros(count: u64) -> Hasher {
    let (mut sum, mut power) = (Hasher::new(), Hasher::new());
    power.update(&[0]);
    let mut left = count;
    while left > 0 {
        if left & 1 == 1 {
            sum.combine(&power);
        }
        let half = power.clone();
        power.combine(&half);
        left >>= 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_count_as_zeros() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"front", 3).unwrap();
        file.write_all_at(&[7; 70_000], 3 << 20).unwrap();
        file.set_len(5 << 20).unwrap();
        let mut all = vec![0; 5 << 20];
        file.read_exact_at(&mut all, 0).unwrap();
        for range in
            [0..5 << 20, 0..0, 0..4, 5..6, 100..2 << 20, (3 << 20) + 5..4 << 20, (5 << 20) - 1..5 << 20]
        {
            let mut hasher = Hasher::new();
            hasher.update(b"before");
            hash(&file, range.clone(), &mut hasher).unwrap();
            let bytes = &all[range.start as usize..range.end as usize];
            assert_eq!(hasher.finalize(), crc32fast::hash(&[b"before", bytes].concat()), "{range:?}");
        }
        let mut read = 0;
        data(&file, 0..5 << 20, |_, piece| {
            read += piece.len();
            Ok(())
        })
        .unwrap();
        assert!((70_000..1 << 20).contains(&read), "{read} bytes were read, but few were written");
    }
}
