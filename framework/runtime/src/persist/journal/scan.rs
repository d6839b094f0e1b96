//! Sequential reading of the records of a journal (file of completed results), up to the first record that is not whole.
//!
//! A record is read in blocks, and accepted only if its checksum is correct. Memory for its payload is allocated only after this check, so that a
//! damaged length, or a file that is mostly a hole, costs no more than a record of moderate size.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};

use bytes::Bytes;

use super::format::Head;
use super::holes;
use super::{Cut, Recovery};

/// Number of bytes that are read from the journal at once. A longer payload may contain holes (ranges that were never written), which are not read.
const PIECE: usize = 1 << 20;
/// After damage in a journal, whole records are counted until this number of records in a row are not whole. The count is used only in the message to
/// the user. The limit bounds the time in which zeros at the end of a file are parsed as empty records.
const STRANGE: u32 = 16;

/// Reason for which the reading of a journal ends before its last record.
#[derive(Debug)]
pub(super) enum Stop {
    Io(io::Error),
    Caller(crate::error::Error),
}

#[derive(Debug)]
pub(super) struct Scan {
    pub(super) recovery: Recovery,
    /// End of the last whole record of the journal, in bytes from the start of the file.
    pub(super) end: u64,
    /// Checksum of the last whole record, or of the journal's header if there is no record. The checksum of the next record depends on it.
    pub(super) chain: u32,
}

/// Reads the records of the journal `file` between the offset `start`, after the header, and `size`. `chain` is the checksum of the header, on which
/// that of the first record depends. The first record of each task is passed to `each`.
pub(super) fn scan(
    file: &File,
    start: u64,
    size: u64,
    chain: u32,
    mut each: impl FnMut(u64, Bytes) -> crate::Result<()>,
) -> Result<Scan, Stop> {
    let mut records = Records::new(file, start, size).map_err(Stop::Io)?;
    let mut scan = Scan { recovery: Recovery::default(), end: start, chain };
    let mut seen = HashSet::new();
    while scan.end < size {
        let head = match records.next(scan.chain).map_err(Stop::Io)? {
            Some((head, true)) => head,
            damaged => {
                let records = records.further(damaged.map(|(head, _)| head)).map_err(Stop::Io)?;
                scan.recovery.cut = Some(Cut { at: scan.end, bytes: size - scan.end, records, copy: None });
                break;
            }
        };
        scan.end = records.at;
        scan.chain = head.sum;
        if seen.insert(head.task) {
            scan.recovery.tasks += 1;
            let payload = records.payload(head).map_err(Stop::Io)?;
            each(head.task, payload.into()).map_err(Stop::Caller)?;
        } else {
            scan.recovery.duplicates += 1;
        }
    }
    Ok(scan)
}

struct Records<'f> {
    file: BufReader<&'f File>,
    at: u64,
    size: u64,
}

impl<'f> Records<'f> {
    fn new(file: &'f File, at: u64, size: u64) -> io::Result<Self> {
        let mut file = BufReader::with_capacity(PIECE, file);
        file.seek(SeekFrom::Start(at))?;
        Ok(Records { file, at, size })
    }

    /// Reads past the next record; `before` is the checksum of the record before it. Returns the record's head, and true if the record is whole;
    /// `None` if the record would extend beyond the end of the file.
    fn next(&mut self, before: u32) -> io::Result<Option<(Head, bool)>> {
        match self.rescan(before) {
            // Another process has truncated the journal in the meantime, so no record is left.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            other => other,
        }
    }

    fn rescan(&mut self, before: u32) -> io::Result<Option<(Head, bool)>> {
        if self.size - self.at < Head::SIZE as u64 {
            return Ok(None);
        }
        let mut head = [0; Head::SIZE];
        self.file.read_exact(&mut head)?;
        self.at += Head::SIZE as u64;
        let Some(head) = Head::read(&head) else { return Ok(None) };
        let length = u64::from(head.length);
        if length > self.size - self.at {
            return Ok(None);
        }
        let mut hasher = head.hasher(before);
        if length > PIECE as u64 {
            holes::hash(self.file.get_ref(), self.at..self.at + length, &mut hasher)?;
            self.file.seek(SeekFrom::Start(self.at + length))?;
        } else {
            let mut left = head.length as usize;
            while left > 0 {
                let piece = self.file.fill_buf()?;
                if piece.is_empty() {
                    return Ok(None);
                }
                let piece = &piece[..piece.len().min(left)];
                hasher.update(piece);
                let length = piece.len();
                self.file.consume(length);
                left -= length;
            }
        }
        self.at += length;
        Ok(Some((head, hasher.finalize() == head.sum)))
    }

    fn payload(&mut self, head: Head) -> io::Result<Vec<u8>> {
        self.file.seek_relative(-i64::from(head.length))?;
        let mut payload = vec![0; head.length as usize];
        self.file.read_exact(&mut payload)?;
        Ok(payload)
    }

    /// Returns the number of whole records after a damaged record, as far as the record lengths are plausible.
    fn further(&mut self, mut damaged: Option<Head>) -> io::Result<u64> {
        let (mut count, mut strange) = (0, 0);
        while let Some(before) = damaged.filter(|_| strange < STRANGE) {
            let next = self.next(before.sum)?;
            let is_whole = next.is_some_and(|(_, is_whole)| is_whole);
            count += u64::from(is_whole);
            strange = if is_whole { 0 } else { strange + 1 };
            damaged = next.map(|(head, _)| head);
        }
        Ok(count)
    }
}
