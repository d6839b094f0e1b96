//! `armature top`: shows a running job from the files that its ranks write.

use std::cell::Cell;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use armature::job_status::JobStatus;
use armature::observe::Follower;
use armature::observe::number_format::count;
use armature_report::{Live, View};
use clap::Args;
use rustix::termios::tcgetwinsize;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::LaunchError;
use crate::job_state::{JobState, alive_here, status_in};
use crate::run_directory::reference::events;

const EVERY: Duration = Duration::from_secs(1);
/// Pause between two reads of the event log, as a multiple of the time that a read takes, so that a log of thousands of files is read less often.
pub(crate) const PART: u32 = 10;
pub(crate) const TICK: Duration = Duration::from_millis(50);
/// Time after the death of the ranks in which `armature run` may still record how the job ended.
const GRACE: Duration = Duration::from_secs(3);
/// Time without new events after which the job counts as dead, if it is also longer than the fraction [`SILENT_PART`] of the run.
const SILENT: Duration = Duration::from_secs(60);
/// Fraction of the run's duration without new events after which the job counts as dead. Ranks write events once a second, and in a long run once in
/// a five-hundredth of its duration.
const SILENT_PART: f64 = 0.02;
/// Assumed columns and lines of a terminal that does not report its size.
const SCREEN: (usize, usize) = (120, 40);
/// Maximum number of lines of a picture that scrolls, instead of filling a terminal.
const LINES: usize = 80;

/// Show a run while it is in progress: the activity and rate of each rank, decisions, the ranks that others wait for, and the predicted end.
///
/// RUN is the directory of the event log, as with `armature report`; another host may write it. Only its files are read. On a terminal, the picture
/// has the size of the terminal and is updated every second until the job has ended or Ctrl-C; otherwise a line is printed every second.
///
/// Exit code: 0 if the job has finished; that of the job if it has failed, or 1 if it was killed; 2 if there is no run in RUN; 130 after Ctrl-C. With
/// --once, 0 or 2.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Directory of the event log or of the run, `last`, name of a run, or number of a batch job; RUN@K is attempt K
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Print one picture of the current state, and exit
    #[arg(long)]
    once: bool,
}

/// State of the job that `armature top` shows.
pub(crate) struct Watched {
    directory: PathBuf,
    follower: Follower,
    live: Live,
    status: Option<JobStatus>,
    /// Error message of the last read of the job's status file, if that has failed.
    complaint: Option<String>,
    state: JobState,
    /// Time at which new events were last found.
    last_change: Instant,
    /// Time at which rank 0 and the `armature run` of the job were found dead.
    killed_at: Option<Instant>,
    /// True if the `armature run` of the job is alive, which will record the exit code or restart the job.
    is_attended: bool,
}

