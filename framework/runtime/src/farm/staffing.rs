//! Rank 0's changes of the number of workers: looks, decisions carried out, round trips that measure the links.

use std::time::Duration;

use super::desk::Desk;
use super::machine::{Change, Standing};
use super::outcome::Answer;
use super::staff::{Look, Scene};
use crate::comm::Frame;
use crate::comm::message::{Tag, frame_header};
use crate::error::Result;
use crate::observe::{Event, EventLog, Place};
use crate::session::Config;
use crate::wire::Item;

/// A round trip that takes longer is not waited for.
const ECHO_LIMIT: Duration = Duration::from_secs(1);

impl<'scope, 'w: 'scope, 'f: 'scope, I: Item, O: Item> Desk<'_, 'scope, '_, 'w, 'f, I, O> {
    /// Begins the log of events, if there is to be one.
    pub(super) fn log_events(&mut self, config: &Config, balance: &str) {
        let all = (usize::from(!self.computes)..self.endpoint.size())
            .filter(|&r| !self.endpoint.is_lost(r))
            .count();
        self.started_with = self.options.workers.map_or(all, |n| n.clamp(1, all.max(1)));
        if self.options.workers.is_some() {
            self.master.set_target(self.started_with);
        }
        let Some(dir) = &config.events else { return };
        let offset = -self.clock.now().as_secs_f64();
        let run = self.endpoint.run().saturating_sub(1);
        self.events = EventLog::open(dir, Place { rank: 0, size: self.endpoint.size(), run, offset });
        let (farm, ranks, workers) = (self.name.clone(), self.endpoint.size(), self.started_with);
        let (chunking, balance) = (self.options.chunking.to_string(), balance.to_string());
        self.tell(|| Event::FarmStart { farm, ranks, workers, chunking, balance });
    }

    /// Puts an event into the log, if there is one.
    pub(super) fn tell(&mut self, event: impl FnOnce() -> Event) {
        if self.events.is_on() {
            self.events.record(self.clock.now(), event);
        }
    }

    /// Parks and wakes ranks so that as many work as are to.
    pub(super) fn restaff(&mut self) -> Result<()> {
        if self.ending {
            return Ok(());
        }
        let reports = &self.reports;
        let seconds = |rank: usize| {
            let done = &reports[rank];
            (done.tasks > 0).then(|| done.busy.as_secs_f64() / done.tasks as f64)
        };
        let Change { parked, woken } = self.master.staff(seconds);
        for &rank in &parked {
            self.chunker.leave(rank);
            self.endpoint.send(rank, Tag::Park, &true)?;
        }
        for &rank in &woken {
            self.chunker.join(rank);
            self.endpoint.send(rank, Tag::Park, &false)?;
        }
        if !parked.is_empty() {
            self.tell(|| Event::Parked { ranks: parked });
        }
        if !woken.is_empty() {
            self.tell(|| Event::Woken { ranks: woken });
        }
        Ok(())
    }

    /// Between two iterations: measures the links while nothing is on its way, and looks at the number of workers.
    /// It took `took` to make the next tasks.
    pub(crate) fn between(&mut self, took: Duration) -> Result<()> {
        if !self.groups.is_empty() {
            return Ok(());
        }
        self.staff.iteration(took);
        let now = self.clock.now();
        for bytes in self.staff.round_trips(now.saturating_sub(self.start)) {
            self.round_trip(bytes)?;
        }
        if self.staff.is_due(now, false, 0) {
            self.look(now, false)?;
        }
        self.staff.resume(self.clock.now());
        Ok(())
    }

    /// The same for a stream, now and then.
    pub(super) fn look_at_stream(&mut self, now: Duration) -> Result<()> {
        let splittable =
            if self.may_split() { self.master.crew().working() + self.master.crew().parked() } else { 0 };
        let due = self.streaming && self.groups.is_empty() && self.staff.is_due(now, true, splittable);
        if due { self.look(now, true) } else { Ok(()) }
    }

    /// Whether sub-masters may be made when they pay.
    fn may_split(&self) -> bool {
        self.options.sub_masters.is_none() && self.options.task_limit.is_none()
    }

    fn look(&mut self, now: Duration, stream: bool) -> Result<()> {
        let crew = self.master.crew();
        let (workers, most) = (crew.working(), crew.working() + crew.parked());
        let clock = self.clock;
        let may_split = self.may_split();
        let scene = Scene { now, workers, most, computes: self.computes, stream, may_split };
        let Some(Look { target, split, events }) = self.staff.look(scene, || clock.now()) else {
            return Ok(());
        };
        events.into_iter().for_each(|event| self.tell(|| event));
        if let Some((count, why)) = split {
            self.split(count, &why)?;
        }
        if let Some(target) = target {
            log::info!(
                "farm {}: {target} instead of {workers} workers: {}",
                self.name,
                self.staff.why().unwrap_or_default()
            );
            self.master.set_target(target);
            self.restaff()?;
        }
        Ok(())
    }

    /// Times a message to an idle worker and its answer; the worker is another one each time.
    fn round_trip(&mut self, bytes: usize) -> Result<()> {
        let size = self.endpoint.size();
        let idle = |&rank: &usize| {
            let crew = self.master.crew();
            crew.standing(rank) == Standing::Working && crew.held(rank) == 0
        };
        let Some(to) = (1..size).map(|n| 1 + (self.asked + n) % (size - 1)).find(idle) else { return Ok(()) };
        // Both lengths go to the same one in turn.
        if bytes > 0 {
            self.asked = to - 1;
        }
        self.echo = None;
        let mut head = frame_header(self.endpoint.run(), Tag::Probe).to_vec();
        head.resize(head.len() + bytes, 0);
        let start = self.clock.now();
        self.endpoint.send_ready(to, Frame::new(head))?;
        while self.echo != Some(to) {
            let moved = self.receive(&mut |_, _| Answer::Continue(()))?;
            if self.echo == Some(to) {
                break;
            }
            self.after_turn(moved)?;
            if self.clock.now().saturating_sub(start) > ECHO_LIMIT && !self.clock.is_simulated() {
                return Ok(());
            }
        }
        self.staff.echo(bytes, self.clock.now().saturating_sub(start));
        Ok(())
    }
}
