//! Transport for tests of master and workers in one process: records the messages that a rank sends.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::messages::Content;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{FRAME_HEADER, Message, TAG_AT};
use crate::comm::{Capabilities, Frame, Group, Transport, Waker};
use crate::error::Result;
use crate::rank::protocol::Outgoing;

#[derive(Default)]
struct Sent {
    /// Messages that were sent since the last call of [`take`](Recorder::take): number, receiver and content.
    new: Vec<(u64, usize, Frame)>,
    count: u64,
    /// Numbers, in the order of sending, of the messages that the transport reports as not sent yet.
    leaving: Vec<u64>,
}

struct Recording {
    rank: usize,
    ranks: usize,
    sent: Rc<RefCell<Sent>>,
}

impl Transport for Recording {
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.ranks
    }
    fn describe(&self) -> String {
        "recording".into()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { processes: false, real_time: true, threads: true, ranks_may_end: false }
    }
    fn send(&mut self, to: usize, frame: Frame) -> Result<()> {
        assert_ne!(to, self.rank, "a rank sends no message to itself");
        let mut sent = self.sent.borrow_mut();
        sent.count += 1;
        let number = sent.count;
        sent.new.push((number, to, frame));
        Ok(())
    }
    fn poll(&mut self) -> Result<Option<(usize, Frame)>> {
        Ok(None)
    }
    fn is_receiving(&self) -> bool {
        false
    }
    fn sends_done(&mut self) -> Result<bool> {
        Ok(true)
    }
    fn sends(&self) -> u64 {
        self.sent.borrow().count
    }
    fn has_left(&self, number: u64) -> bool {
        !self.sent.borrow().leaving.contains(&number)
    }
    fn wait(&mut self, _: Option<Duration>) -> Result<()> {
        Ok(())
    }
    fn waker(&self) -> Waker {
        Waker::for_this_thread()
    }
    fn clock(&self) -> Clock {
        Clock::stopped()
    }
    fn leave_now(&mut self) {}
    fn group(&mut self, _: &Group) -> Result<Option<Box<dyn Transport>>> {
        Ok(None)
    }
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

pub(super) struct Recorder {
    pub(super) endpoint: Endpoint,
    sent: Rc<RefCell<Sent>>,
}

impl Recorder {
    pub(super) fn new(rank: usize, ranks: usize) -> Self {
        let sent = Rc::default();
        let transport = Recording { rank, ranks, sent: Rc::clone(&sent) };
        Recorder { endpoint: Endpoint::new(Box::new(transport), Duration::ZERO), sent }
    }

    pub(super) fn out(&mut self) -> Outgoing<'_> {
        Outgoing::new(&mut self.endpoint)
    }

    pub(super) fn take(&mut self) -> Vec<(u64, usize, Content)> {
        let from = self.endpoint.rank();
        let new = std::mem::take(&mut self.sent.borrow_mut().new).into_iter();
        let open = |(number, to, Frame { head, parts })| {
            let message = Message { from, code: head[TAG_AT], body: head.slice(FRAME_HEADER..), parts };
            (number, to, Content::decode(message).expect("a machine has sent it"))
        };
        new.map(open).collect()
    }

    pub(super) fn are_leaving(&mut self, numbers: Vec<u64>) {
        self.sent.borrow_mut().leaving = numbers;
    }
}
