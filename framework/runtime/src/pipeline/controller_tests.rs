//! Tests of the controller that decides about changes of a pipeline's mapping, on streams in which the speeds of ranks and stages change.

use std::cell::Cell;

use armature_planner::estimate::Estimate;
use armature_planner::pipeline::{Block, Dispatch, PipelineSpec, StageSpec};
use armature_planner::{Link, Platform};

use super::super::metrics::{Measurements, Service};
use super::super::remap_cost::Cost;
use super::super::remaps::Script;
use super::super::run_spec::RunSpec;
use super::*;
use crate::balance::probe::Probed;

const RANKS: usize = 2;

/// Returns a controller for a pipeline of two stages, a and b, that take 4 ms per item. Stage a runs on rank 0 and stage b on rank 1, which is the
/// best mapping.
fn subject(balance: Balance) -> (Controller, PerformanceModel, Mapping) {
    controller_of(balance, vec![false; 2])
}

/// Returns a controller like [`subject`]; `expanding` is true for each stage that produces several items from one.
fn controller_of(balance: Balance, expanding: Vec<bool>) -> (Controller, PerformanceModel, Mapping) {
    let spec =
        PipelineSpec::new(0.0).stage(StageSpec::new("a", 0.0, 0.0)).stage(StageSpec::new("b", 0.0, 0.0));
    let mapping = Mapping::new(vec![Block::new(0..1, vec![0]), Block::new(1..2, vec![1])]);
    let mut probed = None;
    let run_spec = RunSpec {
        name: "test".into(),
        outline: spec,
        expanding,
        may_finish: false,
        mapping: Some(mapping.clone()),
        dispatch: Dispatch::OnDemand,
        ordered: true,
        sharing: &[],
        probed: &mut probed,
        script: Script::default(),
    };
    let mut performance_model = PerformanceModel::new(&run_spec, RANKS, balance, false).unwrap();
    let platform = Platform::with_speeds(&[1.0; RANKS], Link::FREE).unwrap().with_ext_on(0).unwrap();
    performance_model
        .probed(Probed { platform: platform.with_overlap(true), shares: vec![1.0; RANKS] }, false);
    (Controller::new(balance, RANKS).unwrap().unwrap(), performance_model, mapping)
}

fn report(
    performance_model: &mut PerformanceModel,
    rank: usize,
    stage: usize,
    ms: f64,
    items: u64,
    now: Duration,
) {
    report_share(performance_model, rank, stage, (ms, 1.0), items, now);
}

/// Reports to the model that stage `stage` computes for `ms` milliseconds per item on the rank, which gets `share` of its core.
fn report_share(
    performance_model: &mut PerformanceModel,
    rank: usize,
    stage: usize,
    (ms, share): (f64, f64),
    items: u64,
    now: Duration,
) {
    let mut services = vec![None; 2];
    services[stage] = Some(Service { seconds: Estimate::declared(ms * 1e-3), items });
    let measurements = Measurements { services, share: Some(share), ..Measurements::default() };
    performance_model.measured(rank, measurements, now).unwrap();
}

fn report_both(
    performance_model: &mut PerformanceModel,
    rank: usize,
    ms: [f64; 2],
    items: u64,
    now: Duration,
) {
    let services = ms.map(|ms| Some(Service { seconds: Estimate::declared(ms * 1e-3), items }));
    let measurements =
        Measurements { services: services.to_vec(), share: Some(1.0), ..Measurements::default() };
    performance_model.measured(rank, measurements, now).unwrap();
}

/// Returns the predicted milliseconds per item of stage a on ranks 0 and 1, then of stage b on ranks 0 and 1.
fn expected(performance_model: &mut PerformanceModel, mapping: &Mapping) -> [f64; 4] {
    expected_at(performance_model, mapping, Duration::from_secs(1))
}

fn expected_at(performance_model: &mut PerformanceModel, mapping: &Mapping, now: Duration) -> [f64; 4] {
    let model = performance_model.model(mapping, now).unwrap();
    [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(stage, rank)| 1e3 * model.seconds(stage, rank))
}

