//! Values that are being sent. They stay in memory until the transport has sent them, even if they are dropped or spilled meanwhile,
//! because MPI reads a large message only when its receiver is ready.

use super::{Leaving, Value, Worker};
use crate::workflow::messages::Content;

impl Worker {
    pub(super) fn send(&mut self, to: usize, task: usize, value: Value) {
        self.totals.sent += value.bytes();
        if self.settings.budget < u64::MAX && !self.lost.contains(&to) {
            let (copy, bytes) = (self.values[task].copies, value.bytes());
            self.leaving.push(Leaving { task, to, copy, bytes, number: None });
            if !self.values[task].place.takes_room() {
                self.let_go(task);
                self.note_taken();
            }
        }
        self.out.push((to, Content::Value(task, value)));
    }

    /// Counts the memory of a value that this rank does not hold any more but is still sending.
    pub(super) fn let_go(&mut self, task: usize) {
        let held = &mut self.values[task];
        let is_it = |leaving: &&Leaving| leaving.task == task && leaving.copy == held.copies;
        if let Some(leaving) = self.leaving.iter().find(is_it) {
            self.leaving_bytes += leaving.bytes;
            held.copies += 1;
        }
    }

    /// Returns true if the copy of the value that this rank holds is being sent.
    pub(super) fn is_leaving(&self, task: usize) -> bool {
        self.leaving.iter().any(|leaving| leaving.task == task && leaving.copy == self.values[task].copies)
    }

    /// Records the number of the message that carries the value of a task to a rank.
    pub(in crate::workflow) fn has_sent(&mut self, to: usize, task: usize, number: u64) {
        let is_it = |leaving: &&mut Leaving| (leaving.to, leaving.task, leaving.number) == (to, task, None);
        if let Some(leaving) = self.leaving.iter_mut().find(is_it) {
            leaving.number = Some(number);
        }
    }

    /// Removes the messages that have been sent: those for whose numbers `has_left` returns true.
    pub(in crate::workflow) fn look_what_left(&mut self, mut has_left: impl FnMut(u64) -> bool) {
        self.forget_leaving(|leaving| leaving.number.is_some_and(&mut has_left));
    }

    /// Handles the death of a rank. Values that were being sent to it may stay in memory forever, and no task waits for that memory.
    pub(in crate::workflow) fn on_lost(&mut self, rank: usize) {
        self.lost.insert(rank);
        (0..self.values.len()).for_each(|task| self.expect_no_more(task, rank));
        self.forget_leaving(|leaving| leaving.to == rank);
    }

    fn forget_leaving(&mut self, mut is_gone: impl FnMut(&Leaving) -> bool) {
        let before = self.leaving.len();
        let mut at = 0;
        while let Some(leaving) = self.leaving.get(at).copied() {
            if !is_gone(&leaving) {
                at += 1;
                continue;
            }
            self.leaving.remove(at);
            let is_same = |other: &Leaving| (other.task, other.copy) == (leaving.task, leaving.copy);
            let is_held = leaving.copy == self.values[leaving.task].copies;
            if !is_held && !self.leaving.iter().any(is_same) {
                self.leaving_bytes -= leaving.bytes;
            }
        }
        if self.leaving.len() < before {
            self.fetch_ahead();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use armature_planner::workflow::TaskMemory;
    use armature_workflow_files::{Action, Description, Task};

    use super::*;
    use crate::observe::Event;
    use crate::workflow::graph::Graph;
    use crate::workflow::messages::{Order, Orders};
    use crate::workflow::worker::{Settings, Step};

    #[test]
    fn the_log_counts_what_was_dropped_until_it_has_left() {
        let mut builder = Description::builder("two");
        for name in ["made", "reads"] {
            builder.task(Task::new(name, Action::Closure("c".into())));
        }
        builder.edge("made", "reads", 90_000);
        let graph = Arc::new(Graph::new(&builder.build().unwrap(), 1, TaskMemory::Additive).unwrap());
        let settings = Settings { budget: 200_000, collects: false, journals: false };
        let mut worker = Worker::new(0, graph, settings);
        let mut seconds = 0;
        // Advances the clock by one second and returns the bytes that the worker logs.
        let mut held = |worker: &mut Worker| {
            seconds += 1;
            worker.set_time(Duration::from_secs(seconds));
            worker.take_events().into_iter().rev().find_map(|(_, event)| match event {
                Event::Held(held) => Some(held.bytes),
                _ => None,
            })
        };
        assert_eq!(held(&mut worker), Some(0));
        let (place, sources) = (None, Vec::new());
        let order = Order {
            task: 0,
            attempt: 0,
            exceeded: 0,
            place,
            is_announced: false,
            is_suspect: false,
            sources,
        };
        worker.on_orders(Orders { orders: vec![order], ..Orders::default() });
        worker.on_want(1, vec![(0, u64::MAX)]);
        assert!(matches!(worker.next(), Step::Run { task: 0, .. }));
        let value = Value::encode(vec![7_u8; 90_000], &crate::wire::Codec::of_type()).unwrap();
        let bytes = value.bytes();
        worker.on_done(0, value, 1_000, None);
        worker.has_sent(1, 0, 5);
        worker.on_orders(Orders { dropped: vec![0], ..Orders::default() });
        worker.look_what_left(|number| number < 5);
        assert_eq!(held(&mut worker), Some(bytes));
        worker.look_what_left(|number| number <= 5);
        assert_eq!(held(&mut worker), Some(0));
    }
}
