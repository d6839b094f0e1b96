//! Measurement of the speeds of the ranks and of their links to rank 0, in some tens of milliseconds before the first plan.
//!
//! This module defines the messages of the measurement and evaluates the ranks' answers. The caller sends the messages, and runs a fixed computation,
//! the *kernel*, on each rank.

use std::time::Duration;

use armature_planner::estimate::CoreShare;
use armature_planner::{Link, Platform, SharedCores};
use serde::{Deserialize, Serialize};

use super::link_probe::{FASTEST, LinkProbe, ROUNDS};
use crate::comm::Frame;
use crate::comm::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::session::JobPlatform;

/// Number of operations of the kernel, a fixed computation that measures the speed of a rank. It runs for some ten milliseconds, which is several
/// time slices of the scheduler, so that the measured speed of a rank that shares its core includes the sharing.
const KERNEL_OPERATIONS: u64 = 20_000_000;
/// Size in bytes of the messages that measure bandwidth. Messages of this size are long enough that the latency hardly matters on any network.
const BULK: usize = 256 << 10;
/// Maximum number of links that are measured, one after the other: each takes 10 ms in a network of 1 Gbit/s. With more ranks, a rank that is not
/// measured is assumed to have the link of the nearest measured rank before it, which is often on the same host. Links that are slower are found
/// while the stream runs.
const MOST_LINKS: usize = 32;

/// Measured speed of a rank in the kernel, which is a fixed computation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Speed {
    /// Operations per second of CPU time that the rank executed in the kernel (the fixed computation).
    pub(crate) alone: f64,
    /// Wall time of the kernel (the fixed computation) in seconds.
    pub(crate) took: f64,
    /// Seconds of wall time during which the rank ran the kernel (the fixed computation) but did not have its core.
    pub(crate) lost: f64,
}

impl Speed {
    fn is_usable(&self) -> bool {
        let usable = |x: f64| x > 0.0 && x.is_finite();
        usable(self.alone) && usable(self.took) && self.lost >= 0.0
    }

