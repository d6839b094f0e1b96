//! `armature top`: a run while it goes on, from what its ranks write.

use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use armature::job_status::JobStatus;
use armature::observe::Follower;
use armature::observe::words::count;
use armature_report::Live;
use clap::Args;
use rustix::termios::tcgetwinsize;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::LaunchError;
use crate::report::directory;
use crate::standing::{Standing, alive_here, beside};

/// Between two pictures.
const EVERY: Duration = Duration::from_secs(1);
/// Looking takes one part in this number of the time at most: a log of thousands of files is looked at more rarely.
const PART: u32 = 10;
/// Between two looks whether a signal has come.
const TICK: Duration = Duration::from_millis(50);
/// Who has started a job needs some seconds to say how it ended, once its ranks are gone.
const GRACE: Duration = Duration::from_secs(3);
/// When nothing has been written for this time, nobody is there who would. Ranks write once a second, and later in a long run once in
/// a five-hundredth of it.
const SILENT: Duration = Duration::from_secs(60);
const SILENT_PART: f64 = 0.02;
/// The size of a screen that does not tell its own.
const SCREEN: (usize, usize) = (120, 40);
/// Lines of a picture that is not on a screen.
const LINES: usize = 80;

/// Show a run while it goes on: what each rank does, how fast, what was decided, who is waited for, and when it will end.
///
/// RUN is as with `armature report`: the directory of the event log, also where another host writes it. Nothing but its files is looked
/// at. On a terminal the picture is renewed each second until the job has ended, or Ctrl-C; otherwise a line is printed each second.
///
/// Exit code: 0 when the job has finished; its own when it has failed, or 1 when it was killed; 2 if there is no run in RUN; 130 after
/// Ctrl-C. With --once 0 or 2.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// The directory of the event log
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Print one picture of how the run stands now, and end
    #[arg(long)]
    once: bool,
}

/// A job that is being watched.
struct Watched {
    directory: PathBuf,
    follower: Follower,
    live: Live,
    status: Option<JobStatus>,
    /// Why the job status cannot be read, if it cannot.
    complaint: Option<String>,
    standing: Standing,
    /// When something was written last, as far as we have seen it.
    heard: Instant,
    /// Since when there has been nobody.
    gone: Option<Instant>,
    /// Whether there is somebody who will say with which code the job ends, or start it again.
    is_attended: bool,
}

impl Watched {
    fn new(directory: PathBuf) -> Self {
        Watched {
            follower: Follower::new(&directory),
            directory,
            live: Live::default(),
            status: None,
            complaint: None,
            standing: Standing::Unknown,
            heard: Instant::now(),
            gone: None,
            is_attended: false,
        }
    }

    /// Reads the job status. One that is damaged says nothing.
    fn status_beside(&mut self) -> Option<JobStatus> {
        let status = beside(&self.directory);
        self.complaint = status.as_ref().err().map(ToString::to_string);
        status.ok().flatten()
    }

    /// Reads what is new. Returns whether anything is.
    fn look(&mut self) -> Result<bool, LaunchError> {
        // First the status: what was written before the job ended is there then.
        let mut status = self.status_beside();
        let starter = status.as_ref().filter(|status| status.starter != 0);
        let is_there = starter.map(|status| alive_here(status, status.starter) == Some(true));
        self.is_attended = is_there.unwrap_or(false);
        if is_there == Some(false) {
            // These may be its last words.
            status = self.status_beside();
        }
        let news = self.follower.look().map_err(LaunchError::Events)?;
        let is_new = news.anew || !news.records.is_empty() || status != self.status;
        if news.anew {
            self.live = Live::default();
        }
        self.live.take(&news.records);
        self.status = status;
        if is_new {
            self.heard = Instant::now();
        }
        self.standing = Standing::of(self.status.as_ref(), alive_here);
        let is_gone = self.standing == Standing::Killed;
        self.gone = if is_gone { self.gone.or_else(|| Some(Instant::now())) } else { None };
        Ok(is_new)
    }

    /// How the job has ended, in words with its exit code, if it has.
    fn ended(&self) -> Option<(String, u8)> {
        if self.is_attended {
            return None;
        }
        if let Some(gone) = self.gone {
            let is_sure = gone.elapsed() >= GRACE;
            return self.standing.code().filter(|_| is_sure).map(|code| (self.standing.to_string(), code));
        }
        if let Some(code) = self.standing.code() {
            return Some((self.standing.to_string(), code));
        }
        if self.status.is_none() && self.live.is_between_runs() && self.live.seconds() > 0.0 {
            return Some(("its last run has ended, and it says no more".to_string(), 0));
        }
        let silence = self.heard.elapsed();
        let is_dead = silence >= SILENT.max(Duration::from_secs_f64(SILENT_PART * self.live.seconds()));
        // The program may be long at something else.
        (is_dead && !self.live.is_between_runs()).then(|| {
            let silence = silence.as_secs();
            (format!("killed, or its host is gone: no rank has written anything for {silence} s"), 1)
        })
    }

