//! Gathering of the values of all ranks on rank 0: up the [tree](super::tree).

use bytes::Bytes;

use super::broadcast::{Course, decode_items, encode_items, packed, unpacked};
use crate::comm::Frame;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Control, Tagged, frame_header};
use crate::comm::waiting::{Limits, Waits};
use crate::error::Result;
use crate::session::Announcement;
use crate::wire::{Codec, Item};

impl Course {
    /// Begins a collective operation in which rank 0 at first sends only the announcement (its description of the operation), without a
    /// value.
    ///
    /// # Errors
    /// The errors of [`begin`](Course::begin).
    pub(super) fn begin_empty(endpoint: &mut Endpoint, what: Announcement, limits: Limits) -> Result<Self> {
        let mut course = Course::begin(endpoint, what, limits)?;
        course.descend_value(endpoint, Some(()))?;
        Ok(course)
    }

    /// Combines the values of this rank and of its subtree in the tree of ranks, those of lower ranks first, and sends the result to the parent.
    /// Returns the combined values of all ranks on rank 0, `None` on the other ranks.
    ///
    /// # Errors
    /// The errors of `combine`, encoding and decoding; [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) if a child is silent for too long.
    /// The caller reports the error.
    pub(super) fn ascend<T: Item>(
        &self,
        endpoint: &mut Endpoint,
        codec: &Codec<T>,
        mine: Vec<T>,
        mut combine: impl FnMut(Vec<T>, Vec<T>) -> Result<Vec<T>>,
    ) -> Result<Option<Vec<T>>> {
        let rank = endpoint.rank();
        let above = (rank > 0).then_some(self.parent);
        let heartbeats_to: Vec<usize> = above.into_iter().chain(self.children.iter().copied()).collect();
        if rank == 0 {
            // Rank 0 sends its values to no rank, but checks that they could be sent.
            codec.check(&mine)?;
        }
        let mut all = mine;
        for &child in &self.children {
            let message = endpoint.await_from(
                &Waits { rank: child, limits: self.limits, heartbeats_to: &heartbeats_to },
                |from, tag| from == child && tag == Control::Values.byte(),
                || format!("for the values of rank {child}, or for values that it forwards"),
            )?;
            let (head, parts) = unpacked(child, message.parts)?;
            all = combine(all, decode_items(codec, head, parts)?)?;
        }
        if rank == 0 {
            return Ok(Some(all));
        }
        if !self.is_aside {
            let parts = packed(encode_items(codec, all)?);
            let head = Bytes::from(frame_header(self.run, Control::Values).to_vec());
            endpoint.send_ready(self.parent, Frame { head, parts })?;
        }
        Ok(None)
    }
}
