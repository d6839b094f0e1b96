//! Requirements of every transport, as one test body that runs on all transports.
//!
//! Each rank of a test job calls [`everything`] with its transport; a violated requirement panics on the rank that detects it. The caller supplies
//! the watchdog, because a transport that hangs is not detected here.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{Frame, Part, Transport};

/// Runs all checks of a transport. `bulk` is a message size in bytes above which the transport does not send data eagerly, and splits the data.
pub(crate) fn everything<T: Transport>(transport: &mut T, bulk: usize) {
    let mut peer = Peer::new(transport);
    peer.knows_the_world();
    peer.keeps_the_order_of_small_messages(2_000);
    peer.carries_messages_of_no_bytes();
    peer.keeps_the_order_behind_large_messages(bulk);
    peer.exchanges_large_messages_both_ways_at_once(bulk);
    peer.takes_many_parts();
    peer.keeps_the_alignment_of_bulk_numbers(bulk);
    peer.queues_more_than_the_receiver_takes(bulk);
    peer.finds_its_way_through_a_random_mixture(0x5EED, bulk);
    peer.wakes_early_and_waits_no_longer_than_told();
}

/// A rank of the test, with the frames that have arrived at it, by sender, so that a check can read from the senders in any order.
struct Peer<'a, T> {
    transport: &'a mut T,
    arrived: Vec<VecDeque<Frame>>,
}

/// Returns bytes that differ for each sender, number and length of a frame, so that a test detects exchanged frames.
fn pattern(from: usize, number: usize, length: usize) -> Bytes {
    let mut state = (from as u64 + 1) << 32 | (number as u64 + 1) ^ (length as u64) << 20;
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        state = next(state);
        let word = state.to_le_bytes();
        bytes.extend_from_slice(&word[..word.len().min(length - bytes.len())]);
    }
    bytes.into()
}

/// Returns the next number of Marsaglia's xorshift generator.
fn next(mut x: u64) -> u64 {
    x ^= x << 13;
    x ^= x >> 7;
    x ^ x << 17
}

fn same(found: &Frame, expected: &Frame, what: &str) {
    // The bytes are compared with `assert!`, because `assert_eq!` would print megabytes.
    let sizes = |m: &Frame| (m.head.len(), m.parts.iter().map(Part::len).collect::<Vec<_>>());
    assert_eq!(sizes(found), sizes(expected), "{what}: sizes of head and parts");
    assert!(found == expected, "{what}: the bytes differ");
}

impl<'a, T: Transport> Peer<'a, T> {
    fn new(transport: &'a mut T) -> Self {
        let arrived = vec![VecDeque::new(); transport.size()];
        Peer { transport, arrived }
    }

