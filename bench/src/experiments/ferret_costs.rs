//! Costs of the stages of the image search Ferret, from a profile written by `ferret query --record-profile`, and the throughput that they permit.

use std::path::Path;

use armature_planner::pipeline::{PipelineSpec, StageSpec};

use crate::{RunResult, platforms::Cluster};

const STAGES: [(&str, bool); 6] =
    [("load", true), ("seg", false), ("ext", false), ("ind", false), ("rank", false), ("out", true)];

/// Mean costs of the pipeline's stages over the items (query images) of a recorded run.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    pub(super) reference: f64,
    pub(super) items: usize,
    /// Mean work of each stage in operations, and mean size of its output in bytes.
    pub(super) spec: PipelineSpec,
}

/// Lower bound on the seconds per item of the pipeline on a cluster, for any mapping of stages to hosts. The bound neglects that the pipeline fills
/// slowly, and that an item's stage runs on a single host; both change it by less than 1 %.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// Seconds per item if all hosts share all work in proportion to their speeds.
    pub(super) work: f64,
    /// Seconds per item of the heaviest serial stage on the fastest host.
    pub(super) serial: f64,
    /// Seconds per item of work and transfers on host 0, the source of all items.
    pub(super) source: f64,
    /// Seconds per item on the host of the serial stage `load` for receiving, work and sending, for the best choice of this host.
    pub(super) load: f64,
}

impl Bound {
    pub(super) fn seconds(&self) -> f64 {
        self.plain().max(self.load)
    }

    pub(super) fn plain(&self) -> f64 {
        self.work.max(self.serial).max(self.source)
    }

    /// Returns the name of the resource (all hosts, serial stage, link of host 0, or host of stage `load`) that limits the throughput.
    pub(super) fn limit(&self) -> &'static str {
        match self.seconds() {
            s if s == self.work => "work",
            s if s == self.serial => "serial stage",
            s if s == self.source => "link of host 0",
            _ => "host of load",
        }
    }
}

impl Costs {
    /// Reads the costs of the first `most` items of a profile written by `ferret`.
    pub(super) fn read(path: &Path, most: usize) -> RunResult<Self> {
        let text =
            std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        Costs::parse(&text, most).map_err(|e| format!("{}: {e}", path.display()).into())
    }

    fn parse(text: &str, most: usize) -> RunResult<Self> {
        let speed = text.lines().find_map(|line| line.strip_prefix("# speed ")?.split(' ').next());
        let reference: f64 = speed.ok_or("there is no line `# speed`")?.parse()?;
        let mut sums = [0.0; 2 + 2 * STAGES.len()];
        let mut items = 0;
        let lines = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        for line in lines.take(most) {
            let fields: Vec<f64> = line.split(',').map(str::parse).collect::<Result<_, _>>()?;
            if fields.len() != sums.len() {
                return Err(format!("expected {} fields in `{line}`", sums.len()).into());
            }
            sums.iter_mut().zip(fields).for_each(|(sum, field)| *sum += field);
            items += 1;
        }
        if items == 0 {
            return Err("there is no item".into());
        }
        let mean = sums.map(|sum| sum / items as f64);
        let mut spec = PipelineSpec::new(mean[1]);
        for ((name, serial), pair) in STAGES.into_iter().zip(mean[2..].chunks_exact(2)) {
            spec =
                spec.stage(StageSpec { serial, ..StageSpec::new(name, pair[0] * 1e-6 * reference, pair[1]) });
        }
        Ok(Costs { reference, items, spec })
    }

    /// Computes the lower bounds on the seconds per item on a cluster.
    ///
    /// Host 0 is the source of all items. An item leaves host 0, if at all, before some stage: host 0 has then done the work of the previous stages
    /// and must send the input of that stage. If fractions x(k) of the items leave before stage k, the processor and the link of host 0 take `Σ x(k)
    /// w(k) / s` and `Σ x(k) d(k) / b` seconds per item (w: work before stage k, d: bytes sent, s and b: speed and bandwidth of the host), at best at
    /// the same time, so the larger of the two is a bound. A mixture of at most two k minimizes this bound.
    ///
    /// The first stage, `load`, is serial: one host p runs it for all items of a mapping. If p is host 0, no item leaves before this stage. Otherwise
    /// every item is sent from host 0 to p before any work is done, which transfers the bytes of the input on the links of both hosts, and the
    /// argument for a source then holds for p. The smallest value over all p is the bound.
    pub(super) fn bound(&self, cluster: &Cluster) -> Bound {
        let stages = &self.spec.stages;
        let work: f64 = stages.iter().map(|s| s.work).sum();
        let fastest = cluster.speeds.iter().copied().fold(0.0, f64::max);
        let heaviest = stages.iter().filter(|s| s.serial).map(|s| s.work).fold(0.0, f64::max);
        let load = (0..cluster.speeds.len()).map(|p| {
            let fetch = |q: usize| if p == 0 { 0.0 } else { self.spec.input / cluster.bandwidths[q] };
            self.leaving(cluster, p, 1).max(fetch(0)).max(fetch(p))
        });
        Bound {
            work: work / cluster.speeds.iter().sum::<f64>(),
            serial: heaviest / fastest,
            source: self.leaving(cluster, 0, 0),
            load: load.fold(f64::INFINITY, f64::min),
        }
    }

