//! The link of a rank to the one that it works for: rank 0, or a sub-master.

use std::time::Duration;

use super::failure_detector::FailureDetector;
use super::messages::{Attach, ExecutionMode, Join, ToMaster};
use super::options::Options;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::rank::protocol::Outgoing;
use crate::rank::trail::TrailLocation;
use crate::session::Config;

/// See the module's page.
pub(super) struct Link {
    pub(super) detector: FailureDetector,
    pub(super) clock: Clock,
    rank: usize,
    /// The farm's name.
    pub(super) farm: String,
    /// The rank that this one works for.
    pub(super) superior: usize,
    /// The number of the order that said so.
    attach_number: u32,
    /// Where user code runs, as the superior has been told.
    announced: Option<ExecutionMode>,
    /// The time in which the worker was made, once it is.
    pub(super) warm_up: Option<Duration>,
    trail: Option<TrailLocation>,
}

impl Link {
    /// A link to rank 0.
    pub(super) fn new(
        endpoint: &Endpoint,
        trail: Option<TrailLocation>,
        farm: &str,
        options: &Options,
        config: &Config,
    ) -> Self {
        Link {
            detector: FailureDetector::new(endpoint.size(), options.silence(config), config),
            rank: endpoint.rank(),
            clock: endpoint.clock(),
            farm: farm.to_string(),
            superior: 0,
            attach_number: 0,
            announced: None,
            warm_up: None,
            trail,
        }
    }

    /// Adds the rank to an error.
    pub(super) fn here(&self, error: Error) -> Error {
        error.at_rank(self.rank)
    }

    /// Whether the superior has to be told where user code runs, now that it runs as `mode` says: it waits longer for a rank that
    /// cannot give signs of life meanwhile.
    pub(super) fn has_news(&mut self, mode: ExecutionMode) -> bool {
        self.announced.replace(mode) != Some(mode)
    }

    /// Where user code runs is announced again, even if it has not changed.
    pub(super) fn forget_announced(&mut self) {
        self.announced = None;
    }

    /// Tells rank `to` that the worker is made, if it is.
    pub(super) fn join(&self, to: usize, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(warm_up) = self.warm_up else { return Ok(()) };
        ToMaster::Join(Join { warm_up, trail: self.trail.clone() }).send(out.endpoint(), to)
    }

    /// Rank `to` orders this one to work for it. Returns whether it does from now on: an order that is older than the present
    /// one is void.
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
        // Whoever takes charge of others is there.
        self.detector.expect(out.endpoint(), to, true);
        true
    }
}
