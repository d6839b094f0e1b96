//! Rank 0's looks at whether another mapping pays: measurements and plans in, decisions out.
//!
//! The decision is the planner crate's [`Tuner`]; here is what feeds it and what keeps an account of its changes.

use std::time::Duration;

use armature_planner::pipeline::Mapping;
use armature_planner::tuner::{Candidate, Decision, Outcome, Situation, Tuner, TunerOptions, Verdict};

use super::balancer::Balancer;
use crate::error::{Error, ErrorKind, Result};
use crate::monitor::Event;
use crate::session::Balance;

/// Looks are at least so far apart,
const LEAST_PERIOD: Duration = Duration::from_millis(50);
/// so many times what planning takes,
const PLANS_PER_PERIOD: u32 = 100;
/// and so many items, unless these take very long.
const ITEMS_PER_PERIOD: u64 = 8;
const LONGEST_PERIOD: Duration = Duration::from_secs(2);
/// Pause after a change, in seconds, beside the multiple of its cost that the tuner waits for.
const COOL_DOWN: f64 = 0.5;
/// The loss of a change that is assumed before one was seen, in items.
const FIRST_COST_ITEMS: f64 = 8.0;

/// A stream as it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) now: Duration,
    /// Since the run began.
    pub(crate) elapsed: Duration,
    /// Items that have reached the sink.
    pub(crate) items: u64,
    /// Items still to come, if the source knows.
    pub(crate) left: Option<u64>,
    /// Batches that have reached the sink, and batches drawn.
    pub(crate) batches: (u64, u64),
}

/// A change that is in force, while batches drawn before it are still on their way.
#[derive(Clone, Copy, Debug)]
struct Landing {
    /// When it was decided, and the items that had reached the sink by then.
    decided: (Duration, u64),
    /// Seconds for an item before it, as measured.
    before: Option<f64>,
    /// The first batch drawn under the new mapping.
    first_batch: u64,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Tuning {
    tuner: Tuner<Mapping>,
    once: bool,
    /// Time and items at the last look.
    last: Option<(Duration, u64)>,
    /// What the last plan took.
    planning: Duration,
    /// Seconds for an item, as seen in the last period.
    measured: Option<f64>,
    decided: Option<(Duration, u64)>,
    landing: Option<Landing>,
    /// What the last change cost, in seconds.
    last_cost: Option<f64>,
}

impl Tuning {
    /// A tuner for a stream whose mapping may change, `None` for one whose mapping stays.
    pub(crate) fn new(balance: Balance, ranks: usize) -> Result<Option<Self>> {
        if balance == Balance::Off || ranks == 1 {
            return Ok(None);
        }
        let options = TunerOptions { cool_down: COOL_DOWN, ..TunerOptions::default() };
        let tuner = Tuner::new(options)
            .map_err(|e| Error::new(ErrorKind::Config, format!("the tuner's options: {e}")))?;
        Ok(Some(Tuning {
            tuner,
            once: balance == Balance::Once,
            last: None,
            planning: Duration::ZERO,
            measured: None,
            decided: None,
            landing: None,
            last_cost: None,
        }))
    }

    /// Whether it is time for a look.
    pub(crate) fn is_due(&self, s: Standing) -> bool {
        let Some((time, items)) = self.last else { return true };
        let period = s.now.saturating_sub(time);
        if self.landing.is_some() {
            return period >= LEAST_PERIOD;
        }
        period >= LEAST_PERIOD.max(self.planning * PLANS_PER_PERIOD)
            && (s.items >= items + ITEMS_PER_PERIOD || (period >= LONGEST_PERIOD && s.items > items))
    }