    fn rank(&self) -> usize {
        self.transport.rank()
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<T> {
        let rank = self.rank();
        (0..self.transport.size()).filter(move |&other| other != rank)
    }

    fn send(&mut self, to: usize, frame: Frame) {
        self.transport.send(to, frame).expect("send");
    }

    fn step(&mut self) {
        match self.transport.poll().expect("poll") {
            Some((from, frame)) => self.arrived[from].push_back(frame),
            None => self.transport.wait(Some(Duration::from_micros(50))).expect("wait"),
        }
    }

    fn receive(&mut self, from: usize) -> Frame {
        loop {
            if let Some(frame) = self.arrived[from].pop_front() {
                return frame;
            }
            self.step();
        }
    }

    /// Ends a check on this rank: waits until all ranks have ended it, and checks that all sends are complete and no frame is left.
    fn meet(&mut self, what: &str) {
        for to in 0..self.transport.size() {
            self.send(to, Frame::new(what.as_bytes().to_vec()));
        }
        for from in 0..self.transport.size() {
            let frame = self.receive(from);
            assert!(frame.head == what.as_bytes(), "rank {from} is not at the end of `{what}`");
        }
        while !self.transport.sends_done().expect("sends_done") {
            self.step();
        }
    }

    fn knows_the_world(&mut self) {
        assert!(self.rank() < self.transport.size());
        assert!(!self.transport.describe().is_empty());
        self.meet("knows_the_world");
    }

    fn keeps_the_order_of_small_messages(&mut self, count: usize) {
        let rank = self.rank();
        for number in 0..count {
            for to in 0..self.transport.size() {
                let head = pattern(rank, number, number % 300);
                self.send(to, Frame::new(head));
            }
            if number % 7 == 0 {
                self.step();
            }
        }
        for from in 0..self.transport.size() {
            for number in 0..count {
                let found = self.receive(from);
                let expected = Frame::new(pattern(from, number, number % 300));
                same(&found, &expected, &format!("small frame {number} of rank {from}"));
            }
        }
        self.meet("keeps_the_order_of_small_messages");
    }

    fn carries_messages_of_no_bytes(&mut self) {
        let empty = [
            Frame::default(),
            Frame { head: Bytes::new(), parts: vec![Bytes::new().into()] },
            Frame { head: Bytes::new(), parts: vec![Bytes::new().into(); 3] },
            Frame { head: Bytes::from_static(b"x"), parts: vec![Bytes::new().into()] },
        ];
        for to in 0..self.transport.size() {
            for frame in &empty {
                self.send(to, frame.clone());
            }
        }
        for from in 0..self.transport.size() {
            for frame in &empty {
                same(&self.receive(from), frame, "an empty frame");
            }
        }
        self.meet("carries_messages_of_no_bytes");
    }

    /// Each sender sends large and small messages in turn. A small message completes earlier, but must arrive after the large messages that were
    /// sent before it.
    fn keeps_the_order_behind_large_messages(&mut self, bulk: usize) {
        let frame = |from: usize, number: usize| {
            let head = pattern(from, number, 16);
            let large = || pattern(from, number + 100, bulk + number);
            match number % 4 {
                0 => Frame { head, parts: vec![large().into()] },
                1 => Frame::new(head),
                2 => {
                    let parts = [Bytes::from_static(b"small"), large(), Bytes::new()];
                    Frame { head, parts: parts.map(Part::Bytes).into() }
                }
                _ => Frame::new(large()),
            }
        };
        for to in 0..self.transport.size() {
            for number in 0..12 {
                let frame = frame(self.rank(), number);
                self.send(to, frame);
            }
        }
        for from in 0..self.transport.size() {
            for number in 0..12 {
                let found = self.receive(from);
                same(&found, &frame(from, number), &format!("frame {number} of rank {from}"));
            }
        }
        self.meet("keeps_the_order_behind_large_messages");
    }

    /// All ranks send to all ranks before any rank receives: a transport that blocks in a send hangs here.
    fn exchanges_large_messages_both_ways_at_once(&mut self, bulk: usize) {
        let frame = |from: usize, round: usize| Frame {
            head: pattern(from, round, 100),
            parts: vec![pattern(from, round, 4 * bulk).into()],
        };
        for round in 0..3 {
            for to in 0..self.transport.size() {
                let frame = frame(self.rank(), round);
                self.send(to, frame);
            }
        }
        for round in 0..3 {
            for from in 0..self.transport.size() {
                same(&self.receive(from), &frame(from, round), &format!("round {round} from rank {from}"));
            }
        }
        self.meet("exchanges_large_messages_both_ways_at_once");
    }

    fn takes_many_parts(&mut self) {
        let frame = |from: usize, parts: usize, length: usize| Frame {
            head: pattern(from, parts, 32),
            parts: (0..parts).map(|i| pattern(from, i, (i * 37) % length).into()).collect(),
        };
        let shapes = [(3, 10), (5_000, 20), (100, 3_000), (100, 10_000)];
        for to in 0..self.transport.size() {
            for (parts, length) in shapes {
                let frame = frame(self.rank(), parts, length);
                self.send(to, frame);
            }
        }
        for from in 0..self.transport.size() {
            for (parts, length) in shapes {
                let found = self.receive(from);
                same(&found, &frame(from, parts, length), &format!("{parts} parts of rank {from}"));
            }
        }
        self.meet("takes_many_parts");
    }

    /// Numbers and arrays of numbers of each alignment can be taken out of a received message without a copy.
    fn keeps_the_alignment_of_bulk_numbers(&mut self, bulk: usize) {
        let words = |from: usize| -> Vec<u64> { (0..bulk as u64).map(|n| n << 20 | from as u64).collect() };
        let halves = |from: usize| -> Vec<f32> { (0..bulk).map(|n| (n * 8 + from) as f32).collect() };
        let arrays = |from: usize| -> Vec<[i64; 12]> {
            (0..bulk as i64 / 8).map(|n| [n; 12].map(|x| x ^ from as i64)).collect()
        };
        let shorts = |from: usize| -> Vec<u16> { (0..bulk).map(|n| (n ^ from) as u16).collect() };
        let rank = self.rank();
        for to in 0..self.transport.size() {
            let parts = vec![
                Part::of(words(rank)),
                Part::of(halves(rank)),
                Part::of(arrays(rank)),
                Part::of(shorts(rank)),
                Part::of(vec![rank as u64; 3]),
            ];
            self.send(to, Frame { head: Bytes::from_static(b"numbers"), parts });
        }
        for from in 0..self.transport.size() {
            let found = self.receive(from);
            assert_eq!((&found.head[..], found.parts.len()), (&b"numbers"[..], 5));
            let mut parts = found.parts.into_iter();
            let mut next = || parts.next().expect("five parts");
            assert!(
                next().into_values().is_ok_and(|found: Vec<u64>| found == words(from)),
                "u64 of rank {from}"
            );
            assert!(
                next().into_values().is_ok_and(|found: Vec<f32>| found == halves(from)),
                "f32 of rank {from}"
            );
            assert!(
                next().into_values().is_ok_and(|found: Vec<[i64; 12]>| found == arrays(from)),
                "arrays of rank {from}"
            );
            assert!(next() == Part::of(shorts(from)), "u16 of rank {from}");
            assert!(next() == Part::of(vec![from as u64; 3]), "small part of rank {from}");
        }
        self.meet("keeps_the_alignment_of_bulk_numbers");
    }

    /// Rank 0 polls late, so that the other ranks queue many messages before it receives the first one.
    fn queues_more_than_the_receiver_takes(&mut self, bulk: usize) {
        const MANY: usize = 500;
        let frame = |from: usize, number: usize| match number % 50 {
            0 => Frame { head: Bytes::new(), parts: vec![pattern(from, number, bulk).into()] },
            _ => Frame::new(pattern(from, number, 600)),
        };
        if self.rank() == 0 {
            if !self.transport.clock().is_simulated() {
                std::thread::sleep(Duration::from_millis(50));
            }
            for from in self.others() {
                for number in 0..MANY {
                    let found = self.receive(from);
                    same(&found, &frame(from, number), &format!("frame {number} of rank {from}"));
                }
            }
        } else {
            for number in 0..MANY {
                let frame = frame(self.rank(), number);
                self.send(0, frame);
            }
        }
        self.meet("queues_more_than_the_receiver_takes");
    }

    /// All ranks send each other messages with sizes near every size limit of the transport, in an order that is drawn at random with `seed`.
    fn finds_its_way_through_a_random_mixture(&mut self, seed: u64, bulk: usize) {
        const MANY: usize = 150;
        let frame = |from: usize, to: usize, number: usize| {
            let mut state = seed ^ ((from * 1_000 + to) * 1_000 + number + 1) as u64;
            for _ in 0..4 {
                state = next(state);
            }
            let mut length = || {
                state = next(state);
                let r = state >> 8;
                let most = [1, 64, 4_096, 4_100, 20_000, bulk / 2 + 1];
                (r >> 16) as usize % most[r as usize % most.len()]
            };
            let parts = [0, 0, 0, 1, 1, 2, 5][length() % 7];
            Frame {
                head: pattern(from, number, length()),
                parts: (0..parts).map(|i| pattern(from, number + i, length()).into()).collect(),
            }
        };
        let (rank, size) = (self.rank(), self.transport.size());
        for number in 0..MANY {
            for to in (0..size).map(|i| (i + number + rank) % size) {
                self.send(to, frame(rank, to, number));
            }
            for _ in 0..number % 5 {
                self.step();
            }
        }
        for number in 0..MANY {
            for from in 0..size {
                let found = self.receive(from);
                same(&found, &frame(from, rank, number), &format!("frame {number} of rank {from}"));
            }
        }
        self.meet("finds_its_way_through_a_random_mixture");
    }

    fn wakes_early_and_waits_no_longer_than_told(&mut self) {
        // The waker is tested only on a real machine: in a simulator a rank has no second thread that could call the waker.
        if !self.transport.clock().is_simulated() {
            let waker = self.transport.waker();
            let start = Instant::now();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                waker.wake();
            });
            // A wait of the transport may end early without a reason, but must not exceed its limit.
            self.transport.wait(Some(Duration::from_secs(20))).expect("wait");
            assert!(start.elapsed() < Duration::from_secs(10), "nobody woke it");
            thread.join().expect("join");
            let start = Instant::now();
            for _ in 0..3 {
                self.transport.wait(Some(Duration::from_millis(2))).expect("wait");
                self.transport.wait(Some(Duration::ZERO)).expect("wait");
            }
            assert!(start.elapsed() < Duration::from_secs(5), "it waits longer than its limit");
        }
        self.meet("wakes_early_and_waits_no_longer_than_told");
    }
}

/// Runs this file's checks of a transport on ranks that are threads; `mpi/tests.rs` runs them on ranks that are processes.
mod on_local {
    use super::everything;
    use crate::comm::local::{LocalTransport, World};

    fn conforms(ranks: usize) {
        let world = World::new(ranks);
        std::thread::scope(|scope| {
            for rank in 0..ranks {
                let world = world.clone();
                scope.spawn(move || everything(&mut LocalTransport::open(world, rank), 50_000));
            }
        });
    }

    #[test]
    fn one_rank() {
        conforms(1);
    }

    #[test]
    fn two_and_three_ranks() {
        conforms(2);
        conforms(3);
    }

    #[test]
    fn four_ranks() {
        conforms(4);
    }

    #[test]
    fn eight_ranks() {
        conforms(8);
    }
}