#[test]
fn stages_are_weighted_by_the_items_that_reach_them() {
    let (_, mut performance_model, mapping) = controller_of(Balance::Live, vec![true, false]);
    let mut report = |rank: usize, ms: [f64; 2], flow: (f64, f64), volumes: [(u64, u64); 3]| {
        let service =
            |ms: f64| (ms > 0.0).then(|| Service { seconds: Estimate::declared(ms * 1e-3), items: 9 });
        let mut flows = vec![(0.0, 0.0); 2];
        flows[rank] = flow;
        let (services, volumes) = (ms.map(service).to_vec(), volumes.to_vec());
        let measurements = Measurements { services, flows, volumes, ..Measurements::default() };
        performance_model.measured(rank, measurements, Duration::ZERO).unwrap();
    };
    report(0, [1.0, 0.0], (10.0, 40.0), [(80, 10), (800, 40), (0, 0)]);
    report(1, [0.0, 2.0], (40.0, 4.0), [(0, 0), (0, 0), (40, 4)]);
    let after = expected(&mut performance_model, &mapping);
    // Stage a produces four items from one source item. It takes 1 ms for each input and output item, hence 5 ms per source item. Stage b takes 2 ms
    // for each of the four items, hence 8 ms per source item.
    assert_near(after, [5.0, 5.0, 8.0, 8.0]);
    let model = performance_model.model(&mapping, Duration::ZERO).unwrap();
    assert_eq!(model.bytes(), [8.0, 80.0, 4.0], "for an item of the source");
}

#[track_caller]
fn assert_near(found: [f64; 4], expected: [f64; 4]) {
    let near = found.iter().zip(&expected).all(|(a, b)| (a / b - 1.0).abs() < 0.02);
    assert!(near, "{found:?}, not {expected:?}");
}

#[test]
fn external_load_slows_a_rank_and_phase_change_a_stage() {
    let (_, mut performance_model, mapping) = subject(Balance::Live);
    report(&mut performance_model, 0, 0, 4.0, 50, Duration::ZERO);
    report(&mut performance_model, 1, 1, 4.0, 50, Duration::ZERO);
    assert_near(expected(&mut performance_model, &mapping), [4.0; 4]);
    // Now rank 1 gets half of its core: stage b needs 8 ms per item there, in which it computes for 4 ms.
    report_share(&mut performance_model, 1, 1, (4.0, 0.5), 60, Duration::ZERO);
    assert_near(expected(&mut performance_model, &mapping), [4.0, 8.0, 4.0, 8.0]);
    // Now rank 1 has its whole core again, but the items need more work: stage b computes for 8 ms per item.
    report_share(&mut performance_model, 1, 1, (8.0, 1.0), 70, Duration::ZERO);
    assert_near(expected(&mut performance_model, &mapping), [4.0, 4.0, 8.0, 8.0]);
    // Now rank 1 gets half of its core, and stage b computes for 6 ms per item, which takes 12 ms.
    report_share(&mut performance_model, 1, 1, (6.0, 0.5), 80, Duration::ZERO);
    assert_near(expected(&mut performance_model, &mapping), [4.0, 8.0, 6.0, 12.0]);
}

#[test]
fn old_measurements_of_a_moved_stage_are_discarded() {
    let (_, mut performance_model, mapping) = subject(Balance::Live);
    report(&mut performance_model, 0, 0, 4.0, 50, Duration::ZERO);
    report(&mut performance_model, 1, 1, 4.0, 50, Duration::ZERO);
    assert_near(expected(&mut performance_model, &mapping), [4.0; 4]);
    // Stage b has moved from rank 1 to rank 0, and its items need more work since then. The time that rank 1 measured for easier items must not make
    // rank 1 look faster than rank 0.
    let gathered = Mapping::new(vec![Block::new(0..2, vec![0])]);
    report_both(&mut performance_model, 0, [4.0, 8.0], 60, Duration::from_secs(1));
    assert_near(expected(&mut performance_model, &gathered), [4.0, 4.0, 8.0, 8.0]);
}

#[test]
fn measured_speed_of_an_idle_rank_expires() {
    let (_, mut performance_model, _) = subject(Balance::Live);
    let replicated = Mapping::new(vec![Block::new(0..1, vec![0, 1]), Block::new(1..2, vec![1])]);
    report_both(&mut performance_model, 1, [8.0, 8.0], 50, Duration::ZERO);
    report(&mut performance_model, 0, 0, 4.0, 50, Duration::ZERO);
    let slow = [4.0, 8.0, 4.0, 8.0];
    assert_near(expected(&mut performance_model, &replicated), slow);
    let alone = Mapping::new(vec![Block::new(0..2, vec![0])]);
    assert_near(expected_at(&mut performance_model, &alone, Duration::from_secs(5)), slow);
    assert_near(expected_at(&mut performance_model, &alone, Duration::from_secs(7)), [4.0; 4]);
}

