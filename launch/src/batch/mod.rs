//! Runs the commands of batch systems, which may be missing, slow or unresponsive.

pub(crate) mod messages;
pub(crate) mod slurm;

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit of a command such as `squeue`. If the controller of Slurm does not respond, its commands wait for minutes.
const LIMIT: Duration = Duration::from_secs(10);
/// Interval at which this process checks if a command has ended.
const TICK: Duration = Duration::from_millis(10);
/// Maximum number of bytes of a command's output that are read.
const LONGEST: u64 = 16 << 20;

/// Output of a completed command of a batch system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// True if the command has ended with exit code 0.
    pub(crate) is_success: bool,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// State of a batch job, as its batch system reports it at the end of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchState {
    /// State in the words of Slurm, such as `CANCELLED`; empty if unknown.
    pub(crate) state: String,
    /// True if the batch system has begun to preempt the job.
    pub(crate) is_preempted: bool,
    /// True if the job has fewer nodes than at the start of the attempt.
    pub(crate) has_lost_nodes: bool,
    /// True if the batch system has put the job back into the queue since the start of the attempt.
    pub(crate) is_requeued: bool,
    /// True if the batch system did not reply when it was asked for the state of the job.
    pub(crate) is_missing: bool,
    /// Time until the batch system ends the job, in seconds.
    pub(crate) seconds_left: Option<u64>,
}

/// Failure to get an answer from a command of a batch system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The command of the batch system is not installed.
    Missing,
    /// The command did not end within the time limit, or could not be started.
    Silent,
}

/// Runs a command without input, and returns what it has printed.
pub(crate) fn query<A: AsRef<OsStr>>(
    program: &str,
    args: impl IntoIterator<Item = A>,
) -> Result<Answer, NoAnswer> {
    query_within(program, args, "", LIMIT)
}

/// Runs a command with the text `input` as its standard input, and returns what it has printed.
pub(crate) fn query_with<A: AsRef<OsStr>>(
    program: &str,
    args: impl IntoIterator<Item = A>,
    input: &str,
) -> Result<Answer, NoAnswer> {
    query_within(program, args, input, LIMIT)
}

fn query_within<A: AsRef<OsStr>>(
    program: &str,
    args: impl IntoIterator<Item = A>,
    input: &str,
    limit: Duration,
) -> Result<Answer, NoAnswer> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => NoAnswer::Missing,
        _ => NoAnswer::Silent,
    })?;
    if let Some(mut to) = child.stdin.take() {
        let input = input.as_bytes().to_vec();
        // The input is written on another thread, because a command that does not read its input would block this process.
        std::thread::spawn(move || to.write_all(&input));
    }
    let (output, errors) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < limit => std::thread::sleep(TICK),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(NoAnswer::Silent);
            }
        }
    };
    let text = |from: std::sync::mpsc::Receiver<Vec<u8>>| {
        let bytes = from.recv_timeout(limit.saturating_sub(start.elapsed()).max(TICK)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok(Answer { is_success: status.success(), output: text(output), errors: text(errors) })
}

/// Reads a stream on another thread. A command that prints much on one stream would otherwise block while this process reads the other
/// stream.
fn reader(stream: Option<impl Read + Send + 'static>) -> std::sync::mpsc::Receiver<Vec<u8>> {
    let (to, from) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            let _ = stream.take(LONGEST).read_to_end(&mut bytes);
        }
        let _ = to.send(bytes);
    });
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_silence_times_out() {
        let answer = query("sh", ["-c", "echo one; echo two >&2; exit 3"]).unwrap();
        assert_eq!(answer, Answer { is_success: false, output: "one\n".into(), errors: "two\n".into() });
        assert_eq!(query("no-such-batch-system", [""; 0]), Err(NoAnswer::Missing));
        let start = Instant::now();
        assert_eq!(query_within("sleep", ["60"], "", Duration::from_millis(50)), Err(NoAnswer::Silent));
        assert!(start.elapsed() < Duration::from_secs(30));
        assert_eq!(query_with("cat", [""; 0], "text\n").unwrap().output, "text\n");
        let much = query("sh", ["-c", "head -c 1000000 /dev/zero >&2; echo end"]).unwrap();
        assert_eq!((much.output.as_str(), much.errors.len()), ("end\n", 1_000_000));
    }
}
