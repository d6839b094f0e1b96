//! Check whether and when a task can run on a processor, given the tasks placed so far.

use super::candidate::{Candidate, PlacementResult};
use super::state::{FileLocation, Timeline};
use crate::workflow::plan::Transfer;

impl Timeline<'_> {
    /// Returns the times that `task` would have on processor `p`; `None` if the task cannot be placed there, or would end later than `no_later`.
    /// `inputs` are the numbers of its input edges, in the order of [`inputs`](Timeline::inputs).
    pub(in crate::workflow) fn try_on(
        &mut self,
        task: usize,
        p: usize,
        inputs: &[usize],
        no_later: f64,
    ) -> Option<PlacementResult> {
        let run_time = self.run_time(task, p);
        if self.processors[p].lost || self.processors[p].ready + run_time > no_later {
            return None;
        }
        let mut candidate = std::mem::take(&mut self.candidate);
        let result = self.examine(&mut candidate, task, p, inputs, run_time);
        self.candidate = candidate;
        result.filter(|result| result.finish <= no_later)
    }

    fn examine(
        &self,
        candidate: &mut Candidate,
        task: usize,
        p: usize,
        inputs: &[usize],
        run_time: f64,
    ) -> Option<PlacementResult> {
        candidate.clear(self.processors.len());
        let memory_left = self.make_room(candidate, task, p, inputs)?;
        let start = self.receive(candidate, p, inputs);
        let start = start + self.cluster.disk_time(candidate.read_back);
        Some(PlacementResult { start, finish: start + run_time, memory_left })
    }

    /// Determines which files must be evicted for a task, and from which time its memory is available. Returns the bytes of memory that are free
    /// after the end of the task, if only files that wait for a reader remain in memory.
    fn make_room(&self, candidate: &mut Candidate, task: usize, p: usize, inputs: &[usize]) -> Option<u64> {
        let processor = &self.processors[p];
        let here: u64 = inputs
            .iter()
            .filter(|&&file| self.files[file].location == FileLocation::Memory(p))
            .map(|&f| self.size(f))
            .sum();
        candidate.reserved = processor.ready;
        if !self.rules.read_back && inputs.iter().any(|&file| self.is_evicted(file, p)) {
            return None;
        }
        let capacity = self.cluster.processors()[p].memory;
        // The input files in the memory of this processor are subtracted from the needs of the task, because `waiting` already contains them.
        let need = self.requirements[task] - here;
        let mut waiting = processor.waiting_bytes;
        if self.rules.memory_blind {
            candidate.peak = waiting + need + processor.leaving_bytes;
            return Some(0);
        }
        let must_leave = (waiting + need).saturating_sub(capacity);
        if must_leave > 0 {
            let freed = self.evict(candidate, task, p, must_leave)?;
            waiting -= freed;
        }
        let allowed = capacity - need - waiting;
        let leaving = if processor.leaving_bytes > allowed {
            self.divert(candidate, p, allowed)
        } else {
            processor.leaving_bytes
        };
        candidate.peak = waiting + need + leaving;
        // Time at which the evicted files have been written to the buffer. The processor writes them itself, one after the other.
        let written = processor.ready + self.cluster.disk_time(candidate.buffered);
        candidate.reserved = candidate.reserved.max(written);
        Some(capacity.saturating_sub(waiting - here + self.output_sizes[task]))
    }

    /// Selects for eviction files that wait for a reader other than `task`, the largest first, until `bytes` bytes are free. If files can be read
    /// back, a smaller file is selected as soon as it suffices. Returns the number of freed bytes; `None` if not enough can be freed.
    fn evict(&self, candidate: &mut Candidate, task: usize, p: usize, bytes: u64) -> Option<u64> {
        let mut freed = 0;
        let is_free = |&&(_, file): &&(u64, usize)| self.graph.edges()[file].to != task;
        let waiting = &self.processors[p].waiting;
        for largest in waiting.iter().rev().filter(is_free) {
            if freed >= bytes {
                break;
            }
            let enough = waiting.range((bytes - freed, 0)..).find(is_free);
            let &(size, file) =
                enough.filter(|&enough| self.rules.read_back && enough < largest).unwrap_or(largest);
            freed += size;
            candidate.evicted.push(file);
        }
        (freed >= bytes && self.buffer_takes(candidate, p, candidate.reserved, freed)).then_some(freed)
    }

    /// Selects for eviction files that are being sent, until those that remain in memory take at most `allowed` bytes. If the buffer is full, or
    /// waiting for the end of a transfer takes no longer, the transfer is awaited instead. Files whose transfers end last stay in memory. Returns the
    /// bytes of the files that stay.
    fn divert(&self, candidate: &mut Candidate, p: usize, allowed: u64) -> u64 {
        let ready = candidate.reserved;
        let mut kept = 0;
        for (&(end, file), &size) in self.processors[p].leaving.iter().rev() {
            let written = ready + self.cluster.disk_time(candidate.buffered + size);
            if kept + size <= allowed {
                kept += size;
            } else if written < end.0 && self.buffer_takes(candidate, p, ready, size) {
                candidate.diverted.push((file, end.0));
            } else {
                candidate.reserved = end.0;
                break;
            }
        }
        kept
    }

    fn buffer_takes(&self, candidate: &mut Candidate, p: usize, from: f64, bytes: u64) -> bool {
        let capacity = self.cluster.processors()[p].buffer;
        let sum = candidate.buffered + bytes;
        let fits = self.processors[p].buffer.fits(from, sum, capacity);
        if fits {
            candidate.buffered = sum;
        }
        fits
    }

    /// Determines when each input file arrives, and how many bytes are read from the buffer. Returns the time at which all input files have arrived.
    fn receive(&self, candidate: &mut Candidate, p: usize, inputs: &[usize]) -> f64 {
        let mut start = candidate.reserved;
        for &file in inputs {
            let available = self.files[file].available;
            let Some(sender) = self.place_of(file).filter(|&place| place != p) else {
                if matches!(self.files[file].location, FileLocation::Buffer(..)) {
                    candidate.read_back += self.size(file);
                }
                start = start.max(available);
                continue;
            };
            if let Some(copied) = self.copy_on(file, p) {
                // Each task writes one value for all its readers, and this value was already sent to this processor for another reader, so nothing is
                // sent. Until the memory of the task is reserved, the file counts on the processor where it was written.
                let at = copied.max(candidate.reserved);
                candidate.transfers.push(Transfer { edge: file, start: at, finish: at, to_buffer: false });
                start = start.max(at);
                continue;
            }
            let size = self.size(file);
            let free = candidate.channel(sender).unwrap_or(self.channels[sender * self.processors.len() + p]);
            let mut sent = available.max(free);
            let early = sent < candidate.reserved;
            let to_buffer = early && (self.rules.memory_blind || self.buffer_takes(candidate, p, sent, size));
            if early && !to_buffer {
                sent = candidate.reserved;
            }
            let finish = sent + self.cluster.transfer_time(sender, p, size);
            candidate.channels[sender] = (candidate.stamp, finish);
            candidate.transfers.push(Transfer { edge: file, start: sent, finish, to_buffer });
            start = start.max(finish);
        }
        start
    }

    fn is_evicted(&self, file: usize, p: usize) -> bool {
        matches!(self.files[file].location, FileLocation::Buffer(place, Some(_)) if place == p)
    }
}
