//! What a rank measures for rank 0's decisions: service times of the stages that run here, sizes of items, the links
//! over which they come.

use std::time::Duration;

use armature_planner::Link;
use armature_planner::estimate::ServiceTime;
use armature_planner::estimate::{CoreShare, Estimate, LinkTraffic};
use serde::{Deserialize, Serialize};

use super::job_cost::JobCost;
use super::links::{Arrival, LinkMonitor};
use crate::balance::probe::Speed;

/// Items in and out of a stage from which on older ones count half: a stream whose items become others shows that within as many.
const MOST_FLOW: f64 = 65_536.0;

/// What one rank has measured so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Measurements {
    /// By stage, for those that have run here.
    pub(crate) services: Vec<Option<Service>>,
    /// By stage: items that went in, and that came out of these, of late.
    pub(crate) flows: Vec<(f64, f64)>,
    /// By edge (the number of stages before it): bytes and items.
    pub(crate) volumes: Vec<(u64, u64)>,
    /// Operations per second of the probe's kernel with a core to itself, where this rank had nothing else to do.
    pub(crate) speed: Option<f64>,
    /// The part of its core that this rank gets while it has something to compute.
    pub(crate) share: Option<f64>,
    /// Of the seconds that jobs took so far, those in which this rank was ready to compute, with a core or without.
    pub(crate) ready: f64,
    /// Seconds of computing in those jobs that took a core, and seconds that the stages had for themselves: more, where
    /// they wait for something outside.
    pub(crate) computed: (f64, f64),
    /// By sender: the traffic over links into this rank, where there is more than was reported before.
    pub(crate) links: Vec<(usize, LinkTraffic)>,
}

/// How long an item keeps a stage busy on a rank that has its core to itself: one that goes in, or, where a stage makes several
/// of one, one that goes in or comes out. What such a stage makes of one item may take longer than the whole stream lasts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Service {
    /// Seconds per item.
    pub(crate) seconds: Estimate,
    /// Items whose time was taken so far.
    pub(crate) items: u64,
}

/// Takes up what jobs cost.
#[derive(Debug)]
pub(crate) struct Metrics {
    services: Vec<(ServiceTime, u64)>,
    /// By stage: whether it makes several items of one.
    expanding: Vec<bool>,
    flows: Vec<(f64, f64)>,
    /// By edge: bytes and items of batches that were weighed without being sent.
    weighed: Vec<(u64, u64)>,
    speed: Option<f64>,
    share: CoreShare,
    ready: f64,
    computed: (f64, f64),
    /// Present where somebody wants to know.
    links: Option<LinkMonitor>,
    /// How often measurements are reported, and when next.
    reporting: Option<(Duration, Duration)>,
    /// Whether anything has come since they were reported last.
    is_changed: bool,
}

impl Metrics {
    /// Of stages of which some, by stage, make several items of one.
    pub(crate) fn new(expanding: Vec<bool>) -> Self {
        let stages = expanding.len();
        Metrics {
            expanding,
            flows: vec![(0.0, 0.0); stages],
            services: (0..stages).map(|_| (ServiceTime::default(), 0)).collect(),
            weighed: vec![(0, 0); stages + 1],
            speed: None,
            share: CoreShare::default(),
            ready: 0.0,
            computed: (0.0, 0.0),
            links: None,
            reporting: None,
            is_changed: false,
        }
    }

    /// From `now` on, measurements are to be reported at this interval, or not at all.
    pub(crate) fn report_every(&mut self, every: Option<Duration>, now: Duration) {
        self.reporting = every.map(|every| (every, now + every));
    }

    /// Takes up what a job has cost.
    pub(crate) fn note(&mut self, cost: &JobCost) {
        let mut waited = Duration::ZERO;
        for stage_time in cost.stage_times.iter().filter(|stage_time| stage_time.items + stage_time.made > 0)
        {
            let (service, items) = &mut self.services[stage_time.stage];
            let (coming, made) = &mut self.flows[stage_time.stage];
            if *coming + *made > MOST_FLOW {
                (*coming, *made) = (*coming / 2.0, *made / 2.0);
            }
            *coming += stage_time.items as f64;
            *made += stage_time.made as f64;
            let of_stage =
                stage_time.items + if self.expanding[stage_time.stage] { stage_time.made } else { 0 };
            let (took, lost) = (stage_time.took.as_secs_f64(), stage_time.lost.as_secs_f64());
            service.add(of_stage as u64, took - lost);
            self.share.add(stage_time.cpu.as_secs_f64() + lost, lost);
            self.computed.0 += stage_time.cpu.as_secs_f64();
            self.computed.1 += took - lost;
            waited += stage_time.took.saturating_sub(stage_time.cpu + stage_time.lost);
            *items += of_stage as u64;
            self.is_changed = true;
        }
        self.ready += cost.took.saturating_sub(waited).as_secs_f64();
        for weight in &cost.edge_sizes {
            let (bytes, items) = &mut self.weighed[weight.edge];
            *bytes += weight.bytes as u64;
            *items += weight.items as u64;
        }
    }

