//! Output file in which a starter collects the output of all its commands. It needs no separate index.
//!
//! A file begins with a line that identifies its format. Pieces follow: each is a header of 32 bytes and the bytes
//! that a command wrote. Each header gives the position of the next one, so that output of a command is never
//! mistaken for a header. A checksum in the header detects the torn end of a file whose writer died. A reader goes
//! from header to header.
//!
//! | bytes of a header | |
//! |---|---|
//! | 0–3 | `AOUT` |
//! | 4–7 | 1: standard output, 2: standard error |
//! | 8–15 | number of the command |
//! | 16–19 | attempt |
//! | 20–23 | bytes behind the header |
//! | 24–27 | 0 |
//! | 28–31 | checksum (CRC-32) of the other bytes of the header |
//!
//! Numbers are little endian.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, IoSlice, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use armature_files::lock::{TRIES, lock, unlock};
use armature_files::regular::{self, Links};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Body, Wire, take};

const FIRST_LINE: &[u8] = b"armature output of commands, 1\n";
const MAGIC: [u8; 4] = *b"AOUT";
const HEADER: usize = 32;

/// Output stream of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StandardStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Key of the output of one attempt of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputKey {
    /// Number of the command's request.
    pub id: u64,
    /// Number of the attempt to run the command.
    pub attempt: u32,
}

#[derive(Clone, Copy, Debug)]
struct OutputPiece {
    key: OutputKey,
    stream: StandardStream,
    length: u32,
}

impl OutputPiece {
    fn header(self) -> Vec<u8> {
        let mut header = MAGIC.to_vec();
        self.put(&mut header);
        crc32fast::hash(&header).put(&mut header);
        header
    }

    fn of(header: &[u8; HEADER]) -> Option<OutputPiece> {
        let (checked, checksum) = header.split_last_chunk()?;
        let is_whole = u32::from_le_bytes(*checksum) == crc32fast::hash(checked);
        checked.strip_prefix(&MAGIC).filter(|_| is_whole).and_then(take)
    }
}

/// Fields in the header of a piece of a command's output, between the magic number and the checksum.
impl Wire for OutputPiece {
    fn put(&self, to: &mut Vec<u8>) {
        let stream: u32 = match self.stream {
            StandardStream::Stdout => 1,
            StandardStream::Stderr => 2,
        };
        stream.put(to);
        self.key.id.put(to);
        self.key.attempt.put(to);
        self.length.put(to);
        0_u32.put(to);
    }

    fn take(from: &mut Body<'_>) -> Option<Self> {
        let stream = match u32::take(from)? {
            1 => StandardStream::Stdout,
            2 => StandardStream::Stderr,
            _ => return None,
        };
        let key = OutputKey { id: Wire::take(from)?, attempt: Wire::take(from)? };
        let length = Wire::take(from)?;
        u32::take(from).map(|_| OutputPiece { key, stream, length })
    }
}

/// Writer that appends to an output file, which it has locked.
#[derive(Debug)]
pub(crate) struct OutputWriter {
    file: File,
    path: PathBuf,
    end: u64,
    /// True if a write to the file has failed. Only the first failure is reported; later output is still written if
    /// possible.
    has_failed: bool,
}

impl OutputWriter {
    /// Opens an output file for appending, and truncates incomplete output at its end, which a writer that died has
    /// left. A symbolic link is refused, because names such as `rank-0.out` can be guessed.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        OutputWriter::open_within(path, TRIES)
    }

    fn open_within(path: &Path, tries: u32) -> Result<Self> {
        let wrong =
            |what: String| Error::new(ErrorKind::Output, format!("output file {}: {what}", path.display()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let file =
            regular::open_with(path, &mut options, Links::Refused).map_err(|e| wrong(e.to_string()))?;
        lock(&file, tries, |_| ()).map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => {
                wrong(format!("another run writes to it ({error}): each rank needs its own file"))
            }
            _ => wrong(error.to_string()),
        })?;
        let mut writer = OutputWriter { file, path: path.into(), end: 0, has_failed: false };
        let length = writer.file.metadata().map_err(|e| wrong(e.to_string()))?.len();
        let mut line = vec![0; FIRST_LINE.len().min(usize::try_from(length).unwrap_or(usize::MAX))];
        writer.file.read_exact(&mut line).map_err(|e| wrong(e.to_string()))?;
        if !FIRST_LINE.starts_with(&line) {
            return Err(wrong(
                "it is not an output file of commands: expected one, or an unused name".into(),
            ));
        }
        if line.len() < FIRST_LINE.len() {
            // The first line of an output file identifies its format. It is incomplete if the file is new, or if an
            // earlier writer died while it wrote the line.
            writer.append(&[IoSlice::new(FIRST_LINE)]).map_err(|e| wrong(e.to_string()))?;
        } else {
            let log = OutputLog::read(path)?;
            writer.end = log.end;
            writer.cut().map_err(|e| wrong(e.to_string()))?;
        }
        Ok(writer)
    }

    /// Appends output of a command. Returns false if that fails; only the first failure is reported on standard
    /// error.
    pub(crate) fn write(&mut self, id: u64, attempt: u32, stream: StandardStream, bytes: &[u8]) -> bool {
        let key = OutputKey { id, attempt };
        // The length in a header is at most 4 GiB. One header suffices, because output is written after each read
        // from a pipe and is far shorter.
        let pieces = bytes.chunks(u32::MAX as usize);
        let written =
            pieces.map(|bytes| (OutputPiece { key, stream, length: bytes.len() as u32 }.header(), bytes));
        for (header, bytes) in written {
            if let Err(error) = self.append(&[IoSlice::new(&header), IoSlice::new(bytes)]) {
                // A header or output that was only written in part is cut off, because readers would not find output
                // after it.
                let _ = self.cut();
                if !std::mem::replace(&mut self.has_failed, true) {
                    eprintln!("armature: output of commands is lost: {}: {error}", self.path.display());
                }
                return false;
            }
        }
        true
    }

    fn append(&mut self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.end))?;
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let mut written = self.file.write_vectored(parts)?;
        for part in parts {
            let already = written.min(part.len());
            written -= already;
            self.file.write_all(&part[already..])?;
        }
        self.end += total as u64;
        Ok(())
    }

    fn cut(&self) -> io::Result<()> {
        self.file.set_len(self.end)
    }
}

