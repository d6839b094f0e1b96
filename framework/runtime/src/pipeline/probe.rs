//! How fast the ranks are, and what their links to rank 0 cost: measured in some tens of milliseconds before
//! an automatic mapping is planned.

use std::time::Duration;

use armature_planner::measure::CoreShare;
use armature_planner::{Link, Platform, SharedCores};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::rank::Rank;
use crate::comm::Frame;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Message, Tag, frame_header};
use crate::error::{Error, ErrorKind, Result};
use crate::observe::Event;
use crate::wire;

/// Operations of the speed kernel: some ten milliseconds, several turns of the scheduler, so that a rank that has to
/// share its core is seen to be as slow as it will be.
const KERNEL_OPERATIONS: u64 = 20_000_000;
/// Bytes of the messages that measure bandwidth.
const BULK: usize = 256 << 10;
const EMPTY_ROUNDS: usize = 5;
const BULK_ROUNDS: usize = 3;
/// A link cannot be seen to be faster than this; it keeps the model's numbers finite.
const FASTEST: f64 = 1e12;

/// What rank 0 asks another rank.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Question {
    /// Run the kernel and say how fast it was.
    Speed,
    /// Answer at once; bulk data may come along.
    Ping,
}

/// What the other rank answers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Speed(Speed),
    Pong,
}

/// How fast a rank ran the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Speed {
    /// Operations per second while it had its core.
    pub(crate) alone: f64,
    /// Seconds that it took.
    pub(crate) took: f64,
    /// Seconds of these in which others had the core.
    pub(crate) lost: f64,
}

impl Speed {
    fn is_usable(&self) -> bool {
        let usable = |x: f64| x > 0.0 && x.is_finite();
        usable(self.alone) && usable(self.took) && self.lost >= 0.0
    }

    /// The part of its core that the rank had.
    fn share(&self) -> f64 {
        let mut share = CoreShare::default();
        share.add(self.took, self.lost);
        share.value().unwrap_or(1.0)
    }
}

/// The ranks and their links, as they were probed.
#[derive(Clone, Debug)]
pub(crate) struct Probed {
    /// Every rank with its core to itself.
    pub(crate) platform: Platform,
    /// By rank: the part of its core that it had.
    pub(crate) shares: Vec<f64>,
}

/// Measures the platform; `sharing` are groups of ranks that share cores. Called on rank 0 while nothing is in flight;
/// the others answer from their loops.
pub(crate) fn platform<'scope, 'p: 'scope>(
    rank: &mut Rank<'_, 'scope, '_, 'p>,
    sharing: &[SharedCores],
) -> Result<Probed> {
    let size = rank.size();
    for to in 1..size {
        rank.endpoint().send(to, Tag::Probe, &Question::Speed)?;
    }
    // All at the same time, so that ranks that share a core are seen to be slower.
    let clock = rank.clock();
    let mine = speed(clock);
    let (mut speeds, mut shares) = (vec![mine.alone; size], vec![mine.share(); size]);
    for _ in 1..size {
        let (from, answer) = echo(rank)?;
        match answer {
            Answer::Speed(s) if s.is_usable() => (speeds[from], shares[from]) = (s.alone, s.share()),
            other => return Err(unexpected(from, other)),
        }
    }
    even_out(&mut speeds, sharing);
    let mut to_root = vec![Link { bandwidth: FASTEST, setup: 0.0 }; size];
    for (other, link) in to_root.iter_mut().enumerate().skip(1) {
        let mut round = |bytes: usize, rounds: usize| -> Result<f64> {
            let payload = Bytes::from(vec![0u8; bytes]);
            let mut best = Duration::MAX;
            for _ in 0..rounds {
                let start = clock.now();
                ping(rank.endpoint(), other, payload.clone())?;
                match echo(rank)? {
                    (from, Answer::Pong) if from == other => {}
                    (from, answer) => return Err(unexpected(from, answer)),
                }
                best = best.min(clock.now().saturating_sub(start));
            }
            Ok(best.as_secs_f64())
        };
        let empty = round(0, EMPTY_ROUNDS)?;
        let bulk = round(BULK, BULK_ROUNDS)?;
        let setup = empty / 2.0;
        let bandwidth = (BULK as f64 / (bulk - empty).max(BULK as f64 / FASTEST)).min(FASTEST);
        *link = Link { bandwidth, setup };
    }
    Ok(Probed { platform: describe(&speeds, &to_root)?, shares })
}

/// The probed platform for the log of events.
pub(crate) fn event(Probed { platform, shares }: &Probed, sharing: &[SharedCores]) -> Event {
    let speeds: Vec<f64> = platform.speeds().iter().zip(shares).map(|(speed, share)| speed * share).collect();
    let fastest = speeds.iter().copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let links = || (1..platform.processors()).map(|rank| platform.link(0, rank));
    Event::Probe {
        speeds: speeds.iter().map(|s| s / fastest).collect(),
        slowest_link: links().map(|l| l.bandwidth).reduce(f64::min),
        longest_delay: links().map(|l| l.setup).reduce(f64::max),
        sharing: sharing.iter().map(|group| (group.processors.clone(), group.cores)).collect(),
    }
}