/// Simulates six seconds of a stream in which stage b takes `ms(second)` milliseconds per item on rank 1. Returns the time of the first change of the
/// mapping, and the new mapping.
fn looks(ms: impl Fn(u64) -> f64) -> Option<(f64, Mapping)> {
    let (mut controller, mut performance_model, mapping) = subject(Balance::Live);
    let mut items = 0;
    for step in 0..120u64 {
        let now = Duration::from_millis(50 * step);
        items += 12;
        report(&mut performance_model, 0, 0, 4.0, items, now);
        report(&mut performance_model, 1, 1, ms(step / 20), items, now);
        let progress =
            Progress { now, elapsed: now, items, drawn: items, left: Some(100_000), batches: (items, items) };
        if !controller.is_due(progress) {
            continue;
        }
        let decision = controller.replan(progress, &mapping, &mut performance_model, || now).unwrap();
        if let Some(decision) = decision.filter(Decision::is_act) {
            return decision.candidate.map(|c| (now.as_secs_f64(), c.arrangement));
        }
    }
    None
}

#[test]
fn good_mapping_is_kept_despite_small_changes() {
    assert_eq!(looks(|_| 4.0), None);
    assert_eq!(looks(|second| 4.0 + 0.2 * (second % 2) as f64), None);
}

#[test]
fn slowed_rank_gets_less_work_within_half_a_second() {
    let (at, mapping) = looks(|second| if second < 5 { 4.0 } else { 12.0 }).expect("it pays");
    assert!((5.1..5.6).contains(&at), "three looks after the fifth second: {at}");
    let hosts = |stage: usize| &mapping.blocks[mapping.block_of(stage).unwrap()].hosts;
    assert!(hosts(1).contains(&0), "rank 0 helps with stage b: {mapping:?}");
}

/// Returns the first three decisions of the controller for a stream whose two stages run on rank 1 at first, while rank 0 is `times` times as fast.
fn first_decisions(times: f64) -> [Decision<Mapping>; 3] {
    let (mut controller, mut performance_model, _) = subject(Balance::Live);
    let platform = Platform::with_speeds(&[times, 1.0], Link::FREE).unwrap().with_ext_on(0).unwrap();
    performance_model
        .probed(Probed { platform: platform.with_overlap(true), shares: vec![1.0; RANKS] }, false);
    let mapping = Mapping::new(vec![Block::new(0..2, vec![1])]);
    let mut replan = |step: u64| {
        let (now, items) = (Duration::from_millis(100 * step), 10 * step);
        report_both(&mut performance_model, 1, [5.0, 5.0], 10 + items, now);
        let progress =
            Progress { now, elapsed: now, items, drawn: items, left: Some(100_000), batches: (items, items) };
        controller.replan(progress, &mapping, &mut performance_model, || now).unwrap()
    };
    assert!(replan(0).is_none());
    [1, 2, 3].map(|step| replan(step).expect("a decision"))
}

#[test]
fn bad_initial_mapping_is_replaced_at_second_evaluation() {
    let reason = |decision: &Decision<Mapping>| match event(decision, &Inputs::default(), |_| String::new()) {
        Event::Decision { reason, .. } => reason,
        other => panic!("{other:?}"),
    };
    let far = first_decisions(5.0);
    assert_eq!([0, 1].map(|at| far[at].is_act()), [false, true], "{far:?}");
    assert_eq!(reason(&far[0]), "the gain was seen in 1 of 3 consecutive checks");
    let acted =
        |looks| format!("the gain is large enough, pays for the change and was confirmed by {looks} checks");
    assert_eq!((far[1].gain > 0.5, reason(&far[1])), (true, acted(2)));
    let near = first_decisions(0.8);
    assert_eq!([0, 1, 2].map(|at| near[at].is_act()), [false, false, true], "{near:?}");
    assert_eq!(((0.4..0.5).contains(&near[2].gain), reason(&near[2])), (true, acted(3)));
}

/// Simulates a controller whose search for a mapping takes 0.1 s. Stage b takes `ms` milliseconds per item on rank 1 in the first second of the
/// stream and 12 ms after it. Returns the time of the first change of the mapping and the number of evaluations until then.
fn slow_evaluations(ms: f64) -> (f64, usize) {
    let (mut controller, mut performance_model, mapping) = subject(Balance::Live);
    let planning = Cell::new(Duration::ZERO);
    let mut looks = 0;
    for step in 0..600u64 {
        let now = Duration::from_millis(50 * step);
        report(&mut performance_model, 0, 0, 4.0, 12 * (step + 1), now);
        report(&mut performance_model, 1, 1, if step < 20 { ms } else { 12.0 }, 12 * (step + 1), now);
        let items = 12 * step;
        let progress =
            Progress { now, elapsed: now, items, drawn: items, left: Some(100_000), batches: (items, items) };
        if !controller.is_due(progress) {
            continue;
        }
        looks += 1;
        let clock = || planning.replace(planning.get() + Duration::from_millis(100));
        let decision = controller.replan(progress, &mapping, &mut performance_model, clock).unwrap();
        if decision.is_some_and(|d| d.is_act()) {
            return (now.as_secs_f64(), looks);
        }
    }
    panic!("it pays");
}