    /// One look; `clock` reads the time. Returns the decision, if there was anything to decide.
    pub(crate) fn look(
        &mut self,
        s: Standing,
        mapping: &Mapping,
        balancer: &mut Balancer,
        clock: impl Fn() -> Duration,
    ) -> Result<Option<Decision<Mapping>>> {
        let since = self.last.replace((s.now, s.items));
        let Some((time, items)) = since else { return Ok(None) };
        let period = s.now.saturating_sub(time).as_secs_f64();
        let done = s.items.saturating_sub(items);
        let measured = (done > 0).then(|| period / done as f64);
        if let Some(landing) = self.landing {
            self.land(landing, s);
            return Ok(None);
        }
        self.measured = measured.or(self.measured);
        let settled = balancer.is_settled(mapping);
        let (current_time, candidate) = if settled && !self.is_over() {
            let begin = clock();
            let model = balancer.model(mapping, s.now)?;
            let current_time = model.production_time(mapping)?;
            let plan = model.plan_if_promising(current_time, self.tuner.options().threshold / 2.0)?;
            self.planning = clock().saturating_sub(begin);
            // A change that sped the stream up at once seems to have cost nothing; the next one need not.
            let disturbance = self.last_cost.unwrap_or(0.0).max(FIRST_COST_ITEMS * current_time);
            let cost = balancer.warm_up_cost(&plan.mapping) + disturbance;
            let time = plan.prediction.production_time;
            (current_time, Some(Candidate { arrangement: plan.mapping, time, cost }))
        } else {
            (measured.unwrap_or(0.0), None)
        };
        let situation = Situation {
            now: s.now.as_secs_f64(),
            period,
            elapsed: s.elapsed.as_secs_f64(),
            current: mapping.clone(),
            current_time,
            measured_time: measured,
            remaining_items: s.left,
            settled,
        };
        let decision = self.tuner.consider(situation, candidate);
        if decision.is_act() {
            self.decided = Some((s.now, s.items));
        }
        Ok(Some(decision))
    }

    /// A change is in force now, whoever asked for it.
    pub(crate) fn changed(&mut self, s: Standing) {
        let decided = self.decided.take().unwrap_or((s.now, s.items));
        self.landing = Some(Landing { decided, before: self.measured, first_batch: s.batches.1 });
    }

    /// When the last batch of the old mapping is through, the change has cost what it has cost.
    fn land(&mut self, landing: Landing, s: Standing) {
        if s.batches.0 < landing.first_batch {
            return;
        }
        self.landing = None;
        let (decided, items) = landing.decided;
        let took = s.now.saturating_sub(decided).as_secs_f64();
        let done = s.items.saturating_sub(items) as f64;
        // What the stream would have taken for these items had nothing been changed is no loss.
        let cost = landing.before.map_or(0.0, |before| (took - done * before).max(0.0));
        self.last_cost = Some(cost);
        self.tuner.acted(s.now.as_secs_f64(), cost);
    }

    /// Whether the one change that may be made has been made: then looks only go on to see what came of it.
    fn is_over(&self) -> bool {
        self.once && self.last_cost.is_some() && self.landing.is_none()
    }

    /// What the last change cost the stream, in seconds, once it is known.
    pub(crate) fn last_cost(&self) -> Option<f64> {
        self.last_cost.filter(|_| self.landing.is_none())
    }

