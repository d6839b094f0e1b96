//! Measurements of a rank for the decisions of rank 0: service times of the rank's stages, sizes of items, and links into the rank.

use std::time::Duration;

use armature_planner::Link;
use armature_planner::estimate::ServiceTime;
use armature_planner::estimate::{CoreShare, Estimate, LinkTraffic};
use serde::{Deserialize, Serialize};

use super::job_cost::JobCost;
use super::links::{Arrival, LinkMonitor};
use crate::balance::probe::Speed;
use crate::error::Result;

/// Maximum of the sum of a stage's input and output items that are counted. Above it both counts are halved, so that a change of the ratio of output
/// to input shows after about this number of items.
const MOST_FLOW: f64 = 65_536.0;

/// Measurements that one rank has made since the start of the run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Measurements {
    /// For each stage: service time, if the stage has run on the rank.
    pub(crate) services: Vec<Option<Service>>,
    /// For each stage: recent numbers of input and output items.
    pub(crate) flows: Vec<(f64, f64)>,
    /// For each edge between stages (the number of stages before it): total bytes and items of the batches that were sent, or whose encoded size was
    /// measured.
    pub(crate) volumes: Vec<(u64, u64)>,
    /// Speed of the rank in operations per second with a whole core, if the rank measured it while it ran no stage.
    pub(crate) speed: Option<f64>,
    /// Fraction of its core that the rank gets while it is ready to compute.
    pub(crate) share: Option<f64>,
    /// Seconds in which the rank was ready to compute during calls of user code, whether it had a core or not.
    pub(crate) ready: f64,
    /// Processor time in seconds of the stages for which it was measured, and the time that these stages would take with a core of their
    /// own. The second value is larger if stages wait for a disk or a server, for example.
    pub(crate) computed: (f64, f64),
    /// Traffic over links into this rank, by sender, for the links that must be reported to rank 0 now.
    pub(crate) links: Vec<(usize, LinkTraffic)>,
}

/// Service time of a stage per item on a rank that has a whole core. The items are the input items or, if the stage produces several items from one,
/// the input and the output items, because a whole stream may be made from a single input item.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Service {
    pub(crate) seconds: Estimate,
    pub(crate) items: u64,
}

/// Collects the times and sizes measured in a rank's calls of user code, which the rank reports to rank 0.
#[derive(Debug)]
pub(crate) struct Metrics {
    services: Vec<(ServiceTime, u64)>,
    expanding: Vec<bool>,
    flows: Vec<(f64, f64)>,
    /// For each edge between stages: total bytes and items of the batches whose encoded size was measured.
    edge_sizes: Vec<(u64, u64)>,
    speed: Option<f64>,
    share: CoreShare,
    ready: f64,
    computed: (f64, f64),
    links: Option<LinkMonitor>,
    /// Interval of reports to rank 0, and time of the next report.
    reporting: Option<(Duration, Duration)>,
    is_changed: bool,
}

impl Metrics {
    pub(crate) fn new(expanding: Vec<bool>) -> Self {
        let stages = expanding.len();
        Metrics {
            expanding,
            flows: vec![(0.0, 0.0); stages],
            services: (0..stages).map(|_| (ServiceTime::default(), 0)).collect(),
            edge_sizes: vec![(0, 0); stages + 1],
            speed: None,
            share: CoreShare::default(),
            ready: 0.0,
            computed: (0.0, 0.0),
            links: None,
            reporting: None,
            is_changed: false,
        }
    }

    pub(crate) fn report_every(&mut self, every: Option<Duration>, now: Duration) {
        self.reporting = every.map(|every| (every, now + every));
    }

    pub(crate) fn add_job(&mut self, cost: &JobCost) {
        let mut waited = Duration::ZERO;
        for stage_time in
            cost.stage_times.iter().filter(|stage_time| stage_time.items + stage_time.produced > 0)
        {
            let (service, items) = &mut self.services[stage_time.stage];
            let (input_items, produced) = &mut self.flows[stage_time.stage];
            if *input_items + *produced > MOST_FLOW {
                (*input_items, *produced) = (*input_items / 2.0, *produced / 2.0);
            }
            *input_items += stage_time.items as f64;
            *produced += stage_time.produced as f64;
            let of_stage =
                stage_time.items + if self.expanding[stage_time.stage] { stage_time.produced } else { 0 };
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
        for measured in &cost.edge_sizes {
            let (bytes, items) = &mut self.edge_sizes[measured.edge];
            *bytes += measured.bytes as u64;
            *items += measured.items as u64;
        }
    }

    /// Starts to monitor the links into this rank, and returns true. `known` are these links, by sender, as measured at the start, in the form of
    /// [`equal_runs`](super::links::equal_runs). If `known` is empty, nothing is monitored and the result is false.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Wire`](crate::error::ErrorKind::Wire) if `known` has links, but not one from each of the `ranks` ranks.
    pub(crate) fn watch_links(&mut self, known: &[(usize, Link)], ranks: usize) -> Result<bool> {
        if self.links.is_none() && !known.is_empty() {
            self.links = Some(LinkMonitor::new(known, ranks)?);
        }
        Ok(self.watches_links())
    }

    /// Returns true if the links into this rank are monitored. Only then the times at which batches are sent and received are needed.
    pub(crate) fn watches_links(&self) -> bool {
        self.links.is_some()
    }

    pub(crate) fn arrived(&mut self, arrival: Arrival) {
        if let Some(links) = &mut self.links {
            links.arrived(arrival);
        }
    }

    pub(crate) fn probed(&mut self, probed: Speed) {
        self.speed = Some(probed.alone);
        self.share.restart(probed.took, probed.lost);
        self.is_changed = true;
    }

    pub(crate) fn is_due(&mut self, now: Duration) -> bool {
        let Some((every, next)) = &mut self.reporting else { return false };
        if !self.is_changed || now < *next {
            return false;
        }
        *next = now + *every;
        self.is_changed = false;
        true
    }

    /// Returns all measurements of this rank for a report; of the links only those that must be reported now. `sent` holds the bytes and items sent
    /// over each edge between stages.
    pub(crate) fn measurements(&mut self, sent: &[(u64, u64)]) -> Measurements {
        let service = |(service, items): &(ServiceTime, u64)| {
            service.estimate().map(|seconds| Service { seconds, items: *items })
        };
        let volume = |(&(b, n), &(sent_b, sent_n)): (&(u64, u64), &(u64, u64))| (b + sent_b, n + sent_n);
        Measurements {
            services: self.services.iter().map(service).collect(),
            flows: self.flows.clone(),
            volumes: self.edge_sizes.iter().zip(sent).map(volume).collect(),
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
    fn only_new_measurements_are_reported() {
        let mut metrics = Metrics::new(vec![false, true]);
        let at = Duration::from_millis;
        let stage_time = StageTime { stage: 1, items: 1, produced: 3, took: at(8), cpu: at(5), lost: at(2) };
        let measured = EdgeSize { edge: 1, items: 4, bytes: 400 };
        let cost = JobCost {
            took: at(80),
            stage_times: vec![stage_time; 10],
            edge_sizes: vec![measured],
            ..JobCost::default()
        };
        metrics.add_job(&cost);
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
