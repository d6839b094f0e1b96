//! Reading records one after the other, up to the first that is not whole.

use std::collections::HashSet;
use std::io::{self, BufReader, ErrorKind, Read};

use bytes::Bytes;

use super::format::{HEAD, Head};
use super::{Cut, Recovery};

/// Why reading ended early.
#[derive(Debug)]
pub(super) enum Stop {
    /// The file could not be read.
    Io(io::Error),
    /// Who was handed the records did not want any more.
    Caller(crate::error::Error),
}

/// What reading has come to.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) recovery: Recovery,
    /// Where the last whole record ends, in bytes from the start of the file.
    pub(super) end: u64,
    /// The checksum of the last whole record, or of the header.
    pub(super) chain: u32,
}

/// Reads the records from `file`, which stands behind the header at byte `start` and ends at byte `size`. `chain` is
/// the header's checksum. A task's first record is handed to `each`.
pub(super) fn scan(
    file: impl Read,
    start: u64,
    size: u64,
    chain: u32,
    mut each: impl FnMut(u64, Bytes) -> crate::Result<()>,
) -> Result<Scan, Stop> {
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut scan = Scan { recovery: Recovery::default(), end: start, chain };
    let mut seen = HashSet::new();
    while scan.end < size {
        let (head, payload) = match read(&mut file, size - scan.end).map_err(Stop::Io)? {
            Some((head, payload)) if head.sum_over(scan.chain, &[&payload]) == head.sum => (head, payload),
            damaged => {
                let bytes = size - scan.end;
                let records = further(&mut file, damaged, bytes).map_err(Stop::Io)?;
                scan.recovery.cut = Some(Cut { at: scan.end, bytes, records });
                break;
            }
        };
        scan.end += (HEAD + payload.len()) as u64;
        scan.chain = head.sum;
        if seen.insert(head.task) {
            scan.recovery.tasks += 1;
            each(head.task, payload.into()).map_err(Stop::Caller)?;
        } else {
            scan.recovery.duplicates += 1;
        }
    }
    Ok(scan)
}

/// The next record, whether or not its checksum is right; `None` if it would not end within `left` bytes.
fn read(file: &mut impl Read, left: u64) -> io::Result<Option<(Head, Vec<u8>)>> {
    let mut head = [0; HEAD];
    if left < HEAD as u64 || !fill(file, &mut head)? {
        return Ok(None);
    }
    let head = Head::from_bytes(head);
    // Checked before anything is allocated: the file is at least as long.
    if u64::from(head.length) > left - HEAD as u64 {
        return Ok(None);
    }
    let mut payload = vec![0; head.length as usize];
    Ok(fill(file, &mut payload)?.then_some((head, payload)))
}

/// How many whole records follow the damaged one, which begins `left` bytes before the end: as far as the lengths in
/// between can be believed.
fn further(file: &mut impl Read, damaged: Option<(Head, Vec<u8>)>, mut left: u64) -> io::Result<u64> {
    let (mut last, mut count) = (damaged, 0);
    while let Some((before, payload)) = last {
        left -= (HEAD + payload.len()) as u64;
        last = read(file, left)?;
        let whole =
            |(head, payload): &(Head, Vec<u8>)| head.sum_over(before.sum, &[&payload[..]]) == head.sum;
        count += u64::from(last.as_ref().is_some_and(whole));
    }
    Ok(count)
}

/// Fills `buffer`; false if the file ends before (somebody has made it shorter meanwhile).
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}
