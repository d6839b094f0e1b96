//! Commands of a rank: their start, and the handling of ended ones.

use super::Running;
use crate::error::Result;
use crate::rank::protocol::{Moment, Outgoing};
use crate::workflow::commands::{Change, Try};
use crate::workflow::messages::Reason;
use crate::workflow::value::Value;
use crate::workflow::worker::Step;

impl Running<'_, '_> {
    /// Polls for ended commands, and dispatches ready ones. Returns true if any command has ended or was dispatched.
    pub(super) fn turn_commands(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<bool> {
        if self.commands.cores() == 0 {
            return Ok(false);
        }
        self.note_time(at);
        let mut has_moved = false;
        for change in self.commands.look(at)? {
            match change {
                Change::Began(task) => self.worker.begins(task),
                Change::Ended(ended) => {
                    has_moved = true;
                    self.worker.stops(ended.task);
                    let took = self.commands.share(ended.task, ended.ended.run_time);
                    self.worker.totals.busy += took;
                    self.untallied.push(took);
                    self.on_ended(ended, out)?;
                }
            }
        }
        if has_moved {
            self.flush(true, at, out)?;
        }
        while self.commands.have_room(self.files.as_ref().map_or(0, |files| files.starting.len()))
            && let Step::Run { task, attempt, exceeded, .. } = self.worker.next_command()
        {
            has_moved = true;
            let limit = self.worker.memory_limit(task, exceeded).filter(|_| self.enforces_memory);
            self.begin_command(task, attempt, limit, out)?;
        }
        Ok(has_moved)
    }

    /// Passes an ended command to `after_command`, if there is one, and concludes it otherwise.
    pub(super) fn hear_of(&mut self, ended: Try, out: &mut Outgoing<'_>) -> Result<()> {
        match &mut self.unsettled {
            // If files are missing, the try has failed for a reason that `after_command` is not meant to see.
            Some(unsettled) if ended.fault.is_none() => unsettled.push_back(ended),
            _ => self.conclude(&ended, None, out)?,
        }
        Ok(())
    }

    /// Completes the task of a command that ran on this rank; `failure` is the error of `after_command`, or the failure reported by rank 0.
    pub(super) fn settle(&mut self, ended: &Try, failure: Option<(Reason, String)>) -> Result<()> {
        let used = &ended.ended;
        match ended.failure().or(failure) {
            None => {
                let (took, peak) = (used.run_time.as_nanos() as u64, used.peak_memory);
                self.have_written(ended.task);
                self.worker.on_done(ended.task, Value::nothing()?, took, Some(peak));
            }
            Some((reason, message)) => self.worker.on_failed(ended.task, reason, message, used.run_time),
        }
        Ok(())
    }
}
