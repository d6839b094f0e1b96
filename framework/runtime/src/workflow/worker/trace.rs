//! Record of a rank's work for the event log. Nothing is recorded without an event log.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::observe::{Event, Held, TaskBegan, TaskWait, WaitedFor, shortest_part};

/// Times of a task between its arrival on the rank and its beginning, from which the log shows what it has waited for.
#[derive(Clone, Copy, Debug)]
struct Stations {
    ordered: Duration,
    /// Time at which the last missing input of the task was computed, and the task that computed it.
    inputs_computed: (Duration, Option<usize>),
    /// Time at which all inputs of the task were in memory.
    gathered: Duration,
    /// Time at which the task was first found not to fit into memory, although its inputs were there.
    short: Option<Duration>,
}

#[derive(Debug, Default)]
pub(in crate::workflow) struct Trace {
    /// Time with which the next event is recorded; `None` without an event log.
    now: Option<Duration>,
    stations: HashMap<usize, Stations>,
    events: Vec<(Duration, Event)>,
    /// Tasks that were passed to user code or to the process that starts commands and that have not begun, each with the time at which it was passed.
    dispatched: HashMap<usize, (Duration, TaskBegan)>,
    /// Tasks whose closures were passed to the executor, in order. The first closure is running.
    closures: VecDeque<usize>,
    /// By task: end time of a command's process, until the end of the task is in the log.
    stopped: HashMap<usize, Duration>,
    /// Time of the first log event about the memory that tasks and their values occupy on the rank.
    begin: Option<Duration>,
    /// Time of the last log event about the memory that tasks and their values occupy, and the bytes in that event.
    last_report: Option<(Duration, u64)>,
    /// Peak, in bytes, of the memory that tasks and their values have occupied since the last log event about it.
    most: u64,
}

impl Trace {
    /// Sets the time for the next events to `now`. Recording begins with the first call.
    pub(in crate::workflow) fn set_time(&mut self, now: Duration) {
        self.now = Some(now);
    }

    pub(super) fn record(&mut self, event: impl FnOnce() -> Event) {
        if let Some(now) = self.now {
            self.events.push((now, event()));
        }
    }

    /// Records the bytes that values and tasks occupy on the rank. An event is written if the number has changed and the last event is old enough;
    /// `budget` is the memory limit that the event states.
    pub(super) fn holds(&mut self, bytes: u64, budget: u64) {
        let Some(now) = self.now else { return };
        self.most = self.most.max(bytes);
        let begin = *self.begin.get_or_insert(now);
        let shortest = shortest_part(now.saturating_sub(begin));
        let has_changed = self.last_report.is_none_or(|(last, last_report)| {
            (self.most != last_report || bytes != last_report) && now.saturating_sub(last) >= shortest
        });
        if has_changed {
            self.last_report = Some((now, bytes));
            let most = std::mem::take(&mut self.most);
            let budget = (budget < u64::MAX).then_some(budget);
            self.events.push((now, Event::Held(Held { bytes, most, budget })));
        }
    }

    pub(super) fn take(&mut self) -> Vec<(Duration, Event)> {
        std::mem::take(&mut self.events)
    }

    pub(super) fn ordered(&mut self, task: usize) {
        if let Some(now) = self.now {
            let stations =
                Stations { ordered: now, inputs_computed: (now, None), gathered: now, short: None };
            self.stations.insert(task, stations);
        }
    }

    /// Records that the last missing input of a task was computed: the value of the task `last`.
    pub(super) fn inputs_computed(&mut self, task: usize, last: usize) {
        if let Some((now, stations)) = self.now.zip(self.stations.get_mut(&task)) {
            (stations.inputs_computed, stations.gathered) = ((now, Some(last)), now);
        }
    }

    pub(super) fn gathered(&mut self, task: usize) {
        if let Some((now, stations)) = self.now.zip(self.stations.get_mut(&task)) {
            (stations.gathered, stations.short) = (now, None);
        }
    }

    pub(super) fn short(&mut self, task: usize) {
        if let Some((now, stations)) = self.now.zip(self.stations.get_mut(&task)) {
            stations.short.get_or_insert(now);
        }
    }

    /// Records that a task, which reads the values of `parents`, was passed to user code or to the process that starts commands. The task begins when
    /// the tasks that were passed before it have ended. `name` returns the name of a task.
    pub(super) fn dispatched(
        &mut self,
        task: usize,
        attempt: u32,
        is_command: bool,
        parents: impl Iterator<Item = usize>,
        name: impl Fn(usize) -> String,
    ) {
        let Some((now, stations)) = self.now.zip(self.stations.remove(&task)) else { return };
        let Stations { ordered, inputs_computed: (inputs_computed, last), gathered, short } = stations;
        let until = short.unwrap_or(now);
        let parts = [
            (WaitedFor::Input, last, inputs_computed.saturating_sub(ordered)),
            (WaitedFor::Transfer, None, gathered.saturating_sub(inputs_computed)),
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
        self.dispatched.insert(task, (now, TaskBegan { task: name(task), attempt, waits, reads }));
        if !is_command {
            self.closures.push_back(task);
            if self.closures.len() == 1 {
                self.begins(task);
            }
        }
    }

    pub(in crate::workflow) fn begins(&mut self, task: usize) {
        let Some((now, (since, mut began))) = self.now.zip(self.dispatched.remove(&task)) else { return };
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

    pub(in crate::workflow) fn stops(&mut self, task: usize) {
        if let Some(now) = self.now {
            self.stopped.insert(task, now);
        }
    }

    /// Records that a task has ended, with the event `event`. If the task is a closure, the next closure begins.
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

    /// Tests that a closure that waits for another closure begins, according to the log, when the other one has ended.
    #[test]
    fn tasks_in_one_slot_do_not_overlap() {
        let (mut trace, mut last_report) = (Trace::default(), Vec::new());
        let name = |task: usize| format!("t{task}");
        let mut at = |ms: u64, trace: &mut Trace, what: &mut dyn FnMut(&mut Trace)| {
            trace.set_time(Duration::from_millis(ms));
            what(trace);
            last_report.extend(trace.take().into_iter().map(|(at, event)| {
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
                trace.dispatched(task, 0, is_command, std::iter::empty(), name);
            });
        }
        at(5, &mut trace, &mut |trace| trace.begins(2));
        at(10, &mut trace, &mut |trace| trace.ended(0, || end(1)));
        at(11, &mut trace, &mut |trace| {
            trace.stops(2);
            trace.begins(3);
        });
        // The process of command 2 ends at 11 ms, but the command counts as ended at 20 ms, when rank 0 has its output files. Closure 1 ends at 21
        // ms.
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
        assert_eq!(last_report, expected);
    }

    #[test]
    fn held_memory_is_logged_on_change_at_a_limited_rate() {
        let mut trace = Trace::default();
        trace.holds(5, 10);
        assert!(trace.take().is_empty(), "there is no log");
        let mut last_report = Vec::new();
        // An event about the occupied memory of the rank is written only if the last such event is old enough. It contains the peak since
        // that event.
        for (ms, bytes) in [(0, 0), (1, 7), (2, 3), (12, 3), (13, 3), (30, 3), (31, 9), (32, 3)] {
            trace.set_time(Duration::from_millis(ms));
            trace.holds(bytes, 10);
            last_report.extend(trace.take());
        }
        let held = |bytes, most| Event::Held(Held { bytes, most, budget: Some(10) });
        let at = Duration::from_millis;
        assert_eq!(last_report, [(at(0), held(0, 0)), (at(12), held(3, 7)), (at(31), held(9, 9))]);
    }
}
