//! Traversals of series-parallel graphs that can be composed: hills, valleys, and the segments between valleys.
//!
//! A traversal passes the vertices of a graph one by one, from the source to the sink. The edges that lead from a
//! passed vertex to one that is not passed form a cut, and the sum of their weights is the memory at this point. The
//! traversal is stored as its lowest cut and a side before and after that cut; each side leads away from the lowest
//! cut. A side is a set of segments. In each segment, memory climbs from the end of the previous segment over a
//! maximum (the hill) down to a minimum (the valley) that is not lower than its start. The segments of a side are
//! passed by decreasing difference of hill and valley: if two independent segments are in the opposite order,
//! exchanging them never raises the peak. Sides of parallel graphs are therefore merged as sets (Liu 1987; Kayaaslan
//! et al. 2018).

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    at: Option<usize>,
    reversed: bool,
}

/// Store of task sequences, each in the order in which a traversal starts the tasks. Sequences can be joined and
/// reversed in constant time.
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

/// Part of a traversal between two minima of the memory (valleys): the memory at the maximum between the minima (the hill) and at the second minimum,
/// relative to the memory at the first minimum, and the sequence of tasks that the traversal starts in this part (`events`).
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

/// One side of a traversal (the part before or after its lowest cut): its segments, sorted by the difference of hill
/// and valley (the drop). The segment with the largest drop is first in time. A number distinguishes segments with
/// equal drops, which always belong to parallel graphs.
#[derive(Default)]
struct Side {
    segments: BTreeMap<(i64, usize), Segment>,
    /// Memory at the end of this side (part of a traversal before or after its lowest cut), relative to its
    /// beginning.
    end: i64,
}

impl Side {
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

    /// Adds the segments of a parallel graph's traversal to this side (the part before or after the lowest cut).
    fn merge(&mut self, mut other: Side) {
        if self.segments.len() < other.segments.len() {
            std::mem::swap(self, &mut other);
        }
        self.end += other.end;
        self.segments.extend(other.segments);
    }

    fn whole(self, events: &mut Events) -> Segment {
        let nothing = Segment { hill: 0, valley: 0, events: Events::NONE };
        self.segments.into_values().rev().fold(nothing, |all, next| all.then(next, events))
    }

    /// Joins all segments of this side of the traversal into one that runs backwards, from the end of the side to its
    /// beginning.
    fn back(self, events: &mut Events) -> Segment {
        let Segment { hill, valley, events } = self.whole(events);
        Segment { hill: hill - valley, valley: -valley, events: events.reverse() }
    }
}

/// Traversal of the part of a graph between a source vertex and a sink vertex, without these two vertices.
pub(super) struct Cuts {
    /// Memory at the lowest cut of the traversal; of several equally low cuts, the first one.
    least: i64,
    /// Segments of the traversal from the lowest cut back to the source of the graph.
    before: Side,
    /// Segments of the traversal from the lowest cut to the sink of the graph.
    after: Side,
}

#[derive(Default)]
pub(super) struct Composer {
    events: Events,
    segments: usize,
}

impl Composer {
    pub(super) fn edge(weight: i64) -> Cuts {
        Cuts { least: weight, before: Side::default(), after: Side::default() }
    }

    /// Composes the traversals of two graphs in series: the sink of the first graph is the source of the second. If
    /// `task` is given, passing this common vertex starts the task.
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

    pub(super) fn parallel(first: Cuts, second: Cuts) -> Cuts {
        let Cuts { least, mut before, mut after } = first;
        before.merge(second.before);
        after.merge(second.after);
        Cuts { least: least + second.least, before, after }
    }

    pub(super) fn tasks(mut self, cuts: Cuts) -> Vec<usize> {
        let back = cuts.before.back(&mut self.events).events;
        let on = cuts.after.whole(&mut self.events).events;
        let all = self.events.join(back, on);
        self.events.list(all)
    }
}