    fn picture(&self, height: usize) -> String {
        let mut text = armature_text::line(format_args!("{}: {}", self.directory.display(), self.standing));
        if let Some(status) = &self.status {
            if status.restarts > 0 {
                let _ = write!(text, ", started again {}", count(status.restarts.into(), "time"));
            }
            if !status.lost.is_empty() {
                let lost: Vec<String> = status.lost.iter().map(usize::to_string).collect();
                let _ = write!(text, ", without rank {}", lost.join(", "));
            }
        }
        if let Some(complaint) = &self.complaint {
            let _ = write!(text, " ({complaint})");
        }
        text + "\n" + &self.live.picture(height.saturating_sub(1))
    }
}

/// Shows the run. Returns the exit code.
pub(crate) fn top(asked: &Top) -> Result<u8, LaunchError> {
    let mut watched = Watched::new(directory(&asked.run));
    if !watched.directory.is_dir() {
        return Err(no_run(&watched.directory));
    }
    let is_new = watched.look()?;
    if !is_new {
        return Err(no_run(&watched.directory));
    }
    if asked.once {
        return print(&watched.picture(LINES)).map(|_| 0);
    }
    let is_told_to_end = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let registered = signal_hook::flag::register(signal, is_told_to_end.clone());
        registered.map_err(LaunchError::io("listen for signals"))?;
    }
    let screen = std::io::stdout().is_terminal().then(Screen::open).transpose()?;
    let (code, last) = follow(&mut watched, screen.as_ref(), &is_told_to_end)?;
    let is_screen = screen.is_some();
    drop(screen);
    if is_screen {
        print(&watched.picture(LINES))?;
    }
    print(&last)?;
    Ok(code)
}

/// Until the job has ended, or somebody has seen enough. Returns the exit code and a last line.
fn follow(
    watched: &mut Watched,
    screen: Option<&Screen>,
    is_told_to_end: &AtomicBool,
) -> Result<(u8, String), LaunchError> {
    let (mut is_new, mut wait) = (true, EVERY);
    loop {
        let goes_on = match screen {
            Some(screen) => screen.show(watched)?,
            None if is_new => print(&(watched.live.line() + "\n"))?,
            None => true,
        };
        if !goes_on {
            return Ok((0, String::new()));
        }
        if let Some((how, code)) = watched.ended() {
            return Ok((code, format!("The job has ended: {}\n", armature_text::line(how))));
        }
        let next = Instant::now() + wait;
        while Instant::now() < next {
            if is_told_to_end.load(Ordering::Relaxed) {
                return Ok((128 + SIGINT as u8, String::new()));
            }
            std::thread::sleep(TICK);
        }
        let began = Instant::now();
        is_new = watched.look()?;
        wait = EVERY.max(PART * began.elapsed());
    }
}

fn no_run(directory: &Path) -> LaunchError {
    LaunchError::NoRun { directory: directory.into() }
}

/// Prints a text. Returns whether somebody reads it.
fn print(text: &str) -> Result<bool, LaunchError> {
    let mut output = std::io::stdout();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        result => result.map(|()| true).map_err(LaunchError::io("write to standard output")),
    }
}

/// A terminal, which has what it showed before when this is dropped.
struct Screen;

impl Screen {
    fn open() -> Result<Self, LaunchError> {
        // The other screen, without a cursor.
        print("\x1b[?1049h\x1b[?25l")?;
        Ok(Screen)
    }

    fn show(&self, watched: &Watched) -> Result<bool, LaunchError> {
        let size = tcgetwinsize(std::io::stdout()).ok();
        let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        let (wide, high) = size.filter(|size| size.0 > 0 && size.1 > 0).unwrap_or(SCREEN);
        print(&frame(&watched.picture(high), wide, high))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = print("\x1b[?25h\x1b[?1049l");
    }
}

/// A picture over the one before: each line cut to fit, and what is behind it wiped.
fn frame(picture: &str, wide: usize, high: usize) -> String {
    let mut frame = String::from("\x1b[H");
    for (n, line) in picture.lines().take(high).enumerate() {
        if n > 0 {
            frame.push_str("\r\n");
        }
        frame.extend(line.chars().take(wide));
        frame.push_str("\x1b[K");
    }
    frame + "\x1b[J"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_cut_to_its_screen_and_wipes_the_one_before() {
        assert_eq!(frame("äbcd\ne\nf\n", 3, 2), "\x1b[Häbc\x1b[K\r\ne\x1b[K\x1b[J");
        assert_eq!(frame("", 3, 2), "\x1b[H\x1b[J");
    }
}
