//! Tests of the driver, which runs a skeleton on a rank, with a simple protocol: which methods the driver calls, and in which order.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::comm::Frame;
use crate::comm::local::{LocalTransport, World};
use crate::comm::message::{Message, frame_header, messages};
use crate::error::{Error, ErrorKind};
use crate::rank::heartbeat::HeartbeatState;
use crate::rank::protocol::DoneOf;
use crate::session::Driver;

messages! {
    "the test";
    enum Tag {
        Number = 16,
        End = 17,
    }
}

/// Number whose doubling takes 30 ms.
const SLOW: u8 = 77;

struct Doubling;

impl UserCode for Doubling {
    type Job = u8;
    type Done = u8;

    fn run(&mut self, job: u8) -> Result<Option<u8>> {
        if job == SLOW {
            std::thread::sleep(Duration::from_millis(30));
        }
        if job == 13 { Err(Error::new(ErrorKind::User, "13")) } else { Ok(Some(2 * job)) }
    }

    fn answers(_: &u8) -> bool {
        true
    }

    fn may_block(&self, _: &u8) -> bool {
        false
    }

    fn took(_: &u8) -> Option<Duration> {
        Some(Duration::ZERO)
    }
}

/// Protocol in which rank 1 doubles numbers for rank 0, and sends one additional number after its first periodic work.
#[derive(Default)]
struct Numbers {
    is_root: bool,
    to_do: Vec<u8>,
    /// Doubled numbers: on rank 0 those that it has received, on rank 1 those that it has sent.
    seen: Vec<u8>,
    expected: usize,
    ticks: usize,
    /// True if the rank has jobs of its own, and periodic work asks for the next one at once.
    hurries: bool,
    is_over: bool,
}

impl Numbers {
    fn root(numbers: &[u8]) -> Self {
        Numbers { is_root: true, to_do: numbers.to_vec(), expected: numbers.len() + 1, ..Numbers::default() }
    }
}

fn send(out: &mut Outgoing<'_>, to: usize, tag: Tag, numbers: &[u8]) -> Result<()> {
    let mut head = frame_header(out.run(), tag).to_vec();
    head.extend_from_slice(numbers);
    out.send(to, Frame::new(head))
}

impl Protocol for Numbers {
    type Code = Doubling;

    const POLLS_PER_SIMULATED_JOB: u32 = 1;

    fn start(&mut self, _: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        if self.is_root { send(out, 1, Tag::Number, &std::mem::take(&mut self.to_do)) } else { Ok(()) }
    }

    fn on_message(&mut self, message: Message, _: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        match (message.tag()?, self.is_root) {
            (Tag::End, _) => self.is_over = true,
            (Tag::Number, false) => self.to_do.extend(message.body),
            (Tag::Number, true) => {
                self.seen.extend(message.body);
                if self.seen.len() == self.expected {
                    self.is_over = true;
                    send(out, 1, Tag::End, &[])?;
                }
            }
        }
        Ok(())
    }

    fn on_done(&mut self, done: DoneOf<Self>, _: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        self.seen.push(done);
        if self.hurries { Ok(()) } else { send(out, 0, Tag::Number, &[done]) }
    }

    fn on_tick(&mut self, _: Duration, _: &Moment, _: &mut Outgoing<'_>) -> Result<bool> {
        self.ticks += 1;
        let is_first = self.ticks == 1 && !self.hurries;
        if is_first && !self.is_root {
            self.to_do.push(100);
        }
        Ok(is_first || self.hurries && !self.to_do.is_empty())
    }

    fn on_idle(&mut self, _: &Moment) {}

    fn next(&mut self, _: &Moment, _: &mut Outgoing<'_>) -> Result<Next<u8>> {
        Ok(match self.to_do.pop() {
            Some(number) => Next::Job(number),
            None if self.is_over || self.hurries && self.seen.len() == self.expected => Next::Finished,
            None => Next::Wait,
        })
    }

    fn heartbeat_state(&self) -> HeartbeatState {
        HeartbeatState::new(false, format!("{} to do", self.to_do.len()))
    }

    fn awaits_results(&self) -> bool {
        false
    }
}

fn run(world: &Arc<World>, rank: usize, choice: Driver, numbers: Numbers) -> Result<Vec<u8>> {
    run_protocol(world, rank, choice, numbers).map(|numbers| numbers.seen)
}

fn run_protocol(world: &Arc<World>, rank: usize, choice: Driver, mut numbers: Numbers) -> Result<Numbers> {
    let transport = LocalTransport::open(world.clone(), rank);
    let mut endpoint = Endpoint::new(Box::new(transport), Duration::from_millis(1));
    std::thread::scope(|scope| {
        let waker = endpoint.transport().waker();
        let executor = Executor::new(scope, rank, choice, waker, endpoint.clock(), Doubling)?;
        RankDriver::new(&mut endpoint, executor, &Config::new(), "the test")
            .run(&mut endpoint, &mut numbers)?;
        Ok(numbers)
    })
}

#[test]
fn messages_become_tasks_and_results_with_any_driver() {
    for choice in [Driver::Inline, Driver::Threaded, Driver::Auto] {
        let world = World::new(2);
        let (mut root, worker) = std::thread::scope(|scope| {
            let worker = scope.spawn(|| run(&world, 1, choice, Numbers::default()));
            let root = run(&world, 0, choice, Numbers::root(&[1, 2, 3]));
            (root.expect("rank 0 ends"), worker.join().expect("no panic").expect("rank 1 ends"))
        });
        assert_eq!(root, worker, "in the order in which they were done, {choice:?}");
        root.sort_unstable();
        assert_eq!(root, [2, 4, 6, 200], "{choice:?}");
    }
}

#[test]
fn user_error_ends_the_rank_and_names_it() {
    for choice in [Driver::Inline, Driver::Threaded] {
        let numbers = Numbers { to_do: vec![13], ..Numbers::default() };
        let error = run(&World::new(1), 0, choice, numbers).expect_err("13 is an error");
        assert_eq!(error.to_string(), "rank 0: 13", "{choice:?}");
    }
}

/// The driver does not spin while periodic work asks for the next job, but user code has no room for one.
#[test]
fn driver_waits_for_room_for_the_next_job() {
    let numbers = Numbers { to_do: vec![SLOW; 4], expected: 4, hurries: true, ..Numbers::default() };
    let numbers = run_protocol(&World::new(1), 0, Driver::Threaded, numbers).expect("the rank ends");
    assert_eq!(numbers.seen.len(), 4);
    assert!(numbers.ticks < 10_000, "{} turns in 120 ms", numbers.ticks);
}
