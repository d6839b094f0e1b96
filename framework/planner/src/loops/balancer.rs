//! The balancer itself: one interaction after the other.

mod decide;

use serde::{Deserialize, Serialize};

use super::check_ranks;
use super::moves::{Move, busiest};
use super::options::LoopOptions;
use crate::error::Result;
use crate::loops::decide::cost_benefit::MovementFit;
use crate::loops::decide::decision::LoopDecision;
use crate::loops::decide::period::{PeriodChooser, phases_between};
use crate::loops::decide::realised_gain::RealisedGain;
use crate::loops::decide::stability::Stability;
use crate::loops::rates::filter::RateFilter;
use crate::loops::rates::interaction::{Ahead, Interaction, Report};
use crate::range;
use crate::tuner::{Reason, Verdict};

/// What a movement must save while ranks have reported only a few times. A rank that shares its core with a load makes the
/// others wait for a third of the time; that can wait for some reports more, one that is several times as slow cannot …
const UNSURE: f64 = 0.4;
/// … but for this number of reports, where several are asked for: a first one alone is often as slow without any load.
const FEW: u32 = 2;

/// What a rank has done since its rate began to be measured, up to some number of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Start {
    reports: u32,
    units: f64,
    seconds: f64,
}

/// Decides at each interaction whether units move, and which; and when the next interaction is.
///
/// In this order (Fig. 21 of the paper): rates are smoothed; units are shared out in proportion to them; if the time of
/// a pass would fall by less than the [threshold](LoopOptions::threshold), or ranks have only
/// [begun](LoopOptions::settling) to report, nothing is done (but for savings of two fifths, from the second report on, and
/// for moves that [pay within the pass](LoopOptions::at_once)); the moves are made out; if they cost more than
/// [margin](LoopOptions::margin) times what they are expected to save, they are not made. Costs
/// are fitted to past movements ([`MovementFit`]), and the saving lasts as long as things stay as they are
/// ([`Stability`]), or until the end of the loop; with the [realised gain](LoopOptions::realised_gain) as far as the movements before
/// have kept what they promised. Of what is left in the [middle of a pass](Ahead::RestOfPass) moves must save what they cost
/// before it ends. Where that holds moves back, units may go to the shares that suit the ranks' mean rates
/// instead, once these would have saved what moving there costs.
///
/// The balancer has no clock and sends nothing. After [`Verdict::Act`] it waits until it is told that the moves were
/// [made](LoopBalancer::moved) or [given up](LoopBalancer::abandoned). Interactions in the meantime only feed the
/// smoothed rates: what they report belongs to the old distribution. Where instructions are pipelined, so that those
/// that come of one interaction are carried out at the next, that one is told first, and then the movement.
///
/// A rank without units keeps its last rate; one that never had any counts with the mean of the others.
///
/// ```
/// use armature_planner::loops::{Ahead, Interaction, LoopBalancer, LoopOptions, Reach, Report};
///
/// let options = LoopOptions { reach: Reach::Neighbours, ..LoopOptions::default() };
/// let mut balancer = LoopBalancer::new(4, options)?;
/// // In 2 s three ranks have done their 250 units twice; the first, beside another process, once.
/// let report = |seconds| Report { units: 250.0, seconds, held: 250 };
/// let reports = [report(2.0), report(1.0), report(1.0), report(1.0)];
/// let look = Interaction { now: 2.0, reports: &reports, phase: 0.5, cost: 0.005, ahead: Ahead::Unknown };
/// let decision = balancer.interact(&look)?;
/// assert!(decision.is_act());
/// assert_eq!(decision.target, [143, 286, 286, 285]);
/// assert_eq!(
///     decision.to_string(),
///     "move 213 units in 3 messages: 2.00 s a pass becomes 1.14 s (gain 42.8 %), with no end in sight for a cost of 0.00 s"
/// );
/// assert_eq!(decision.phases, 2, "the next interaction is in about a second");
/// // … the ranks send each other their units, and that takes 0.3 s.
/// balancer.moved(3.3, 0.3);
/// # Ok::<(), armature_planner::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopBalancer {
    options: LoopOptions,
    filters: Vec<RateFilter>,
    starts: Vec<Start>,
    stability: Stability,
    costs: MovementFit,
    period: PeriodChooser,
    realised_gain: RealisedGain,
    /// The moves that are being made.
    under_way: Option<UnderWay>,
    /// Time of the last interaction.
    last: Option<f64>,
    /// Since when ranks have only computed: the last interaction, or the end of the movement after it.
    free: Option<f64>,
}

