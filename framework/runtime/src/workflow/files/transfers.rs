//! Transfers of files to a rank: files that it has, files that it is receiving, and commands that wait for them. This module reads and writes no
//! files and has no clock; it produces requests, which its caller sends.

use std::collections::{BTreeMap, BTreeSet};

use super::{PieceHead, PieceRequest};

/// Maximum number of files that a rank receives from one other rank at a time: while it writes a piece of one file, the sender reads a piece of
/// another one. Each file occupies the memory of one piece on both ranks.
const AT_ONCE: usize = 2;

/// Purpose for which a file is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reader {
    /// The command of this task waits for its input files.
    Task(usize),
    /// On rank 0: this task counts as completed when rank 0 has all its output files.
    Completed(usize),
    /// On rank 0: the run ends when rank 0 has the standard output of the commands of this rank.
    Output(usize),
}

/// Result of a transfer that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::workflow) enum Settled {
    /// This rank has all input files of the command of this task, or cannot get one of them for the given reason.
    Task(usize, Result<(), String>),
    /// On rank 0: rank 0 has all output files of this task, or cannot get one of them for the given reason.
    Completed(usize, Result<(), String>),
    /// On rank 0: rank 0 has the standard output of the commands of a rank, or cannot get it for the given reason.
    Output(Result<(), String>),
    /// The transfer of the file with this number was given up. The caller removes the incomplete copy.
    Abandoned(usize),
}

/// File that this rank receives or will receive from another rank.
#[derive(Debug)]
struct Transfer {
    from: usize,
    offset: u64,
    total: Option<u64>,
    /// True if the rank receives the file at present; false if it waits because it receives [`AT_ONCE`] other files from the same rank.
    has_started: bool,
    is_requested: bool,
    readers: BTreeSet<Reader>,
}

#[derive(Debug)]
pub(in crate::workflow) struct Transfers {
    rank: usize,
    /// By number of the file: true if this rank has the complete file.
    is_here: Vec<bool>,
    transfers: BTreeMap<usize, Transfer>,
    /// For each purpose for which files are fetched: number of files that are still missing.
    waiting: BTreeMap<Reader, usize>,
    settled: Vec<Settled>,
    lost: BTreeSet<usize>,
}

impl Transfers {
    pub(super) fn new(rank: usize, files: usize) -> Self {
        Transfers {
            rank,
            is_here: vec![false; files],
            transfers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            settled: Vec::new(),
            lost: BTreeSet::new(),
        }
    }

    /// Fetches the input files of a command that this rank does not have. `inputs` are the number of each file and the rank that has written it;
    /// rank 0 has a copy of each. Returns true if this rank has all input files.
    pub(in crate::workflow) fn need(
        &mut self,
        task: usize,
        inputs: impl IntoIterator<Item = (usize, usize)>,
    ) -> bool {
        if self.rank == 0 {
            return true;
        }
        let inputs = inputs.into_iter().filter(|&(file, _)| !self.is_here[file]);
        let missing: Vec<(usize, usize)> = inputs.collect();
        for &(file, from) in &missing {
            self.fetch(file, from, Reader::Task(task));
        }
        missing.is_empty()
    }

    /// Fetches, on rank 0, the output files of a task from rank `from`, which ran its command. Returns true if the task has no output files.
    pub(in crate::workflow) fn fetch_outputs(&mut self, from: usize, task: usize, files: &[usize]) -> bool {
        // Transfers of these files that are in progress belong to an earlier try of the task, and are abandoned.
        files.iter().for_each(|&file| self.abandon(file));
        files.iter().for_each(|&file| self.fetch(file, from, Reader::Completed(task)));
        files.is_empty()
    }

    pub(in crate::workflow) fn want_output(&mut self, from: usize) {
        self.fetch(self.is_here.len() + from, from, Reader::Output(from));
    }

    pub(in crate::workflow) fn has_outputs(&self) -> bool {
        !self.waiting.keys().any(|reader| matches!(reader, Reader::Output(_)))
    }

