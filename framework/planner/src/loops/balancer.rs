//! Balancer of a parallel loop: decides when which units (iterations) move between ranks.

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
use crate::tuner::{Action, Reason};

/// Minimum saving of a movement of units (loop iterations) while ranks have sent only a few reports, as a fraction of the time of a pass (all units
/// once). If a rank shares its core with another program, a third of the time can be saved, and the balancer waits for more reports. If a rank is
/// several times as slow, units move after [`FEW`] reports.
const UNSURE: f64 = 0.4;
/// Minimum number of reports of each rank to the balancer before any units (loop iterations) move, if the options require several. The
/// first report alone is often slow without any load.
const FEW: u32 = 2;

/// Sums over the first reports of a rank (as many as the options require): units (loop iterations) that it did, and seconds that it
/// computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Start {
    reports: u32,
    units: f64,
    seconds: f64,
}

/// Decides, whenever all ranks have reported to it (an *interaction*), whether units (loop iterations) move, which units move, and when the next
/// reports are due.
///
/// The steps are in this order (Fig. 21 of Siegell and Steenkiste 1997):
///
/// - The measured rates of the ranks are smoothed, and the target distribution of the units is in proportion to the rates.
/// - No units move if the time of a pass would fall by less than the [threshold](LoopOptions::threshold), or ranks have only
///   [begun](LoopOptions::settling) to report. The exception is a saving of two fifths, from the second report on.
/// - The moves are computed. If they cost more than [margin](LoopOptions::margin) times the expected saving, they are not made. Costs are fitted to
///   past movements ([`MovementFit`]). The saving lasts for as long as rates are expected to stay ([`Stability`]), or until the end of the loop. With
///   the [realised gain](LoopOptions::realised_gain) the saving is multiplied by the fraction that past movements achieved. For moves in the [middle
///   of a pass](Ahead::RestOfPass), the saving until the end of the pass must exceed the cost.
///
/// The balancer has no clock and sends no messages. After [`Action::Act`] it waits until the caller reports that the moves were
/// [made](LoopBalancer::moved) or [abandoned](LoopBalancer::abandoned). Reports in the meantime only update the smoothed rates, because they belong
/// to the old distribution. If instructions are pipelined, so that the moves decided at one interaction are carried out at the next, the caller
/// reports that next interaction first, and then the movement.
///
/// A rank without units keeps its last rate. A rank that never had units counts with the mean rate of the others.
///
/// ```
/// use armature_planner::loops::{Ahead, Interaction, LoopBalancer, LoopOptions, Reach, Report};
///
/// let options = LoopOptions { reach: Reach::Neighbours, ..LoopOptions::default() };
/// let mut balancer = LoopBalancer::new(4, options)?;
/// // Rank 0 shares its core with another process and takes 2 s for its 250 units; the other ranks take 1 s.
/// let report = |seconds| Report { units: 250.0, seconds, held: 250 };
/// let reports = [report(2.0), report(1.0), report(1.0), report(1.0)];
/// let look = Interaction { now: 2.0, reports: &reports, phase: 0.5, cost: 0.005, ahead: Ahead::Unknown };
/// let decision = balancer.interact(&look)?;
/// assert!(decision.is_act());
/// assert_eq!(decision.target, [143, 286, 286, 285]);
/// assert_eq!(
///     decision.to_string(),
///     "move 213 units in 3 messages: 2.00 s a pass becomes 1.14 s (gain 42.8 %), with an unknown end for a cost of 0.00 s"
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
    under_way: Option<UnderWay>,
    /// Time of the last reports of the ranks (s).
    last: Option<f64>,
    /// Time from which on ranks have only computed: the time of the last reports, or of the end of the movement of units (loop iterations) after
    /// them.
    free: Option<f64>,
}

/// Movement of units (loop iterations) between ranks that was decided and is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct UnderWay {
    /// Number of units (loop iterations) that the busiest rank sends and receives.
    units: u64,
    /// True if the new distribution of units stays after the current pass (all units of the loop once).
    lasts: bool,
}

fn shift(decision: &LoopDecision) -> Vec<i64> {
    let more = |(&held, &target): (&u64, &u64)| {
        let units = i64::try_from(target.abs_diff(held)).unwrap_or(i64::MAX);
        if target < held { -units } else { units }
    };
    decision.held.iter().zip(&decision.target).map(more).collect()
}

impl LoopBalancer {
    /// Creates a balancer for `ranks` ranks, whose rates (units per second) are not known yet.
    ///
    /// # Errors
    /// [`ErrorKind::Loop`](crate::ErrorKind::Loop) if there are no ranks or more than 2^20; the errors of [`LoopOptions::validate`].
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

