//! What Ferret's stages cost, from a profile that `ferret query --record-profile` has written.

use std::path::Path;

use armature_planner::pipeline::{PipelineSpec, StageSpec};

use crate::{Outcome, platforms::Cluster};

/// Names of the stages, and whether they are serial.
const STAGES: [(&str, bool); 6] =
    [("load", true), ("seg", false), ("ext", false), ("ind", false), ("rank", false), ("out", true)];

/// Means over the items of a stream.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    /// Operations a second of the machine that recorded them.
    pub(super) reference: f64,
    /// Items of the stream.
    pub(super) items: usize,
    /// Mean work in operations, and mean bytes.
    pub(super) spec: PipelineSpec,
}

/// What a stream cannot be faster than on a cluster, in seconds an item, whatever the mapping. Filling and draining the
/// pipeline are not counted, nor that an item is done by one host: the stages of many items can be divided so finely that
/// no proof gains a per cent from either.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// All work at the speed of all hosts together.
    pub(super) work: f64,
    /// The heaviest serial stage on the fastest host.
    pub(super) serial: f64,
    /// What host 0, where all items come from, must compute or send away.
    pub(super) source: f64,
    /// What the host of `load` must receive, compute or send away, on the best host for it.
    pub(super) load: f64,
}

impl Bound {
    pub(super) fn seconds(&self) -> f64 {
        self.plain().max(self.load)
    }

    /// The same without regard to `load` being on one host.
    pub(super) fn plain(&self) -> f64 {
        self.work.max(self.serial).max(self.source)
    }

    /// What it is that sets the bound.
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
    /// Reads the costs of the first `most` items of a profile.
    pub(super) fn read(path: &Path, most: usize) -> Outcome<Self> {
        let text =
            std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        Costs::parse(&text, most).map_err(|e| format!("{}: {e}", path.display()).into())
    }

    fn parse(text: &str, most: usize) -> Outcome<Self> {
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

    /// The bounds on a cluster.
    ///
    /// Host 0 first. An item begins there and leaves it, if ever, in front of some stage: then host 0 has done the work of
    /// the stages before and must send the bytes that come in there. With parts x(k) of the items leaving in front of
    /// stage k, its processor and its link take `Σ x(k) w(k) / s` and `Σ x(k) d(k) / b` seconds an item, at the same time
    /// at best, so the larger of the two is a bound, and the smallest that it can be comes from a mixture of at most two k.
    ///
    /// The first stage, `load`, is serial: one host p does it for all items of a mapping. If p is host 0, no item leaves
    /// before it. Otherwise every item leaves host 0 and comes to p before anything is done, which takes the bytes of the
    /// input on the links of both, and then the same holds for p as for a source. The best p gives the bound.
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

    /// The least that host `p` takes for an item if all items begin there and leave it in front of stage `from` or a later
    /// one, or never.
    fn leaving(&self, cluster: &Cluster, p: usize, from: usize) -> f64 {
        // Seconds of computing and of sending, for items that leave in front of each stage, or never.
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
                // x·a + (1-x)·b = x·c + (1-x)·d, or one end if they do not meet.
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
    fn means_are_taken_over_the_items_asked_for() {
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
    fn bounds_name_what_limits() {
        let costs = Costs::parse(PROFILE, 2).unwrap();
        let bound = |speeds: [f64; 2], bandwidth: f64| {
            let cluster = Cluster { speeds: speeds.to_vec(), bandwidths: vec![bandwidth; 2] };
            costs.bound(&cluster)
        };
        let all = bound([10.0, 12.0], 1e9);
        assert!((all.seconds() - 1.0).abs() < 1e-9 && all.limit() == "work", "{all:?}");
        let serial = bound([1e9, 1.0], 1e9);
        assert!(serial.seconds() < 1e-6, "{serial:?}");
        // Host 0 sends 10 bytes an item behind `load`, which takes 1 unit of work there.
        let source = bound([1.0, 1e9], 5.0);
        assert!(source.limit() == "link of host 0", "{source:?}");
        assert!(source.source > 1.0 && source.source <= 2.0, "{source:?}");
    }
    #[test]
    fn what_one_host_must_load_is_bound_by_that_host() {
        let load = StageSpec::new("load", 1.0, 1000.0).serial();
        let spec = PipelineSpec::new(200.0).stage(load).stage(StageSpec::new("rest", 21.0, 0.0));
        let costs = Costs { reference: 1.0, items: 1, spec };
        let cluster = Cluster { speeds: vec![22.0; 2], bandwidths: vec![250.0; 2] };
        let bound = costs.bound(&cluster);
        // Without `load`, items could begin on both hosts. With it, one host keeps 1 - x and sends x of them on, and
        // 1000 x / 250 = (x + 22 (1 - x)) / 22.
        assert!((bound.plain() - 0.5).abs() < 1e-12 && bound.work == bound.plain(), "{bound:?}");
        assert!(
            bound.limit() == "host of load" && (bound.seconds() - 4.0 * 22.0 / 109.0).abs() < 1e-12,
            "{bound:?}"
        );
    }
}