    fn fetch(&mut self, file: usize, from: usize, reader: Reader) {
        let from = if self.lost.contains(&from) { 0 } else { from };
        let new = || Transfer {
            from,
            offset: 0,
            total: None,
            has_started: false,
            is_requested: false,
            readers: BTreeSet::new(),
        };
        if self.transfers.entry(file).or_insert_with(new).readers.insert(reader) {
            *self.waiting.entry(reader).or_default() += 1;
        }
    }

    /// Records that this rank has the files `files`, which a command on this rank has written and rank 0 has fetched.
    pub(in crate::workflow) fn have(&mut self, files: &[usize]) {
        files.iter().for_each(|&file| self.is_here[file] = true);
    }

    pub(in crate::workflow) fn take_requests(&mut self) -> Vec<(usize, PieceRequest)> {
        let mut started: BTreeMap<usize, usize> = BTreeMap::new();
        for transfer in self.transfers.values().filter(|transfer| transfer.has_started) {
            *started.entry(transfer.from).or_default() += 1;
        }
        let mut requests = Vec::new();
        for (&file, transfer) in &mut self.transfers {
            let started = started.entry(transfer.from).or_default();
            if !transfer.has_started && *started < AT_ONCE {
                transfer.has_started = true;
                *started += 1;
            }
            if transfer.has_started && !transfer.is_requested {
                transfer.is_requested = true;
                requests.push((transfer.from, PieceRequest { file, offset: transfer.offset }));
            }
        }
        requests
    }

    /// Handles the arrival of a piece with `bytes` bytes from rank `from`. If it returns true, the caller writes the piece and calls
    /// [`written`](Transfers::written), or [`fail`](Transfers::fail) if that fails.
    pub(in crate::workflow) fn on_piece(&mut self, from: usize, head: &PieceHead, bytes: u64) -> bool {
        let Some(transfer) = self.transfers.get_mut(&head.file) else { return false };
        if (transfer.from, transfer.offset) != (from, head.offset) || !transfer.is_requested {
            return false;
        }
        let end = head.offset.checked_add(bytes);
        let is_sound = *transfer.total.get_or_insert(head.total) == head.total
            && end.is_some_and(|end| end <= head.total && (bytes > 0 || end == head.total));
        if head.refusal.is_none() && is_sound {
            return true;
        }
        let has_changed = || format!("it changed while rank {from} sent it");
        let why = head.refusal.clone().unwrap_or_else(has_changed);
        let is_for_tasks = transfer.readers.iter().all(|reader| matches!(reader, Reader::Task(_)));
        match from != 0 && is_for_tasks {
            // If another rank cannot send an input file, it is requested from rank 0, which has a copy.
            true => self.restart(head.file),
            false => self.fail(head.file, &why),
        }
        false
    }

    pub(in crate::workflow) fn written(&mut self, head: &PieceHead, bytes: u64) {
        let Some(transfer) = self.transfers.get_mut(&head.file) else { return };
        transfer.offset += bytes;
        transfer.is_requested = false;
        if transfer.offset < head.total {
            return;
        }
        let Some(Transfer { readers, .. }) = self.transfers.remove(&head.file) else { return };
        if let Some(is_here) = self.is_here.get_mut(head.file) {
            *is_here = true;
        }
        for reader in readers {
            let Some(files) = self.waiting.get_mut(&reader) else { continue };
            *files -= 1;
            if *files == 0 {
                self.settle(reader, Ok(()));
            }
        }
    }

    /// Gives up the transfer of a file for the reason `why`. Each command or task that waits for the file gets this reason.
    pub(in crate::workflow) fn fail(&mut self, file: usize, why: &str) {
        let Some(Transfer { readers, .. }) = self.transfers.remove(&file) else { return };
        self.settled.push(Settled::Abandoned(file));
        for reader in readers {
            self.settle(reader, Err(why.to_string()));
            self.forget(reader);
        }
    }