/// Moves that are being made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct UnderWay {
    /// Units of the busiest rank.
    units: u64,
    /// Whether they are to last beyond the end of a pass.
    lasts: bool,
}

/// How many units more each rank should have.
fn shift(decision: &LoopDecision) -> Vec<i64> {
    let more = |(&held, &target): (&u64, &u64)| {
        let units = i64::try_from(target.abs_diff(held)).unwrap_or(i64::MAX);
        if target < held { -units } else { units }
    };
    decision.held.iter().zip(&decision.target).map(more).collect()
}

impl LoopBalancer {
    /// A balancer for `ranks` ranks, which knows nothing of them yet.
    ///
    /// # Errors
    /// [`ErrorKind::Loop`](crate::ErrorKind::Loop) if there are no ranks or more than a million, and as
    /// [`LoopOptions::validate`].
    pub fn new(ranks: usize, options: LoopOptions) -> Result<Self> {
        options.validate()?;
        check_ranks(ranks)?;
        Ok(LoopBalancer {
            filters: vec![RateFilter::default(); ranks],
            starts: vec![Start::default(); ranks],
            stability: Stability::default(),
            costs: MovementFit::default(),
            period: PeriodChooser::new(options.period)?,
            realised_gain: RealisedGain::default(),
            under_way: None,
            last: None,
            free: None,
            options,
        })
    }

    /// The options it was made with.
    pub fn options(&self) -> &LoopOptions {
        &self.options
    }

    /// From now on the operating system is taken to let a process run for `seconds` seconds while others wait. Negative
    /// and infinite times are passed over.
    pub fn set_quantum(&mut self, seconds: f64) {
        if let Some(seconds) = range::amount(seconds) {
            self.period.set_quantum(seconds);
        }
    }

    /// What the operating system's turns need to even out (s): reports of less tell more of them than of the ranks. Compare
    /// [`PeriodOptions::quantum_scale`](super::PeriodOptions::quantum_scale).
    pub fn shortest_period(&self) -> f64 {
        self.period.scheduling()
    }

    /// From now on each rank keeps `units` units at least ([`least`](LoopOptions::least)).
    pub fn set_least(&mut self, units: u64) {
        self.options.least = units;
    }

    /// Rates that were measured up to now say nothing of those to come: the work is done in another way. What movements cost
    /// and have saved stays known.
    pub fn forget_rates(&mut self) {
        self.filters.fill(RateFilter::default());
        self.starts.fill(Start::default());
    }

    /// From now on nothing is moved, as with [`enabled`](LoopOptions::enabled) switched off.
    pub fn stop(&mut self) {
        self.options.enabled = false;
    }

    /// Makes moves of a caller's own, as if they had been decided: the balancer waits until it is told that they were
    /// [made](LoopBalancer::moved) or [given up](LoopBalancer::abandoned).
    pub fn impose(&mut self, moves: &[Move]) {
        self.under_way = Some(UnderWay { units: busiest(moves), lasts: true });
    }