    /// Returns the minimum seconds per item on host `p` if all items start on `p` and are sent to other hosts before stage `from`, before a later
    /// stage, or never.
    fn leaving(&self, cluster: &Cluster, p: usize, from: usize) -> f64 {
        // Seconds per item of computing and of sending on host `p`, for each stage before which items may leave the host, and for items that never
        // leave.
        let (mut done, mut bytes) = (0.0, self.spec.input);
        let mut ways: Vec<(f64, f64)> = Vec::new();
        for stage in &self.spec.stages {
            ways.push((done / cluster.speeds[p], bytes / cluster.bandwidths[p]));
            done += stage.work;
            bytes = stage.output;
        }
        ways.push((done / cluster.speeds[p], 0.0));
        let mut least = f64::INFINITY;
        for &(a, c) in &ways[from..] {
            for &(b, d) in &ways[from..] {
                // A fraction x of the items leaves the host before one stage, after `a` seconds of computing and `c` of sending per item; the other
                // items leave before another stage, after `b` and `d`. The larger of the mean computing and sending times is smallest where both are
                // equal, x·a + (1-x)·b = x·c + (1-x)·d, or at x = 0 or 1.
                let x = ((d - b) / ((a - b) - (c - d))).clamp(0.0, 1.0);
                for x in [x, 0.0, 1.0].into_iter().filter(|x| x.is_finite()) {
                    least = least.min(f64::max(x * a + (1.0 - x) * b, x * c + (1.0 - x) * d));
                }
            }
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "# ferret profile 1\n# speed 1000000 operations/s\nitem,…\n\
                           0,100,1,10,2,20,3,30,4,40,5,50,6,60\n1,300,1,10,2,20,3,30,4,40,5,50,8,60\n\
                           2,999,1,10,2,20,3,30,4,40,5,50,8,60\n";

    #[test]
    fn stage_costs_are_means_over_the_requested_items() {
        let Costs { reference, items, spec } = Costs::parse(PROFILE, 2).unwrap();
        assert_eq!((reference, items, spec.input), (1e6, 2, 200.0));
        let work: Vec<f64> = spec.stages.iter().map(|s| s.work.round()).collect();
        assert_eq!(work, [1.0, 2.0, 3.0, 4.0, 5.0, 7.0]);
        assert_eq!(spec.stages[3].output, 40.0);
        assert!(spec.stages[0].serial && !spec.stages[4].serial);
        assert!(Costs::parse("# speed 3 operations/s\n", 2).unwrap_err().to_string().contains("no item"));
        assert!(Costs::parse(&PROFILE.replace(",60\n", "\n"), 2).is_err());
    }

    #[test]
    fn time_bound_names_the_limiting_resource() {
        let costs = Costs::parse(PROFILE, 2).unwrap();
        let bound = |speeds: [f64; 2], bandwidth: f64| {
            let cluster = Cluster { speeds: speeds.to_vec(), bandwidths: vec![bandwidth; 2] };
            costs.bound(&cluster)
        };
        let all = bound([10.0, 12.0], 1e9);
        assert!((all.seconds() - 1.0).abs() < 1e-9 && all.limit() == "work", "{all:?}");
        let serial = bound([1e9, 1.0], 1e9);
        assert!(serial.seconds() < 1e-6, "{serial:?}");
        // Host 0 executes the stage `load`, whose output has 10 bytes per item, and its link transfers 5 bytes per second.
        let source = bound([1.0, 1e9], 5.0);
        assert!(source.limit() == "link of host 0", "{source:?}");
        assert!(source.source > 1.0 && source.source <= 2.0, "{source:?}");
    }
    #[test]
    fn serial_load_stage_is_bounded_by_its_host() {
        let load = StageSpec::new("load", 1.0, 1000.0).serial();
        let spec = PipelineSpec::new(200.0).stage(load).stage(StageSpec::new("rest", 21.0, 0.0));
        let costs = Costs { reference: 1.0, items: 1, spec };
        let cluster = Cluster { speeds: vec![22.0; 2], bandwidths: vec![250.0; 2] };
        let bound = costs.bound(&cluster);
        // Without the serial stage `load`, items could start on both hosts. With it, one host keeps a fraction 1 - x of the items and sends a
        // fraction x to the other host; its link and its processor then take the same time: 1000 x / 250 = (x + 22 (1 - x)) / 22.
        assert!((bound.plain() - 0.5).abs() < 1e-12 && bound.work == bound.plain(), "{bound:?}");
        assert!(
            bound.limit() == "host of load" && (bound.seconds() - 4.0 * 22.0 / 109.0).abs() < 1e-12,
            "{bound:?}"
        );
    }
}