/// Ranks that share cores are equally fast while they have one.
pub(crate) fn even_out(speeds: &mut [f64], sharing: &[SharedCores]) {
    for SharedCores { processors: group, .. } in sharing {
        let mean = group.iter().map(|&r| speeds[r]).sum::<f64>() / group.len() as f64;
        group.iter().for_each(|&r| speeds[r] = mean);
    }
}

/// Every pair of ranks is taken to be as far apart as the farther of the two is from rank 0.
fn describe(speeds: &[f64], to_root: &[Link]) -> Result<Platform> {
    let wrong = |e: armature_planner::Error| {
        Error::new(ErrorKind::Config, format!("the probe measured nonsense: {e}"))
    };
    let mut platform = Platform::with_speeds(speeds, Link::FREE).map_err(wrong)?;
    for (a, x) in to_root.iter().enumerate() {
        for (b, y) in to_root.iter().enumerate().filter(|&(b, _)| b != a) {
            let link = match (a, b) {
                (0, _) => *y,
                (_, 0) => *x,
                _ => farther(*x, *y),
            };
            platform.set_link(a, b, link).map_err(wrong)?;
        }
    }
    // What is sent and received goes on beside the thread that computes.
    Ok(platform.with_ext_on(0).map_err(wrong)?.with_overlap(true))
}

/// The farther of two ways, in both respects.
pub(crate) fn farther(x: Link, y: Link) -> Link {
    Link { bandwidth: x.bandwidth.min(y.bandwidth), setup: x.setup.max(y.setup) }
}

/// Answers a question of rank 0.
pub(crate) fn answer(endpoint: &mut Endpoint, message: &Message) -> Result<()> {
    let question: Question = wire::from_bytes(&message.body)?;
    let answer = match question {
        Question::Speed => Answer::Speed(speed(endpoint.clock())),
        Question::Ping => Answer::Pong,
    };
    endpoint.send(message.from, Tag::Echo, &answer)
}

/// Runs a fixed kernel on this rank. It waits for nothing, so that what it does not compute for is lost to others.
pub(crate) fn speed(clock: Clock) -> Speed {
    let (start, cpu) = (clock.now(), clock.cpu());
    crate::declare(KERNEL_OPERATIONS as f64, || std::hint::black_box(kernel(KERNEL_OPERATIONS)));
    let cpu = clock.cpu().saturating_sub(cpu);
    let took = clock.now().saturating_sub(start);
    let seconds = |t: Duration| t.as_secs_f64().max(1e-9);
    Speed {
        alone: KERNEL_OPERATIONS as f64 / seconds(cpu),
        took: seconds(took),
        lost: took.saturating_sub(cpu).as_secs_f64(),
    }
}

/// A chain of integer operations that no compiler shortens and no cache speeds up.
fn kernel(operations: u64) -> u64 {
    let mut x = 0x9E37_79B9_7F4A_7C15u64;
    for _ in 0..operations / 3 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

fn ping(endpoint: &mut Endpoint, to: usize, payload: Bytes) -> Result<()> {
    let run = endpoint.run();
    let mut head = frame_header(run, Tag::Probe).to_vec();
    head.extend_from_slice(&wire::to_bytes(&Question::Ping)?);
    let parts = if payload.is_empty() { Vec::new() } else { vec![payload.into()] };
    endpoint.send_ready(to, Frame { head: head.into(), parts })
}

/// Waits for the next answer.
fn echo<'scope, 'p: 'scope>(rank: &mut Rank<'_, 'scope, '_, 'p>) -> Result<(usize, Answer)> {
    loop {
        if let Some(message) = rank.control() {
            return match message.tag::<Tag>()? {
                Tag::Echo => Ok((message.from, wire::from_bytes(&message.body)?)),
                other => Err(Error::new(
                    ErrorKind::Wire,
                    format!("rank {} sent {other:?} while it was being probed", message.from),
                )),
            };
        }
        rank.turn_or_wait()?;
    }
}

fn unexpected(from: usize, answer: Answer) -> Error {
    Error::new(ErrorKind::Wire, format!("rank {from} answered a probe with {answer:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_as_far_apart_as_the_farther_is_from_rank_0() {
        let link = |bandwidth, setup| Link { bandwidth, setup };
        let near = link(1e9, 1e-6);
        let far = link(1e6, 1e-3);
        let p = describe(&[1.0, 2.0, 3.0], &[Link::FREE, near, far]).unwrap();
        assert_eq!((p.link(0, 1), p.link(2, 0), p.link(1, 2)), (near, far, far));
        assert_eq!(p.ext_on(), Some(0));
    }

    #[test]
    fn ranks_that_share_cores_count_as_equal() {
        let mut speeds = [4.0, 1.0, 8.0, 1.0];
        even_out(&mut speeds, &[SharedCores { processors: vec![0, 1, 3], cores: 1.0 }]);
        assert_eq!(speeds, [2.0, 2.0, 8.0, 2.0]);
    }

    #[test]
    fn the_kernel_takes_time() {
        let speed = speed(Clock::wall());
        assert!(speed.is_usable() && speed.alone > 1e6 && speed.lost < speed.took, "{speed:?}");
    }
}
