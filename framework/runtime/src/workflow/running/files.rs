//! Transfer of files on a rank. A command begins when its input files are on the rank, and its task counts as done when rank 0 has its output files.

use std::time::Duration;

use armature_commands::Ended;

use super::{REPORT_AFTER, Running, unexpected};
use crate::error::{Error, ErrorKind, Result};
use crate::rank::protocol::Outgoing;
use crate::workflow::commands::{Started, Try};
use crate::workflow::files::{FilePiece, Files, PieceRequest, Settled};
use crate::workflow::messages::{Content, Reason, TryEnded};

impl Running<'_, '_> {
    /// Starts a command at once if its input files are on this rank, and otherwise when they have arrived.
    pub(super) fn begin_command(
        &mut self,
        task: usize,
        started: Started,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let Some(files) = &mut self.files else { return self.commands.run(task, started) };
        let inputs = files.table.inputs(task).iter();
        let inputs =
            inputs.map(|input| (input.file, input.maker.map_or(0, |maker| self.worker.maker(maker))));
        if files.transfers.need(task, inputs) {
            return self.start_command(task, started, out);
        }
        files.starting.insert(task, started);
        self.move_files(out)
    }

    fn start_command(&mut self, task: usize, started: Started, out: &mut Outgoing<'_>) -> Result<()> {
        let fetch_outputs = self.files.as_ref().map_or(Ok(()), |files| {
            let names = || files.table.outputs(task).iter().map(|&file| files.table.name(file));
            files.folder.make_room(names())?;
            files.folder.clear(names())
        });
        match fetch_outputs {
            Ok(()) => self.commands.run(task, started),
            Err(why) => self.abandon(task, why, out),
        }
    }

    /// Reports a command that cannot be started as a failed try of its task.
    fn abandon(&mut self, task: usize, why: String, out: &mut Outgoing<'_>) -> Result<()> {
        self.untallied.push(Duration::ZERO);
        self.unreported += REPORT_AFTER;
        self.worker.on_failed(task, (Reason::Error, why), Duration::ZERO, out)
    }

    /// Handles the end of a command on this rank. If files are sent between ranks, the task counts as done only when rank 0 has fetched the output
    /// files.
    pub(super) fn on_ended(&mut self, mut ended: Try, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(files) = &mut self.files else { return self.settle_command(ended, out) };
        let task = ended.task;
        if ended.ended.is_success() {
            let names = files.table.outputs(task).iter().map(|&file| files.table.name(file));
            let mut wrong = names.filter_map(|name| Some((name, files.folder.check(name).err()?)));
            ended.fault = wrong.next().map(|(name, why)| {
                format!(
                    "the command ended with exit code 0, but its output file {name:?} cannot be sent: {why}"
                )
            });
        }
        if self.root.is_some() {
            return self.settle_command(ended, out);
        }
        let (attempt, fault) = (ended.attempt, ended.fault.clone());
        let content = Content::Ended(TryEnded { task, attempt, ended: ended.ended.to_bytes(), fault });
        files.reported.insert(task, ended);
        out.send(0, content)
    }

    pub(super) fn have_written(&mut self, task: usize) {
        if let Some(files) = &mut self.files {
            files.transfers.have(files.table.outputs(task));
        }
    }

    /// Completes the try of a command that has ended. It is called after the program's function `after_command`, if there is one, has returned. If
    /// the command ran on another rank, rank 0 sends that rank the result ([`Content::Kept`]).
    pub(super) fn conclude(
        &mut self,
        ended: &Try,
        failure: Option<(Reason, String)>,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        self.unreported += REPORT_AFTER;
        let root = self.root.as_mut().filter(|_| ended.rank != 0);
        let Some(root) = root else { return self.settle(ended, failure, out) };
        if root.master.is_lost(ended.rank) {
            return Ok(());
        }
        let failure = ended.failure().or(failure);
        if failure.is_none() {
            // Rank 0 has the output files, so the task will not be repeated even if the rank of the command dies before it reports the task.
            root.master.has_journalled(ended.task);
        }
        out.send(ended.rank, Content::Kept(ended.task, failure))
    }

