//! Link of a rank to its superior: rank 0, or a sub-master.

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

/// Link of a rank to its superior.
pub(super) struct Link {
    pub(super) detector: FailureDetector,
    pub(super) clock: Clock,
    pub(super) incumbent: IncumbentLink,
    rank: usize,
    pub(super) farm: String,
    /// Rank for which this one works.
    pub(super) superior: usize,
    /// Number of the attach order that assigned the superior.
    attach_number: u32,
    /// Execution mode that was last reported to the superior.
    announced: Option<ExecutionMode>,
    /// Time for the creation of the worker, once the worker is created.
    pub(super) warm_up: Option<Duration>,
    flight_recorder: Option<FlightRecordLocation>,
}

impl Link {
    /// Creates a link to rank 0.
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

    /// Adds the rank to an error.
    pub(super) fn here(&self, error: Error) -> Error {
        error.at_rank(self.rank)
    }

    /// Returns true if the superior does not know yet that user code runs in this `mode`. The superior waits longer for a rank that cannot
    /// send heartbeats while user code runs.
    pub(super) fn has_urgent_change(&mut self, mode: ExecutionMode) -> bool {
        self.announced.replace(mode) != Some(mode)
    }

    /// Forgets the reported execution mode, so that it is reported again even if it has not changed.
    pub(super) fn forget_announced(&mut self) {
        self.announced = None;
    }

    /// Notifies rank `to` that the worker is created, if it is.
    pub(super) fn join(&self, to: usize, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(warm_up) = self.warm_up else { return Ok(()) };
        out.send(to, ToMaster::Join(Join { warm_up, flight_recorder: self.flight_recorder.clone() }))
    }

    /// Handles the order of rank `to` to work for it. Returns true if the order is accepted; an order that is older than the current one is
    /// void.
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
        // The new superior has joined the farm: it is rank 0 or an active sub-master.
        self.detector.expect(out.endpoint(), to, true);
        true
    }
}