impl Drop for OutputWriter {
    fn drop(&mut self) {
        // The lock on the output file is released explicitly. If another thread starts a process, that process shares
        // the open file between fork and exec, and would hold the lock until the exec.
        unlock(&self.file);
    }
}

/// Index of the output files of a run.
///
/// ```no_run
/// use armature_commands::{OutputLog, StandardStream};
///
/// let log = OutputLog::read("outputs/rank-0".as_ref())?;
/// for (key, stream) in log.keys() {
///     let bytes = log.length(key, stream);
///     println!("command {}, attempt {}: {bytes} bytes to {stream:?}", key.id, key.attempt);
///     log.copy(key, stream, &mut std::io::stdout())?;
/// }
/// # Ok::<(), armature_commands::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct OutputLog {
    files: Vec<PathBuf>,
    pieces: BTreeMap<(OutputKey, StandardStream), Vec<OutputLocation>>,
    end: u64,
    torn: u64,
}

/// Location of a part of a command's output: index of the file, position in the file, and length in bytes.
#[derive(Clone, Copy, Debug)]
struct OutputLocation {
    file: usize,
    start: u64,
    length: u32,
}

impl OutputLog {
    /// Reads the index of an output file. If the file is still being written, incomplete output at its end is left
    /// out.
    ///
    /// # Errors
    /// [`ErrorKind::Output`] if the file cannot be read or is not an output file.
    pub fn read(path: &Path) -> Result<Self> {
        let mut log = OutputLog::default();
        log.add(path)?;
        Ok(log)
    }

    /// Adds another file of the same run, such as that of another rank.
    ///
    /// # Errors
    /// The errors of [`read`](OutputLog::read).
    pub fn add(&mut self, path: &Path) -> Result<()> {
        let wrong =
            |what: String| Error::new(ErrorKind::Output, format!("output file {}: {what}", path.display()));
        let file = regular::open(path).map_err(|error| wrong(error.to_string()))?;
        let length = file.metadata().map_err(|error| wrong(error.to_string()))?.len();
        // Only headers are read and the output of commands is skipped. Many commands write little, so a small buffer
        // contains dozens of headers.
        let mut reader = BufReader::with_capacity(1 << 13, file);
        let mut line = vec![0; FIRST_LINE.len()];
        if reader.read_exact(&mut line).is_err() || line != FIRST_LINE {
            return Err(wrong("it is not an output file of commands".into()));
        }
        let number = self.files.len();
        let mut end = FIRST_LINE.len() as u64;
        loop {
            let mut header = [0; HEADER];
            if reader.read_exact(&mut header).is_err() {
                break;
            }
            let Some(OutputPiece { key, stream, length: bytes }) = OutputPiece::of(&header) else { break };
            let start = end + HEADER as u64;
            if start + u64::from(bytes) > length || reader.seek_relative(i64::from(bytes)).is_err() {
                break;
            }
            end = start + u64::from(bytes);
            self.pieces.entry((key, stream)).or_default().push(OutputLocation {
                file: number,
                start,
                length: bytes,
            });
        }
        self.files.push(path.into());
        self.end = end;
        self.torn += length.saturating_sub(end);
        Ok(())
    }

    /// Returns the commands that wrote output, each with its stream, sorted by the number of the command and its
    /// attempt.
    pub fn keys(&self) -> impl Iterator<Item = (OutputKey, StandardStream)> {
        self.pieces.keys().copied()
    }

    /// Returns the number of bytes that a command wrote to a stream.
    pub fn length(&self, key: OutputKey, stream: StandardStream) -> u64 {
        self.places(key, stream).iter().map(|place| u64::from(place.length)).sum()
    }

    /// Returns the number of bytes at the ends of files that are an incomplete header or incomplete output, left by a writer that died or
    /// is still writing.
    pub fn torn(&self) -> u64 {
        self.torn
    }

