//! Message tags of a farm.

use crate::comm::message::tags;

tags! {
    "a farm";
    /// Tag of a farm's message on the wire.
    pub(in super::super) enum Tag {
        Finish = 23,
        Report = 24,
        Chunk = 32,
        Done = 33,
        Join = 34,
        TimedOut = 35,
        Park = 36,
        Lead = 37,
        Attach = 38,
        Chunks = 39,
        Results = 40,
        Lost = 41,
        Retire = 42,
        /// Nothing but the incumbent.
        Incumbent = 43,
    }
}
