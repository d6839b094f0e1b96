//! Values on a rank: their locations, the memory that they occupy, and those that are being sent.
//!
//! A value that is being sent stays in memory until the transport has sent it, even if it is dropped or spilled meanwhile, because MPI
//! reads a large message only when its receiver is ready.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

use crate::workflow::value::Value;

/// Maximum size in bytes of a value that is sent without reserved memory if memory is limited. Such values may exceed the limit until
/// another value is spilled. With a smaller size, each small value would cost a round trip; a larger size would be noticeable with the
/// smallest sensible memory limit.
const SENT_UNASKED: u64 = 64 << 10;
/// Divisor of the memory limit: the resulting part is the maximum total size of the values that may arrive without reserved memory at a
/// time. It is smaller than the accuracy with which users choose a limit.
const UNASKED_PART: u64 = 16;

/// Location of a value, as far as this rank knows.
#[derive(Debug, Default)]
pub(super) enum Location {
    /// Not on this rank.
    #[default]
    Absent,
    /// Not on this rank; the given rank was asked to send the value when it is computed.
    Wanted(usize),
    /// On the given rank, which sends the value on a second request, once memory for the value is free on this rank.
    Offered(usize),
    /// In transit from the given rank; memory is reserved for the value.
    Arriving(usize),
    Memory(Value),
    /// Being written to disk; still in memory.
    Spilling,
    Disk,
    /// Being read from disk; memory is reserved for it.
    Loading,
}

/// Presence of a value: whether it exists on some rank and can be fetched when memory is free, and whether it is in memory on this rank.
pub(super) type Availability = (bool, bool);

impl Location {
    pub(super) fn availability(&self) -> Availability {
        (!matches!(self, Location::Absent | Location::Wanted(_)), matches!(self, Location::Memory(_)))
    }

    /// Returns true if the value is neither in memory nor on disk on this rank.
    pub(super) fn is_elsewhere(&self) -> bool {
        use Location::{Absent, Arriving, Offered, Wanted};
        matches!(self, Absent | Wanted(_) | Offered(_) | Arriving(_))
    }

    /// Returns true if the value occupies memory on this rank, or memory is reserved for it.
    pub(super) fn takes_room(&self) -> bool {
        use Location::{Arriving, Loading, Memory, Spilling};
        matches!(self, Memory(_) | Spilling | Loading | Arriving(_))
    }
}

/// State of a value.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) location: Location,
    pub(super) bytes: u64,
    /// Bytes of the value that may arrive without reserved memory.
    pub(super) granted: u64,
    /// Number of orders on this rank, queued or begun, that read the value.
    pub(super) uses: u32,
    /// Number of tasks that have begun on this rank and read the value.
    pub(super) pins: u32,
    /// Rank that sent the value; `None` if it was computed on this rank.
    pub(super) from: Option<usize>,
    /// True if the value was computed on this rank. It is kept until the master reports that it is not needed any more.
    pub(super) is_origin: bool,
    /// True if a copy is on disk.
    pub(super) is_on_disk: bool,
    /// True if the value is dropped as soon as the disk operation on it ends.
    is_doomed: bool,
    /// True if the value was computed on this rank and the master has reported that it is not needed any more.
    pub(super) is_unneeded: bool,
    /// Number of times that the value left memory while it was being sent.
    copies: u32,
}

/// Value that is being sent to a rank.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    task: usize,
    to: usize,
    /// Number of the copy that is being sent: the value of `Held::copies` when sending began.
    copy: u32,
    bytes: u64,
    /// Number of the message with the value.
    number: u64,
}

