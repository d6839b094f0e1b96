//! Log file of a run: a copy of the output of all its attempts (starts of the program), each below a heading.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use armature_files::regular::{Links, open_with};

/// Longest line of a program's output in bytes that is written to the log in one piece, so that other output cannot appear within it.
const LINE: usize = 1 << 16;

/// Number of bytes at the end of the log in which messages about the end of the program are searched.
const TAIL: u64 = 1 << 18;

/// Longest wait for the rest of a launcher's output after its end. Processes that it has left behind may keep the output open.
const END: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    /// For the standard output and the standard error of this process: true if the stream is the log file itself, as in a job of `armature submit`.
    is_output: [bool; 2],
    ends: Receiver<()>,
    end: Sender<()>,
    copies: usize,
}

impl Log {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = open_with(path, OpenOptions::new().append(true).create(true), Links::Refused)?;
        let own = identity(file.as_fd());
        let is_log = |stream: BorrowedFd<'_>| own.is_some() && identity(stream) == own;
        let is_output = [is_log(io::stdout().as_fd()), is_log(io::stderr().as_fd())];
        let (end, ends) = channel();
        Ok(Log { file, is_output, ends, end, copies: 0 })
    }

    pub(crate) fn length(&self) -> u64 {
        self.file.metadata().map_or(0, |file| file.len())
    }

    /// Returns the text that was appended to the log since it had `from` bytes. Only the last [`TAIL`] bytes of a longer text are returned.
    pub(crate) fn tail(path: &Path, from: u64) -> String {
        let read = || {
            let mut file = File::open(path)?;
            let from = from.max(file.metadata()?.len().saturating_sub(TAIL));
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            file.take(TAIL).read_to_end(&mut bytes)?;
            io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_default()
    }

    pub(crate) fn write_line(&self, line: &str) {
        let _ = (&self.file).write_all(format!("{line}\n").as_bytes());
    }

    /// Returns the file for copies of this process's own messages, or `None` if standard error is the log file already.
    pub(crate) fn for_messages(&self) -> Option<File> {
        if self.is_output[1] { None } else { self.file.try_clone().ok() }
    }

    /// Returns the launcher's standard output and standard error: pipes whose content is copied to the log, or the streams of this process. A
    /// standard output that is a regular file is not copied, because it may be a large result of the program.
    pub(crate) fn streams(&self) -> [Stdio; 2] {
        let [output, error] = self.is_output;
        let is_file = metadata(io::stdout().as_fd()).is_some_and(|meta| meta.is_file());
        let stream = |is_inherited: bool| if is_inherited { Stdio::inherit() } else { Stdio::piped() };
        [stream(output || is_file), stream(error)]
    }

    pub(crate) fn copy(&mut self, child: &mut Child) {
        if let Some(stream) = child.stdout.take() {
            self.copy_stream(stream, io::stdout().as_fd());
        }
        if let Some(stream) = child.stderr.take() {
            self.copy_stream(stream, io::stderr().as_fd());
        }
    }

    fn copy_stream(&mut self, from: impl Read + Send + 'static, to: BorrowedFd<'_>) {
        let (Ok(to), Ok(log)) = (to.try_clone_to_owned().map(File::from), self.file.try_clone()) else {
            return;
        };
        let end = self.end.clone();
        self.copies += 1;
        std::thread::spawn(move || {
            copy(from, to, log);
            let _ = end.send(());
        });
    }

    /// Waits a limited time until the launcher's output is copied to the log.
    pub(crate) fn finish(&mut self) {
        let until = Instant::now() + END;
        while self.copies > 0
            && self.ends.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok()
        {
            self.copies -= 1;
        }
        self.copies = 0;
    }
}

fn metadata(descriptor: BorrowedFd<'_>) -> Option<std::fs::Metadata> {
    File::from(descriptor.try_clone_to_owned().ok()?).metadata().ok()
}

/// Returns the device and the inode of an open file, which identify it.
fn identity(descriptor: BorrowedFd<'_>) -> Option<(u64, u64)> {
    metadata(descriptor).map(|file| (file.dev(), file.ino()))
}

/// Copies a program's output to `to` at once and to `log` in whole lines. A log that cannot be written does not stop the program.
fn copy(mut from: impl Read, mut to: impl Write, mut log: impl Write) {
    let (mut buffer, mut line) = (vec![0; LINE], Vec::new());
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        line.extend_from_slice(&buffer[..count]);
        let whole = line.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let whole = if line.len() - whole > LINE { line.len() } else { whole };
        let _ = log.write_all(&line[..whole]);
        line.drain(..whole);
        // The reader of this process's output has closed the pipe. The program's pipe is closed too, so that it gets the same error as without a log.
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = log.write_all(&line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Calls(Vec<Vec<u8>>);

    impl Write for Calls {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !bytes.is_empty() {
                self.0.push(bytes.to_vec());
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Parts(Vec<&'static [u8]>);

    impl Read for Parts {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let part = self.0.remove(0);
            buffer[..part.len()].copy_from_slice(part);
            Ok(part.len())
        }
    }

    #[test]
    fn log_gets_whole_lines_and_the_terminal_unbuffered_output() {
        let (mut to, mut log) = (Calls::default(), Calls::default());
        copy(Parts(vec![b"one\ntw", b"o\nth", b"ree"]), &mut to, &mut log);
        assert_eq!(to.0, [&b"one\ntw"[..], b"o\nth", b"ree"]);
        assert_eq!(log.0, [&b"one\n"[..], b"two\n", b"three"]);
    }

    #[test]
    fn copy_ends_when_the_reader_disconnects() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (mut log, mut parts) = (Vec::new(), Parts(vec![b"one\n", b"two\n"]));
        copy(&mut parts, Closed, &mut log);
        assert_eq!((log, parts.0.len()), (b"one\n".to_vec(), 1));
    }
}
