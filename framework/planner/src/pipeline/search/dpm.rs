//! Planner DPM: the homogeneous predecessor of HeDPM.
//!
//! DPM ignores differences between processors. It applies the rules of HeDPM to a platform on which every processor has the mean speed and every link
//! is the mean link, with the processors in rank order. The mappings that DPM proposes are evaluated on the real platform.

use super::hedpm::Hedpm;
use super::ideal::mean_link;
use crate::error::Result;
use crate::pipeline::dispatch::Dispatch;
use crate::pipeline::mapping::Block;
use crate::pipeline::model::costs::Costs;
use crate::pipeline::spec::PipelineSpec;
use crate::platform::Platform;
use crate::range::{LARGEST, SMALLEST};

/// Returns the best mapping on a homogeneous platform of mean speed and mean links, and the number of mappings evaluated.
///
/// # Errors
/// No errors occur for a valid platform, because means of valid numbers are valid.
pub(in crate::pipeline) fn dpm(
    platform: &Platform,
    spec: &PipelineSpec,
    dispatch: Dispatch,
    radius: f64,
) -> Result<(Vec<Block>, usize)> {
    let speed = platform.speeds().iter().sum::<f64>() / platform.processors() as f64;
    // The mean speed is clamped, because rounding may move it out of the accepted range.
    let speed = speed.clamp(SMALLEST, LARGEST);
    let flat = Platform::uniform(platform.processors(), speed, mean_link(platform))?;
    let costs = Costs::new(&flat, spec);
    let found = Hedpm::new(&flat, spec, &costs, dispatch, radius).sweep();
    let evaluated = found.len();
    let mut best = (Vec::new(), f64::INFINITY);
    for candidate in found {
        if candidate.1 < best.1 || best.0.is_empty() {
            best = candidate;
        }
    }
    Ok((best.0, evaluated))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::StageSpec;
    use crate::platform::Link;

    #[test]
    fn processors_are_used_in_rank_order() {
        let spec =
            PipelineSpec::new(0.0).stage(StageSpec::new("a", 9.0, 0.0)).stage(StageSpec::new("b", 1.0, 0.0));
        let platform = Platform::with_speeds(&[1.0, 9.0], Link::FREE).unwrap();
        let (blocks, _) = dpm(&platform, &spec, Dispatch::RoundRobin, 0.05).unwrap();
        assert_eq!(blocks[0].hosts, [0], "the heavy stage goes to the first processor: {blocks:?}");
    }
}
