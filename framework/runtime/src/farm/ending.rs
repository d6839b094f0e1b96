//! How a farm's run ends on rank 0.

use super::desk::Desk;
use super::machine::{Standing, Tally};
use super::summary::Summary;
use crate::comm::message::Tag;
use crate::error::Result;
use crate::observe::Event;
use crate::wire::Item;

impl<'scope, 'w: 'scope, 'f: 'scope, I: Item, O: Item> Desk<'_, 'scope, '_, 'w, 'f, I, O> {
    /// A worker has reported. One that hangs in a task does not come back from the run if it is a process.
    fn left(&mut self, rank: usize) {
        match self.master.crew().standing(rank) {
            Standing::Dead => return,
            Standing::Hung if self.endpoint.is_process() => {
                self.endpoint.lose(rank, "it hangs in a task");
                self.endpoint.stays(rank);
            }
            _ => {}
        }
        self.master.crew_mut().set(rank, Standing::Left);
    }

    /// Nothing is wanted, or to be expected, of this rank any more.
    pub(super) fn is_gone(&self, rank: usize) -> bool {
        matches!(self.master.crew().standing(rank), Standing::Dead | Standing::Silent | Standing::Left)
    }

    /// Lets the workers go and tells what the run was like.
    pub(crate) fn finish(mut self, iterations: usize) -> Result<Summary> {
        let now = self.clock.now();
        let elapsed = now.saturating_sub(self.start);
        self.streaming = false;
        self.ending = true;
        let ended_with = self.master.crew().hands();
        let sub_masters = self.sub_masters();
        let items = self.master.tally().ended;
        let Tally { failed, retried, again, .. } = self.master.tally();
        if failed + retried + again > 0 {
            self.tell(|| Event::Failures { failed, retried, again });
        }
        self.tell(|| Event::Finish { items, seconds: elapsed.as_secs_f64() });
        self.forget_deaths()?;
        if let Some(store) = self.store.take() {
            store.close().map_err(|e| e.in_farm(&self.name).at_rank(0))?;
        }
        self.close_groups()?;
        for rank in (1..self.endpoint.size()).filter(|rank| !self.groups.contains_key(rank)) {
            // Also to one that is taken for dead: it may only have been slow.
            self.endpoint.send(rank, Tag::Finish, &())?;
        }
        loop {
            self.let_leaders_go()?;
            if (1..self.endpoint.size()).all(|rank| self.is_gone(rank)) {
                break;
            }
            let mut moved = false;
            while let Some(message) = self.endpoint.poll()? {
                moved = true;
                self.hear_again(message.from)?;
                match message.tag::<Tag>()? {
                    Tag::Report => self.left(message.from),
                    Tag::Join => self.joined(&message)?,
                    Tag::Status => self.watch.hear(&message)?,
                    Tag::Lost => self.lost_member(&message)?,
                    // Results of a stream that was stopped, and what lost ranks still say.
                    _ => {}
                }
            }
            self.after_turn(moved)?;
        }
        // Nothing is wanted of those any more that have been silent until now, and nobody waits for them.
        for rank in 1..self.endpoint.size() {
            if self.master.crew().standing(rank) == Standing::Silent {
                self.master.crew_mut().set(rank, Standing::Dead);
                self.lost.push(rank);
                self.endpoint.lose(rank, "it has been silent until the end");
            }
        }
        let tally = self.master.tally();
        self.endpoint.note_done(tally.ended);
        self.engine.finish()?;
        Ok(Summary {
            farm: self.name,
            tasks: tally.ended,
            known: self.known,
            failed: tally.failed,
            retried: tally.retried,
            again: tally.again,
            lost: self.lost,
            chunks: tally.chunks,
            chunking: self.options.chunking.to_string(),
            iterations,
            elapsed,
            ranks: self.reports,
            started_with: self.started_with,
            ended_with,
            change: self.staff.why().map(str::to_string),
            sub_masters,
        })
    }
}
