//! Ideal time per item of the stages and processors that the planner HeDPM has not yet assigned to each other. HeDPM compares the time of the next
//! stage with it.

use crate::pipeline::spec::PipelineSpec;
use crate::platform::{Link, Platform};
use crate::range::{self, LARGEST, SMALLEST};

/// Sums of work, output size, speed and link costs over the stages without a processor and the processors without a stage, updated when HeDPM assigns
/// some of them.
#[derive(Clone, Debug)]
pub(in crate::pipeline) struct Remaining<'a> {
    platform: &'a Platform,
    spec: &'a PipelineSpec,
    /// True for the nodes (processors and the outside world) whose links count in the mean link: the remaining processors, and always the outside
    /// world.
    present: Vec<bool>,
    links: LinkSum,
    speed: f64,
    processors: usize,
    work: f64,
    output: f64,
    stages: usize,
}

impl<'a> Remaining<'a> {
    pub(in crate::pipeline) fn all(platform: &'a Platform, spec: &'a PipelineSpec) -> Self {
        Remaining {
            platform,
            spec,
            present: vec![true; platform.processors() + 1],
            links: LinkSum::all(platform),
            speed: platform.speeds().iter().sum(),
            processors: platform.processors(),
            work: spec.stages.iter().map(|stage| stage.work).sum(),
            output: spec.stages.iter().map(|stage| stage.output).sum(),
            stages: spec.len(),
        }
    }

    pub(in crate::pipeline) fn remove_stage(&mut self, n: usize) {
        self.work -= self.spec.stages[n].work;
        self.output -= self.spec.stages[n].output;
        self.stages -= 1;
    }

    pub(in crate::pipeline) fn remove_processor(&mut self, p: usize) {
        self.present[p] = false;
        self.speed -= self.platform.speeds()[p];
        self.processors -= 1;
        self.links.add(self.platform.link(p, p), -1.0);
        for q in (0..self.present.len()).filter(|&q| self.present[q]) {
            self.links.add(self.platform.link(p, q), -1.0);
            self.links.add(self.platform.link(q, p), -1.0);
        }
    }

    /// Returns the ideal time T_ideal (equations 5 and 6 of the HeDPM paper): two transfers over the mean link, and the mean work of a stage at the
    /// mean speed available to a stage, s_a = (P/N)·s̄ for P processors of mean speed s̄ and N stages. The mean link covers all pairs of the
    /// remaining processors and the outside world, including each node with itself.
    pub(in crate::pipeline) fn ideal_time(&self) -> f64 {
        let stages = self.stages as f64;
        // The sums of works, outputs and speeds are raised to at least 0 or the smallest accepted number, because the subtraction of removed stages
        // and processors leaves rounding errors.
        let (work, output) = (f64::max(0.0, self.work), f64::max(0.0, self.output));
        let speed_per_stage = f64::max(SMALLEST, self.speed / stages);
        2.0 * self.links.mean().time(output / stages) + work / stages / speed_per_stage
    }
}

/// Returns the mean link of a platform over every pair of nodes (processors and the outside world), including each node with itself.
pub(in crate::pipeline) fn mean_link(platform: &Platform) -> Link {
    LinkSum::all(platform).mean()
}

/// Set-up times and bandwidths summed over several links, from which single links can be subtracted.
#[derive(Clone, Debug, Default)]
struct LinkSum {
    setup: f64,
    bandwidth: f64,
    /// Number of links of infinite bandwidth, which are counted because infinity cannot be subtracted.
    infinite: f64,
    count: f64,
}

impl LinkSum {
    fn all(platform: &Platform) -> Self {
        let mut sum = LinkSum::default();
        for p in 0..=platform.processors() {
            for q in 0..=platform.processors() {
                sum.add(platform.link(p, q), 1.0);
            }
        }
        sum
    }

    fn add(&mut self, link: Link, times: f64) {
        self.setup += times * link.setup;
        self.count += times;
        if link.bandwidth.is_finite() {
            self.bandwidth += times * link.bandwidth;
        } else {
            self.infinite += times;
        }
    }

    fn mean(&self) -> Link {
        // The mean of the bandwidths is clamped, because rounding errors can move it out of the accepted range.
        let setup = range::amount_or_nearest(self.setup / self.count);
        let bandwidth = if self.infinite > 0.0 {
            f64::INFINITY
        } else {
            (self.bandwidth / self.count).clamp(SMALLEST, LARGEST)
        };
        Link { bandwidth, setup }
    }
}
