//! Measured times of the image search's stages on one core, compared with the estimates of [`crate::cost`].

use crate::cost;
use crate::index::Index;
use crate::queries::ImageFile;
use crate::stages::{ext, ind, load, out, rank, seg};
use std::fmt;
use std::time::Instant;

/// Names of the image search's stages, in the order of the pipeline.
pub const STAGES: [&str; 6] = ["load", "seg", "ext", "ind", "rank", "out"];

const ROUNDS: usize = 5;

/// Mean time of each stage for one item, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Times of the six stages, as measured on this machine.
    pub measured: [f64; 6],
    /// Times of the six stages, as estimated by [`crate::cost`] for a processor with 10⁹ operations per second.
    pub estimated: [f64; 6],
}

/// Measures the time of each stage for each file. Of five measurements the shortest counts, because other programs disturb it least. Returns the
/// means over the files. Files that cannot be decoded are skipped.
pub fn measure(files: &[ImageFile], index: &Index, k: usize) -> Times {
    let mut times = Times { measured: [0.0; 6], estimated: [0.0; 6] };
    let mut items = 0;
    for file in files {
        let mut shortest = [f64::INFINITY; 6];
        let mut estimated = None;
        for _ in 0..ROUNDS {
            estimated = run(file, index, k, &mut shortest);
        }
        let Some(estimated) = estimated else { continue };
        items += 1;
        for stage in 0..STAGES.len() {
            times.measured[stage] += shortest[stage];
            times.estimated[stage] += estimated[stage] / 1e9;
        }
    }
    let mean = |sums: [f64; 6]| sums.map(|sum| sum / f64::from(items.max(1)));
    Times { measured: mean(times.measured), estimated: mean(times.estimated) }
}

/// Runs one file through the stages, and lowers the entries of `shortest` for the stages that were faster than before. Returns the estimated times.
fn run(file: &ImageFile, index: &Index, k: usize, shortest: &mut [f64; 6]) -> Option<[f64; 6]> {
    let entries = index.database().entries();
    let mut clock = Instant::now();
    let mut lap = |stage: usize| {
        shortest[stage] = shortest[stage].min(clock.elapsed().as_secs_f64());
        clock = Instant::now();
    };
    let loaded = load(file.name.clone(), &file.bytes).ok()?;
    lap(0);
    let (width, height) = (loaded.picture.width, loaded.picture.height);
    let cut = seg(loaded);
    lap(1);
    let described = ext(cut);
    lap(2);
    let regions = described.regions.len();
    let probed = ind(described, index);
    lap(3);
    let compared = probed.candidates.iter().map(|&c| entries[c as usize].regions.len()).sum();
    let ranked = rank(probed, index, k);
    lap(4);
    let text = out(&ranked);
    lap(5);
    Some([
        cost::load(file.bytes.len(), width, height),
        cost::segment(width, height),
        cost::describe(),
        cost::search(regions, index.regions(), entries.len()),
        cost::rank(regions, compared),
        cost::out(text.lines().count()),
    ])
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<8}{:>14}{:>14}", "stage", "measured ms", "estimated ms")?;
        for (stage, (measured, estimated)) in STAGES.iter().zip(self.measured.iter().zip(self.estimated)) {
            writeln!(f, "{stage:<8}{:>14.3}{:>14.3}", 1e3 * measured, 1e3 * estimated)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{eval::synthetic, lsh::Settings, synth::Plan};

    #[test]
    fn every_stage_is_timed_and_estimated() {
        let plan = Plan { scenes: 8, seed: 2, width: 72, height: 48, all_variants: false };
        let (index, _) = synthetic(&plan, Settings::default()).unwrap();
        let files: Vec<ImageFile> =
            plan.generate_all().into_iter().map(|generated| generated.original).collect();
        let times = measure(&files, &index, 10);
        assert!(times.measured.iter().chain(&times.estimated).all(|&seconds| seconds > 0.0), "{times:?}");
        assert_eq!(times.to_string().lines().count(), 7);
    }
}
