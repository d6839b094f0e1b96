//! What a rank does, for the log of events. Nothing is kept unless there is a log.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::observe::{Event, Held, TaskBegan, TaskWait, WaitedFor, shortest_part};

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
    /// Tasks that were handed over and have not begun, and when they were.
    handed_over: HashMap<usize, (Duration, TaskBegan)>,
    /// Closures that were handed over, in order: the first one is running.
    closures: VecDeque<usize>,
    /// When processes of commands ended whose end is not in the log.
    stopped: HashMap<usize, Duration>,
    /// When there was first something to be told.
    begin: Option<Duration>,
    /// What was last told of what the rank holds, and when.
    told: Option<(Duration, u64)>,
    /// The most that it has held since.
    most: u64,
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

    /// What the rank holds now, in bytes, and what it may.
    pub(super) fn holds(&mut self, bytes: u64, budget: u64) {
        let Some(now) = self.now else { return };
        self.most = self.most.max(bytes);
        let begin = *self.begin.get_or_insert(now);
        let shortest = shortest_part(now.saturating_sub(begin));
        let is_news = self.told.is_none_or(|(last, told)| {
            (self.most != told || bytes != told) && now.saturating_sub(last) >= shortest
        });
        if is_news {
            self.told = Some((now, bytes));
            let most = std::mem::take(&mut self.most);
            let budget = (budget < u64::MAX).then_some(budget);
            self.events.push((now, Event::Held(Held { bytes, most, budget })));
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

    /// The task, which reads what `parents` give, was handed to user code or to what starts commands. It begins when those before it
    /// have ended. `name` returns tasks' names.
    pub(super) fn handed_over(
        &mut self,
        task: usize,
        attempt: u32,
        is_command: bool,
        parents: impl Iterator<Item = usize>,
        name: impl Fn(usize) -> String,
    ) {
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
        let reads = parents.map(&name).collect();
        self.handed_over.insert(task, (now, TaskBegan { task: name(task), attempt, waits, reads }));
        if !is_command {
            self.closures.push_back(task);
            if self.closures.len() == 1 {
                self.begins(task);
            }
        }
    }

    /// A task begins that was handed over.
    pub(super) fn begins(&mut self, task: usize) {
        let Some((now, (since, mut began))) = self.now.zip(self.handed_over.remove(&task)) else { return };
        let waited = now.saturating_sub(since);
        if !waited.is_zero() {
            let seconds = waited.as_secs_f64();
            match began.waits.iter_mut().find(|wait| wait.waited_for == WaitedFor::Core) {
                Some(wait) => wait.seconds += seconds,
                None => began.waits.push(TaskWait { waited_for: WaitedFor::Core, of: None, seconds }),
            }
        }
        self.events.push((now, Event::TaskBegan(began)));
    }

    /// The process of a command has ended.
    pub(super) fn stops(&mut self, task: usize) {
        if let Some(now) = self.now {
            self.stopped.insert(task, now);
        }
    }

    /// A task has ended, as `event` says. The next closure begins.
    pub(super) fn ended(&mut self, task: usize, event: impl FnOnce() -> Event) {
        let Some(now) = self.now else { return };
        self.begins(task);
        self.events.push((self.stopped.remove(&task).unwrap_or(now), event()));
        if let Some(place) = self.closures.iter().position(|&closure| closure == task) {
            self.closures.remove(place);
            if let Some(&next) = self.closures.front() {
                self.begins(next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is handed over ahead begins when the task before it has ended.
    #[test]
    fn tasks_of_one_slot_do_not_overlap() {
        let (mut trace, mut told) = (Trace::default(), Vec::new());
        let name = |task: usize| format!("t{task}");
        let mut at = |ms: u64, trace: &mut Trace, what: &mut dyn FnMut(&mut Trace)| {
            trace.set_time(Duration::from_millis(ms));
            what(trace);
            told.extend(trace.take().into_iter().map(|(at, event)| {
                let waited = match &event {
                    Event::TaskBegan(began) => began.waits.iter().map(|wait| 1e3 * wait.seconds).sum(),
                    _ => 0.0,
                };
                (at.as_millis() as u64, event.task().unwrap_or("end").to_string(), waited.round() as u64)
            }));
        };
        let end = |epoch| Event::Ready { epoch };
        at(0, &mut trace, &mut |trace| (0..4).for_each(|task| trace.ordered(task)));
        for (ms, task, is_command) in [(1, 0, false), (2, 1, false), (3, 2, true), (4, 3, true)] {
            at(ms, &mut trace, &mut |trace| {
                trace.handed_over(task, 0, is_command, std::iter::empty(), name);
            });
        }
        at(5, &mut trace, &mut |trace| trace.begins(2));
        at(10, &mut trace, &mut |trace| trace.ended(0, || end(1)));
        at(11, &mut trace, &mut |trace| {
            trace.stops(2);
            trace.begins(3);
        });
        // The outputs of the command have come to rank 0 later on; task 1 ends without another one behind it.
        at(20, &mut trace, &mut |trace| trace.ended(2, || end(2)));
        at(21, &mut trace, &mut |trace| trace.ended(1, || end(3)));
        let expected = [
            (1, "t0", 1),
            (5, "t2", 5),
            (10, "end", 0),
            (10, "t1", 10),
            (11, "t3", 11),
            (11, "end", 0),
            (21, "end", 0),
        ];
        let expected: Vec<_> = expected.map(|(at, name, waited)| (at, name.to_string(), waited)).into();
        assert_eq!(told, expected);
    }

    #[test]
    fn what_is_held_is_told_when_it_changes_and_not_too_often() {
        let mut trace = Trace::default();
        trace.holds(5, 10);
        assert!(trace.take().is_empty(), "there is no log");
        let mut told = Vec::new();
        // At 0 s, then 1 ms apart: what comes and goes between two lines is their peak.
        for (ms, bytes) in [(0, 0), (1, 7), (2, 3), (12, 3), (13, 3), (30, 3), (31, 9), (32, 3)] {
            trace.set_time(Duration::from_millis(ms));
            trace.holds(bytes, 10);
            told.extend(trace.take());
        }
        let held = |bytes, most| Event::Held(Held { bytes, most, budget: Some(10) });
        let at = Duration::from_millis;
        assert_eq!(told, [(at(0), held(0, 0)), (at(12), held(3, 7)), (at(31), held(9, 9))]);
    }
}
