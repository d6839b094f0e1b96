//! Link of a rank to its superior: the rank that sends it chunks, which is rank 0 or a sub-master.

use std::time::Duration;

use super::failure_detector::FailureDetector;
use super::incumbent_link::IncumbentLink;
use super::messages::{Attach, ExecutionMode, Join, ToMaster};
use super::options::Options;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::rank::flight_recorder::FlightRecordLocation;
use crate::rank::protocol::Outgoing;
use crate::session::Config;

pub(super) struct Link {
    pub(super) detector: FailureDetector,
    pub(super) clock: Clock,
    pub(super) incumbent: IncumbentLink,
    rank: usize,
    pub(super) farm: String,
    pub(super) superior: usize,
    /// Number of the order by which rank 0 made the current superior (the sender of chunks) the superior of this rank; rank 0 numbers
    /// these orders.
    attach_number: u32,
    /// Thread on which tasks run, as last reported to the superior (the sender of chunks).
    announced: Option<ExecutionMode>,
    pub(super) warm_up: Option<Duration>,
    flight_recorder: Option<FlightRecordLocation>,
}

impl Link {
    pub(super) fn new(
        endpoint: &Endpoint,
        flight_recorder: Option<FlightRecordLocation>,
        farm: &str,
        options: &Options,
        config: &Config,
    ) -> Self {
        Link {
            detector: FailureDetector::new(endpoint.size(), options.silence(config), config),
            incumbent: IncumbentLink::new(options.incumbent.clone(), farm, endpoint.size()),
            rank: endpoint.rank(),
            clock: endpoint.clock(),
            farm: farm.to_string(),
            superior: 0,
            attach_number: 0,
            announced: None,
            warm_up: None,
            flight_recorder,
        }
    }

    pub(super) fn here(&self, error: Error) -> Error {
        error.at_rank(self.rank)
    }

    /// Returns true if tasks run on another thread (`mode`) than last reported to the superior (the sender of chunks). The superior
    /// has to know the thread, because it waits longer for messages of a rank that cannot send heartbeats while a task runs.
    pub(super) fn has_urgent_change(&mut self, mode: ExecutionMode) -> bool {
        self.announced.replace(mode) != Some(mode)
    }

    /// Causes the thread on which tasks run to be reported to the superior again, even if it has not changed.
    pub(super) fn forget_announced(&mut self) {
        self.announced = None;
    }

    pub(super) fn join(&self, to: usize, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(warm_up) = self.warm_up else { return Ok(()) };
        out.send(to, ToMaster::Join(Join { warm_up, flight_recorder: self.flight_recorder.clone() }))
    }

    /// Handles an order of rank 0 by which this rank gets its chunks from rank `to` from now on. Returns false for an order that is
    /// older than the last one, which is ignored.
    pub(super) fn attach(&mut self, to: usize, order: Attach, out: &mut Outgoing<'_>) -> bool {
        let Attach { number, instead_of } = order;
        if number <= self.attach_number {
            return false;
        }
        self.attach_number = number;
        if let Some(dead) = instead_of {
            out.endpoint().learn_of(&[dead]);
        }
        self.superior = to;
        self.forget_announced();
        self.incumbent.repeat_round();
        // Rank `to` sends chunks to this rank from now on, so it is rank 0 or a sub-master, which has joined the farm before.
        self.detector.expect(out.endpoint(), to, true);
        true
    }
}
