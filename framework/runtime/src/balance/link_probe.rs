//! Measurement of links: round-trip times of messages to another rank. Every rank answers these messages, which are called probes.

use std::time::Duration;

use armature_planner::Link;

use crate::comm::Frame;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Control, FRAME_HEADER, Message, frame_header};
use crate::error::Result;

/// Number of empty messages, and of messages with content, that measure a link before its first use. The shortest time of each kind counts, because
/// other load has disturbed that message least. With fewer messages a short load peak could spoil the measurement.
pub(crate) const ROUNDS: [u32; 2] = [5, 3];
/// Maximum measurable bandwidth in bytes per second. The maximum keeps the numbers of the performance model finite.
pub(crate) const FASTEST: f64 = 1e12;

/// Probe of the link to one rank: first messages without content, then messages with content. The answers have no content.
///
/// The probe has no clock and sends nothing: the caller sends the messages that [`next_frame`](LinkProbe::next_frame) returns, and reports each
/// answer with [`answered`](LinkProbe::answered).
#[derive(Clone, Debug)]
pub(crate) struct LinkProbe {
    pub(crate) to: usize,
    questions: [Frame; 2],
    /// Numbers of probe messages whose answer has not arrived: of empty ones, which are sent first, and of those with content.
    left: [u32; 2],
    /// Shortest round-trip times so far, of empty probe messages and of those with content.
    best: [Duration; 2],
    sent_at: Duration,
}

impl LinkProbe {
    /// Creates a probe of the link to rank `to` in the run with number `run`. `rounds` contains the number of empty messages and of messages with
    /// content, which have `bytes` bytes.
    pub(crate) fn new(run: u32, to: usize, bytes: usize, rounds: [u32; 2]) -> Self {
        let questions = [0, bytes].map(|bytes| {
            let mut head = frame_header(run, Control::Probe).to_vec();
            head.resize(FRAME_HEADER + bytes, 0);
            Frame::new(head)
        });
        LinkProbe { to, questions, left: rounds, best: [Duration::MAX; 2], sent_at: Duration::ZERO }
    }

    /// Returns the kind of the next probe message: 0 without content, 1 with content; `None` if all probe messages have been answered.
    fn next(&self) -> Option<usize> {
        self.left.iter().position(|&left| left > 0)
    }

    /// Returns the next probe message, which the caller has to send now; `now` is the current time. Returns `None` if all probe messages have been
    /// answered.
    pub(crate) fn next_frame(&mut self, now: Duration) -> Option<Frame> {
        self.sent_at = now;
        self.next().map(|next| self.questions[next].clone())
    }

    pub(crate) fn answered(&mut self, now: Duration) {
        if let Some(next) = self.next() {
            self.left[next] -= 1;
            self.best[next] = self.best[next].min(now.saturating_sub(self.sent_at));
        }
    }

    pub(crate) fn round_trips(&self) -> [Duration; 2] {
        self.best
    }

    /// Returns the estimated one-way times of messages in seconds, without content and with content.
    pub(crate) fn one_way(&self) -> [f64; 2] {
        let [empty, full] = self.best.map(|best| best.as_secs_f64());
        [empty / 2.0, (full - empty / 2.0).max(empty / 2.0)]
    }

    pub(crate) fn link(&self) -> Link {
        let bytes = (self.questions[1].head.len() - FRAME_HEADER) as f64;
        let [setup, full] = self.one_way();
        Link { bandwidth: (bytes / (full - setup).max(bytes / FASTEST)).min(FASTEST), setup }
    }
}

/// Answers a message if it is a link probe. Returns true if the message is a link probe.
///
/// # Errors
/// The errors of the transport.
pub(crate) fn answer(message: &Message, endpoint: &mut Endpoint) -> Result<bool> {
    let is_probe = message.is(Control::Probe);
    if is_probe {
        endpoint.send(message.from, Control::Echo, &())?;
    }
    Ok(is_probe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_is_estimated_from_the_shortest_times() {
        let ms = Duration::from_millis;
        let mut probe = LinkProbe::new(1, 3, 1000, [2, 3]);
        let mut lengths = Vec::new();
        for (at, took) in [(0, 2), (10, 9), (20, 80), (200, 7), (300, 8)] {
            lengths.push(probe.next_frame(ms(at)).unwrap().head.len() - FRAME_HEADER);
            probe.answered(ms(at + took));
        }
        assert_eq!(lengths, [0, 0, 1000, 1000, 1000]);
        assert!(probe.next_frame(ms(400)).is_none());
        probe.answered(ms(400));
        assert_eq!((probe.to, probe.round_trips()), (3, [ms(2), ms(7)]));
        let ([setup, full], link) = (probe.one_way(), probe.link());
        assert!((setup - 0.001).abs() < 1e-12 && (full - 0.006).abs() < 1e-12, "{setup} {full}");
        assert!((link.setup - 0.001).abs() < 1e-12 && (link.bandwidth - 2e5).abs() < 1e-3, "{link:?}");
    }
}
