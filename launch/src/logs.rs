//! `armature logs`: shows the output of a run.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::time::Duration;

use clap::Args;

use crate::batch::messages::Farewells;
use crate::batch::slurm;
use crate::command_line::rank_of;
use crate::error::LaunchError;
use crate::message::print_message;
use crate::run_directory::RunDirectory;
use crate::run_directory::attempt::Attempt;
use crate::run_directory::reference::Reference;
use crate::run_directory::state::{Facts, stage};

const EVERY: Duration = Duration::from_millis(300);
/// Number of reads of the log file after which `--follow` checks if the run still exists. This check may have to ask the batch system.
const POLLS_PER_CHECK: u32 = 30;

/// Print what a run has printed, in all of its attempts or in one.
///
/// RUN is a directory, `last`, the name of a run in armature-runs, or the number of a batch job; RUN@K is attempt K. Messages of launchers about
/// ranks that have stopped at a checkpoint are left out, because they read like errors; the file `log` in the run directory has them.
///
/// Exit code: 0; 2 if there is no such run, attempt or log.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Run [default: last]
    #[arg(value_name = "RUN")]
    run: Option<OsString>,
    /// Print new output until the run has ended
    #[arg(short, long)]
    follow: bool,
    /// Print only the output of attempt K
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// Print only the lines of rank R, if the run was started with --label; otherwise lines that name rank R, such as messages of armature about it
    #[arg(long, value_name = "R")]
    rank: Option<usize>,
    /// Print only the last N lines of the present output
    #[arg(long, value_name = "N")]
    tail: Option<usize>,
}

pub(crate) fn logs(args: &Logs) -> Result<u8, LaunchError> {
    let found = Reference::recorded(args.run.as_deref())?;
    let attempt = match (found.attempt, args.attempt) {
        (Some(one), Some(other)) if one != other => {
            return Err(LaunchError::Usage(format!("--attempt {other} contradicts attempt {one} of RUN")));
        }
        (one, other) => one.or(other),
    };
    if let Some(elements) = found.run.array() {
        let names: Vec<String> = elements.iter().map(RunDirectory::name).take(1).collect();
        let (array, element) = (found.run.name(), names.concat());
        return Err(LaunchError::Usage(format!(
            "{array} is a job array: name one of its elements, such as {element}"
        )));
    }
    let run = found.run;
    let path = run.log();
    if args.follow && attempt.is_none() {
        wait_for_log(&run);
    }
    let (from, to) = section(&run, attempt)?;
    let unreadable = |source| LaunchError::Unreadable { what: "log", file: path.clone(), source };
    let mut file = File::open(&path).map_err(unreadable)?;
    file.seek(SeekFrom::Start(from)).map_err(unreadable)?;
    let mut text = Vec::new();
    let length = to.map_or(u64::MAX, |to| to.saturating_sub(from));
    (&mut file).take(length).read_to_end(&mut text).map_err(unreadable)?;
    let newest = attempt.map(|number| Attempt::of(&run, number)).or_else(|| Attempt::newest(&run));
    let is_labelled = newest.and_then(|attempt| attempt.start()).is_some_and(|start| start.labelled);
    let mut lines = Lines::new(args.rank, is_labelled);
    let shown = last_lines(&lines.select(&text, !args.follow || to.is_some()), args.tail).to_vec();
    if !write(&shown)? {
        return Ok(0);
    }
    let mut polls = 0;
    while args.follow && to.is_none() {
        // The state of the run is read before its output: if the run has ended by then, all of its output is in the log file.
        let has_ended =
            polls % POLLS_PER_CHECK == 0 && stage(&Facts::read(&run, &slurm::queue())).0.has_ended();
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(unreadable)?;
        if !write(&lines.select(&text, has_ended))? || has_ended {
            break;
        }
        polls += 1;
        std::thread::sleep(EVERY);
    }
    Ok(0)
}

fn wait_for_log(run: &RunDirectory) {
    let mut has_told = false;
    while !run.log().exists() {
        let (stage, why) = stage(&Facts::read(run, &slurm::queue()));
        if stage.has_ended() {
            break;
        }
        if !std::mem::replace(&mut has_told, true) {
            let why = if why.is_empty() { why } else { format!(": {}", armature_text::line(why)) };
            print_message(format_args!("{} is {}{why}", run.name(), stage.word()));
        }
        std::thread::sleep(EVERY * POLLS_PER_CHECK);
    }
}