/// The values, by task. The module documentation describes them.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// Maximum number of bytes that values and running tasks may occupy.
    budget: u64,
    all: Vec<Held>,
    /// Values in memory, if memory is limited.
    in_memory: BTreeSet<usize>,
    /// Bytes of values in memory, and of reserved memory.
    held: u64,
    /// Bytes that running tasks may occupy in addition to their inputs.
    working: u64,
    /// Bytes of values that may arrive without reserved memory.
    granted: u64,
    /// Values that are being sent, if memory is limited.
    leaving: Vec<Leaving>,
    /// Bytes that are in memory only because they are being sent.
    leaving_bytes: u64,
    /// Peak of the bytes that were occupied or reserved.
    pub(super) most_held: u64,
    /// Size in bytes of the largest value that was computed on this rank.
    pub(super) largest: u64,
    /// Values whose copies on disk can be removed.
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
        let all = std::iter::repeat_with(Held::default).take(tasks).collect();
        Values { budget, all, ..Values::default() }
    }

    /// Changes the location of a value, and counts its bytes. Returns its presence before and after if it has changed for the orders that
    /// read the value.
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

    /// Makes this rank the owner of a value of `bytes` bytes.
    pub(super) fn own(&mut self, task: usize, bytes: u64) {
        self.largest = self.largest.max(bytes);
        (self.all[task].is_origin, self.all[task].is_unneeded) = (true, false);
    }

    /// Handles the master's report that no task needs the value of `task` any more. This rank no longer owns the value.
    pub(super) fn disown(&mut self, task: usize) {
        (self.all[task].is_origin, self.all[task].is_unneeded) = (false, true);
        self.drop_if_unused(task);
    }

    /// Registers that an order on this rank does not read the value any more.
    pub(super) fn unuse(&mut self, task: usize) {
        self.all[task].uses -= 1;
        self.drop_if_unused(task);
    }

    /// Drops a value that no order on this rank reads, unless this rank is its owner.
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
            // A value in transit arrives although no order reads it, and its memory stays reserved until then.
            Location::Arriving(_) => return,
            _ => {}
        }
        if std::mem::take(&mut held.is_on_disk) {
            self.forgotten.push(task);
        }
        self.set(task, Location::Absent);
    }

    /// Handles the end of a disk operation on a value, which may not be needed any more.
    pub(super) fn disk_operation_ended(&mut self, task: usize) {
        if std::mem::take(&mut self.all[task].is_doomed) {
            self.drop_if_unused(task);
        }
    }

    /// Releases the memory reserved for a value that no order on this rank reads, if `is_stale` returns true for the rank from which the
    /// value is in transit.
    pub(super) fn expect_no_more(&mut self, task: usize, is_stale: impl Fn(usize) -> bool) {
        let held = &self.all[task];
        if held.uses == 0 && matches!(held.location, Location::Arriving(from) if is_stale(from)) {
            self.set(task, Location::Absent);
        }
    }

    /// Returns the size up to which a value may arrive without reserved memory: that of a small value, or less if the values allowed so far
    /// already reach their maximum.
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

    /// Returns the value for a task that begins, and keeps it in memory until the task has ended.
    pub(super) fn pin(&mut self, task: usize) -> Option<Value> {
        self.all[task].pins += 1;
        match &self.all[task].location {
            Location::Memory(value) => Some(value.clone()),
            _ => None,
        }
    }

    /// Occupies memory for a running task.
    pub(super) fn occupy(&mut self, memory: u64) {
        self.working += memory;
        self.update_peak();
    }

    /// Releases the memory of a task that has ended.
    pub(super) fn release(&mut self, memory: u64) {
        self.working -= memory;
    }

    /// Returns the number of bytes that are occupied or reserved.
    pub(super) fn taken(&self) -> u64 {
        self.held.saturating_add(self.working).saturating_add(self.leaving_bytes)
    }

    /// Updates the peak of occupied memory. Has to be called whenever more memory is occupied.
    fn update_peak(&mut self) {
        self.most_held = self.most_held.max(self.taken());
    }

    /// Returns true if `bytes` bytes fit in addition to the occupied and reserved memory.
    pub(super) fn fits(&self, bytes: u64) -> bool {
        self.taken().saturating_add(bytes) <= self.budget
    }

    /// Returns true if `bytes` bytes will fit once all values that are being sent have left the memory. In this case the rank waits and spills
    /// nothing.
    pub(super) fn will_fit(&self, bytes: u64) -> bool {
        (self.taken() - self.leaving_bytes).saturating_add(bytes) <= self.budget
    }

    /// Returns the value in memory that is needed last, according to `next_use`; it returns `None` for a value that no order on this rank
    /// reads. Values of size 0, inputs of running tasks and `spared` values are excluded, and so are values that are being sent, because
    /// they would stay in memory after a spill.
    pub(super) fn victim<K: Ord>(
        &self,
        spared: impl Fn(usize) -> bool,
        next_use: impl Fn(usize) -> Option<K>,
    ) -> Option<usize> {
        let candidates = self.in_memory.iter().copied().filter(|&task| {
            let held = &self.all[task];
            held.bytes > 0 && held.pins == 0 && !spared(task) && !self.is_leaving(task)
        });
        // A value that no order on this rank reads is kept for other ranks, which request values one by one; it is spilled first. Among
        // equals the largest is spilled.
        candidates.max_by_key(|&task| {
            (next_use(task).map_or((true, None), |key| (false, Some(key))), self.all[task].bytes)
        })
    }

    /// Counts a value that is being sent to a rank in message `number`.
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

    /// Counts the memory of a value that this rank does not hold any more but is still sending.
    fn count_leaving(&mut self, task: usize) {
        let held = &mut self.all[task];
        let is_it = |leaving: &&Leaving| leaving.task == task && leaving.copy == held.copies;
        if let Some(leaving) = self.leaving.iter().find(is_it) {
            self.leaving_bytes += leaving.bytes;
            held.copies += 1;
        }
    }

    /// Returns true if the copy of the value that this rank holds is being sent.
    fn is_leaving(&self, task: usize) -> bool {
        self.leaving.iter().any(|leaving| leaving.task == task && leaving.copy == self.all[task].copies)
    }

    /// Removes the values that have been sent: those for whose message numbers `has_left` returns true. Returns true if there were any.
    pub(super) fn have_left(&mut self, mut has_left: impl FnMut(u64) -> bool) -> bool {
        self.forget_leaving(|leaving| has_left(leaving.number))
    }

    /// Handles the death of a rank. Values that were being sent to it may stay in memory forever, and no task waits for that memory.
    /// Returns true if there were any.
    pub(super) fn on_lost(&mut self, rank: usize) -> bool {
        (0..self.all.len()).for_each(|task| self.expect_no_more(task, |from| from == rank));
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

    /// Returns the values in memory.
    #[cfg(test)]
    pub(super) fn in_memory(&self) -> impl Iterator<Item = &Value> {
        self.all.iter().filter_map(|held| match &held.location {
            Location::Memory(value) => Some(value),
            _ => None,
        })
    }
}