#[test]
fn slow_planner_compares_a_found_mapping_without_new_search() {
    let (acted, looks) = slow_evaluations(4.0);
    // The controller searches for a mapping for the first time before the fifth second, for the second time ten seconds later, and compares the found
    // mapping with the current one twice.
    assert!((10.0..12.0).contains(&acted) && looks <= 6, "after {acted} s and {looks} looks");
}

#[test]
fn nearly_profitable_mapping_is_compared_until_the_next_search() {
    // If stage b takes 4.6 ms, a mapping in which rank 0 also runs stage b has a gain of 6.5 %.
    let (acted, looks) = slow_evaluations(4.6);
    assert!((1.0..3.5).contains(&acted) && looks <= 8, "after {acted} s and {looks} looks");
}

/// Simulates half a minute of a stream in which a search for a mapping takes 10 ms and stage b takes `ms(second)` milliseconds per item on rank 1.
/// Returns the second in which each search began.
fn searches(ms: impl Fn(u64) -> f64) -> Vec<u64> {
    let (mut controller, mut performance_model, mapping) = subject(Balance::Live);
    let mut seconds = Vec::new();
    for step in 0..600u64 {
        let (now, items) = (Duration::from_millis(50 * step), 12 * step);
        report(&mut performance_model, 0, 0, 4.0, items + 12, now);
        report(&mut performance_model, 1, 1, ms(step / 20), items + 12, now);
        let progress =
            Progress { now, elapsed: now, items, drawn: items, left: Some(100_000), batches: (items, items) };
        if !controller.is_due(progress) {
            continue;
        }
        let planning = Cell::new(Duration::ZERO);
        let clock = || planning.replace(planning.get() + Duration::from_millis(10));
        controller.replan(progress, &mapping, &mut performance_model, clock).unwrap();
        if planning.get() > Duration::ZERO {
            seconds.push(step / 20);
        }
    }
    seconds
}

#[test]
fn searches_are_rare_under_constant_conditions() {
    assert!(searches(|_| 4.0).len() <= 7, "one in five seconds: {:?}", searches(|_| 4.0));
    assert!(searches(|second| 4.0 + 0.2 * (second % 2) as f64).len() <= 7, "noise is nothing new");
    // When stage b slows down from 4 ms to 4.5 ms, the controller searches for a mapping within a second.
    let seconds = searches(|second| if second < 12 { 4.0 } else { 4.5 });
    assert!(seconds.contains(&12) && seconds.len() <= 8, "{seconds:?}");
}

#[test]
fn slower_link_triggers_a_new_search() {
    let (mut controller, mut performance_model, mapping) = subject(Balance::Live);
    for rank in 0..RANKS {
        report(&mut performance_model, rank, rank, 4.0, 50, Duration::ZERO);
    }
    let now = Duration::from_secs(2);
    controller.inputs = performance_model.model(&mapping, now).unwrap().inputs();
    controller.searched_with = controller.inputs.clone();
    controller.searched =
        Search { at: Duration::from_millis(500), took: Duration::from_millis(10), current_time: 4e-3 };
    assert!(!controller.may_search(now, 4.1e-3));
    assert!(controller.may_search(now, 4.3e-3));
}

#[test]
fn no_decision_before_every_stage_was_measured() {
    let (mut controller, mut performance_model, mapping) = subject(Balance::Live);
    let progress = |ms: u64| {
        let now = Duration::from_millis(ms);
        Progress { now, elapsed: now, items: ms, drawn: ms, left: None, batches: (ms, ms) }
    };
    report(&mut performance_model, 0, 0, 4.0, 50, Duration::ZERO);
    assert!(
        controller
            .replan(progress(0), &mapping, &mut performance_model, || Duration::ZERO)
            .unwrap()
            .is_none()
    );
    let decision = controller
        .replan(progress(100), &mapping, &mut performance_model, || Duration::ZERO)
        .unwrap()
        .unwrap();
    assert_eq!((decision.is_act(), decision.candidate), (false, None));
    assert_eq!(controller.inputs(), &Inputs::default(), "nothing is known yet");
    report(&mut performance_model, 1, 1, 8.0, 50, Duration::ZERO);
    let decision = controller
        .replan(progress(200), &mapping, &mut performance_model, || Duration::ZERO)
        .unwrap()
        .unwrap();
    let Event::Decision { works_s, speeds, acted, .. } =
        event(&decision, controller.inputs(), |_| String::new())
    else {
        panic!("a decision")
    };
    let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
    assert!(
        near(&works_s, &[0.004, 0.008]) && near(&speeds, &[1.0, 1.0]) && !acted,
        "{works_s:?} {speeds:?}"
    );
}