    fn settle(&mut self, reader: Reader, result: Result<(), String>) {
        self.waiting.remove(&reader);
        match reader {
            Reader::Task(task) => self.settled.push(Settled::Task(task, result)),
            Reader::Completed(task) => self.settled.push(Settled::Completed(task, result)),
            Reader::Output(_) => self.settled.push(Settled::Output(result)),
        }
    }

    /// Stops fetching the files that `reader` (a task, or the end of the run) waits for. Transfers that nothing else waits for are abandoned.
    fn forget(&mut self, reader: Reader) {
        self.waiting.remove(&reader);
        let left = |transfer: &mut Transfer| transfer.readers.remove(&reader) && transfer.readers.is_empty();
        let of_nobody: Vec<usize> = self
            .transfers
            .iter_mut()
            .filter_map(|(&file, transfer)| left(transfer).then_some(file))
            .collect();
        of_nobody.into_iter().for_each(|file| self.abandon(file));
    }

    fn abandon(&mut self, file: usize) {
        let Some(Transfer { readers, .. }) = self.transfers.remove(&file) else { return };
        self.settled.push(Settled::Abandoned(file));
        readers.into_iter().for_each(|reader| self.forget(reader));
    }

    /// Restarts the transfer of a file from its first byte, with rank 0 as the source.
    fn restart(&mut self, file: usize) {
        if let Some(transfer) = self.transfers.get_mut(&file) {
            (transfer.from, transfer.offset, transfer.total) = (0, 0, None);
            (transfer.has_started, transfer.is_requested) = (false, false);
        }
    }

    /// Handles the death of `rank`. Each file that this rank was receiving from it is requested from rank 0, which has copies of all files; rank 0
    /// itself abandons the transfer.
    pub(in crate::workflow) fn on_lost(&mut self, rank: usize) {
        self.lost.insert(rank);
        let from_it = self.transfers.iter().filter(|(_, transfer)| transfer.from == rank);
        let from_it: Vec<usize> = from_it.map(|(&file, _)| file).collect();
        for file in from_it {
            match self.rank {
                0 => self.abandon(file),
                _ => self.restart(file),
            }
        }
    }

    pub(in crate::workflow) fn is_idle(&self) -> bool {
        self.transfers.is_empty()
    }

    pub(in crate::workflow) fn take_settled(&mut self) -> Vec<Settled> {
        std::mem::take(&mut self.settled)
    }

