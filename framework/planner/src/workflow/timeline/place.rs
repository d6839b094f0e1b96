//! Placement of a task on the timeline of a workflow plan.

use super::candidate::{Candidate, PlacementResult};
use super::state::{File, FileLocation, Timeline};
use crate::workflow::plan::{Eviction, Transfer};

impl Timeline<'_> {
    /// Places a task on processor `p`. Returns `None` without a change if the task cannot be placed there.
    pub(in crate::workflow) fn place(
        &mut self,
        task: usize,
        p: usize,
        inputs: &[usize],
    ) -> Option<PlacementResult> {
        let result = self.try_on(task, p, inputs, f64::INFINITY)?;
        let candidate = std::mem::take(&mut self.candidate);
        self.move_out(&candidate, p, task);
        for transfer in &candidate.transfers {
            self.send(transfer, p, result.start);
        }
        for &file in inputs {
            let size = self.size(file);
            match std::mem::replace(&mut self.files[file].location, FileLocation::Read) {
                FileLocation::Memory(_) => self.processors[p].drop_waiting(file, size),
                FileLocation::Buffer(..) => self.processors[p].buffer.release(result.start, size),
                FileLocation::Nowhere | FileLocation::Read => {}
            }
        }
        let processor = &mut self.processors[p];
        processor.advance(result.finish);
        processor.peak = processor.peak.max(candidate.peak);
        for file in self.graph.output_numbers(task) {
            // Only files that exist nowhere are added, because a reader may have received a file before its writer had to run again.
            if self.files[file].location == FileLocation::Nowhere {
                self.files[file] = File { location: FileLocation::Memory(p), available: result.finish };
                processor.keep(file, self.graph.edges()[file].size);
            }
        }
        self.record(task, p, result.start, result.finish);
        self.transfers.extend_from_slice(&candidate.transfers);
        self.candidate = candidate;
        Some(result)
    }

    fn move_out(&mut self, candidate: &Candidate, p: usize, task: usize) {
        let at = candidate.reserved;
        for &file in &candidate.evicted {
            let size = self.size(file);
            self.processors[p].drop_waiting(file, size);
            self.processors[p].buffer.hold(at, f64::INFINITY, size);
            self.files[file].location = FileLocation::Buffer(p, Some(self.evictions.len()));
            self.evictions.push(Some(Eviction { edge: file, at, before: task }));
        }
        for &(file, end) in &candidate.diverted {
            let size = self.size(file);
            self.processors[p].drop_leaving(file, end);
            self.processors[p].buffer.hold(at, end, size);
            self.evictions.push(Some(Eviction { edge: file, at, before: task }));
        }
    }

    fn send(&mut self, transfer: &Transfer, p: usize, start: f64) {
        let &Transfer { edge: file, start: sent, finish, to_buffer } = transfer;
        let size = self.size(file);
        let count = self.processors.len();
        let location = std::mem::replace(&mut self.files[file].location, FileLocation::Read);
        let sender = match location {
            FileLocation::Memory(sender) => {
                self.processors[sender].drop_waiting(file, size);
                self.processors[sender].send(file, size, finish);
                sender
            }
            FileLocation::Buffer(sender, eviction) => {
                let since =
                    eviction.and_then(|eviction| self.evictions[eviction]).map(|eviction| eviction.at);
                if since.is_some_and(|since| finish <= since) {
                    eviction.inspect(|&eviction| self.evictions[eviction] = None);
                }
                let removed_at = since.map_or(finish, |since| finish.max(since));
                self.processors[sender].buffer.release(removed_at, size);
                sender
            }
            FileLocation::Nowhere | FileLocation::Read => return,
        };
        let writer = self.graph.edges()[file].from;
        if self.graph.has_one_value_a_task() {
            if self.copies.contains_key(&(writer, p)) {
                return;
            }
            self.copies.insert((writer, p), finish);
        }
        self.channels[sender * count + p] = finish;
        if to_buffer {
            self.processors[p].buffer.hold(sent, start, size);
        }
    }
}
