//! What a person sees while a skeleton runs: a line on a terminal, a log line now and then elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::words::{per_second, short};
use crate::session::Progress;

/// Between two updates of a terminal, and between two lines elsewhere.
const REDRAW: Duration = Duration::from_millis(100);
const LINE: Duration = Duration::from_secs(5);

/// Rank 0's progress display.
#[derive(Debug)]
pub(crate) struct Display {
    bar: Option<ProgressBar>,
    lines: bool,
    next: Duration,
    last: (Duration, u64),
}

impl Display {
    pub(crate) fn new(progress: Progress, now: Duration) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (progress == Progress::Auto && terminal).then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        let lines = progress == Progress::On || (progress == Progress::Auto && !terminal);
        let wait = if progress == Progress::On { Duration::ZERO } else { LINE };
        let next = now + if bar.is_some() { REDRAW } else { wait };
        Display { bar, lines, next, last: (now, 0) }
    }

    /// Whether it is time to [`show`](Display::show) something.
    #[inline]
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        now >= self.next && (self.lines || self.bar.is_some())
    }

    /// Shows that `done` of `what` (`items`, say) are done, how many a second, and `rest`.
    pub(crate) fn show(&mut self, now: Duration, (done, what): (u64, &str), rest: &str) {
        let (then, before) = std::mem::replace(&mut self.last, (now, done));
        let rate = short(per_second((done - before.min(done)) as f64, now.saturating_sub(then)));
        let text = format!("{:.1} s  {done} {what}  {rate} {what}/s  {rest}", now.as_secs_f64());
        match &self.bar {
            Some(bar) => {
                bar.set_message(text);
                self.next = now + REDRAW;
            }
            None => {
                log::info!("{text}");
                self.next = now + LINE;
            }
        }
    }
}

impl Drop for Display {
    /// Takes the line off the terminal.
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