    /// From now on the traffic over links into this rank is watched. They were probed as `known`, by sender; where
    /// there are none, nobody wants to know.
    pub(crate) fn watch_links(&mut self, known: &[Link]) {
        if self.links.is_none() && !known.is_empty() {
            self.links = Some(LinkMonitor::new(known));
        }
    }

    /// Whether the traffic is watched: only then it needs to be known when a message was sent, and when it came.
    pub(crate) fn watches_links(&self) -> bool {
        self.links.is_some()
    }

    /// A batch has come in.
    pub(crate) fn arrived(&mut self, arrival: Arrival) {
        if let Some(links) = &mut self.links {
            links.arrived(arrival);
        }
    }

    /// The speed of this rank was probed again.
    pub(crate) fn probed(&mut self, probed: Speed) {
        self.speed = Some(probed.alone);
        self.share.restart(probed.took, probed.lost);
        self.is_changed = true;
    }

    /// Whether there is something to tell, and it is time to.
    pub(crate) fn is_due(&mut self, now: Duration) -> bool {
        let Some((every, next)) = &mut self.reporting else { return false };
        if !self.is_changed || now < *next {
            return false;
        }
        *next = now + *every;
        self.is_changed = false;
        true
    }

    /// All that is known now, of links only what is new; `sent` is what went over each edge.
    pub(crate) fn measurements(&mut self, sent: &[(u64, u64)]) -> Measurements {
        let service = |(service, items): &(ServiceTime, u64)| {
            service.estimate().map(|seconds| Service { seconds, items: *items })
        };
        let volume = |(&(b, n), &(sent_b, sent_n)): (&(u64, u64), &(u64, u64))| (b + sent_b, n + sent_n);
        Measurements {
            services: self.services.iter().map(service).collect(),
            flows: self.flows.clone(),
            volumes: self.weighed.iter().zip(sent).map(volume).collect(),
            speed: self.speed,
            share: self.share.value(),
            ready: self.ready,
            computed: self.computed,
            links: self.links.as_mut().map(LinkMonitor::updates).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::job_cost::{EdgeSize, StageTime};
    use super::*;

    #[test]
    fn measurements_are_reported_when_there_are_new_ones() {
        let mut metrics = Metrics::new(vec![false, true]);
        let at = Duration::from_millis;
        let stage_time = StageTime { stage: 1, items: 1, made: 3, took: at(8), cpu: at(5), lost: at(2) };
        let weight = EdgeSize { edge: 1, items: 4, bytes: 400 };
        let cost = JobCost {
            took: at(80),
            stage_times: vec![stage_time; 10],
            edge_sizes: vec![weight],
            ..JobCost::default()
        };
        metrics.note(&cost);
        assert!(!metrics.is_due(at(1000)), "nobody wants to know");
        metrics.report_every(Some(at(50)), at(1000));
        assert!(!metrics.is_due(at(1040)) && metrics.is_due(at(1050)) && !metrics.is_due(at(2000)));
        let early = metrics.measurements(&[(0, 0); 3]);
        assert!((early.share.unwrap() - 5.0 / 7.0).abs() < 1e-9, "{early:?}");
        assert!((early.ready - 0.070).abs() < 1e-9, "a millisecond of each stage_time it waited: {early:?}");
        metrics.probed(Speed { alone: 2e9, took: 0.010, lost: 0.004 });
        assert!(metrics.is_due(at(2000)));
        let reported = metrics.measurements(&[(0, 0), (600, 6), (0, 0)]);
        let service = reported.services[1].unwrap();
        assert!((service.seconds.value - 0.0015).abs() < 1e-9 && service.items == 40, "{service:?}");
        assert_eq!(
            (reported.services[0], reported.speed, reported.volumes[1]),
            (None, Some(2e9), (1000, 10))
        );
        assert_eq!(reported.flows, [(0.0, 0.0), (10.0, 30.0)]);
        assert!((reported.share.unwrap() - 0.6).abs() < 1e-9, "{reported:?}");
    }
}
