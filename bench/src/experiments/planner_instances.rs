//! Random pipelines and platforms (processors and links) for experiments on the pipeline planner.

use armature_planner::Platform;
use armature_planner::pipeline::{PipelineSpec, StageSpec};
use rand::{SeedableRng, rngs::StdRng};
use rand_distr::{Distribution, Normal};

use crate::RunResult;

/// Generator of random instances, each a pipeline and a platform.
///
/// Speeds of processors, work of stages and bandwidths (equal in both directions) are drawn from normal(10, 5), without values that are not positive.
/// Sizes of items are such draws divided by ten. A stage thus takes about one second, and a transfer about a tenth of a second. Set-up times of links
/// are zero.
#[derive(Debug)]
pub(super) struct Instances {
    random: StdRng,
    normal: Normal<f64>,
}

impl Instances {
    pub(super) fn new(seed: u64) -> RunResult<Self> {
        Ok(Instances { random: StdRng::seed_from_u64(seed), normal: Normal::new(10.0, 5.0)? })
    }

    fn draw(&mut self) -> f64 {
        loop {
            let value = self.normal.sample(&mut self.random);
            if value > 0.0 {
                return value;
            }
        }
    }

    pub(super) fn next(&mut self, stages: usize, processors: usize) -> RunResult<(Platform, PipelineSpec)> {
        let speeds: Vec<f64> = (0..processors).map(|_| self.draw()).collect();
        let nodes = processors + 1;
        let mut bandwidth = vec![vec![0.0; nodes]; nodes];
        for (p, q) in (0..nodes).flat_map(|p| (p..nodes).map(move |q| (p, q))) {
            bandwidth[p][q] = self.draw();
            bandwidth[q][p] = bandwidth[p][q];
        }
        let mut spec = PipelineSpec::new(self.draw() / 10.0);
        for n in 0..stages {
            spec = spec.stage(StageSpec::new(format!("s{}", n + 1), self.draw(), self.draw() / 10.0));
        }
        Ok((Platform::new(speeds, bandwidth, vec![vec![0.0; nodes]; nodes])?, spec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armature_planner::Link;

    #[test]
    fn equal_seeds_give_equal_instances() {
        let draw = || Instances::new(3).unwrap().next(4, 5).unwrap();
        assert_eq!(draw(), draw());
        let (platform, spec) = draw();
        assert_eq!((platform.processors(), spec.len()), (5, 4));
        let Link { bandwidth, setup } = platform.link(1, 3);
        assert_eq!(platform.link(3, 1), Link { bandwidth, setup });
    }
}
