//! Tests of platforms, pipelines, mappings and plans with arbitrary numbers: no call panics or takes too long.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use armature_papers::optimal_plan;
use armature_planner::pipeline::{
    Algorithm, Block, Dispatch, Mapping, PipelineSpec, PlanOptions, StageSpec, plan, production_time,
};
use armature_planner::{ErrorKind, Link, Platform, Result, SharedCores};
use proptest::prelude::*;

use crate::numbers::{amount, in_time, index, mostly_amount, mostly_positive, number, positive, some};

const EVERY: [Algorithm; 4] = [Algorithm::Hedpm, Algorithm::Dpm, Algorithm::Bsc, Algorithm::Refined];

#[derive(Clone, Debug)]
struct Machine {
    speeds: Vec<f64>,
    link: Link,
    /// Pairs of processors whose link differs from `link`; all other pairs use `link`.
    others: Vec<(usize, usize, Link)>,
    ext_on: Option<usize>,
    overlap: bool,
    shared: Vec<SharedCores>,
}

impl Machine {
    /// Replaces invalid processor numbers by valid ones: in the links, in the groups of shared cores, and for the
    /// processor at which input arrives and output leaves.
    fn fitted(mut self) -> Self {
        let processors = self.speeds.len();
        for (from, to, _) in &mut self.others {
            (*from, *to) = (*from % (processors + 1), *to % (processors + 1));
        }
        self.ext_on = self.ext_on.map(|processor| processor % processors);
        let mut seen = vec![false; processors];
        for group in &mut self.shared {
            group.processors.iter_mut().for_each(|processor| *processor %= processors);
            group.processors.retain(|&processor| !std::mem::replace(&mut seen[processor], true));
        }
        self
    }

    fn platform(&self) -> Result<Platform> {
        let mut platform = Platform::with_speeds(&self.speeds, self.link)?.with_overlap(self.overlap);
        for &(from, to, link) in &self.others {
            platform.set_link(from, to, link)?;
        }
        if let Some(processor) = self.ext_on {
            platform = platform.with_ext_on(processor)?;
        }
        platform.with_shared_cores(self.shared.clone())
    }
}

fn machine<P, A, I>(positive: P, amount: A, index: I) -> impl Strategy<Value = Machine> + Clone
where
    P: Strategy<Value = f64> + Clone + 'static,
    A: Strategy<Value = f64> + Clone + 'static,
    I: Strategy<Value = usize> + Clone + 'static,
{
    let bandwidth = prop_oneof![4 => positive.clone(), 1 => Just(f64::INFINITY)];
    let link = (bandwidth, amount).prop_map(|(bandwidth, setup)| Link { bandwidth, setup });
    let group = (prop::collection::vec(index.clone(), 1..4), positive.clone());
    let group = group.prop_map(|(processors, cores)| SharedCores { processors, cores });
    (
        prop::collection::vec(positive, 1..5),
        link.clone(),
        prop::collection::vec((index.clone(), index.clone(), link), 0..4),
        prop::option::of(index),
        any::<bool>(),
        prop::collection::vec(group, 0..2),
    )
        .prop_map(|(speeds, link, others, ext_on, overlap, shared)| Machine {
            speeds,
            link,
            others,
            ext_on,
            overlap,
            shared,
        })
}

fn spec<A>(
    amount: A,
    pin: impl Strategy<Value = Option<usize>> + Clone,
) -> impl Strategy<Value = PipelineSpec>
where
    A: Strategy<Value = f64> + Clone,
{
    let stage = (amount.clone(), amount.clone(), any::<bool>(), pin);
    (amount, prop::collection::vec(stage, 0..6)).prop_map(|(input, stages)| {
        let stage = |(n, (work, output, serial, pinned))| StageSpec {
            name: format!("s{n}"),
            work,
            output,
            serial,
            pinned,
        };
        PipelineSpec { input, stages: stages.into_iter().enumerate().map(stage).collect() }
    })
}

fn options() -> impl Strategy<Value = PlanOptions> {
    let budget = prop_oneof![3 => 0..300_usize, 1 => Just(usize::MAX)];
    let radius = prop_oneof![5 => 0.0..0.99_f64, 1 => number()];
    (any::<(bool, bool, bool)>(), radius, budget).prop_map(|((demand, groups, share), radius, budget)| {
        PlanOptions {
            dispatch: if demand { Dispatch::OnDemand } else { Dispatch::RoundRobin },
            radius,
            replicate_groups: groups,
            share_processors: share,
            budget,
            // If the budget does not limit the search, its stop flag is set from the beginning, so that it ends.
            stop: (budget == usize::MAX).then(|| Arc::new(AtomicBool::new(true))),
            ..PlanOptions::default()
        }
    })
}

