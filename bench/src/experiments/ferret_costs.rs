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

/// What a stream cannot be faster than on a cluster, in seconds an item, whatever the mapping.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// All work at the speed of all hosts together.
    pub(super) work: f64,
    /// The heaviest serial stage on the fastest host.
    pub(super) serial: f64,
    /// What host 0, where all items come from, must compute or send away.
    pub(super) source: f64,
}

impl Bound {
    pub(super) fn seconds(&self) -> f64 {
        self.work.max(self.serial).max(self.source)
    }

    /// What it is that sets the bound.
    pub(super) fn limit(&self) -> &'static str {
        match self.seconds() {
            s if s == self.work => "work",
            s if s == self.serial => "serial stage",
            _ => "link of host 0",
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
    /// An item begins on host 0 and leaves it, if ever, in front of some stage: then host 0 has done the work of the
    /// stages before and must send the bytes that come in there. With parts x(k) of the items leaving in front of
    /// stage k, its processor and its link take `Σ x(k) w(k) / s` and `Σ x(k) d(k) / b` seconds an item; the
    /// smallest possible larger one of the two comes from a mixture of at most two k.
    pub(super) fn bound(&self, cluster: &Cluster) -> Bound {
        let stages = &self.spec.stages;
        let work: f64 = stages.iter().map(|s| s.work).sum();
        let fastest = cluster.speeds.iter().copied().fold(0.0, f64::max);
        let heaviest = stages.iter().filter(|s| s.serial).map(|s| s.work).fold(0.0, f64::max);
        // Seconds of computing and of sending, for items that leave in front of each stage, or never.
        let (mut done, mut bytes) = (0.0, self.spec.input);
        let mut ways: Vec<(f64, f64)> = Vec::new();
        for stage in stages {
            ways.push((done / cluster.speeds[0], bytes / cluster.bandwidths[0]));
            done += stage.work;
            bytes = stage.output;
        }
        ways.push((done / cluster.speeds[0], 0.0));
        let mut source = f64::INFINITY;
        for &(a, c) in &ways {
            for &(b, d) in &ways {
                // x·a + (1-x)·b = x·c + (1-x)·d, or one end if they do not meet.
                let x = ((d - b) / ((a - b) - (c - d))).clamp(0.0, 1.0);
                for x in [x, 0.0, 1.0].into_iter().filter(|x| x.is_finite()) {
                    source = source.min(f64::max(x * a + (1.0 - x) * b, x * c + (1.0 - x) * d));
                }
            }
        }
        Bound { work: work / cluster.speeds.iter().sum::<f64>(), serial: heaviest / fastest, source }
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
}
