//! Messages of a rank about values of tasks: its requests for values, and its replies to the requests of other ranks.

use std::collections::{HashMap, VecDeque};

use super::values::{Location, Values};
use crate::error::Result;
use crate::rank::protocol::Outgoing;
use crate::workflow::messages::{Content, Sizes};
use crate::workflow::value::Value;

/// Requests of a rank for task values (results), and requests of other ranks to which it has not replied.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// Request for task values that is held back because further values may be added to it: its receiver, and for each value the maximum
    /// size up to which the value may be sent without a further request.
    request: Option<(usize, Sizes)>,
    /// For each task whose value this rank does not have yet: ranks that have requested the value, each with the maximum size up to which it may be
    /// sent.
    waiting: HashMap<usize, Vec<(usize, u64)>>,
    /// Task values that must be read from disk and sent: task, and receiver.
    pub(super) serving: VecDeque<(usize, usize)>,
    pub(super) sent: u64,
}

impl Exchange {
    /// Requests a value from the rank `source`, which sends the value if it has at most `room` bytes, and otherwise only its size.
    pub(super) fn request(
        &mut self,
        task: usize,
        source: usize,
        room: u64,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        match &mut self.request {
            Some((to, values)) if *to == source => values.push((task, room)),
            _ => {
                self.send_request(out)?;
                self.request = Some((source, vec![(task, room)]));
            }
        }
        Ok(())
    }

    /// Sends the request for values that was held back because further values could be added to it, if there is one.
    pub(super) fn send_request(&mut self, out: &mut Outgoing<'_>) -> Result<()> {
        match self.request.take() {
            Some((to, values)) if !out.endpoint().is_lost(to) => out.send(to, Content::Want(values)),
            _ => Ok(()),
        }
    }

    /// Sends a message to another rank. If a request for values is held back, it is sent first. A message to a dead rank is dropped.
    pub(super) fn send(&mut self, to: usize, content: Content, out: &mut Outgoing<'_>) -> Result<()> {
        self.send_request(out)?;
        if out.endpoint().is_lost(to) { Ok(()) } else { out.send(to, content) }
    }

    /// Replies to the request of rank `to` for a value: sends the value, or its size if it is larger than `room` bytes. If the value is not on this
    /// rank, the reply is sent when the value has been computed here. If the value was dropped before, the requesting rank is informed, because it
    /// may have reserved memory for it.
    pub(super) fn answer(
        &mut self,
        (to, task, room): (usize, usize, u64),
        values: &mut Values,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let held = &values[task];
        match &held.location {
            location if location.is_elsewhere() => {
                self.waiting.entry(task).or_default().push((to, room));
                if held.is_unneeded { self.send(to, Content::Dropped(task), out) } else { Ok(()) }
            }
            _ if held.bytes > room => self.send(to, Content::Offer(vec![(task, held.bytes)]), out),
            Location::Memory(value) => self.send_value(to, task, value.clone(), values, out),
            _ => {
                self.serving.push_back((task, to));
                Ok(())
            }
        }
    }

    pub(super) fn answer_all(
        &mut self,
        task: usize,
        values: &mut Values,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let waiting = self.waiting.remove(&task).unwrap_or_default();
        waiting.into_iter().try_for_each(|(to, room)| self.answer((to, task, room), values, out))
    }

    pub(super) fn stop_waiting(&mut self, task: usize, rank: usize) {
        if let Some(waiting) = self.waiting.get_mut(&task) {
            waiting.retain(|&(other, _)| other != rank);
        }
    }

    /// Sends the value (result) of a task to another rank. Its memory counts as occupied until the transport has sent it.
    pub(super) fn send_value(
        &mut self,
        to: usize,
        task: usize,
        value: Value,
        values: &mut Values,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let bytes = value.bytes();
        self.sent += bytes;
        self.send(to, Content::Value(task, value), out)?;
        if !out.endpoint().is_lost(to) {
            values.leaves(task, to, bytes, out.last_sent());
        }
        Ok(())
    }
}