/// Returns the positions in the log file between which the output of an attempt (one start of the program) is. Without an attempt, these are the
/// beginning and the end of the file.
fn section(run: &RunDirectory, attempt: Option<u32>) -> Result<(u64, Option<u64>), LaunchError> {
    let Some(number) = attempt else { return Ok((0, None)) };
    let known = run.attempts();
    let missing = || LaunchError::NoAttempt { run: run.name(), number, newest: known.last().copied() };
    let place = known.iter().position(|&known| known == number).ok_or_else(missing)?;
    let offset = |number: u32| Attempt::of(run, number).start().map(|start| start.log_offset);
    Ok((offset(number).unwrap_or(0), known.get(place + 1).and_then(|&next| offset(next))))
}

/// Selects lines of a growing log file: those of `rank`, or, if it is `None`, all but the messages of launchers about ranks that have stopped at a
/// checkpoint.
struct Lines {
    rank: Option<usize>,
    /// True if the launcher has marked each line of the log file with the rank that printed it.
    is_labelled: bool,
    farewells: Farewells,
    rest: Vec<u8>,
}

impl Lines {
    fn new(rank: Option<usize>, is_labelled: bool) -> Self {
        Lines { rank, is_labelled, farewells: Farewells::default(), rest: Vec::new() }
    }

    /// Takes the next bytes of the log file. Returns the lines that they complete, and also an incomplete last line if `is_last`.
    fn select(&mut self, text: &[u8], is_last: bool) -> Vec<u8> {
        self.rest.extend_from_slice(text);
        let whole = self.rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let whole = if is_last { self.rest.len() } else { whole };
        let mut shown = Vec::new();
        for line in self.rest[..whole].split_inclusive(|&byte| byte == b'\n') {
            match self.rank {
                Some(rank) if self.is_labelled => {
                    let text = String::from_utf8_lossy(line);
                    let of_rank = rank_of(&text).filter(|(of, _)| *of == rank);
                    of_rank.into_iter().for_each(|(_, text)| shown.extend_from_slice(text.as_bytes()));
                }
                Some(rank) if !names(line, rank) => {}
                _ => shown.extend(self.farewells.filter(line)),
            }
        }
        self.rest.drain(..whole);
        if is_last {
            shown.extend(self.farewells.finish());
        }
        shown
    }
}

fn names(line: &[u8], rank: usize) -> bool {
    let text = String::from_utf8_lossy(line);
    let word = format!("rank {rank}");
    text.match_indices(&word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

fn last_lines(text: &[u8], count: Option<usize>) -> &[u8] {
    let Some(count) = count else { return text };
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let ends = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    match count {
        0 => &[],
        _ => &text[ends.take(count).nth(count - 1).unwrap_or(0)..],
    }
}

fn write(bytes: &[u8]) -> Result<bool, LaunchError> {
    let mut output = io::stdout();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        result => result.map(|()| true).map_err(LaunchError::io("write to standard output")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_are_counted_from_the_end() {
        let last = |count| last_lines(b"a\nb\nc\n", Some(count));
        assert_eq!([last(0), last(1), last(2), last(9)], [&b""[..], b"c\n", b"b\nc\n", b"a\nb\nc\n"]);
        assert_eq!(last_lines(b"a\nb", Some(1)), b"b");
        assert_eq!(last_lines(b"", Some(1)), b"");
    }

    #[test]
    fn rank_filter_matches_whole_words() {
        let mut lines = Lines::new(Some(1), false);
        assert_eq!(lines.select(b"rank 1: x\nrank 12\nfrank 1\nat ra", false), b"rank 1: x\n");
        assert_eq!(lines.select(b"nk 1", false), b"");
        assert_eq!(lines.select(b"", true), b"at rank 1");
    }

    #[test]
    fn labelled_lines_of_a_rank_are_shown_without_their_labels() {
        let mut lines = Lines::new(Some(1), true);
        assert_eq!(lines.select(b"0: about rank 1\n1: one\nabout rank 1\n1: tw", false), b"one\n");
        assert_eq!(lines.select(b"o\n", true), b"two\n");
    }

    #[test]
    fn farewells_are_left_out_also_while_the_log_grows() {
        let mut lines = Lines::new(None, false);
        assert_eq!(lines.select(b"one\nsrun: error: n1: task 0: Exited with", false), b"one\n");
        assert_eq!(lines.select(b" exit code 85\ntwo\nthr", false), b"two\n");
        assert_eq!(lines.select(b"ee", true), b"three");
    }
}
