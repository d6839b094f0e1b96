//! The commands of a rank: what begins, and what becomes of what has ended.

use super::Running;
use crate::error::Result;
use crate::rank::protocol::{Moment, Outgoing};
use crate::workflow::commands::{Change, Try};
use crate::workflow::messages::Reason;
use crate::workflow::value::Value;
use crate::workflow::worker::Step;

impl Running<'_, '_> {
    /// Looks which commands have ended, and hands over what may begin. Returns whether there was anything.
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

    /// User code hears of a command that has ended, if it is to; what follows from it does so afterwards.
    pub(super) fn hear_of(&mut self, ended: Try, out: &mut Outgoing<'_>) -> Result<()> {
        match &mut self.unsettled {
            // A try that fails for its files is not one that has done what user code would note.
            Some(unsettled) if ended.fault.is_none() => unsettled.push_back(ended),
            _ => self.conclude(&ended, None, out)?,
        }
        Ok(())
    }

    /// A command that ran here has ended, and user code has heard of it, which may have failed over it.
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
