//! Sub-masters on rank 0: division of the workers among them, chunks for their members, and the loss of sub-masters.

use armature_text::shown;

use super::super::failure_detector::Loss;
use super::super::messages::{Lost, ToWorker};
use super::super::state::LastActivity;
use super::super::task_source::Source;
use super::super::traffic::ahead_of_members;
use super::MasterRank;
use super::dispatch::Packed;
use crate::comm::message::Encode;
use crate::error::Result;
use crate::observe::Event;
use crate::rank::protocol::Outgoing;

/// Size in bytes at which a message with several chunks to a sub-master is sent; a single chunk may be larger. The start-up time of a message of
/// this size is negligible, and with larger messages the members would wait longer for their chunks.
const MOST_BYTES: usize = 1 << 20;

impl MasterRank {
    /// Divides the workers into `count` groups of about equal size. The first rank of each group becomes a sub-master and runs no more tasks.
    /// There are fewer groups if a group would have fewer than two ranks.
    pub(super) fn split(&mut self, count: usize, why: &str, out: &mut Outgoing<'_>) -> Result<()> {
        let ranks = self.state.splittable();
        let count = count.min(ranks.len() / 2);
        // With a time limit for tasks there are no sub-masters, because only rank 0 can handle workers that hang in a task.
        if count == 0 || self.state.groups.len() > 0 || self.options.task_limit.is_some() {
            return Ok(());
        }
        self.state.tasks.set_target(usize::MAX);
        self.adjust_workers(out)?;
        for (leader, order) in self.state.split(&ranks, count) {
            out.send(leader, ToWorker::Lead(order))?;
        }
        let (sub_masters, workers) = (self.state.groups.leaders(), ranks.len() - count);
        log::info!("farm {}: {count} sub-masters now serve {workers} workers: {why}", shown(&self.name));
        let why = why.to_string();
        self.record_event(|| Event::Split { sub_masters, workers, reason: why });
        Ok(())
    }

    pub(super) fn serve_group(
        &mut self,
        source: &mut dyn Source,
        leader: usize,
        (ahead, most): (f64, u64),
        out: &mut Outgoing<'_>,
    ) -> Result<bool> {
        let begin = self.clock.now();
        let room = self.state.workers().room(leader, ahead);
        let (mut chunks, mut bytes) = (Vec::new(), 0);
        while chunks.len() < room as usize && bytes < MOST_BYTES {
            let Some(worker) = self.state.next_member(leader) else { break };
            let Some((pending, worker)) = self.next_tasks(source, leader, worker, most)? else { break };
            let Packed { header, attempts, payload, .. } = self.pack(leader, pending)?;
            self.state.traffic.dispatched(header.count.into(), payload.len());
            self.state.record_dispatch(
                (leader, worker),
                (header, attempts),
                payload.clone(),
                self.clock.now(),
            );
            bytes += payload.len();
            chunks.push((header, payload));
        }
        if chunks.is_empty() {
            return Ok(false);
        }
        let frame =
            ToWorker::Chunks { ahead: ahead_of_members(ahead), most_tasks: self.state.most_tasks(), chunks }
                .encode(out.run())?;
        out.send(leader, self.incumbent.add(leader, frame)?)?;
        let took = self.clock.now().saturating_sub(begin);
        self.state.traffic.sent(took);
        self.controller.sent(bytes, took);
        Ok(true)
    }

    pub(super) fn on_member_lost(&mut self, from: usize, lost: Lost, out: &mut Outgoing<'_>) -> Result<()> {
        let Lost { rank, why, chunks, last_activity } = lost;
        if !self.state.groups.is_leader(from) {
            return Ok(());
        }
        let died = last_activity != LastActivity::Innocent;
        let loss = Loss { rank, certain: true, died, why };
        let (chunks, was_led) = self.state.lose_member(from, rank, &chunks);
        if was_led {
            self.lose_with(&loss, chunks, last_activity, out)
        } else {
            self.reassign(&loss, &chunks, last_activity)
        }
    }

    /// Handles the message of a sub-master that it has no members left, and from now on runs tasks itself.
    pub(super) fn on_retired(&mut self, from: usize) -> Result<()> {
        for chunk in self.state.retire(from).unwrap_or_default() {
            self.requeue(&chunk, 0..chunk.count, chunk.attempts, None)?;
        }
        Ok(())
    }

    pub(super) fn adopt(&mut self, leader: usize, out: &mut Outgoing<'_>) -> Result<()> {
        for (member, order) in self.state.adopt(leader) {
            self.detector.expect(out.endpoint(), member, true);
            out.send(member, ToWorker::Attach(order))?;
        }
        Ok(())
    }

    /// Orders the sub-masters, at the end of the run, to release their members. From now on rank 0 itself waits for the members.
    pub(super) fn dissolve_groups(&mut self, out: &mut Outgoing<'_>) -> Result<()> {
        for leader in self.state.groups.leaders() {
            out.send(leader, ToWorker::Dissolve)?;
        }
        for member in self.state.dissolve() {
            self.detector.expect(out.endpoint(), member, true);
        }
        Ok(())
    }

    /// Dismisses the sub-masters whose former members have all left the farm. Until then a sub-master must receive the last messages of its
    /// members.
    pub(super) fn dismiss_submasters(&mut self, out: &mut Outgoing<'_>) -> Result<()> {
        for leader in self.state.take_deserted() {
            self.dismiss(leader, out)?;
        }
        Ok(())
    }
}