    /// Returns the options of the balancer.
    pub fn options(&self) -> &LoopOptions {
        &self.options
    }

    /// Sets the time quantum of the operating system: the seconds for which a process runs while others wait. Negative and infinite times and NaN are
    /// ignored.
    pub fn set_quantum(&mut self, seconds: f64) {
        if let Some(seconds) = range::amount(seconds) {
            self.period.set_quantum(seconds);
        }
    }

    /// Returns the time in seconds over which the turns of processes on a core average out. A report of a rank over a shorter time reflects the turns
    /// more than the speed of the rank. See [`PeriodOptions::quantum_scale`](super::PeriodOptions::quantum_scale).
    pub fn shortest_period(&self) -> f64 {
        self.period.scheduling()
    }

    /// Sets the minimum number of units (loop iterations) of each rank ([`least`](LoopOptions::least)).
    pub fn set_least(&mut self, units: u64) {
        self.options.least = units;
    }

    /// Discards the measured rates of the ranks, because the program now does the work of a unit (loop iteration) in another way. The measured costs
    /// and savings of movements are kept.
    pub fn forget_rates(&mut self) {
        self.filters.fill(RateFilter::default());
        self.starts.fill(Start::default());
    }

    /// Prevents all further movements of units (loop iterations), as if the option [`enabled`](LoopOptions::enabled) were false.
    pub fn stop(&mut self) {
        self.options.enabled = false;
    }

    /// Records moves of units (loop iterations) between ranks that the caller decided itself: the balancer waits until the caller reports that they
    /// were [made](LoopBalancer::moved) or [abandoned](LoopBalancer::abandoned).
    pub fn impose(&mut self, moves: &[Move]) {
        self.under_way = Some(UnderWay { units: busiest(moves), lasts: true });
    }

    /// Evaluates the reports that all ranks have sent at one time (an interaction), and decides on moves of units (loop iterations) between ranks, in
    /// O(P log P) for P ranks.
    ///
    /// # Errors
    /// [`ErrorKind::Loop`](crate::ErrorKind::Loop) if there is not exactly one report of each rank, a number is negative or not finite, or the time
    /// decreased. The balancer is unchanged after an error.
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
            action: Action::Keep(Reason::UnderWay),
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
            None => decision.action = Action::Keep(Reason::NotSettled),
            Some(rates) if lasts => self.decide(&mut decision, rates, ahead)?,
            Some(rates) => self.decide_rest(&mut decision, rates)?,
        }
        Ok(decision)
    }

    /// Records that the decided moves of units (loop iterations) between ranks were complete at time `now` and took `seconds`. Without a pending
    /// decision the call has no effect.
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

    /// Records that the decided moves will not be made, so that each rank keeps its units (loop iterations).
    pub fn abandoned(&mut self) {
        self.under_way = None;
        self.realised_gain.abandoned();
    }

    /// Records a measured rate of a rank: the first reports of a rank are combined into one rate, and later rates are smoothed.
    fn measure(&mut self, rank: usize, raw: f64, report: &Report) {
        let settling = self.settling();
        let (start, filter) = (&mut self.starts[rank], &mut self.filters[rank]);
        if start.reports == settling {
            filter.add(&self.options.smoothing, raw);
            return;
        }
        let reports = start.reports;
        // The first report of a rank is affected by cold caches, so its units (loop iterations) and seconds are discarded when the second report
        // arrives.
        let Start { units, seconds, .. } = if reports > 1 { *start } else { Start::default() };
        *start =
            Start { reports: reports + 1, units: units + report.units, seconds: seconds + report.seconds };
        *filter = RateFilter::begin(start.units / start.seconds);
    }

    fn reports(&self, held: &[u64]) -> u32 {
        // Ranks without units (loop iterations) are skipped, because they send no reports.
        let reporting = self.starts.iter().zip(held).filter(|(_, held)| **held > 0);
        reporting.map(|(start, _)| start.reports).min().unwrap_or(self.settling())
    }

    fn settling(&self) -> u32 {
        self.options.settling.unwrap_or(1)
    }

    fn is_settled(&self, held: &[u64]) -> bool {
        self.reports(held) >= self.settling()
    }

    fn threshold(&self, held: &[u64]) -> f64 {
        if self.is_settled(held) {
            self.options.threshold
        } else if self.reports(held) >= FEW {
            self.options.threshold.max(UNSURE)
        } else {
            f64::INFINITY
        }
    }

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
