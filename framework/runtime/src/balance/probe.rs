//! How fast the ranks are, and what their links to rank 0 cost: measured in some tens of milliseconds before
//! a first plan is made.
//!
//! Here is what is asked, and what follows from the answers. Who carries them, and runs the kernel, is the skeleton's rank.

use std::time::Duration;

use armature_planner::estimate::CoreShare;
use armature_planner::{Link, Platform, SharedCores};
use serde::{Deserialize, Serialize};

use super::link_probe::{FASTEST, LinkProbe, ROUNDS};
use crate::comm::Frame;
use crate::comm::clock::Clock;
use crate::error::{Error, ErrorKind, Result};

/// Operations of the speed kernel: some ten milliseconds, several turns of the scheduler, so that a rank that has to
/// share its core is seen to be as slow as it will be.
const KERNEL_OPERATIONS: u64 = 20_000_000;
/// Bytes of the messages that measure bandwidth: enough that the time for their setup hardly matters on any network.
const BULK: usize = 256 << 10;

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

impl Probed {
    /// How fast the ranks are with the part of their cores that they have, relative to the fastest.
    pub(crate) fn speeds(&self) -> Vec<f64> {
        let both = self.platform.speeds().iter().zip(&self.shares);
        let speeds: Vec<f64> = both.map(|(speed, share)| speed * share).collect();
        let fastest = speeds.iter().copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        speeds.into_iter().map(|speed| speed / fastest).collect()
    }
}

/// Rank 0's questions, one after the other, while nothing is in flight.
#[derive(Debug)]
pub(crate) struct Probe {
    /// The number of the run.
    run: u32,
    /// By rank; the ranks answer at the same time, so that those that share a core are seen to be slower.
    speeds: Vec<Option<Speed>>,
    to_root: Vec<Link>,
    /// The link that is being measured, once all speeds are known.
    link: Option<LinkProbe>,
}

/// How a probe goes on.
#[derive(Debug)]
pub(crate) enum Step {
    /// Further answers are to come.
    Wait,
    /// Rank 0 sends a rank this, at once.
    Ask(usize, Frame),
    Done(Probed),
}

impl Probe {
    /// Begins, in the run of this number, with all ranks being asked for their [`Speed`], rank 0 itself included.
    pub(crate) fn new(run: u32, size: usize) -> Self {
        let unknown = Link { bandwidth: FASTEST, setup: 0.0 };
        Probe { run, speeds: vec![None; size], to_root: vec![unknown; size], link: None }
    }

    /// A rank has said how fast it is, `now`; `sharing` are groups of ranks that share cores.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if that is no speed, or it has said so before.
    pub(crate) fn on_speed(
        &mut self,
        from: usize,
        speed: Speed,
        now: Duration,
        sharing: &[SharedCores],
    ) -> Result<Step> {
        if !speed.is_usable() || self.speeds[from].is_some() {
            let text = format!("rank {from} answered a probe with {speed:?}, expected its speed, and once");
            return Err(Error::new(ErrorKind::Wire, text));
        }
        self.speeds[from] = Some(speed);
        if self.speeds.iter().any(Option::is_none) {
            return Ok(Step::Wait);
        }
        self.measure_link(1, now, sharing)
    }

    /// A message that a rank was sent is back, `now`.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if it was sent none.
    pub(crate) fn on_echo(&mut self, from: usize, now: Duration, sharing: &[SharedCores]) -> Result<Step> {
        let Some(link) = self.link.as_mut().filter(|link| link.to == from) else {
            let text = format!("rank {from} answered a probe that it was not sent");
            return Err(Error::new(ErrorKind::Wire, text));
        };
        link.answered(now);
        if let Some(question) = link.ask(now) {
            return Ok(Step::Ask(from, question));
        }
        self.to_root[from] = link.link();
        self.measure_link(from + 1, now, sharing)
    }

    /// Begins with the link to rank `to`, if there is that rank.
    fn measure_link(&mut self, to: usize, now: Duration, sharing: &[SharedCores]) -> Result<Step> {
        self.link = (to < self.speeds.len()).then(|| LinkProbe::new(self.run, to, BULK, ROUNDS));
        match self.link.as_mut().and_then(|link| link.ask(now)) {
            Some(question) => Ok(Step::Ask(to, question)),
            None => self.probed(sharing).map(Step::Done),
        }
    }

