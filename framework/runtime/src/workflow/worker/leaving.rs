//! Values that are being sent. They are in memory until they have left, also when they are dropped or written to disk meanwhile: MPI reads a large
//! one only when its receiver is there.

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

    /// A value is not held here any more; if it is being sent, it is in memory all the same.
    pub(super) fn let_go(&mut self, task: usize) {
        let held = &mut self.values[task];
        let is_it = |leaving: &&Leaving| leaving.task == task && leaving.copy == held.copies;
        if let Some(leaving) = self.leaving.iter().find(is_it) {
            self.leaving_bytes += leaving.bytes;
            held.copies += 1;
        }
    }

    /// Whether a value that is held here is being sent.
    pub(super) fn is_leaving(&self, task: usize) -> bool {
        self.leaving.iter().any(|leaving| leaving.task == task && leaving.copy == self.values[task].copies)
    }

    /// What a task gives was sent to a rank just now, in the message of this number.
    pub(in crate::workflow) fn has_sent(&mut self, to: usize, task: usize, number: u64) {
        let is_it = |leaving: &&mut Leaving| (leaving.to, leaving.task, leaving.number) == (to, task, None);
        if let Some(leaving) = self.leaving.iter_mut().find(is_it) {
            leaving.number = Some(number);
        }
    }

    /// Looks which messages have left, by their numbers.
    pub(in crate::workflow) fn look_what_left(&mut self, mut has_left: impl FnMut(u64) -> bool) {
        self.forget_leaving(|leaving| leaving.number.is_some_and(&mut has_left));
    }

    /// A rank has died. What was being sent to it may stay in memory for ever, and nobody is to wait for that.
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