    /// Copies the output that a command wrote to a stream to the writer `to`; copies nothing if there is none.
    ///
    /// # Errors
    /// [`ErrorKind::Output`] if the file can no longer be read, or writing to `to` fails.
    pub fn copy(&self, key: OutputKey, stream: StandardStream, to: &mut dyn Write) -> Result<()> {
        for places in self.places(key, stream).chunk_by(|a, b| a.file == b.file) {
            let path = &self.files[places[0].file];
            let copied = regular::open(path).and_then(|mut file| {
                places.iter().try_for_each(|place| {
                    file.seek(SeekFrom::Start(place.start))?;
                    io::copy(&mut (&mut file).take(place.length.into()), to).map(|_| ())
                })
            });
            copied
                .map_err(Error::io(ErrorKind::Output, format!("copy from output file {}", path.display())))?;
        }
        Ok(())
    }

    fn places(&self, key: OutputKey, stream: StandardStream) -> &[OutputLocation] {
        self.pieces.get(&(key, stream)).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(log: &OutputLog, id: u64, attempt: u32, stream: StandardStream) -> Vec<u8> {
        let (mut bytes, key) = (Vec::new(), OutputKey { id, attempt });
        log.copy(key, stream, &mut bytes).unwrap();
        assert_eq!(log.length(key, stream), bytes.len() as u64);
        bytes
    }

    #[test]
    fn outputs_of_commands_are_separate_even_if_they_contain_headers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rank-0");
        let mut writer = OutputWriter::open(&path).unwrap();
        let key = OutputKey { id: 1, attempt: 1 };
        let hostile = OutputPiece { key, stream: StandardStream::Stdout, length: 5 }.header();
        assert!(writer.write(1, 1, StandardStream::Stdout, b"one"));
        assert!(writer.write(1 << 40, 1, StandardStream::Stdout, &hostile));
        assert!(writer.write(1, 1, StandardStream::Stderr, b"\0\xff"));
        assert!(writer.write(1, 2, StandardStream::Stdout, b"again"));
        assert!(writer.write(1, 1, StandardStream::Stdout, b" two"));
        assert!(
            OutputWriter::open_within(&path, 1).unwrap_err().to_string().contains("another run writes to it")
        );
        drop(writer);
        let log = OutputLog::read(&path).unwrap();
        assert_eq!(text(&log, 1, 1, StandardStream::Stdout), b"one two");
        assert_eq!(text(&log, 1, 1, StandardStream::Stderr), b"\0\xff");
        assert_eq!(text(&log, 1, 2, StandardStream::Stdout), b"again");
        assert_eq!(text(&log, 1 << 40, 1, StandardStream::Stdout), hostile);
        assert_eq!(text(&log, 2, 1, StandardStream::Stdout), b"");
        assert_eq!((log.keys().count(), log.torn()), (4, 0));
    }

    /// The test truncates the file at each of its bytes: a reader finds the complete outputs, and a new writer
    /// continues after them.
    #[test]
    fn incomplete_last_record_is_truncated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rank-0");
        let mut writer = OutputWriter::open(&path).unwrap();
        writer.write(1, 1, StandardStream::Stdout, b"one");
        let whole = writer.end;
        writer.write(2, 1, StandardStream::Stdout, b"two");
        drop(writer);
        let bytes = std::fs::read(&path).unwrap();
        for length in 0..bytes.len() {
            std::fs::write(&path, &bytes[..length]).unwrap();
            let mut writer = OutputWriter::open(&path).unwrap();
            writer.write(3, 1, StandardStream::Stdout, b"three");
            drop(writer);
            let log = OutputLog::read(&path).unwrap();
            let first: &[u8] = if length as u64 >= whole { b"one" } else { b"" };
            assert_eq!(text(&log, 1, 1, StandardStream::Stdout), first, "cut at {length}");
            assert_eq!(text(&log, 2, 1, StandardStream::Stdout), b"");
            assert_eq!(
                (text(&log, 3, 1, StandardStream::Stdout).as_slice(), log.torn()),
                (b"three".as_slice(), 0)
            );
        }
    }

    #[test]
    fn foreign_files_are_refused_and_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("precious");
        std::fs::write(&path, "dear diary\n").unwrap();
        for error in [OutputWriter::open(&path).map(|_| ()), OutputLog::read(&path).map(|_| ())] {
            assert!(error.unwrap_err().to_string().contains("it is not an output file of commands"));
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"dear diary\n");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("elsewhere", &link).unwrap();
        assert!(OutputWriter::open(&link).unwrap_err().to_string().contains("is a symbolic link"));
        assert!(!dir.path().join("elsewhere").exists());
    }

    #[test]
    fn output_log_merges_several_files() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| dir.path().join(name));
        for path in &paths {
            OutputWriter::open(path).unwrap().write(
                7,
                1,
                StandardStream::Stdout,
                path.as_os_str().as_encoded_bytes(),
            );
        }
        let mut log = OutputLog::read(&paths[0]).unwrap();
        log.add(&paths[1]).unwrap();
        let both = paths.map(|path| path.as_os_str().as_encoded_bytes().to_vec()).concat();
        assert_eq!(text(&log, 7, 1, StandardStream::Stdout), both);
    }
}
