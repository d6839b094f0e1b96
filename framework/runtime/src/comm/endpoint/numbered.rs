//! Both ends of messages, by their numbers.

use super::{Arrival, Departure, Endpoint, Sent};
use crate::error::Result;

impl Endpoint {
    /// By rank: what was sent there so far, through this endpoint.
    pub(crate) fn sent(&self) -> &[Sent] {
        &self.exchanged.sent
    }

    /// From now on keeps in mind which messages leave, or does not.
    pub(crate) fn note_departures(&mut self, yes: bool) {
        self.exchanged.departures = yes.then(Vec::new);
    }

    /// Messages that have left since this was last called, in order, where they are kept in mind.
    pub(crate) fn take_departures(&mut self) -> impl Iterator<Item = Departure> + '_ {
        self.exchanged.departures.iter_mut().flat_map(|departures| departures.drain(..))
    }

    /// The next frame that has come, of whichever run.
    pub(super) fn arrival(&mut self) -> Result<Option<Arrival>> {
        let Some((from, frame)) = self.transport.poll()? else { return Ok(None) };
        Ok(Some(Arrival { from, number: self.exchanged.comes(from), frame }))
    }
}