    /// Returns the fraction of its core that the rank had while it ran the kernel (the fixed computation).
    fn share(&self) -> f64 {
        let mut share = CoreShare::default();
        share.add(self.took, self.lost);
        share.value().unwrap_or(1.0)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Probed {
    /// Speeds of the ranks, each as if the rank had a core to itself, and links between them.
    pub(crate) platform: Platform,
    /// Fraction of its core that each rank had while it was measured.
    pub(crate) shares: Vec<f64>,
}

impl Probed {
    /// Returns the speeds and links of the ranks from the user's description of the job's platform. Links that it does not describe have the
    /// bandwidth `otherwise`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the planner refuses a number.
    pub(crate) fn given(given: &JobPlatform, otherwise: f64) -> Result<Self> {
        let ranks = given.processors.len();
        let link = Link { bandwidth: otherwise, setup: 0.0 };
        let to_root = vec![link; ranks];
        let equal = Probed { platform: describe(&vec![1.0; ranks], &to_root)?, shares: vec![1.0; ranks] };
        equal.corrected_by(given)
    }

    /// Replaces measured speeds and bandwidths by those that the user's description of the job's platform gives. Given speeds are those of ranks
    /// while all ranks compute, so each rank then counts as having its whole core.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the planner refuses a number.
    pub(crate) fn corrected_by(self, given: &JobPlatform) -> Result<Self> {
        let wrong = |e: armature_planner::Error| {
            Error::new(ErrorKind::Config, format!("the platform of the job has invalid values: {e}"))
        };
        let Probed { mut platform, mut shares } = self;
        if let Some(speeds) = given.speeds() {
            platform = platform.with_other_speeds(&speeds).map_err(wrong)?;
            shares.fill(1.0);
        }
        let ranks = shares.len();
        let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
        let common = given.bandwidth.into_iter();
        let common = common.flat_map(|bandwidth| pairs.clone().map(move |(from, to)| (from, to, bandwidth)));
        for (from, to, bandwidth) in
            common.chain(given.links.iter().copied()).filter(|(from, to, _)| from != to)
        {
            let link = Link { bandwidth, ..platform.link(from, to) };
            platform.set_link(from, to, link).map_err(wrong)?;
        }
        Ok(Probed { platform, shares })
    }

    /// Returns the speed of each rank, including the fraction of its core that it has, relative to the fastest rank.
    pub(crate) fn speeds(&self) -> Vec<f64> {
        let both = self.platform.speeds().iter().zip(&self.shares);
        let speeds: Vec<f64> = both.map(|(speed, share)| speed * share).collect();
        let fastest = speeds.iter().copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        speeds.into_iter().map(|speed| speed / fastest).collect()
    }
}

/// Rank 0's measurement of the speeds of all ranks, and then of at most [`MOST_LINKS`] links, one after the other, while no other
/// messages are being sent.
#[derive(Debug)]
pub(crate) struct Probe {
    run: u32,
    /// By rank: its measured speed, once it has answered. All ranks run the kernel (a fixed computation) at the same time, so that ranks that share a
    /// core are measured as slower.
    speeds: Vec<Option<Speed>>,
    to_root: Vec<Link>,
    /// Measurement of one link. `None` until the speeds of all ranks are known.
    link: Option<LinkProbe>,
}

/// Next action of the caller that measures speeds and links.
#[derive(Debug)]
pub(crate) enum ProbeAction {
    /// Wait until other ranks have answered the request for their speeds or the link probe.
    Wait,
    Send(usize, Frame),
    Done(Probed),
}

impl Probe {
    /// Starts the measurement of ranks and links in the run with this number. All ranks, including rank 0, are asked to measure their [`Speed`].
    pub(crate) fn new(run: u32, size: usize) -> Self {
        let unknown = Link { bandwidth: FASTEST, setup: 0.0 };
        Probe { run, speeds: vec![None; size], to_root: vec![unknown; size], link: None }
    }

    /// Records the speed that rank `from` has measured, and returns the next action at time `now`. `sharing` lists the groups of ranks that share
    /// cores.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the speed is invalid, or if the rank has reported its speed before.
    pub(crate) fn on_speed(
        &mut self,
        from: usize,
        speed: Speed,
        now: Duration,
        sharing: &[SharedCores],
    ) -> Result<ProbeAction> {
        if !speed.is_usable() || self.speeds[from].is_some() {
            let text = format!("rank {from} answered a probe with {speed:?}, expected one valid speed");
            return Err(Error::new(ErrorKind::Wire, text));
        }
        self.speeds[from] = Some(speed);
        if self.speeds.iter().any(Option::is_none) {
            return Ok(ProbeAction::Wait);
        }
        self.measure_link(1, now, sharing)
    }

    /// Records that an answer of rank `from` to a link probe arrived at time `now`, and returns the next action.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if no link probe was sent to this rank.
    pub(crate) fn on_echo(
        &mut self,
        from: usize,
        now: Duration,
        sharing: &[SharedCores],
    ) -> Result<ProbeAction> {
        let Some(link) = self.link.as_mut().filter(|link| link.to == from) else {
            let text = format!("rank {from} answered a probe that was not sent to it");
            return Err(Error::new(ErrorKind::Wire, text));
        };
        link.answered(now);
        if let Some(question) = link.next_frame(now) {
            return Ok(ProbeAction::Send(from, question));
        }
        let ranks = self.to_root.len();
        let next = from + (ranks - 1).div_ceil(MOST_LINKS);
        self.to_root[from..next.min(ranks)].fill(link.link());
        self.measure_link(next, now, sharing)
    }

    /// Starts the measurement of the link to rank `to`. If there is no such rank, all links are measured, and the measurement ends.
    fn measure_link(&mut self, to: usize, now: Duration, sharing: &[SharedCores]) -> Result<ProbeAction> {
        self.link = (to < self.speeds.len()).then(|| LinkProbe::new(self.run, to, BULK, ROUNDS));
        match self.link.as_mut().and_then(|link| link.next_frame(now)) {
            Some(question) => Ok(ProbeAction::Send(to, question)),
            None => self.probed(sharing).map(ProbeAction::Done),
        }
    }

    fn probed(&self, sharing: &[SharedCores]) -> Result<Probed> {
        let of = |part: fn(&Speed) -> f64| self.speeds.iter().flatten().map(part).collect::<Vec<f64>>();
        let mut speeds = of(|speed| speed.alone);
        even_out(&mut speeds, sharing);
        Ok(Probed { platform: describe(&speeds, &self.to_root)?, shares: of(Speed::share) })
    }
}

/// Replaces the speeds of ranks that share cores by their mean, because each of them is equally fast while it has a core.
pub(crate) fn even_out(speeds: &mut [f64], sharing: &[SharedCores]) {
    for SharedCores { processors: group, .. } in sharing {
        let mean = group.iter().map(|&r| speeds[r]).sum::<f64>() / group.len() as f64;
        group.iter().for_each(|&r| speeds[r] = mean);
    }
}

/// Returns the platform, for the planner, of ranks with the measured speeds. The link between two ranks other than 0 is assumed to have the
/// lower bandwidth and the longer setup time of their links to rank 0.
fn describe(speeds: &[f64], to_root: &[Link]) -> Result<Platform> {
    let wrong = |e: armature_planner::Error| {
        Error::new(ErrorKind::Config, format!("the probe measured invalid values: {e}"))
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
    // The planner assumes that messages of ranks other than 0 overlap with their computation, because user code of these ranks runs on another
    // thread.
    Ok(platform.with_ext_on(0).map_err(wrong)?.with_overlap(true))
}

pub(crate) fn farther(x: Link, y: Link) -> Link {
    Link { bandwidth: x.bandwidth.min(y.bandwidth), setup: x.setup.max(y.setup) }
}

/// Runs the kernel (a fixed computation) on this rank and returns its speed. The kernel does not wait, so the time in which the rank had no CPU was
/// lost to other threads.
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

/// Fixed computation whose duration shows a rank's speed: integer operations that compilers cannot shorten and caches cannot speed up.
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
    fn probe_measures_all_speeds_and_then_all_links() {
        let mut probe = Probe::new(1, 3);
        let ms = Duration::from_millis;
        let speed = |alone| Speed { alone, took: 1.0, lost: 0.25 };
        let mut report = |from, alone| probe.on_speed(from, speed(alone), ms(0), &[]);
        assert!(matches!(report(1, 2.0), Ok(ProbeAction::Wait)));
        assert!(report(1, 2.0).is_err() && report(2, -1.0).is_err());
        assert!(matches!(report(0, 1.0), Ok(ProbeAction::Wait)));
        assert!(probe.on_echo(1, ms(0), &[]).is_err());
        let mut action = probe.on_speed(2, speed(4.0), ms(0), &[]).unwrap();
        assert!(probe.on_echo(2, ms(0), &[]).is_err());
        let (mut asked, mut now) = (Vec::new(), 0);
        let probed = loop {
            match action {
                ProbeAction::Send(to, question) => {
                    let is_bulk = question.head.len() == FRAME_HEADER + BULK;
                    asked.push((to, is_bulk));
                    // Simulated times: a message to rank 2 takes ten times as long as a message to rank 1, and one message without content is
                    // delayed.
                    let late = if asked.len() == 2 { 100 } else { 0 };
                    now += late + if to == 1 { 2 } else { 20 } * if is_bulk { 2 } else { 1 };
                    action = probe.on_echo(to, ms(now), &[]).unwrap();
                }
                ProbeAction::Done(probed) => break probed,
                ProbeAction::Wait => panic!("rank 0 asks the next question"),
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
    fn number_of_measured_links_does_not_grow_with_the_ranks() {
        let mut probe = Probe::new(1, 1_000);
        let now = Duration::ZERO;
        let speed = Speed { alone: 1.0, took: 1.0, lost: 0.0 };
        let mut action =
            (0..1_000).map(|rank| probe.on_speed(rank, speed, now, &[]).unwrap()).last().unwrap();
        let (mut asked, mut ms) = (Vec::new(), 0);
        while let ProbeAction::Send(to, _) = action {
            asked.push(to);
            ms += if to > 900 { 20 } else { 2 };
            action = probe.on_echo(to, Duration::from_millis(ms), &[]).unwrap();
        }
        asked.dedup();
        assert_eq!((asked.len(), &asked[..2], asked.last()), (32, &[1, 33][..], Some(&993)));
        let ProbeAction::Done(probed) = action else { panic!("all links are measured") };
        let setup = |rank| probed.platform.link(0, rank).setup;
        assert!((setup(928) - 0.001).abs() < 1e-9 && (setup(929) - 0.01).abs() < 1e-9);
        assert_eq!((setup(1), setup(999)), (setup(32), setup(929)));
    }

    #[test]
    fn link_of_a_pair_is_the_slower_link_to_rank_0() {
        let link = |bandwidth, setup| Link { bandwidth, setup };
        let near = link(1e9, 1e-6);
        let far = link(1e6, 1e-3);
        let p = describe(&[1.0, 2.0, 3.0], &[Link::FREE, near, far]).unwrap();
        assert_eq!((p.link(0, 1), p.link(2, 0), p.link(1, 2)), (near, far, far));
        assert_eq!(p.ext_on(), Some(0));
    }

    #[test]
    fn given_speeds_and_bandwidths_replace_measured_ones() {
        let near = Link { bandwidth: 1e9, setup: 1e-6 };
        let measured = || Probed {
            platform: describe(&[1e9, 2e9, 1e9], &[Link::FREE, near, near]).unwrap(),
            shares: vec![0.5, 0.5, 1.0],
        };
        let platform = |text: &str| {
            let platform: JobPlatform = text.parse().unwrap();
            platform.of_ranks(&[None; 3]).unwrap()
        };
        let speeds =
            platform(r#"{"processors": [{"host": "a", "count": 2, "speed": 2}, {"host": "b", "count": 1}]}"#);
        let found = measured().corrected_by(&speeds).unwrap();
        assert_eq!((found.speeds(), found.platform.link(0, 1)), (vec![1.0, 1.0, 0.5], near));
        let bandwidths = platform(
            r#"{"processors": [{"host": "a", "count": 2}, {"host": "b", "count": 1}], "bandwidth": 5e8, "links": [[0, 1, 1e6]]}"#,
        );
        let found = measured().corrected_by(&bandwidths).unwrap();
        assert_eq!(found.platform.speeds(), [1e9, 2e9, 1e9]);
        let link = |from, to| found.platform.link(from, to);
        assert_eq!(
            (link(1, 2), link(2, 1)),
            (Link { bandwidth: 1e6, ..near }, Link { bandwidth: 5e8, ..near })
        );
        let found = Probed::given(&bandwidths, 7.0).unwrap();
        assert_eq!((found.speeds(), found.platform.link(0, 1).bandwidth), (vec![1.0; 3], 5e8));
        assert_eq!(Probed::given(&speeds, 7.0).unwrap().platform.link(0, 1).bandwidth, 7.0);
    }

    #[test]
    fn ranks_on_shared_cores_get_equal_speeds() {
        let mut speeds = [4.0, 1.0, 8.0, 1.0];
        even_out(&mut speeds, &[SharedCores { processors: vec![0, 1, 3], cores: 1.0 }]);
        assert_eq!(speeds, [2.0, 2.0, 8.0, 2.0]);
    }

    #[test]
    fn probe_kernel_measures_a_usable_speed() {
        let speed = speed(Clock::wall());
        assert!(speed.is_usable() && speed.alone > 1e6 && speed.lost < speed.took, "{speed:?}");
    }
}
