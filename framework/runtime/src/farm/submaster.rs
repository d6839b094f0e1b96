//! Sub-master: a rank that dispatches chunks to a group of workers, its members, and forwards their results to the master.

use armature_text::shown;

use super::failure_detector::Loss;
use super::link::Link;
use super::messages::{ChunkHeader, Entry, Lead, Lost, Payload, ToMaster, ToWorker};
use super::state::{SubmasterState, WorkerTable};
use crate::comm::message::Encode;
use crate::error::{Error, ErrorKind, Result};
use crate::rank::protocol::Outgoing;

#[derive(Debug)]
pub(super) struct Submaster {
    state: SubmasterState<Payload, Entry>,
}

impl Submaster {
    /// Begins to work as a sub-master for the ranks that `order` names as its members (workers that get their chunks from it).
    pub(super) fn lead(link: &mut Link, order: Lead, out: &mut Outgoing<'_>) -> Result<Self> {
        let Lead { members, order } = order;
        let (me, size) = (out.endpoint().rank(), out.endpoint().size());
        if let Some((strange, _)) = members.iter().find(|&&(m, _)| m == 0 || m == me || m >= size) {
            let text =
                format!("the master assigned rank {strange} to this sub-master, which cannot be its worker");
            return Err(link.here(Error::new(ErrorKind::Wire, text)));
        }
        for &(member, has_joined) in &members {
            link.detector.expect(out.endpoint(), member, has_joined);
            out.send(member, ToWorker::Attach(order))?;
        }
        let members = members.into_iter().map(|(member, _)| member).collect();
        Ok(Submaster { state: SubmasterState::new(size, members) })
    }

    pub(super) fn holds(&self) -> usize {
        self.state.holds()
    }

    pub(super) fn readmit(&mut self, rank: usize) {
        self.state.readmit(rank);
    }

    /// Takes chunks for the members, each of which may hold `ahead` chunks in addition to the running one, and no further chunk if it holds more
    /// than `most_tasks` tasks.
    pub(super) fn take(&mut self, (ahead, most_tasks): (u32, u32), chunks: Vec<(ChunkHeader, Payload)>) {
        self.state.set_limits(ahead, most_tasks);
        chunks.into_iter().for_each(|(header, payload)| self.state.take(header, payload));
    }

    /// Handles a message of a rank. Messages of ranks that are not members (workers of this sub-master) are ignored.
    pub(super) fn on_message(
        &mut self,
        link: &mut Link,
        from: usize,
        message: ToMaster,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        if !self.state.members().contains(&from) {
            return Ok(());
        }
        link.detector.record_message(from);
        match message {
            ToMaster::Join(join) => {
                self.state.joined(from);
                if let Some(flight_recorder) = &join.flight_recorder {
                    out.endpoint().know(from, flight_recorder.process.clone());
                    link.detector.flight_records.open(from, Some(flight_recorder));
                }
            }
            ToMaster::Result(entry) => {
                self.state.done(from, entry.chunk()?, entry);
            }
            // A sub-master ignores these messages, because only rank 0 handles them: results of sub-masters, tasks that exceed their time limit,
            // losses of members, and final reports.
            ToMaster::Results(_)
            | ToMaster::TimedOut { .. }
            | ToMaster::Lost(_)
            | ToMaster::Retired
            | ToMaster::Report(_) => {}
        }
        Ok(())
    }

    /// Sends chunks to members and collected results to the master. Returns true if anything was sent.
    pub(super) fn pass_on(&mut self, link: &mut Link, out: &mut Outgoing<'_>) -> Result<bool> {
        let mut has_progressed = false;
        while let Some((member, header, payload)) = self.state.dispatch() {
            let frame = ToWorker::Chunk(header, payload).encode(out.run())?;
            out.send(member, link.incumbent.add(member, frame)?)?;
            has_progressed = true;
            // If no member is idle, this call sends only one chunk. A member that becomes idle before the next call is then served before the busy
            // members.
            if !self.state.somebody_is_idle() {
                break;
            }
        }
        if self.state.is_due() {
            self.deliver(link, out)?;
            has_progressed = true;
        }
        Ok(has_progressed)
    }

    fn deliver(&mut self, link: &mut Link, out: &mut Outgoing<'_>) -> Result<()> {
        match self.state.deliver() {
            results if results.is_empty() => Ok(()),
            results => {
                let frame = ToMaster::Results(results).encode(out.run())?;
                out.send(0, link.incumbent.add(0, frame)?)
            }
        }
    }

    pub(super) fn is_deserted(&self) -> bool {
        self.state.is_deserted()
    }

    /// Ends the work as a sub-master: sends the remaining results to the master, and notifies it that this rank runs tasks itself
    /// again.
    pub(super) fn retire(mut self, link: &mut Link, out: &mut Outgoing<'_>) -> Result<()> {
        self.deliver(link, out)?;
        out.send(0, ToMaster::Retired)
    }

    pub(super) fn workers(&self) -> &WorkerTable {
        self.state.workers()
    }

    pub(super) fn lose(&mut self, link: &Link, loss: Loss, out: &mut Outgoing<'_>) -> Result<()> {
        log::warn!("farm {}: the tasks of rank {} are requeued: {}", shown(&link.farm), loss.rank, loss.why);
        let Loss { rank, certain, died, why } = loss;
        if !certain {
            self.state.doubt(rank);
            return Ok(());
        }
        let last_activity = link.detector.last_activity(rank, died);
        let chunks = self.state.lose(rank).into_iter().map(|header| header.id).collect();
        out.endpoint().lose(rank, &why);
        out.send(0, ToMaster::Lost(Lost { rank, why, chunks, last_activity }))
    }
}