#[test]
fn expected_cost_follows_the_last_change_and_items_in_flight() {
    let (mut controller, mut performance_model, mapping) = subject(Balance::Live);
    report(&mut performance_model, 0, 0, 4.0, 50, Duration::ZERO);
    report(&mut performance_model, 1, 1, 12.0, 50, Duration::ZERO);
    let progress = |step: u64| {
        let (now, items) = (Duration::from_millis(50 * step), 12 * step);
        Progress { now, elapsed: now, items, drawn: items + 10, left: Some(1000), batches: (items, items) }
    };
    let cost = |controller: &mut Controller, performance_model: &mut PerformanceModel, step: u64| {
        let decision =
            controller.replan(progress(step), &mapping, performance_model, || Duration::ZERO).unwrap();
        let candidate = decision.unwrap().candidate.unwrap();
        assert!((candidate.time - 0.008).abs() < 1e-4, "{candidate:?}");
        1e3 * candidate.cost
    };
    assert!(
        controller
            .replan(progress(0), &mapping, &mut performance_model, || Duration::ZERO)
            .unwrap()
            .is_none()
    );
    // Before a change of the mapping has been measured, its assumed cost is the time of eight items (8 × 12 ms), plus 4 ms for each of the ten items
    // in flight, which take 12 ms with the old mapping instead of 8 ms.
    let at_first = cost(&mut controller, &mut performance_model, 1);
    assert!((at_first - (96.0 + 40.0)).abs() < 1.0, "{at_first} ms");
    // The first change of the mapping makes the stream faster at once, so its measured loss of time is negative.
    controller.changed();
    controller.cost_known(progress(2), CostUpdate::Drained { loss: -0.5 });
    controller.cost_known(progress(2), CostUpdate::Settled(Cost { seconds: 3.0, windows: Some(0.9) }));
    let after_a_good_one = cost(&mut controller, &mut performance_model, 3);
    assert!((after_a_good_one - (96.0 + 40.0)).abs() < 1.0, "{after_a_good_one} ms");
    controller.changed();
    controller.cost_known(progress(4), CostUpdate::Drained { loss: 0.2 });
    let after_a_loss = cost(&mut controller, &mut performance_model, 5);
    assert!((after_a_loss - (200.0 + 40.0)).abs() < 1.0, "{after_a_loss} ms");
}

#[test]
fn balance_once_reports_the_outcome_after_its_change() {
    let (mut controller, mut performance_model, mut mapping) = subject(Balance::Once);
    let (mut acts, mut outcomes, mut items) = (0, 0, 0);
    for step in 0..120u64 {
        let now = Duration::from_millis(50 * step);
        // Rank 1 is slow until the first change of the mapping, and rank 0 afterwards. A second change would be worthwhile, but `Balance::Once`
        // permits only one.
        let (a, b) = if acts == 0 { (4.0, 12.0) } else { (40.0, 4.0) };
        items += 12;
        report(&mut performance_model, 0, 0, a, items, now);
        report(&mut performance_model, 1, 1, b, items, now);
        let progress =
            Progress { now, elapsed: now, items, drawn: items, left: Some(100_000), batches: (items, items) };
        if !controller.is_due(progress) {
            continue;
        }
        let decision = controller.replan(progress, &mapping, &mut performance_model, || now).unwrap();
        outcomes += usize::from(controller.outcome().is_some());
        if let Some(candidate) = decision.filter(Decision::is_act).and_then(|d| d.candidate) {
            acts += 1;
            mapping = candidate.arrangement;
            controller.changed();
            controller.cost_known(progress, CostUpdate::Drained { loss: 0.0 });
        }
    }
    assert_eq!((acts, outcomes), (1, 1));
}

#[test]
fn measurements_of_nonexistent_stages_are_ignored() {
    let (_, mut performance_model, mapping) = subject(Balance::Live);
    let service = Some(Service { seconds: Estimate::declared(1e-3), items: 9 });
    let measurements = Measurements { services: vec![service; 9], ..Measurements::default() };
    performance_model.measured(1, measurements, Duration::ZERO).unwrap();
    assert_eq!(performance_model.services().len(), 2);
    performance_model.model(&mapping, Duration::ZERO).unwrap();
}
