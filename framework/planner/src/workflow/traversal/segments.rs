//! Traversals of series-parallel graphs that can be put together: hills, valleys, and what lies between them.
//!
//! A traversal passes from the cut at the graph's source to the cut at its sink. It is kept as its lowest cut and what
//! happens on both sides of it, each side going away from there. A side is a set of segments. Each climbs from where the last
//! one ended over a hill down to a valley that is not lower. The segments of a side are passed by decreasing
//! difference of hill and valley: if two independent segments are the other way round, exchanging them never raises the peak.
//! So sides of graphs that are in parallel are put together as sets (Liu 1987; Kayaaslan et al. 2018).

use std::collections::BTreeMap;

/// A part of an order, in [`Events`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    at: Option<usize>,
    reversed: bool,
}

/// Tasks that start, in sequences that are joined and reversed in constant time.
#[derive(Default)]
pub(super) struct Events(Vec<Event>);

enum Event {
    Task(usize),
    Join(Sequence, Sequence),
}

impl Events {
    const NONE: Sequence = Sequence { at: None, reversed: false };

    fn add(&mut self, event: Event) -> Sequence {
        self.0.push(event);
        Sequence { at: Some(self.0.len() - 1), reversed: false }
    }

    fn task(&mut self, task: Option<usize>) -> Sequence {
        task.map_or(Self::NONE, |task| self.add(Event::Task(task)))
    }

    fn join(&mut self, first: Sequence, second: Sequence) -> Sequence {
        match (first.at, second.at) {
            (None, _) => second,
            (_, None) => first,
            _ => self.add(Event::Join(first, second)),
        }
    }

    /// The tasks of a sequence.
    fn list(&self, sequence: Sequence) -> Vec<usize> {
        let mut tasks = Vec::new();
        let mut open = vec![sequence];
        while let Some(Sequence { at, reversed }) = open.pop() {
            match at.map(|at| &self.0[at]) {
                None => {}
                Some(Event::Task(task)) => tasks.push(*task),
                Some(&Event::Join(first, second)) if reversed => {
                    open.extend([first.reverse(), second.reverse()]);
                }
                Some(&Event::Join(first, second)) => open.extend([second, first]),
            }
        }
        tasks
    }
}

impl Sequence {
    fn reverse(self) -> Self {
        Sequence { reversed: !self.reversed, ..self }
    }
}

/// What happens from one valley to the next, in memory relative to the first.
#[derive(Clone, Copy)]
struct Segment {
    hill: i64,
    valley: i64,
    events: Sequence,
}

impl Segment {
    fn drop(&self) -> i64 {
        self.hill - self.valley
    }

    fn then(self, next: Segment, events: &mut Events) -> Segment {
        Segment {
            hill: self.hill.max(self.valley + next.hill),
            valley: self.valley + next.valley,
            events: events.join(self.events, next.events),
        }
    }
}

/// Segments by how far they drop, the greatest first in time. Numbers tell those apart that drop alike: these are
/// always of graphs in parallel.
#[derive(Default)]
struct Side {
    segments: BTreeMap<(i64, usize), Segment>,
    /// Where it ends, relative to where it begins.
    end: i64,
}

impl Side {
    /// Adds what happens at its end.
    fn append(&mut self, mut segment: Segment, events: &mut Events, number: &mut usize) {
        self.end += segment.valley;
        while let Some(last) = self.segments.first_entry() {
            if segment.valley >= 0 && last.key().0 > segment.drop() {
                break;
            }
            segment = last.remove().then(segment, events);
        }
        *number += 1;
        self.segments.insert((segment.drop(), *number), segment);
    }

    /// Adds all of another side at its end.
    fn append_all(&mut self, mut next: Side, events: &mut Events, number: &mut usize) {
        while let Some(first) = next.segments.last_entry() {
            let segment = first.get();
            if self.segments.first_key_value().is_none_or(|(last, _)| last.0 > segment.drop()) {
                break;
            }
            let segment = first.remove();
            next.end -= segment.valley;
            self.append(segment, events, number);
        }
        self.merge(next);
    }

    /// Adds what happens independently.
    fn merge(&mut self, mut other: Side) {
        if self.segments.len() < other.segments.len() {
            std::mem::swap(self, &mut other);
        }
        self.end += other.end;
        self.segments.extend(other.segments);
    }

    /// All in one, from its beginning to its end.
    fn whole(self, events: &mut Events) -> Segment {
        let nothing = Segment { hill: 0, valley: 0, events: Events::NONE };
        self.segments.into_values().rev().fold(nothing, |all, next| all.then(next, events))
    }

    /// All in one, from its end to its beginning.
    fn back(self, events: &mut Events) -> Segment {
        let Segment { hill, valley, events } = self.whole(events);
        Segment { hill: hill - valley, valley: -valley, events: events.reverse() }
    }
}

/// A traversal of a graph with one source and one sink, neither of which is passed yet.
pub(super) struct Cuts {
    /// The lowest cut, the first of them.
    least: i64,
    /// From it back to the source.
    before: Side,
    /// From it on to the sink.
    after: Side,
}

/// What puts traversals together.
#[derive(Default)]
pub(super) struct Composer {
    events: Events,
    segments: usize,
}

impl Composer {
    /// A single edge.
    pub(super) fn edge(weight: i64) -> Cuts {
        Cuts { least: weight, before: Side::default(), after: Side::default() }
    }

    /// One graph, then another, which has its source where the first has its sink; passing there may start a task.
    pub(super) fn series(&mut self, first: Cuts, task: Option<usize>, second: Cuts) -> Cuts {
        let Composer { events, segments } = self;
        let passed = events.task(task);
        let (end, start) = (first.least + first.after.end, second.least + second.before.end);
        let step = |from: i64, to: i64| Segment { hill: to - from, valley: to - from, events: passed };
        if second.least < first.least {
            let mut before = second.before;
            let back = step(start, end).then(first.after.back(events), events);
            before.append(back, events, segments);
            before.append_all(first.before, events, segments);
            Cuts { least: second.least, before, after: second.after }
        } else {
            let mut after = first.after;
            let on = step(end, start).then(second.before.back(events), events);
            after.append(on, events, segments);
            after.append_all(second.after, events, segments);
            Cuts { least: first.least, before: first.before, after }
        }
    }

    /// Two graphs with the same source and sink.
    pub(super) fn parallel(first: Cuts, second: Cuts) -> Cuts {
        let Cuts { least, mut before, mut after } = first;
        before.merge(second.before);
        after.merge(second.after);
        Cuts { least: least + second.least, before, after }
    }

    /// The tasks in the order in which the traversal starts them.
    pub(super) fn tasks(mut self, cuts: Cuts) -> Vec<usize> {
        let back = cuts.before.back(&mut self.events).events;
        let on = cuts.after.whole(&mut self.events).events;
        let all = self.events.join(back, on);
        self.events.list(all)
    }
}