fn planned(machine: &Machine, spec: &PipelineSpec, options: &PlanOptions) -> Result<()> {
    let platform = machine.platform()?;
    let by = |algorithm| plan(&platform, spec, &PlanOptions { algorithm, ..options.clone() });
    for plan in EVERY.map(by).into_iter().chain([optimal_plan(&platform, spec, options)]) {
        let plan = match plan {
            Err(error) if error.kind() == ErrorKind::Infeasible => continue,
            answer => answer?,
        };
        plan.mapping.validate(spec, platform.processors())?;
        let prediction = &plan.prediction;
        assert!(prediction.production_time >= 0.0 && prediction.production_time.is_finite(), "{plan:?}");
        for block in &prediction.blocks {
            assert!(
                block.time.is_finite() && block.item_times.iter().all(|time| time.is_finite()),
                "{plan:?}"
            );
            assert!((block.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{plan:?}");
        }
        assert!(prediction.utilisation.iter().all(|busy| busy.is_finite()), "{plan:?}");
        assert_eq!(&production_time(&platform, spec, &plan.mapping, options.dispatch)?, prediction);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn plan_exists_for_all_numbers_in_range(
        machine in machine(positive(), amount(), 0..60_usize).prop_map(Machine::fitted),
        spec in spec(amount(), Just(None)),
        options in options(),
    ) {
        let is_usable = !spec.is_empty() && (0.0..1.0).contains(&options.radius);
        let answer = in_time(move || planned(&machine, &spec, &options));
        prop_assert_eq!(answer.is_ok(), is_usable, "{:?}", answer);
    }

    #[test]
    fn planning_any_input_gives_a_plan_or_an_error(
        machine in machine(mostly_positive(), mostly_amount(), index()),
        spec in spec(mostly_amount(), prop::option::weighted(0.1, index())),
        options in options(),
    ) {
        in_time(move || drop(planned(&machine, &spec, &options)));
    }

    #[test]
    fn any_matrix_gives_a_platform_or_an_error(
        speeds in some(number()),
        bandwidth in some(some(mostly_positive())),
        setup in some(some(mostly_amount())),
        (count, speed) in (index(), mostly_positive()),
        others in some(number()),
    ) {
        in_time(move || {
            let _ = Platform::new(speeds.clone(), bandwidth, setup);
            if let Ok(platform) = Platform::with_speeds(&speeds, Link::FREE) {
                let _ = platform.with_other_speeds(&others);
            }
            // Platforms with 1,000 to 99,999 processors are not tested, because they are valid but need up to several
            // GiB of memory.
            if !(1000..100_000).contains(&count) {
                let _ = Platform::uniform(count, speed, Link::FREE);
            }
        });
    }

    #[test]
    fn any_mapping_is_displayed_and_validated(
        blocks in some((index(), index(), some(index()))),
        text in "[ab@|+,0-9 ]{0,24}",
        stage in index(),
    ) {
        in_time(move || {
            let spec = PipelineSpec::new(1.0).stage(StageSpec::new("a", 1.0, 1.0)).stage(StageSpec::new("b", 1.0, 1.0));
            let blocks = blocks.into_iter().map(|(start, end, hosts)| Block::new(start..end, hosts)).collect();
            let mapping = Mapping::new(blocks);
            assert!(mapping.display(&spec).to_string().len() < 2000);
            let _ = (mapping.block_of(stage), mapping.shares_processors(), Mapping::serial(&spec, stage));
            let platform = Platform::uniform(3, 1.0, Link::FREE).unwrap();
            let valid = mapping.validate(&spec, 3);
            let judged = production_time(&platform, &spec, &mapping, Dispatch::OnDemand);
            assert_eq!(valid.is_ok(), judged.is_ok());
            if let Ok(parsed) = Mapping::parse(&text, &spec) {
                let _ = parsed.validate(&spec, 3);
            }
        });
    }
}

/// Regression: speeds whose sum is infinite were accepted. The platform of mean speed, which the planner DPM uses, was then invalid.
#[test]
fn out_of_range_speeds_are_refused_before_the_search() {
    let error = Platform::with_speeds(&[1e308, 1e308], Link::FREE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Platform);
    assert!(
        error.message().contains("processor 0") && error.message().contains("from 1e-60 to 1e60"),
        "{error}"
    );
}

/// Regression: the search tried all sets of processors for a block of stages, even sets that must not run the block,
/// and did not stop when its budget was used up.
#[test]
fn optimum_search_without_result_stops_at_its_budget() {
    for serial in [true, false] {
        let stage = |n| StageSpec { serial, ..StageSpec::new(format!("s{n}"), 1.0 + f64::from(n % 3), 1.0) };
        let spec = (0..8).map(stage).fold(PipelineSpec::new(1.0), PipelineSpec::stage);
        let speeds: Vec<f64> = (0..20).map(|p| 1.0 + f64::from(p % 7)).collect();
        let found = in_time(move || {
            let platform = Platform::with_speeds(&speeds, Link { bandwidth: 10.0, setup: 0.01 }).unwrap();
            optimal_plan(&platform, &spec, &PlanOptions { budget: 1000, ..PlanOptions::default() }).unwrap()
        });
        assert!(!found.complete, "{found:?}");
    }
}
