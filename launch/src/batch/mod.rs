//! Runs the commands of batch systems, which may be missing, slow or unresponsive.

pub(crate) mod messages;
pub(crate) mod slurm;

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit of a command such as `squeue`, which waits for minutes if the controller of Slurm does not respond.
const LIMIT: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(10);
const LONGEST: u64 = 16 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) is_success: bool,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// State of a batch job, as its batch system reports it when the program has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchState {
    /// State of the batch job in the words of Slurm, such as `CANCELLED`; empty if unknown.
    pub(crate) state: String,
    pub(crate) is_preempted: bool,
    /// True if a node was taken from the job since the start of this attempt (one start of the program by `armature run`).
    pub(crate) has_lost_nodes: bool,
    /// True if the batch system has put the job back into its queue since the start of this attempt (one start of the program).
    pub(crate) is_requeued: bool,
    pub(crate) is_missing: bool,
    /// Seconds until the batch system ends the job at its time limit.
    pub(crate) seconds_left: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    Missing,
    Silent,
}

pub(crate) fn query<A: AsRef<OsStr>>(
    program: &str,
    args: impl IntoIterator<Item = A>,
) -> Result<Answer, NoAnswer> {
    query_within(program, args, "", LIMIT)
}

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
        // The input is written by another thread, because a command that does not read its input would block this process.
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

/// Reads one output stream of a command on another thread, because a command that prints much on one stream blocks while this process reads the
/// other.
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
