//! Values of tasks on a rank: where each value is, the memory that values occupy, and the values that are being sent to other ranks.
//!
//! A value that is being sent occupies memory until the transport has sent it, even if it is dropped or spilled meanwhile, because MPI reads a large
//! message only when its receiver is ready.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

use crate::workflow::value::Value;

/// Maximum size in bytes of a value that a rank may receive without having reserved memory for it. Such values may exceed the memory limit until
/// another value is written to disk. With a smaller maximum, small values would cost a round trip each; a larger maximum would be a noticeable part
/// of the smallest sensible memory limit.
const SENT_UNASKED: u64 = 64 << 10;
/// Divisor of the memory limit: requested values that arrive without reserved memory may take at most this part of the limit. The part is smaller
/// than the accuracy with which users choose a limit.
const UNASKED_PART: u64 = 16;

/// Location of the value (result) of a task, as far as this rank knows.
#[derive(Debug, Default)]
pub(super) enum Location {
    /// The task's value is not on this rank and has not been requested.
    #[default]
    Absent,
    /// The task's value is not on this rank. It was requested from the given rank, which sends it when it is computed.
    Wanted(usize),
    /// The given rank has the task's value and has sent its size. It sends the value after a second request, for which this rank must
    /// reserve memory.
    Offered(usize),
    /// The task's value is in transit from the given rank, and memory is reserved for it.
    Arriving(usize),
    Memory(Value),
    /// The task's value is being written to disk, and is still in memory.
    Spilling,
    Disk,
    /// The task's value is being read from disk; memory is reserved for it.
    Loading,
}

/// Availability of a task's value, as two conditions: true if it exists on some rank, so that it can be requested; true if it is in memory
/// on this rank.
pub(super) type Availability = (bool, bool);

impl Location {
    pub(super) fn availability(&self) -> Availability {
        (!matches!(self, Location::Absent | Location::Wanted(_)), matches!(self, Location::Memory(_)))
    }

    pub(super) fn is_elsewhere(&self) -> bool {
        use Location::{Absent, Arriving, Offered, Wanted};
        matches!(self, Absent | Wanted(_) | Offered(_) | Arriving(_))
    }

    /// Returns true if the task's value occupies memory on this rank, or if memory is reserved for it.
    pub(super) fn takes_room(&self) -> bool {
        use Location::{Arriving, Loading, Memory, Spilling};
        matches!(self, Memory(_) | Spilling | Loading | Arriving(_))
    }
}

/// State of the value (result) of a task on this rank.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) location: Location,
    pub(super) bytes: u64,
    /// Size in bytes up to which the requested value of the task may arrive although no memory was reserved for it.
    pub(super) granted: u64,
    /// Number of tasks on this rank, queued or running, that read this task's value.
    pub(super) uses: u32,
    /// Number of running tasks on this rank that read this task's value.
    pub(super) pins: u32,
    /// Rank from which the task's value was received; `None` if it was computed on this rank.
    pub(super) from: Option<usize>,
    /// True if the task's value was computed on this rank, which keeps it until the master reports that no task needs it any more.
    pub(super) is_origin: bool,
    pub(super) is_on_disk: bool,
    /// True if the task's value is to be dropped when its write to disk, or its read from disk, has ended.
    is_doomed: bool,
    /// True if the task's value was computed on this rank and the master has reported that no task needs it any more.
    pub(super) is_unneeded: bool,
    /// Number of times that the task's value was removed from memory while a message with it was still being sent.
    copies: u32,
}

/// States of all values on this rank. Most tasks of a large workflow concern other ranks only, so a state is allocated when it is first changed.
#[derive(Debug, Default)]
struct States {
    changed: Vec<Option<Box<Held>>>,
    initial: Held,
}

impl Index<usize> for States {
    type Output = Held;

    fn index(&self, task: usize) -> &Held {
        self.changed[task].as_deref().unwrap_or(&self.initial)
    }
}

impl IndexMut<usize> for States {
    fn index_mut(&mut self, task: usize) -> &mut Held {
        self.changed[task].get_or_insert_default()
    }
}

/// Value of a task that is being sent to another rank.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    task: usize,
    to: usize,
    /// Counter `copies` of the value when sending began. If the counter has changed since, the copy that is being sent is not the one in
    /// memory any more.
    copy: u32,
    bytes: u64,
    number: u64,
}

#[derive(Debug, Default)]
pub(super) struct Values {
    budget: u64,
    all: States,
    /// Tasks whose values are in memory on this rank; recorded only if memory is limited.
    in_memory: BTreeSet<usize>,
    /// Bytes of all task values in memory on this rank, plus the bytes that are reserved for arriving values.
    held: u64,
    /// Bytes that running tasks may occupy besides their inputs.
    working: u64,
    /// Sum, over the requested task values, of the sizes in bytes up to which they may arrive although no memory was reserved for them.
    granted: u64,
    leaving: Vec<Leaving>,
    /// Bytes of task values that occupy memory only because they are still being sent to other ranks.
    leaving_bytes: u64,
    /// Peak of the bytes that were occupied or reserved for tasks and their values on this rank.
    pub(super) most_held: u64,
    /// Size in bytes of the largest task value that was computed on this rank.
    pub(super) largest: u64,
    pub(super) forgotten: Vec<usize>,
}

