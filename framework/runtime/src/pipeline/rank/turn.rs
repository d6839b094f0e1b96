//! One turn of a rank: messages in, work done, messages out; and how it waits when there is nothing of these.

use std::time::Duration;

use super::super::links::Arrival;
use super::super::machine::{Note, parcel};
use super::super::tasks::{Outcome, Task};
use super::super::watch::Status;
use super::Rank;
use crate::comm::Part;
use crate::comm::message::{Message, Tag};
use crate::error::Result;
use crate::observe::Event;

/// Messages taken in before the rank looks at its own work again.
const BURST: usize = 16;
/// Jobs of microseconds done inline before the rank looks at its messages: a look costs as much as such a job.
const INLINE_BURST: u32 = 8;
/// What part of the time of a simulated job its rank may keep a message waiting.
const PATIENCE: u32 = 64;
/// Turns between two looks at the clock while there is work.
const TURNS_PER_TICK: u32 = 256;

impl<'p: 'scope, 'scope> Rank<'_, 'scope, '_, 'p> {
    /// One turn; waits when there was nothing to do.
    pub(crate) fn turn_or_wait(&mut self) -> Result<()> {
        if self.turn()? {
            self.backoff.reset();
            self.turns += 1;
            if self.turns >= TURNS_PER_TICK {
                self.turns = 0;
                self.tick()?;
            }
            return Ok(());
        }
        if self.idle.is_none() && self.engine.is_idle() {
            self.idle = Some((self.clock.now(), self.machine.idle_reason()));
        }
        self.tick()?;
        // A thread that only communicates leaves the core to the one that computes, and sleeps also while that one rests.
        // None rests for ever here, as a farm's master does: whom others wait for has source, sink or a stage, so its jobs
        // are short and done inline, or take a millisecond, beside which a wake-up is little. And a rank that waits busily
        // keeps the others' compute threads from waking up on its core: on two ranks, a pipeline of one item then takes
        // twice as long. Beside a job its first sleep is longer, too: what comes meanwhile is seldom what its own rank waits
        // for, and the others have asked for theirs ahead of time.
        self.backoff.may_spin(self.engine.is_inline());
        self.backoff.is_beside_work(!self.engine.leaves_the_core());
        if let Some(pause) = self.engine.pause(PATIENCE) {
            return self.endpoint.transport().wait(Some(pause));
        }
        self.backoff.wait(self.endpoint.transport(), self.clock)
    }

    /// Takes in what has come, starts what can be started, sends what is to be sent. Returns whether there was
    /// anything.
    fn turn(&mut self) -> Result<bool> {
        let mut moved = false;
        // A rank that computes inline takes one message at a time: the others can go on as soon as it has answered.
        let burst = if self.engine.is_inline() { 1 } else { BURST };
        for _ in 0..burst {
            let Some(message) = self.endpoint.poll()? else {
                self.looks_late = false;
                break;
            };
            self.take_in(message)?;
            moved = true;
        }
        moved |= self.work()?;
        self.send_mail()?;
        Ok(moved)
    }

    /// Sorts a message: items and their book-keeping to the machine, the rest to who runs this rank.
    fn take_in(&mut self, message: Message) -> Result<()> {
        if message.is(Tag::Data) && self.meter.watches_links() {
            self.meter.arrived(Arrival {
                from: message.from,
                bytes: message.body.len() + message.parts.iter().map(Part::len).sum::<usize>(),
                sent: parcel::sent(&message.body),
                now: self.clock.now(),
                late: self.looks_late,
            });
        }
        match message.tag::<Tag>()? {
            Tag::Data | Tag::Request | Tag::Offer | Tag::Assign | Tag::Early | Tag::Token => {
                let taken = self.machine.on_message(message);
                taken.map_err(|e| self.here(e))
            }
            Tag::Status => self.watch.hear(&message),
            _ => {
                self.control.push_back(message);
                Ok(())
            }
        }
    }

    /// Fetches what is done and hands over what comes next.
    fn work(&mut self) -> Result<bool> {
        let mut moved = false;
        let mut inline_jobs = 0;
        loop {
            while let Some(outcome) = self.engine.fetch()? {
                moved = true;
                match outcome {
                    Outcome::Job(done, work) => {
                        self.meter.note(&work);
                        let now =
                            if self.machine.needs_time(&done) { self.clock.now() } else { Duration::ZERO };
                        let taken = self.machine.on_done(done, now);
                        taken.map_err(|e| self.here(e))?;
                        // At once: somebody may be waiting for it while this rank goes on.
                        self.send_mail()?;
                    }
                    Outcome::SetUp(answer) => self.answers.push_back(answer),
                }
            }
            if !self.engine.has_room() || self.engine.wants_pause() || inline_jobs == INLINE_BURST {
                return Ok(moved);
            }
            if let Some(task) = self.first.take() {
                self.engine.submit(task)?;
                self.looks_late |= self.engine.is_inline();
                continue;
            }
            let Some(job) = self.machine.next_job()? else { return Ok(moved) };
            self.end_idle();
            self.engine.submit(Task::Job(job))?;
            self.looks_late |= self.engine.is_inline();
            moved = true;
            if self.engine.is_tiny() {
                inline_jobs += 1;
            } else if self.engine.is_inline() {
                // Nobody knows how long it took, so that the others may have waited for a sign of life.
                self.turns = TURNS_PER_TICK;
                // Its result is fetched in the next turn, after a look at the messages.
                return Ok(moved);
            }
        }
    }

    pub(super) fn send_mail(&mut self) -> Result<()> {
        let watched = self.machine.has_mail() && self.meter.watches_links();
        // A thread that goes on to compute does not look after a large message, which MPI may carry on only then.
        let sent =
            (watched && (!self.engine.is_inline() || self.clock.is_simulated())).then(|| self.clock.now());
        for (to, message) in self.machine.take_mail(sent) {
            self.endpoint.send_ready(to, message)?;
        }
        Ok(())
    }

    /// What has to happen now and then: a sign of life, and a look at who gives none.
    fn tick(&mut self) -> Result<()> {
        self.tell_notes();
        // The simulator finds its own deadlocks.
        if self.clock.is_simulated() {
            return Ok(());
        }
        let now = self.clock.now();
        self.events.tick(now);
        self.endpoint.look(now);
        if !self.watch.is_due(now) {
            return Ok(());
        }
        let mine = Status { doing: self.activity.get(), state: self.machine.describe() };
        let flying = self.machine.source().is_some_and(|s| s.flow().in_flight > 0);
        self.watch.round(self.endpoint, mine, self.idle.is_some() && flying, now)
    }

    /// Puts into the log what the machine has done that is worth it.
    pub(super) fn tell_notes(&mut self) {
        for note in self.machine.take_notes() {
            let name = |stage: usize| self.stage_names.get(stage).cloned().unwrap_or_default();
            let event = match note {
                Note::HandOver { stage, to, next, bytes } => {
                    Event::HandOver { stage: name(stage), to, next_batch: next, bytes: bytes as u64 }
                }
                Note::TakeOver { stage, from, next } => {
                    Event::TakeOver { stage: name(stage), from, next_batch: next }
                }
                Note::Forwarded { epoch, batches } => Event::Forwarded { epoch, batches },
            };
            self.tell(|| event);
        }
    }
}
