//! What the neighbours of a rank have sent and it has not needed yet.

use super::mail::{Mail, Place, Queue, unexpected};
use crate::error::Result;

/// A queue for each neighbour.
#[derive(Debug)]
pub(super) struct Neighbours {
    place: Place,
    pub(super) above: Queue,
    pub(super) below: Queue,
}

impl Neighbours {
    /// Those of the rank at this place.
    pub(super) fn of(place: Place) -> Self {
        Neighbours { place, above: Queue::new(), below: Queue::new() }
    }

    /// A message has come.
    ///
    /// # Errors
    /// If it is not from a neighbour.
    pub(super) fn receive(&mut self, from: usize, mail: Mail) -> Result<()> {
        if Some(from) == self.place.above() {
            self.above.push_back(mail);
        } else if Some(from) == self.place.below() {
            self.below.push_back(mail);
        } else {
            return Err(unexpected(from, &format!("{:?}", mail.tag), "nothing, it is no neighbour"));
        }
        Ok(())
    }
}