impl Index<usize> for Values {
    type Output = Held;

    fn index(&self, task: usize) -> &Held {
        &self.all[task]
    }
}

impl IndexMut<usize> for Values {
    fn index_mut(&mut self, task: usize) -> &mut Held {
        &mut self.all[task]
    }
}

impl Values {
    pub(super) fn new(tasks: usize, budget: u64) -> Self {
        let changed = std::iter::repeat_with(|| None).take(tasks).collect();
        Values { budget, all: States { changed, ..States::default() }, ..Values::default() }
    }

    /// Changes the location of a value, and updates the count of occupied bytes. If a task on this rank reads the value and its availability has
    /// changed, returns the availability before and after.
    pub(super) fn set(&mut self, task: usize, location: Location) -> Option<(Availability, Availability)> {
        let held = &mut self.all[task];
        let before = std::mem::replace(&mut held.location, location);
        if matches!(before, Location::Wanted(_)) {
            self.granted -= std::mem::take(&mut held.granted);
        }
        let (was, is) = (before.availability(), held.location.availability());
        let (bytes, is_read) = (held.bytes, held.uses > 0);
        match (before.takes_room(), held.location.takes_room()) {
            (false, true) => self.held += bytes,
            (true, false) => {
                self.held -= bytes;
                self.count_leaving(task);
            }
            _ => {}
        }
        self.update_peak();
        if self.budget < u64::MAX && was.1 != is.1 {
            match is.1 {
                true => self.in_memory.insert(task),
                false => self.in_memory.remove(&task),
            };
        }
        (was != is && is_read).then_some((was, is))
    }

    pub(super) fn own(&mut self, task: usize, bytes: u64) {
        self.largest = self.largest.max(bytes);
        (self.all[task].is_origin, self.all[task].is_unneeded) = (true, false);
    }

    /// Handles the master's report that no task needs the value of `task` any more, so that this rank need not keep it.
    pub(super) fn disown(&mut self, task: usize) {
        (self.all[task].is_origin, self.all[task].is_unneeded) = (false, true);
        self.drop_if_unused(task);
    }

    /// Decrements the number of tasks on this rank that read the value of `task`, after one of them has ended or was withdrawn.
    pub(super) fn unuse(&mut self, task: usize) {
        self.all[task].uses -= 1;
        self.drop_if_unused(task);
    }

    /// Drops the value of `task` if no task on this rank reads it, unless this rank must keep it for other ranks.
    fn drop_if_unused(&mut self, task: usize) {
        let held = &mut self.all[task];
        if held.uses > 0 || held.is_origin {
            return;
        }
        match held.location {
            Location::Spilling | Location::Loading => {
                held.is_doomed = true;
                return;
            }
            // A value in transit arrives even if no task reads it any more. Its memory stays reserved until then.
            Location::Arriving(_) => return,
            _ => {}
        }
        if std::mem::take(&mut held.is_on_disk) {
            self.forgotten.push(task);
        }
        self.set(task, Location::Absent);
    }

    /// Handles the end of a disk operation for the value of `task`. A value that has become unneeded meanwhile is dropped.
    pub(super) fn disk_operation_ended(&mut self, task: usize) {
        if std::mem::take(&mut self.all[task].is_doomed) {
            self.drop_if_unused(task);
        }
    }

    /// Releases the memory reserved for a value in transit that no task on this rank reads, if `is_stale` returns true for the rank that sends the
    /// value.
    pub(super) fn expect_no_more(&mut self, task: usize, is_stale: impl Fn(usize) -> bool) {
        let held = &self.all[task];
        if held.uses == 0 && matches!(held.location, Location::Arriving(from) if is_stale(from)) {
            self.set(task, Location::Absent);
        }
    }

    /// Returns the maximum size in bytes up to which a value that is requested now may arrive without reserved memory: [`SENT_UNASKED`], or less if
    /// earlier requests have used up the permitted part of the memory limit.
    pub(super) fn grant(&mut self, task: usize) -> u64 {
        if self.budget == u64::MAX {
            return u64::MAX;
        }
        let beyond = self.taken().saturating_sub(self.budget);
        let left = (self.budget / UNASKED_PART).saturating_sub(self.granted + beyond);
        let room = SENT_UNASKED.min(left);
        self.granted += room;
        self.all[task].granted = room;
        room
    }

    /// Returns an input for a task that begins. The input stays in memory until the task has ended.
    pub(super) fn pin(&mut self, task: usize) -> Option<Value> {
        self.all[task].pins += 1;
        match &self.all[task].location {
            Location::Memory(value) => Some(value.clone()),
            _ => None,
        }
    }

    pub(super) fn occupy(&mut self, memory: u64) {
        self.working += memory;
        self.update_peak();
    }

