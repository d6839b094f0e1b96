//! What goes between a machine and the compute side, and what is counted on the way.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::ends::Fill;
use super::parcel::Parcel;

/// What the compute side is asked to do.
#[derive(Debug)]
pub(crate) enum Job {
    /// Draw a batch from the source.
    Draw { number: u64, first: u64, fill: Fill },
    /// Run the stages of a block on a batch.
    Process { block: usize, parcel: Parcel },
    /// Give a batch to the sink.
    Consume { parcel: Parcel },
}

/// What came of a job.
#[derive(Debug)]
pub(crate) enum Done {
    /// A batch was drawn (none at the very end), and whether the stream ended behind it.
    Drawn { parcel: Option<Parcel>, ended: bool },
    /// A block has been through.
    Processed { block: usize, parcel: Parcel },
    /// The sink has taken a batch.
    Consumed { count: usize, service: Duration, bytes: u64 },
}

/// Why a rank has nothing to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Nothing has arrived.
    Input,
    /// It has finished batches that nobody has asked for, or (rank 0) the window is closed.
    Downstream,
}

/// Counters of the traffic of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Traffic {
    pub(crate) sent_batches: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_batches: u64,
    pub(crate) received_bytes: u64,
}