    /// One interaction. O(P log P).
    ///
    /// # Errors
    /// [`ErrorKind::Loop`](crate::ErrorKind::Loop) if there is not one report of each rank, a number is negative or not
    /// finite, or time went back. Nothing is changed then.
    pub fn interact(&mut self, interaction: &Interaction<'_>) -> Result<LoopDecision> {
        interaction.check(self.filters.len(), self.last)?;
        let &Interaction { now, reports, phase, cost, ahead } = interaction;
        self.last = Some(now);
        let measured: Vec<Option<f64>> = reports.iter().map(Report::rate).collect();
        for (rank, raw) in measured.iter().enumerate() {
            if let Some(raw) = raw {
                self.measure(rank, *raw, &reports[rank]);
            }
        }
        let period = self.period.update(now, cost);
        let held: Vec<u64> = reports.iter().map(|report| report.held).collect();
        let mut decision = LoopDecision {
            now,
            rates: Vec::new(),
            target: held.clone(),
            held,
            current_time: None,
            target_time: None,
            gain: 0.0,
            threshold: self.options.threshold,
            horizon: None,
            kept: 1.0,
            cost: 0.0,
            margin: self.options.margin,
            verdict: Verdict::Keep(Reason::UnderWay),
            moves: Vec::new(),
            period,
            phases: phases_between(period, phase),
        };
        let lasts = ahead != Ahead::RestOfPass;
        let rates = self.rates(&decision.held);
        if let Some(rates) = rates.as_ref().filter(|_| lasts) {
            let seconds = now - self.free.unwrap_or(now);
            let raw: Vec<f64> = measured.iter().zip(rates).map(|(raw, rate)| raw.unwrap_or(*rate)).collect();
            self.realised_gain.follow(seconds, &decision.held, &raw);
        }
        if lasts {
            self.free = Some(now);
        }
        match rates {
            _ if self.under_way.is_some() => {}
            None => decision.verdict = Verdict::Keep(Reason::NotSettled),
            Some(rates) if lasts => self.decide(&mut decision, rates, ahead)?,
            Some(rates) => self.decide_rest(&mut decision, rates)?,
        }
        Ok(decision)
    }

    /// The moves that were decided have been made by `now`, and took `seconds`. Without a decision that waits for this
    /// it does nothing.
    pub fn moved(&mut self, now: f64, seconds: f64) {
        let Some(UnderWay { units, lasts }) = self.under_way.take() else { return };
        self.costs.add(units, seconds);
        self.period.moved(now, seconds);
        if lasts {
            self.stability.moved();
            self.realised_gain.moved();
            self.free = Some(now);
        }
    }

    /// The moves that were decided will not be made; units are as they were.
    pub fn abandoned(&mut self) {
        self.under_way = None;
        self.realised_gain.abandoned();
    }

    /// Puts a rank's first reports together, and smooths later ones.
    fn measure(&mut self, rank: usize, raw: f64, report: &Report) {
        let settling = self.settling();
        let (start, filter) = (&mut self.starts[rank], &mut self.filters[rank]);
        if start.reports == settling {
            filter.add(&self.options.smoothing, raw);
            return;
        }
        let reports = start.reports;
        // The first is of cold caches: it stands for the rank only until there is another.
        let Start { units, seconds, .. } = if reports > 1 { *start } else { Start::default() };
        *start =
            Start { reports: reports + 1, units: units + report.units, seconds: seconds + report.seconds };
        *filter = RateFilter::begin(start.units / start.seconds);
    }

    /// Reports of the rank that has made the fewest up to now, of those that are awaited at first.
    fn reports(&self, held: &[u64]) -> u32 {
        // A rank without units does not report.
        let reporting = self.starts.iter().zip(held).filter(|(_, held)| **held > 0);
        reporting.map(|(start, _)| start.reports).min().unwrap_or(self.settling())
    }

    fn settling(&self) -> u32 {
        self.options.settling.unwrap_or(1)
    }

    /// Whether all ranks have reported as often as is awaited at first.
    fn is_settled(&self, held: &[u64]) -> bool {
        self.reports(held) >= self.settling()
    }

    /// The part of the time that moves must save at present.
    fn threshold(&self, held: &[u64]) -> f64 {
        if self.is_settled(held) {
            self.options.threshold
        } else if self.reports(held) >= FEW {
            self.options.threshold.max(UNSURE)
        } else {
            f64::INFINITY
        }
    }

    /// The rates of all ranks; `None` if a rank that has units was not measured yet.
    fn rates(&self, held: &[u64]) -> Option<Vec<f64>> {
        let known: Vec<f64> = self.filters.iter().filter_map(RateFilter::rate).collect();
        if known.is_empty() || self.filters.iter().zip(held).any(|(f, &held)| held > 0 && f.rate().is_none())
        {
            return None;
        }
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        Some(self.filters.iter().map(|filter| filter.rate().unwrap_or(mean)).collect())
    }
}
