//! What a message to another rank costs: messages there and back, timed by the rank that asks. Every rank answers.

use std::time::Duration;

use armature_planner::Link;

use crate::comm::Frame;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Control, FRAME_HEADER, Message, frame_header};
use crate::error::Result;

/// Messages without content, and then with it, where a link is measured before anything is sent over it: the shortest time of each
/// counts, which others disturbed least. With one of each, a moment's load counts; more only take longer.
pub(crate) const ROUNDS: [u32; 2] = [5, 3];
/// Bytes per second. A link cannot be seen to be faster than this; it keeps the model's numbers finite.
pub(super) const FASTEST: f64 = 1e12;

/// Times messages to one rank: some without content, then some with it. They come back without content.
///
/// It has no clock and sends nothing: who asks sends what [`ask`](LinkProbe::ask) returns, and says when the answer has come.
#[derive(Clone, Debug)]
pub(crate) struct LinkProbe {
    /// The rank that answers.
    pub(crate) to: usize,
    /// Without content and with it.
    questions: [Frame; 2],
    /// Of each, how many are still to be sent.
    left: [u32; 2],
    /// Of each, the shortest time there and back.
    best: [Duration; 2],
    asked: Duration,
}

impl LinkProbe {
    /// In the run of this number, with this many messages without content to rank `to`, and with `bytes` bytes of it.
    pub(crate) fn new(run: u32, to: usize, bytes: usize, rounds: [u32; 2]) -> Self {
        let questions = [0, bytes].map(|bytes| {
            let mut head = frame_header(run, Control::Probe).to_vec();
            head.resize(FRAME_HEADER + bytes, 0);
            Frame::new(head)
        });
        LinkProbe { to, questions, left: rounds, best: [Duration::MAX; 2], asked: Duration::ZERO }
    }

    /// Which question is the next one: 0 without content, 1 with it; `None` if all have been answered.
    fn next(&self) -> Option<usize> {
        self.left.iter().position(|&left| left > 0)
    }

    /// The message that is to leave at once, `now`; `None` if all have been answered.
    pub(crate) fn ask(&mut self, now: Duration) -> Option<Frame> {
        self.asked = now;
        self.next().map(|next| self.questions[next].clone())
    }

    /// The answer has come.
    pub(crate) fn answered(&mut self, now: Duration) {
        if let Some(next) = self.next() {
            self.left[next] -= 1;
            self.best[next] = self.best[next].min(now.saturating_sub(self.asked));
        }
    }

    /// The shortest times there and back, without content and with it on the way there.
    pub(crate) fn round_trips(&self) -> [Duration; 2] {
        self.best
    }

    /// Seconds of one way, without content and with it.
    pub(crate) fn one_way(&self) -> [f64; 2] {
        let [empty, full] = self.best.map(|best| best.as_secs_f64());
        [empty / 2.0, (full - empty / 2.0).max(empty / 2.0)]
    }

    /// The link, as it was measured.
    pub(crate) fn link(&self) -> Link {
        let bytes = (self.questions[1].head.len() - FRAME_HEADER) as f64;
        let [setup, full] = self.one_way();
        Link { bandwidth: (bytes / (full - setup).max(bytes / FASTEST)).min(FASTEST), setup }
    }
}

/// Answers a message if it is a probe of the link. Returns whether it is.
///
/// # Errors
/// What the transport says.
pub(crate) fn answer(message: &Message, endpoint: &mut Endpoint) -> Result<bool> {
    let is_probe = message.is(Control::Probe);
    if is_probe {
        endpoint
            .send_ready(message.from, Frame::new(frame_header(endpoint.run(), Control::Echo).to_vec()))?;
    }
    Ok(is_probe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_times_count_which_others_disturbed_least() {
        let ms = Duration::from_millis;
        let mut probe = LinkProbe::new(1, 3, 1000, [2, 3]);
        let mut lengths = Vec::new();
        for (at, took) in [(0, 2), (10, 9), (20, 80), (200, 7), (300, 8)] {
            lengths.push(probe.ask(ms(at)).unwrap().head.len() - FRAME_HEADER);
            probe.answered(ms(at + took));
        }
        assert_eq!(lengths, [0, 0, 1000, 1000, 1000]);
        assert!(probe.ask(ms(400)).is_none());
        probe.answered(ms(400));
        assert_eq!((probe.to, probe.round_trips()), (3, [ms(2), ms(7)]));
        let ([setup, full], link) = (probe.one_way(), probe.link());
        assert!((setup - 0.001).abs() < 1e-12 && (full - 0.006).abs() < 1e-12, "{setup} {full}");
        assert!((link.setup - 0.001).abs() < 1e-12 && (link.bandwidth - 2e5).abs() < 1e-3, "{link:?}");
    }
}
