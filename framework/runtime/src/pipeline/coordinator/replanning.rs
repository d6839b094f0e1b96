//! Replanning on rank 0 while the stream runs: evaluates other mappings, and measures the cost of the last change.

use std::time::Duration;

use armature_planner::tuner::Verdict;

use super::super::controller::{self, is_enough};
use super::super::links;
use super::super::progress::Progress;
use super::super::remap_cost::CostUpdate;
use super::super::remaps::Remap;
use super::{Coordinator, Phase};
use crate::error::Result;
use crate::observe::{Event, Subject};
use crate::rank::protocol::{Moment, Outgoing};

/// Interval of checks for due changes: a small part of the time between two decisions or two lines on the screen.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl Coordinator<'_, '_> {
    /// Checks periodically whether a change is due.
    pub(super) fn look_if_due(&mut self, now: Duration, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        if !matches!(self.phase, Phase::Streaming) || (now < self.next_look && !self.is_calibrating) {
            return Ok(());
        }
        self.next_look = now + LOOK_EVERY;
        self.look(at, out)
    }

    /// Handles that items have reached the sink.
    pub(super) fn on_consumed(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        self.update_cost(at);
        // The calibration should be short, and a mapping that was requested after a number of items should follow right after them.
        if self.is_calibrating || !self.run_spec.script.is_empty() { self.look(at, out) } else { Ok(()) }
    }

    /// Starts the change to another mapping, if one is due.
    fn look(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(progress) = self.progress_at(at) else { return Ok(()) };
        let Progress { elapsed, items, .. } = progress;
        if self.change.is_some() {
            return Ok(());
        }
        if self.is_calibrating {
            // An expanding stage may deliver many items before the first item of the source is finished.
            let delivered = self.participant.source().map_or(0, |source| source.items_delivered());
            return if is_enough(items.max(delivered), elapsed) { self.plan_first(at, out) } else { Ok(()) };
        }
        if let Some(mapping) = self.run_spec.script.due(items) {
            return self.begin(mapping, Remap::scripted(items), at, out);
        }
        match &self.controller {
            Some(controller) if controller.is_due(progress) => self.control(progress, at, out),
            _ => Ok(()),
        }
    }

    /// Evaluates the current mapping, and starts the preparation of another one if it pays.
    fn control(&mut self, progress: Progress, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let mine = self.participant.measurements();
        self.performance_model.measured(0, mine, progress.now)?;
        let Some(controller) = &mut self.controller else { return Ok(()) };
        let decision = controller.look(progress, &self.mapping, &mut self.performance_model, || at.cpu())?;
        if let Some(outcome) = controller.outcome()
            && let Some(last) = self.remaps.last_mut()
        {
            (last.before, last.after) = (outcome.measured_before, Some(outcome.measured_after));
            let epoch = self.participant.epoch();
            let before_s = outcome.measured_before.unwrap_or(outcome.predicted_before);
            let (predicted_s, after_s) = (outcome.predicted_after, outcome.measured_after);
            let of = Subject::Mapping;
            self.participant.log(at, || Event::Outcome { of, epoch, before_s, predicted_s, after_s });
            log::info!("mapping {epoch}: {outcome}");
        }
        let Some(decision) = decision else { return Ok(()) };
        let outline = &self.run_spec.outline;
        let inputs = controller.inputs();
        self.participant
            .log(at, || controller::event(&decision, inputs, |mapping| mapping.display(outline).to_string()));
        match decision.candidate {
            Some(ref candidate) if decision.verdict == Verdict::Act => {
                self.log_measurements(at);
                let why = decision.savings().unwrap_or_default();
                log::info!("another mapping pays: {why}");
                let remap = Remap::decided(why, Some(candidate.time));
                self.begin(candidate.arrangement.clone(), remap, at, out)
            }
            _ => Ok(()),
        }
    }

    /// Writes the measurements behind a decision to the event log.
    fn log_measurements(&mut self, at: &Moment) {
        for (rank, stage, service) in self.performance_model.services() {
            self.participant.log(at, || Event::Measured {
                stage: self.run_spec.outline.stages[stage].name.clone(),
                rank,
                items: service.items,
                seconds_per_item: service.seconds.value,
                by: format!("the {}", service.seconds.source),
                settled: service.seconds.settled,
            });
        }
        let now = at.now();
        for (from, to, link) in self.performance_model.links(now) {
            self.participant.log(at, || links::event(from, to, &link));
        }
    }

    /// Plans a mapping from the measurements of the calibration.
    fn plan_first(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let drawn = self.drawn();
        let now = at.now();
        let mine = self.participant.measurements();
        self.performance_model.measured(0, mine, now)?;
        let model = self.performance_model.model(&self.mapping, now)?;
        let plan = model.plan(&[])?;
        log::info!("measured {}", model.describe());
        self.log_measurements(at);
        self.predicted = Some(plan.prediction.production_time);
        self.is_calibrating = false;
        self.calibrated = Some((now, drawn));
        self.begin(plan.mapping, Remap::planned(plan.prediction.production_time), at, out)
    }

    /// Updates the cost meter with the progress of the stream, if it needs an update.
    fn update_cost(&mut self, at: &Moment) {
        let Some(source) = self.participant.source() else { return };
        let (done, drawn) = (source.items_done(), source.items_drawn());
        if done >= self.cost.next(drawn.saturating_sub(done))
            && let Some(progress) = self.progress_at(at)
        {
            let update = self.cost.see(progress);
            self.take_cost(progress, update);
        }
    }

    /// Passes an update of the cost of the last change to the controller and to the records of changes.
    pub(super) fn take_cost(&mut self, progress: Progress, update: Option<CostUpdate>) {
        let Some(update) = update else { return };
        if let Some(controller) = &mut self.controller {
            controller.cost_known(progress, update);
        }
        if let (CostUpdate::Settled(cost), Some(last)) = (update, self.remaps.last_mut()) {
            (last.cost, last.cost_windows) = (Some(cost.seconds), cost.windows);
        }
    }
}
