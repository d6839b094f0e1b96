//! What a rank does, for the log of events. Nothing is kept unless there is a log.

use std::collections::HashMap;
use std::time::Duration;

use crate::observe::{Event, TaskBegan, TaskWait, WaitedFor};

/// When an order came to where it can begin.
#[derive(Clone, Copy, Debug)]
struct Stations {
    ordered: Duration,
    /// When the last of its inputs was made, and of which task that is.
    made: (Duration, Option<usize>),
    /// When all of them were in memory.
    gathered: Duration,
    /// When it was seen first, after that, that memory does not suffice.
    short: Option<Duration>,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// The time, if there is a log.
    now: Option<Duration>,
    stations: HashMap<usize, Stations>,
    events: Vec<(Duration, Event)>,
}

impl Trace {
    /// It is `now`, and there is a log.
    pub(super) fn set_time(&mut self, now: Duration) {
        self.now = Some(now);
    }

    /// Keeps an event, if there is a log.
    pub(super) fn note(&mut self, event: impl FnOnce() -> Event) {
        if let Some(now) = self.now {
            self.events.push((now, event()));
        }
    }

    /// What has been kept.
    pub(super) fn take(&mut self) -> Vec<(Duration, Event)> {
        std::mem::take(&mut self.events)
    }

    /// A rank was told to run a task.
    pub(super) fn ordered(&mut self, task: usize) {
        if let Some(now) = self.now {
            let stations = Stations { ordered: now, made: (now, None), gathered: now, short: None };
            self.stations.insert(task, stations);
        }
    }

    /// The last of what the task reads was made.
    pub(super) fn made(&mut self, task: usize, last: usize) {
        if let Some((now, stations)) = self.now.zip(self.stations.get_mut(&task)) {
            (stations.made, stations.gathered) = ((now, Some(last)), now);
        }
    }

    /// All that the task reads is in memory.
    pub(super) fn gathered(&mut self, task: usize) {
        if let Some((now, stations)) = self.now.zip(self.stations.get_mut(&task)) {
            (stations.gathered, stations.short) = (now, None);
        }
    }

    /// The task could begin, but memory does not suffice.
    pub(super) fn short(&mut self, task: usize) {
        if let Some((now, stations)) = self.now.zip(self.stations.get_mut(&task)) {
            stations.short.get_or_insert(now);
        }
    }

    /// The task begins; `name` tells tasks' names.
    pub(super) fn began(&mut self, task: usize, attempt: u32, name: impl Fn(usize) -> String) {
        let Some((now, stations)) = self.now.zip(self.stations.remove(&task)) else { return };
        let Stations { ordered, made: (made, last), gathered, short } = stations;
        let until = short.unwrap_or(now);
        let parts = [
            (WaitedFor::Input, last, made.saturating_sub(ordered)),
            (WaitedFor::Transfer, None, gathered.saturating_sub(made)),
            (WaitedFor::Core, None, until.saturating_sub(gathered)),
            (WaitedFor::Memory, None, now.saturating_sub(until)),
        ];
        let wait = |(waited_for, of, time): (WaitedFor, Option<usize>, Duration)| TaskWait {
            waited_for,
            of: of.map(&name),
            seconds: time.as_secs_f64(),
        };
        let waits = parts.into_iter().filter(|(_, _, time)| !time.is_zero()).map(wait).collect();
        self.events.push((now, Event::TaskBegan(TaskBegan { task: name(task), attempt, waits })));
    }
}