    /// Handles a message about the transfer of files.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if files are not sent in this run, if the message is only for rank 0, or if it does not describe an ended command.
    pub(super) fn on_file_message(
        &mut self,
        from: usize,
        content: Content,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        if self.root.as_ref().is_some_and(|root| root.master.is_lost(from)) {
            return Ok(());
        }
        let Some(files) = &mut self.files else {
            return Err(Error::new(
                ErrorKind::Wire,
                format!("rank {from} sent a file, but this workflow sends no files"),
            ));
        };
        match content {
            Content::PieceRequest(request) => {
                let piece = files.piece(request);
                return out.send(from, Content::FilePiece(piece));
            }
            Content::FilePiece(piece) => self.on_piece(from, &piece)?,
            Content::Ended(TryEnded { task, attempt, ended, fault }) => {
                let root = self.root.as_ref().ok_or_else(|| unexpected(from))?;
                let ended = Ended::from_bytes(&ended).filter(|_| task < root.graph.len());
                let ended = ended.ok_or_else(|| {
                    Error::new(ErrorKind::Wire, format!("rank {from} sent an invalid result of a command"))
                })?;
                let ended = Try { task, attempt, ended, rank: from, fault };
                if ended.failure().is_some()
                    || files.transfers.fetch_outputs(from, task, files.table.outputs(task))
                {
                    return self.settle_command(ended, out);
                }
                files.arriving.insert(task, ended);
            }
            Content::Kept(task, failure) => {
                if let Some(ended) = files.reported.remove(&task) {
                    self.unreported += REPORT_AFTER;
                    self.settle(&ended, failure, out)?;
                }
            }
            _ => {}
        }
        self.move_files(out)
    }

    /// Handles a piece of a file that another rank has sent.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the piece belongs to the standard output of another rank's commands and cannot be written.
    fn on_piece(&mut self, from: usize, piece: &FilePiece) -> Result<()> {
        let Some(files) = &mut self.files else { return Ok(()) };
        let FilePiece { head, bytes } = piece;
        if !files.transfers.on_piece(from, head, bytes.len() as u64) {
            return Ok(());
        }
        let written = match (files.table.name_of(head.file), self.commands.collected()) {
            (Some(name), _) => files.folder.write(name, head, bytes.bytes()),
            (None, Some(directory)) => {
                let written = files.folder.write_output(directory, from, head, bytes.bytes());
                // Standard output is transferred after all tasks are done, so an error in its transfer ends the job and is not counted as the
                // failure of a task.
                Ok(written.map_err(|why| Error::new(ErrorKind::Io, why))?)
            }
            (None, None) => Err("no task requested it".to_string()),
        };
        match written {
            Ok(()) => files.transfers.written(head, bytes.len() as u64),
            Err(why) => files.transfers.fail(head.file, &why),
        }
        Ok(())
    }

    /// Handles the transfers that have ended since the last call, and requests the next pieces of files from other ranks.
    pub(super) fn move_files(&mut self, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(files) = &mut self.files else { return Ok(()) };
        for settled in files.transfers.take_settled() {
            let Some(files) = &mut self.files else { return Ok(()) };
            match settled {
                Settled::Task(task, result) => match (files.starting.remove(&task), result) {
                    (Some(started), Ok(())) => self.start_command(task, started, out)?,
                    (Some(_), Err(why)) => self.abandon(task, why, out)?,
                    (None, _) => {}
                },
                Settled::Completed(task, result) => {
                    if let Some(mut ended) = files.arriving.remove(&task) {
                        ended.fault = result.err();
                        self.settle_command(ended, out)?;
                    }
                }
                Settled::Output(Err(why)) => log::warn!("{why}"),
                Settled::Output(Ok(())) => {}
                Settled::Abandoned(file) => {
                    if let Some(name) = files.table.name_of(file) {
                        files.folder.forget(name, file);
                    }
                }
            }
        }
        let requests = self.files.as_mut().map(|files| files.transfers.take_requests()).unwrap_or_default();
        for (to, request) in requests {
            out.send(to, Content::PieceRequest(request))?;
        }
        Ok(())
    }

    pub(super) fn lose_files(&mut self, lost: usize, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(files) = &mut self.files else { return Ok(()) };
        files.transfers.on_lost(lost);
        files.arriving.retain(|_, ended| ended.rank != lost);
        self.move_files(out)
    }

    /// Fetches the standard output of other ranks' commands on rank 0, when all tasks have ended. Returns true if rank 0 has all of it.
    pub(super) fn has_all_output(&mut self, out: &mut Outgoing<'_>) -> Result<bool> {
        let (Some(files), Some(root)) = (&mut self.files, &self.root) else { return Ok(true) };
        if !std::mem::replace(&mut files.has_requested_output, true) && self.commands.collected().is_some() {
            let living = (1..out.ranks()).filter(|&rank| !root.master.is_lost(rank));
            living.for_each(|rank| files.transfers.want_output(rank));
            self.move_files(out)?;
        }
        Ok(self.files.as_ref().is_none_or(|files| files.transfers.has_outputs()))
    }
}

impl Files {
    fn piece(&self, request: PieceRequest) -> FilePiece {
        match self.table.name_of(request.file) {
            Some(name) => self.folder.read(name, request),
            None => self.folder.read_output(request),
        }
    }
}