impl Watched {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Watched {
            follower: Follower::new(&directory),
            directory,
            live: Live::default(),
            status: None,
            complaint: None,
            state: JobState::Unknown,
            last_change: Instant::now(),
            killed_at: None,
            is_attended: false,
        }
    }

    /// A damaged status file of the job counts as missing.
    fn read_status(&mut self) -> Option<JobStatus> {
        let status = status_in(&self.directory);
        self.complaint = status.as_ref().err().map(ToString::to_string);
        status.ok().flatten()
    }

    /// Reads the job status and the new records of the event log. Returns true if there is any
    /// record or the status has changed.
    pub(crate) fn poll(&mut self) -> Result<bool, LaunchError> {
        // The job status is read before the events, so that all events before a final status are shown.
        let mut status = self.read_status();
        let starter = status.as_ref().filter(|status| status.starter != 0);
        let is_there = starter.map(|status| alive_here(status, status.starter) == Some(true));
        self.is_attended = is_there.unwrap_or(false);
        if is_there == Some(false) {
            // The status file is read again, because `armature run` may have written a final status before it ended.
            status = self.read_status();
        }
        let new_records = self.follower.poll().map_err(LaunchError::Events)?;
        let is_new = new_records.is_restarted || !new_records.records.is_empty() || status != self.status;
        if new_records.is_restarted {
            self.live = Live::default();
        }
        self.live.take(&new_records.records);
        self.status = status;
        if is_new {
            self.last_change = Instant::now();
        }
        self.state = JobState::of(self.status.as_ref(), alive_here);
        let is_killed = self.state == JobState::Killed;
        self.killed_at = if is_killed { self.killed_at.or_else(|| Some(Instant::now())) } else { None };
        Ok(is_new)
    }

    /// Returns a message and the exit code of the job, if the job has ended.
    pub(crate) fn ended(&self) -> Option<(String, u8)> {
        if self.is_attended {
            return None;
        }
        if let Some(killed_at) = self.killed_at {
            let is_sure = killed_at.elapsed() >= GRACE;
            return self.state.code().filter(|_| is_sure).map(|code| (self.state.to_string(), code));
        }
        if let Some(code) = self.state.code() {
            return Some((self.state.to_string(), code));
        }
        if self.status.is_none() && self.live.is_between_runs() && self.live.seconds() > 0.0 {
            return Some(("its last run has ended, and the log has no later events".to_string(), 0));
        }
        let silence = self.last_change.elapsed();
        let is_dead = silence >= SILENT.max(Duration::from_secs_f64(SILENT_PART * self.live.seconds()));
        // Missing events mean the end of the job only during a parallel operation (such as a farm or a loop). Between two operations, a program may
        // compute for a long time without events.
        (is_dead && !self.live.is_between_runs()).then(|| {
            let silence = silence.as_secs();
            (format!("killed, or its host is gone: no rank has written anything for {silence} s"), 1)
        })
    }

    /// Returns the display for a number of columns and lines.
    fn picture(&self, (width, height): (usize, usize)) -> String {
        let mut state = vec![self.state.to_string()];
        if let Some(status) = &self.status {
            if status.restarts > 0 {
                state.push(format!("restarted {}", count(status.restarts.into(), "time")));
            }
            if !status.lost.is_empty() {
                let lost: Vec<String> = status.lost.iter().map(usize::to_string).collect();
                state.push(format!("without rank {}", lost.join(", ")));
            }
        }
        state.extend(self.complaint.clone());
        let job = self.directory.display().to_string();
        let quiet_s = self.state.code().is_none().then(|| self.last_change.elapsed().as_secs_f64());
        self.live.picture(&View { job: &job, state, quiet_s, width, height })
    }
}

pub(crate) fn top(args: &Top) -> Result<u8, LaunchError> {
    let mut watched = Watched::new(events(&args.run)?);
    if !watched.directory.is_dir() {
        return Err(no_run(&watched.directory));
    }
    let is_new = watched.poll()?;
    if !is_new {
        return Err(no_run(&watched.directory));
    }
    if args.once {
        return print(&watched.picture(scrolling())).map(|_| 0);
    }
    let is_interrupted = interruption()?;
    let screen = std::io::stdout().is_terminal().then(Screen::open).transpose()?;
    let (code, last) = follow(&mut watched, screen.as_ref(), &is_interrupted)?;
    let is_screen = screen.is_some();
    drop(screen);
    if is_screen {
        print(&watched.picture(scrolling()))?;
    }
    print(&last)?;
    Ok(code)
}