    /// What came of the last change, once.
    pub(crate) fn outcome(&mut self) -> Option<Outcome> {
        self.tuner.outcome()
    }
}

/// A decision for the log of events; `text` writes a mapping.
pub(crate) fn event(decision: &Decision<Mapping>, text: impl Fn(&Mapping) -> String) -> Event {
    let candidate = decision.candidate.as_ref();
    Event::Decision {
        current: text(&decision.situation.current),
        candidate: candidate.map(|c| text(&c.arrangement)),
        current_s: decision.situation.current_time,
        candidate_s: candidate.map(|c| c.time),
        gain: decision.gain,
        threshold: decision.threshold,
        benefit_s: decision.benefit,
        cost_s: candidate.map_or(0.0, |c| c.cost),
        acted: decision.is_act(),
        reason: reason(decision),
    }
}

/// Why it was decided so, as the end of a sentence.
fn reason(decision: &Decision<Mapping>) -> String {
    let sentence = decision.to_string();
    match decision.verdict {
        Verdict::Act => "the gain is large enough, pays for the change and has lasted".to_string(),
        // The figures behind the semicolon are in the event's own fields.
        Verdict::Keep(_) => {
            let words = sentence.strip_prefix("keep: ").unwrap_or(&sentence);
            words.split(';').next().unwrap_or(words).to_string()
        }
    }
}

/// Why a change was made, in one sentence.
pub(crate) fn why(decision: &Decision<Mapping>) -> String {
    let sentence = decision.to_string();
    sentence.strip_prefix("change: ").unwrap_or(&sentence).to_string()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use armature_planner::measure::Estimate;
    use armature_planner::pipeline::{Block, Dispatch, PipelineSpec, StageSpec};
    use armature_planner::{Link, Platform};

    use super::super::meter::{Measures, Service};
    use super::super::probe::Probed;
    use super::super::remaps::Script;
    use super::super::score::Score;
    use super::*;

    const RANKS: usize = 2;

    /// Two ranks, two stages of 4 ms, one on each: as good as it gets.
    fn subject(balance: Balance) -> (Tuning, Balancer, Mapping) {
        let spec =
            PipelineSpec::new(0.0).stage(StageSpec::new("a", 0.0, 0.0)).stage(StageSpec::new("b", 0.0, 0.0));
        let mapping = Mapping::new(vec![Block::new(0..1, vec![0]), Block::new(1..2, vec![1])]);
        let probed = RefCell::new(None);
        let score = Score {
            outline: spec,
            mapping: Some(mapping.clone()),
            dispatch: Dispatch::OnDemand,
            ordered: true,
            sharing: &[],
            probed: &probed,
            script: Script::default(),
        };
        let mut balancer = Balancer::new(&score, RANKS, balance, false);
        let platform = Platform::with_speeds(&[1.0; RANKS], Link::FREE).with_ext_on(0).unwrap();
        balancer.probed(Probed { platform: platform.with_overlap(true), shares: vec![1.0; RANKS] });
        (Tuning::new(balance, RANKS).unwrap().unwrap(), balancer, mapping)
    }

    fn tell(balancer: &mut Balancer, rank: usize, stage: usize, ms: f64, items: u64, now: Duration) {
        tell_share(balancer, rank, stage, (ms, 1.0), items, now);
    }

    /// The stage takes `ms` on the rank, which gets `share` of its core.
    fn tell_share(
        balancer: &mut Balancer,
        rank: usize,
        stage: usize,
        (ms, share): (f64, f64),
        items: u64,
        now: Duration,
    ) {
        let mut services = vec![None; 2];
        services[stage] = Some(Service { seconds: Estimate::declared(ms * 1e-3), items });
        let measures = Measures { services, share: Some(share), ..Measures::default() };
        balancer.measured(rank, measures, now).unwrap();
    }

    /// What the model expects of each stage alone on each rank, in ms: stage a on 0 and 1, stage b on 0 and 1.
    fn expected(balancer: &mut Balancer, mapping: &Mapping) -> [f64; 4] {
        let model = balancer.model(mapping, Duration::from_secs(1)).unwrap();
        [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(stage, rank)| 1e3 * model.seconds(stage, rank))
    }

    #[track_caller]
    fn assert_near(found: [f64; 4], expected: [f64; 4]) {
        let near = found.iter().zip(&expected).all(|(a, b)| (a / b - 1.0).abs() < 0.02);
        assert!(near, "{found:?}, not {expected:?}");
    }

    #[test]
    fn a_load_beside_a_rank_slows_all_stages_there_and_another_phase_slows_one_stage_everywhere() {
        let (_, mut balancer, mapping) = subject(Balance::Live);
        tell(&mut balancer, 0, 0, 4.0, 50, Duration::ZERO);
        tell(&mut balancer, 1, 1, 4.0, 50, Duration::ZERO);
        assert_near(expected(&mut balancer, &mapping), [4.0; 4]);
        // Rank 1 has half of its core: 8 ms pass while stage b computes for 4.
        tell_share(&mut balancer, 1, 1, (4.0, 0.5), 60, Duration::ZERO);
        assert_near(expected(&mut balancer, &mapping), [4.0, 8.0, 4.0, 8.0]);
        // The load goes, and the data become harder for stage b.
        tell_share(&mut balancer, 1, 1, (8.0, 1.0), 70, Duration::ZERO);
        assert_near(expected(&mut balancer, &mapping), [4.0, 4.0, 8.0, 8.0]);
        // Both at once.
        tell_share(&mut balancer, 1, 1, (6.0, 0.5), 80, Duration::ZERO);
        assert_near(expected(&mut balancer, &mapping), [4.0, 8.0, 6.0, 12.0]);
    }

    /// Looks for six seconds, at stage b's time on rank 1 as `ms` gives it by the second; returns when it acted.
    fn looks(ms: impl Fn(u64) -> f64) -> Option<(f64, Mapping)> {
        let (mut tuning, mut balancer, mapping) = subject(Balance::Live);
        let mut items = 0;
        for step in 0..120u64 {
            let now = Duration::from_millis(50 * step);
            items += 12;
            tell(&mut balancer, 0, 0, 4.0, items, now);
            tell(&mut balancer, 1, 1, ms(step / 20), items, now);
            let standing =
                Standing { now, elapsed: now, items, left: Some(100_000), batches: (items, items) };
            if !tuning.is_due(standing) {
                continue;
            }
            let decision = tuning.look(standing, &mapping, &mut balancer, || now).unwrap();
            if let Some(decision) = decision.filter(Decision::is_act) {
                return decision.candidate.map(|c| (now.as_secs_f64(), c.arrangement));
            }
        }
        None
    }

    #[test]
    fn a_good_mapping_stays_and_small_changes_change_nothing() {
        assert_eq!(looks(|_| 4.0), None);
        assert_eq!(looks(|second| 4.0 + 0.2 * (second % 2) as f64), None);
    }

    #[test]
    fn a_rank_that_becomes_slow_gets_less_within_half_a_second() {
        let (at, mapping) = looks(|second| if second < 5 { 4.0 } else { 12.0 }).expect("it pays");
        assert!((5.1..5.6).contains(&at), "three looks after the fifth second: {at}");
        let hosts = |stage: usize| &mapping.blocks[mapping.block_of(stage).unwrap()].hosts;
        assert!(hosts(1).contains(&0), "rank 0 helps with stage b: {mapping:?}");
    }

    #[test]
    fn nothing_is_decided_before_every_stage_was_measured() {
        let (mut tuning, mut balancer, mapping) = subject(Balance::Live);
        let standing = |ms: u64| {
            let now = Duration::from_millis(ms);
            Standing { now, elapsed: now, items: ms, left: None, batches: (ms, ms) }
        };
        tell(&mut balancer, 0, 0, 4.0, 50, Duration::ZERO);
        assert!(tuning.look(standing(0), &mapping, &mut balancer, || Duration::ZERO).unwrap().is_none());
        let decision =
            tuning.look(standing(100), &mapping, &mut balancer, || Duration::ZERO).unwrap().unwrap();
        assert_eq!((decision.is_act(), decision.candidate), (false, None));
    }

    #[test]
    fn after_the_one_change_of_once_looks_only_tell_what_came_of_it() {
        let (mut tuning, mut balancer, mut mapping) = subject(Balance::Once);
        let (mut acts, mut outcomes, mut items) = (0, 0, 0);
        for step in 0..120u64 {
            let now = Duration::from_millis(50 * step);
            // Rank 1 is slow at first, and after the change rank 0 is.
            let (a, b) = if acts == 0 { (4.0, 12.0) } else { (40.0, 4.0) };
            items += 12;
            tell(&mut balancer, 0, 0, a, items, now);
            tell(&mut balancer, 1, 1, b, items, now);
            let standing =
                Standing { now, elapsed: now, items, left: Some(100_000), batches: (items, items) };
            if !tuning.is_due(standing) {
                continue;
            }
            let decision = tuning.look(standing, &mapping, &mut balancer, || now).unwrap();
            outcomes += usize::from(tuning.outcome().is_some());
            if let Some(candidate) = decision.filter(Decision::is_act).and_then(|d| d.candidate) {
                acts += 1;
                mapping = candidate.arrangement;
                tuning.changed(standing);
            }
        }
        assert_eq!((acts, outcomes), (1, 1));
    }

    #[test]
    fn a_rank_that_tells_of_more_stages_than_there_are_does_no_harm() {
        let (_, mut balancer, mapping) = subject(Balance::Live);
        let service = Some(Service { seconds: Estimate::declared(1e-3), items: 9 });
        let measures = Measures { services: vec![service; 9], ..Measures::default() };
        balancer.measured(1, measures, Duration::ZERO).unwrap();
        assert_eq!(balancer.services().len(), 2);
        balancer.model(&mapping, Duration::ZERO).unwrap();
    }
}