    fn probed(&self, sharing: &[SharedCores]) -> Result<Probed> {
        let of = |part: fn(&Speed) -> f64| self.speeds.iter().flatten().map(part).collect::<Vec<f64>>();
        let mut speeds = of(|speed| speed.alone);
        even_out(&mut speeds, sharing);
        Ok(Probed { platform: describe(&speeds, &self.to_root)?, shares: of(Speed::share) })
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

/// Runs a fixed kernel on this rank. It waits for nothing, so that what it does not compute for is lost to others.
pub(crate) fn speed(clock: Clock) -> Speed {
    let (start, cpu) = (clock.now(), clock.cpu());
    crate::declare(KERNEL_OPERATIONS as f64, || std::hint::black_box(kernel(KERNEL_OPERATIONS)));
    let cpu = clock.cpu().saturating_sub(cpu);
    let took = clock.now().saturating_sub(start);
    let seconds = |t: Duration| t.max(Duration::from_nanos(1)).as_secs_f64();
    Speed {
        alone: KERNEL_OPERATIONS as f64 / seconds(cpu),
        took: seconds(took),
        lost: took.saturating_sub(cpu).as_secs_f64(),
    }
}

/// A chain of integer operations that no compiler shortens and no cache speeds up.
fn kernel(operations: u64) -> u64 {
    let mut x = 1_u64;
    for _ in 0..operations / 3 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::message::FRAME_HEADER;

    #[test]
    fn every_rank_is_asked_for_its_speed_and_then_every_link_is_measured() {
        let mut probe = Probe::new(1, 3);
        let ms = Duration::from_millis;
        let speed = |alone| Speed { alone, took: 1.0, lost: 0.25 };
        let mut tell = |from, alone| probe.on_speed(from, speed(alone), ms(0), &[]);
        assert!(matches!(tell(1, 2.0), Ok(Step::Wait)));
        assert!(tell(1, 2.0).is_err() && tell(2, -1.0).is_err());
        assert!(matches!(tell(0, 1.0), Ok(Step::Wait)));
        assert!(probe.on_echo(1, ms(0), &[]).is_err());
        let mut step = probe.on_speed(2, speed(4.0), ms(0), &[]).unwrap();
        assert!(probe.on_echo(2, ms(0), &[]).is_err());
        let (mut asked, mut now) = (Vec::new(), 0);
        let probed = loop {
            match step {
                Step::Ask(to, question) => {
                    let is_bulk = question.head.len() == FRAME_HEADER + BULK;
                    asked.push((to, is_bulk));
                    // Rank 2 is ten times as far away as rank 1, and one message without content is late.
                    let late = if asked.len() == 2 { 100 } else { 0 };
                    now += late + if to == 1 { 2 } else { 20 } * if is_bulk { 2 } else { 1 };
                    step = probe.on_echo(to, ms(now), &[]).unwrap();
                }
                Step::Done(probed) => break probed,
                Step::Wait => panic!("rank 0 asks the next question"),
            }
        };
        let of = |to, is_bulk, count: u32| (0..count).map(move |_| (to, is_bulk));
        let expected = (1..3).flat_map(|to| of(to, false, 5).chain(of(to, true, 3)));
        assert_eq!(asked, expected.collect::<Vec<_>>());
        let (near, far) = (probed.platform.link(0, 1), probed.platform.link(0, 2));
        assert!((near.setup - 0.001).abs() < 1e-9 && (far.setup - 0.01).abs() < 1e-9, "{near:?} {far:?}");
        assert!((near.bandwidth / far.bandwidth - 10.0).abs() < 1e-6, "{near:?} {far:?}");
        assert_eq!((probed.platform.speeds(), &probed.shares[..]), (&[1.0, 2.0, 4.0][..], &[0.75; 3][..]));
        assert_eq!(probed.speeds(), [0.25, 0.5, 1.0]);
    }

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
