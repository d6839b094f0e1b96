//! Display of a run's progress by rank 0: a bar on a terminal, otherwise an occasional line in the log.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::progress::{PARTS, Progress, ProgressRate};
use crate::comm::waiting::FIRST_REMINDER;
use crate::session::Progress as Choice;

/// Time between two updates of the progress bar on a terminal. A person does not see more frequent updates.
const REDRAW: Duration = Duration::from_millis(100);
/// Time between two log lines about the progress: half of the time after which a rank's wait for another rank is logged.
const LINE: Duration = FIRST_REMINDER.checked_div(2).expect("2 is not 0");

/// Minimum number of columns of a terminal for a progress bar, and assumed number of columns of a terminal that does not report it.
const WIDE: usize = 80;
const BAR: usize = 24;

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0).unwrap_or(WIDE)
}

#[derive(Debug)]
pub(crate) struct Display {
    choice: Choice,
    begin: Duration,
    /// Time at which progress was last shown, possibly in an earlier parallel operation of the session.
    last: Option<Duration>,
    next: Duration,
    rate: ProgressRate,
    form: Option<Form>,
}

#[derive(Debug)]
enum Form {
    Lines,
    Bar {
        line: ProgressBar,
        /// True if the line on the terminal contains a bar; `None` before progress is first shown.
        has_bar: Option<bool>,
    },
}

impl Form {
    fn of(choice: Choice) -> Self {
        match choice == Choice::Auto && std::io::stderr().is_terminal() {
            true => Form::Bar { line: ProgressBar::new_spinner(), has_bar: None },
            false => Form::Lines,
        }
    }

    fn every(&self) -> Duration {
        match self {
            Form::Lines => LINE,
            Form::Bar { .. } => REDRAW,
        }
    }

    fn show(&mut self, progress: &Progress, elapsed: Duration, rate: Option<f64>) {
        let Form::Bar { line, has_bar } = self else {
            log::info!("{}", progress.text(elapsed, rate));
            return;
        };
        // The progress line is truncated at the width of the terminal. The terminal would wrap a longer line, and parts of it would remain when its
        // window becomes narrower.
        let columns = columns();
        let is_bar = progress.total().is_some() && columns >= WIDE;
        let (begin, taken) =
            if is_bar { (format!("{{bar:{BAR}}}"), BAR) } else { ("{spinner}".to_string(), 1) };
        if *has_bar != Some(is_bar)
            && let Ok(style) = ProgressStyle::with_template(&format!("{begin} {{msg}}"))
        {
            line.set_style(style);
            *has_bar = Some(is_bar);
        }
        // The text about the progress gets the columns after the bar and a blank, except the last column of the terminal, because some terminals wrap
        // a line that fills all columns.
        let letters = columns.saturating_sub(taken + 2);
        let text = progress.text_within(letters, elapsed, rate);
        // The bar advances in fractions of an item or sweep, because a single sweep may be long.
        line.set_length(PARTS as u64);
        line.set_position((progress.share().unwrap_or_default() * PARTS) as u64);
        line.set_message(text);
    }
}

impl Display {
    /// Creates the display of a run that begins now. `unreported_progress` is the total duration of the session's runs (parallel operations) since
    /// progress was last shown.
    pub(crate) fn new(choice: Choice, now: Duration, unreported_progress: Duration) -> Self {
        let (last, next) = match choice {
            Choice::Off => (Some(now), Duration::MAX),
            Choice::On => (None, now),
            Choice::Auto => (Some(now.saturating_sub(unreported_progress)), now + REDRAW),
        };
        Display { choice, begin: now, last, next, rate: ProgressRate::new(LINE, now), form: None }
    }

    #[inline]
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        now >= self.next
    }

    pub(crate) fn show(&mut self, now: Duration, progress: impl FnOnce() -> Option<Progress>) {
        let choice = self.choice;
        let form = self.form.get_or_insert_with(|| Form::of(choice));
        let due = self.last.map_or(now, |last| last + form.every());
        if now < due {
            self.next = due;
            return;
        }
        let Some(progress) = progress() else {
            self.next = now + REDRAW;
            return;
        };
        (self.last, self.next) = (Some(now), now + form.every());
        let rate = self.rate.see(now, progress.done_now());
        form.show(&progress, now.saturating_sub(self.begin), rate);
    }

    /// Returns the total duration of the session's runs since progress was last shown.
    pub(crate) fn unreported_progress(&self, now: Duration) -> Duration {
        now.saturating_sub(self.last.unwrap_or(self.begin))
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Some(Form::Bar { line, .. }) = &self.form {
            line.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns the times, in milliseconds after the start of a run, at which its progress is shown in the first twelve seconds. When the run starts,
    /// progress was last shown `unreported_progress` ago.
    fn shown(choice: Choice, unreported_progress: Duration, form: Form) -> Vec<u32> {
        let mut display = Display::new(choice, 1000 * MS, unreported_progress);
        display.form = Some(form);
        let mut shown = Vec::new();
        for ms in (0..12_000).step_by(50) {
            let now = (1000 + ms) * MS;
            if display.is_due(now) {
                display.show(now, || {
                    shown.push(ms);
                    let (of, rest) = ("loop \"rows\"".to_string(), String::new());
                    Some(Progress {
                        of,
                        done: ms.into(),
                        before: 0,
                        part: 0.0,
                        total: None,
                        what: "rows",
                        rest,
                    })
                });
            }
        }
        shown
    }

    #[test]
    fn lines_are_printed_every_five_seconds_and_bars_continuously() {
        assert_eq!(shown(Choice::Auto, Duration::ZERO, Form::Lines), [5000, 10_000]);
        assert_eq!(shown(Choice::On, Duration::ZERO, Form::Lines), [0, 5000, 10_000]);
        let bar = || Form::Bar { line: ProgressBar::hidden(), has_bar: None };
        assert_eq!(shown(Choice::Auto, Duration::ZERO, bar())[..3], [100, 200, 300]);
        assert!(shown(Choice::Off, Duration::ZERO, bar()).is_empty());
    }

    #[test]
    fn consecutive_short_runs_share_the_display_interval() {
        assert_eq!(shown(Choice::Auto, 800 * MS, Form::Lines), [4200, 9200]);
        let mut unreported_progress = Duration::ZERO;
        let shown_runs = (0..100).filter(|run| {
            let now = run * 300 * MS;
            let mut display = Display::new(Choice::Auto, now, unreported_progress);
            display.form = Some(Form::Lines);
            let mut was_shown = false;
            let due = now + 200 * MS;
            if display.is_due(due) {
                display.show(due, || {
                    was_shown = true;
                    let of = "loop \"rows\"".to_string();
                    Some(Progress {
                        of,
                        done: 1,
                        before: 0,
                        part: 0.0,
                        total: Some(2),
                        what: "rows",
                        rest: String::new(),
                    })
                });
            }
            unreported_progress = display.unreported_progress(now + 300 * MS);
            was_shown
        });
        assert_eq!(shown_runs.count(), 30_000 / 5000 - 1);
    }
}