    pub(super) fn release(&mut self, memory: u64) {
        self.working -= memory;
    }

    pub(super) fn taken(&self) -> u64 {
        self.held.saturating_add(self.working).saturating_add(self.leaving_bytes)
    }

    /// Updates the peak of occupied memory. Must be called whenever the occupied memory has grown.
    fn update_peak(&mut self) {
        self.most_held = self.most_held.max(self.taken());
    }

    pub(super) fn fits(&self, bytes: u64) -> bool {
        self.taken().saturating_add(bytes) <= self.budget
    }

    /// Returns true if `bytes` bytes will fit into memory when all values that are being sent have left it. The rank then waits and evicts no value.
    pub(super) fn will_fit(&self, bytes: u64) -> bool {
        (self.taken() - self.leaving_bytes).saturating_add(bytes) <= self.budget
    }

    /// Returns the task whose value should be evicted: the one that is needed last. `next_use` returns the queue position of the first task that
    /// reads a value, or `None` if no task on this rank reads it. Empty values, inputs of running tasks and values for which `spared` returns true
    /// are not evicted, and neither are values that are being sent, because they would stay in memory.
    pub(super) fn victim<K: Ord>(
        &self,
        spared: impl Fn(usize) -> bool,
        next_use: impl Fn(usize) -> Option<K>,
    ) -> Option<usize> {
        let candidates = self.in_memory.iter().copied().filter(|&task| {
            let held = &self.all[task];
            held.bytes > 0 && held.pins == 0 && !spared(task) && !self.is_leaving(task)
        });
        // Values that no task on this rank reads are evicted first. They are kept for other ranks, which request them one at a time. Of several such
        // values, the largest is evicted.
        candidates.max_by_key(|&task| {
            (next_use(task).map_or((true, None), |key| (false, Some(key))), self.all[task].bytes)
        })
    }

    pub(super) fn leaves(&mut self, task: usize, to: usize, bytes: u64, number: u64) {
        if self.budget == u64::MAX {
            return;
        }
        let Held { copies: copy, location, .. } = &self.all[task];
        self.leaving.push(Leaving { task, to, copy: *copy, bytes, number });
        if !location.takes_room() {
            self.count_leaving(task);
            self.update_peak();
        }
    }

    /// Counts the memory of a task value that has been dropped while it is still being sent.
    fn count_leaving(&mut self, task: usize) {
        let held = &mut self.all[task];
        let is_it = |leaving: &&Leaving| leaving.task == task && leaving.copy == held.copies;
        if let Some(leaving) = self.leaving.iter().find(is_it) {
            self.leaving_bytes += leaving.bytes;
            held.copies += 1;
        }
    }

    fn is_leaving(&self, task: usize) -> bool {
        self.leaving.iter().any(|leaving| leaving.task == task && leaving.copy == self.all[task].copies)
    }

    /// Removes the records of values that have been sent: `has_left` returns true for the numbers of their messages. Returns true if there were any.
    pub(super) fn have_left(&mut self, mut has_left: impl FnMut(u64) -> bool) -> bool {
        self.forget_leaving(|leaving| has_left(leaving.number))
    }

    /// Handles the death of a rank. The memory of values that were being sent to it is no longer counted: they may never be sent, and no task may
    /// wait for their memory. Returns true if there were any.
    pub(super) fn on_lost(&mut self, rank: usize) -> bool {
        (0..self.all.changed.len()).for_each(|task| self.expect_no_more(task, |from| from == rank));
        self.forget_leaving(|leaving| leaving.to == rank)
    }

    fn forget_leaving(&mut self, mut is_unneeded: impl FnMut(&Leaving) -> bool) -> bool {
        let before = self.leaving.len();
        let mut at = 0;
        while let Some(leaving) = self.leaving.get(at).copied() {
            if !is_unneeded(&leaving) {
                at += 1;
                continue;
            }
            self.leaving.remove(at);
            let is_same = |other: &Leaving| (other.task, other.copy) == (leaving.task, leaving.copy);
            let is_held = leaving.copy == self.all[leaving.task].copies;
            if !is_held && !self.leaving.iter().any(is_same) {
                self.leaving_bytes -= leaving.bytes;
            }
        }
        self.leaving.len() < before
    }

    #[cfg(test)]
    pub(super) fn in_memory(&self) -> impl Iterator<Item = &Value> {
        self.all.changed.iter().flatten().filter_map(|held| match &held.location {
            Location::Memory(value) => Some(value),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_allocated_when_they_are_first_changed() {
        let mut values = Values::new(1_000, u64::MAX);
        assert!((0..1_000).all(|task| values[task].uses == 0 && values[task].location.is_elsewhere()));
        (values[7].uses, values[9].bytes) = (1, 8);
        values.set(9, Location::Wanted(2));
        let allocated: Vec<usize> = (0..1_000).filter(|&task| values.all.changed[task].is_some()).collect();
        assert_eq!((allocated, values[7].uses, values[9].bytes, values[8].uses), (vec![7, 9], 1, 8, 0));
    }
}