/// Updates the display until the job has ended, a signal arrives or the reader of the output closes the pipe. Returns the exit code and a last line.
fn follow(
    watched: &mut Watched,
    screen: Option<&Screen>,
    is_interrupted: &AtomicBool,
) -> Result<(u8, String), LaunchError> {
    let (mut is_new, mut wait) = (true, EVERY);
    loop {
        let is_open = match screen {
            Some(screen) => screen.show(watched)?,
            None if is_new => print(&(watched.live.line() + "\n"))?,
            None => true,
        };
        if !is_open {
            return Ok((0, String::new()));
        }
        if let Some((how, code)) = watched.ended() {
            return Ok((code, format!("The job has ended: {}\n", armature_text::line(how))));
        }
        let next = Instant::now() + wait;
        while Instant::now() < next && screen.is_none_or(Screen::is_filled) {
            if is_interrupted.load(Ordering::Relaxed) {
                return Ok((128 + SIGINT as u8, String::new()));
            }
            std::thread::sleep(TICK);
        }
        // After a change of the terminal's size, the display is updated without waiting for new data.
        if Instant::now() >= next {
            let began = Instant::now();
            is_new = watched.poll()?;
            wait = EVERY.max(PART * began.elapsed());
        }
    }
}

/// Returns a flag that becomes true when SIGINT or SIGTERM arrives.
pub(crate) fn interruption() -> Result<Arc<AtomicBool>, LaunchError> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let registered = signal_hook::flag::register(signal, is_interrupted.clone());
        registered.map_err(LaunchError::io("listen for signals"))?;
    }
    Ok(is_interrupted)
}

fn no_run(directory: &Path) -> LaunchError {
    LaunchError::NoRun { directory: directory.into() }
}

fn print(text: &str) -> Result<bool, LaunchError> {
    let mut output = std::io::stdout();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        result => result.map(|()| true).map_err(LaunchError::io("write to standard output")),
    }
}

/// Returns the number of columns and lines of the terminal. `None` if the standard output is not a terminal or does not report a size.
fn terminal_size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    Some((size.ws_col.into(), size.ws_row.into())).filter(|size| size.0 > 0 && size.1 > 0)
}

/// Returns the size of a picture that is printed once: as wide as the terminal, and of any width in a pipe or file.
fn scrolling() -> (usize, usize) {
    (terminal_size().map_or(usize::MAX, |size| size.0), LINES)
}

/// Terminal in alternate-screen mode, with the size of the last picture. Dropping it restores the earlier content.
struct Screen(Cell<(usize, usize)>);

impl Screen {
    fn open() -> Result<Self, LaunchError> {
        print("\x1b[?1049h\x1b[?25l")?;
        Ok(Screen(Cell::new(SCREEN)))
    }

    fn show(&self, watched: &Watched) -> Result<bool, LaunchError> {
        let size = terminal_size().unwrap_or(SCREEN);
        self.0.set(size);
        print(&frame(&watched.picture(size), size))
    }

    /// Returns true if the terminal still has the size of the last picture.
    fn is_filled(&self) -> bool {
        self.0.get() == terminal_size().unwrap_or(SCREEN)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = print("\x1b[?25h\x1b[?1049l");
    }
}

/// Returns the text and escape sequences that overwrite the previous display. Lines are cut to the width, and remaining old text is erased.
fn frame(picture: &str, (wide, high): (usize, usize)) -> String {
    let mut frame = String::from("\x1b[H");
    let lines: Vec<&str> = picture.lines().take(high).collect();
    for (n, line) in lines.iter().enumerate() {
        if n > 0 {
            frame.push_str("\r\n");
        }
        // The old line is erased before the new text is printed. After a line of full width, the cursor is on the last character, which would be
        // erased.
        frame.push_str("\x1b[K");
        frame.extend(line.chars().take(wide));
    }
    if lines.len() < high {
        frame.push_str(if lines.is_empty() { "\x1b[J" } else { "\r\n\x1b[J" });
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_is_cropped_to_the_screen_and_clears_the_previous_one() {
        assert_eq!(frame("äbcd\ne\nf\n", (3, 2)), "\x1b[H\x1b[Käbc\r\n\x1b[Ke");
        assert_eq!(frame("äbcd\n", (3, 2)), "\x1b[H\x1b[Käbc\r\n\x1b[J");
        assert_eq!(frame("", (3, 2)), "\x1b[H\x1b[J");
    }
}