    pub(super) fn arriving(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let started = self.transfers.iter().filter(|(_, transfer)| transfer.has_started);
        started.map(|(&file, transfer)| (file, transfer.from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(file: usize, offset: u64, total: u64) -> PieceHead {
        PieceHead { file, offset, total, mode: 0o644, refusal: None }
    }

    fn request(file: usize, offset: u64) -> PieceRequest {
        PieceRequest { file, offset }
    }

    fn arrives(transfers: &mut Transfers, from: usize, head: &PieceHead, bytes: u64) {
        assert!(transfers.on_piece(from, head, bytes), "{head:?}");
        transfers.written(head, bytes);
    }

    #[test]
    fn inputs_are_transferred_piecewise_and_once() {
        let mut transfers = Transfers::new(1, 3);
        assert!(!transfers.need(7, [(0, 2), (1, 2)]));
        assert_eq!(transfers.take_requests(), [(2, request(0, 0)), (2, request(1, 0))]);
        // Task 8 needs file 0, which is being received for task 7, and file 2. File 2 has to wait, because two files are being received from rank 2.
        assert!(!transfers.need(8, [(0, 2), (2, 2)]));
        assert_eq!(transfers.take_requests(), []);
        arrives(&mut transfers, 2, &head(0, 0, 10), 6);
        assert!(transfers.take_settled().is_empty());
        assert_eq!(transfers.take_requests(), [(2, request(0, 6))]);
        arrives(&mut transfers, 2, &head(0, 6, 10), 4);
        arrives(&mut transfers, 2, &head(1, 0, 0), 0);
        assert_eq!(transfers.take_settled(), [Settled::Task(7, Ok(()))]);
        assert_eq!(transfers.take_requests(), [(2, request(2, 0))]);
        arrives(&mut transfers, 2, &head(2, 0, 1), 1);
        assert_eq!(transfers.take_settled(), [Settled::Task(8, Ok(()))]);
        assert!(transfers.need(9, [(0, 2), (1, 2), (2, 0)]));
    }

    #[test]
    fn rank_0_replaces_dead_or_refusing_senders() {
        let mut transfers = Transfers::new(1, 2);
        transfers.need(7, [(0, 2), (1, 3)]);
        transfers.take_requests();
        arrives(&mut transfers, 2, &head(0, 0, 10), 6);
        transfers.on_lost(2);
        let refusal = PieceHead { refusal: Some("it is gone".into()), ..head(1, 0, 0) };
        assert!(!transfers.on_piece(3, &refusal, 0));
        assert!(!transfers.on_piece(2, &head(0, 6, 10), 4), "from a rank that is lost");
        assert_eq!(transfers.take_requests(), [(0, request(0, 0)), (0, request(1, 0))]);
        arrives(&mut transfers, 0, &head(0, 0, 10), 10);
        assert!(!transfers.on_piece(0, &refusal, 0));
        let failed = Settled::Task(7, Err("it is gone".into()));
        assert_eq!(transfers.take_settled(), [Settled::Abandoned(1), failed]);
        // Rank 2, which has written the file, is dead, so the file is requested from rank 0.
        assert!(!transfers.need(8, [(1, 2)]));
        assert_eq!(transfers.take_requests(), [(0, request(1, 0))]);
    }

    #[test]
    fn file_changed_during_transfer_is_refused() {
        let mut transfers = Transfers::new(1, 1);
        transfers.need(7, [(0, 0)]);
        transfers.take_requests();
        arrives(&mut transfers, 0, &head(0, 0, 10), 6);
        transfers.take_requests();
        assert!(!transfers.on_piece(0, &head(0, 6, 9), 3));
        let why = "it changed while rank 0 sent it";
        assert_eq!(transfers.take_settled(), [Settled::Abandoned(0), Settled::Task(7, Err(why.into()))]);
        // An empty piece before the end of the file is refused, because the transfer would never end without progress.
        transfers.need(7, [(0, 0)]);
        transfers.take_requests();
        assert!(!transfers.on_piece(0, &head(0, 0, 10), 0));
        assert_eq!(transfers.take_settled().len(), 2);
    }

    #[test]
    fn rank_0_completes_tasks_once_outputs_arrive() {
        let mut transfers = Transfers::new(0, 3);
        assert!(transfers.need(7, [(0, 2)]));
        assert!(transfers.fetch_outputs(1, 7, &[]));
        assert!(!transfers.fetch_outputs(1, 7, &[0, 1]));
        assert!(!transfers.fetch_outputs(2, 8, &[2]));
        assert_eq!(transfers.take_requests(), [(1, request(0, 0)), (1, request(1, 0)), (2, request(2, 0))]);
        arrives(&mut transfers, 1, &head(0, 0, 1), 1);
        transfers.on_lost(1);
        assert_eq!(transfers.take_settled(), [Settled::Abandoned(1)], "the try is no more");
        // The try has failed because rank 1 died. The task is repeated on rank 2, from which rank 0 fetches the output files again.
        assert!(!transfers.fetch_outputs(2, 7, &[0, 1]));
        transfers.take_requests();
        transfers.fail(0, "no room");
        let failed = Settled::Completed(7, Err("no room".into()));
        assert_eq!(transfers.take_settled(), [Settled::Abandoned(0), failed, Settled::Abandoned(1)]);
        arrives(&mut transfers, 2, &head(2, 0, 1), 1);
        assert_eq!(transfers.take_settled(), [Settled::Completed(8, Ok(()))]);
        transfers.want_output(2);
        transfers.want_output(3);
        assert_eq!(transfers.take_requests(), [(2, request(5, 0)), (3, request(6, 0))]);
        transfers.on_lost(3);
        assert!(!transfers.has_outputs());
        arrives(&mut transfers, 2, &head(5, 0, 1), 1);
        assert!(transfers.has_outputs());
    }
}
