//! Changes of a pipeline's mapping on rank 0: evaluates other mappings while the stream runs, changes the mapping, and measures the cost of the last
//! change.
//!
//! Every rank prepares the next mapping by creating its stages. When all ranks are ready, all switch to the mapping.

use std::time::Duration;

use armature_planner::pipeline::Mapping;
use armature_planner::tuner::Action;

use super::super::controller::{self, Controller, is_enough};
use super::super::links;
use super::super::machine::table::Table;
use super::super::messages::{Directive, Prepare, Ready};
use super::super::progress::Progress;
use super::super::remap_cost::CostUpdate;
use super::super::remaps::Remap;
use super::{Change, Phase, Root, out_of_step};
use crate::error::Result;
use crate::observe::{Event, Subject};
use crate::rank::protocol::{Moment, Outgoing};

/// Minimum number of batches between any two stages whose size in bytes is measured. A single batch could be the first or last one and differ from
/// the others.
const SIZED_BATCHES: usize = 3;
/// Interval at which rank 0 checks whether a change of the mapping is due: short compared with the time between two decisions or two lines about the
/// progress.
const REPLAN_PERIOD: Duration = Duration::from_millis(1);

impl Root<'_, '_> {
    /// Directs every rank to prepare a mapping by creating its stages. The mapping takes effect when all ranks are ready.
    pub(super) fn begin(
        &mut self,
        mapping: Mapping,
        remap: Remap,
        at: &Moment,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let epoch = self.machine.epoch() + 1;
        let serial: Vec<bool> = self.run_spec.outline.stages.iter().map(|s| s.serial).collect();
        let (dispatch, ordered) = (self.run_spec.dispatch, self.run_spec.ordered);
        let table = Table::new(epoch, mapping.clone(), dispatch, &serial, ordered);
        let is_sized = epoch == 1 && self.performance_model.wants_measurements();
        let measured_batches = if is_sized { SIZED_BATCHES } else { 0 };
        let mut prepare = Prepare {
            table: table.clone(),
            measured_batches,
            elapsed: at.now().saturating_sub(self.start),
            measure_every: self.performance_model.measure_every(),
            saved: std::mem::take(&mut self.saved),
            links: Vec::new(),
        };
        let text = self.text(&mapping);
        self.observer.log(at, || Event::Prepare { epoch, mapping: text });
        if epoch > 1
            && let Some(progress) = self.progress_at(at)
        {
            let update = self.cost.ordered(progress);
            self.take_cost(progress, update);
        }
        for to in 1..self.size {
            prepare.links = self.performance_model.links_into(to);
            out.send(to, Directive::Prepare(prepare.clone()))?;
        }
        self.change = Some(Change { mapping, remap, waiting: (0..self.size).collect() });
        let carries_send_times =
            self.observer.metrics.watch_links(&self.performance_model.links_into(0), self.size)?;
        self.machine.prepare(table, measured_batches, carries_send_times, prepare.saved);
        Ok(())
    }

    pub(super) fn ready(
        &mut self,
        from: usize,
        ready: &Ready,
        at: &Moment,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let Some(change) = &mut self.change else {
            return Err(out_of_step(from, "a report that it is ready"));
        };
        change.waiting.retain(|&rank| rank != from);
        let all = change.waiting.is_empty();
        self.performance_model.ready(from, &ready.movable, &ready.warm_up);
        if all { self.switch(at, out) } else { Ok(()) }
    }

    fn switch(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(Change { mapping, mut remap, .. }) = self.change.take() else { return Ok(()) };
        let epoch = self.machine.epoch() + 1;
        for to in 1..self.size {
            out.send(to, Directive::Switch { epoch })?;
        }
        let window = self.run_spec.window(&mapping, self.config, self.is_calibrating);
        if let Some(source) = self.machine.source_mut() {
            source.window.replan(window);
            let elapsed = at.now().saturating_sub(self.start);
            remap.activate(elapsed, source.items_done(), source.window.in_flight());
        }
        self.machine.switch(epoch, at, out)?;
        let text = self.text(&mapping);
        self.observer.log(at, || Event::Switch { epoch, mapping: text.clone() });
        if epoch > 1
            && let Some(progress) = self.progress_at(at)
        {
            self.cost.activated(progress);
            self.controller.iter_mut().for_each(Controller::changed);
        }
        if self.is_calibrating {
            log::debug!("calibrating with {text}");
        } else if self.size > 1 {
            let hosts = |r: &usize| mapping.blocks.iter().any(|b| b.hosts.contains(r));
            let parked: Vec<usize> = (0..self.size).filter(|r| !hosts(r)).collect();
            let parked =
                if parked.is_empty() { String::new() } else { format!("; parked: ranks {parked:?}") };
            log::info!("mapping {text}{parked}");
        }
        self.mapping = mapping;
        remap.to = text;
        self.remaps.push(remap);
        Ok(())
    }

    pub(super) fn replan_if_due(&mut self, now: Duration, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        if !matches!(self.phase, Phase::Streaming) || (now < self.next_replan && !self.is_calibrating) {
            return Ok(());
        }
        self.next_replan = now + REPLAN_PERIOD;
        self.replan(at, out)
    }

    /// Updates the cost of the last change of the mapping after items have reached the sink, and checks whether a change of the mapping is due.
    pub(super) fn on_consumed(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        self.update_cost(at);
        // The mapping is checked at once, without waiting for the next interval, in two cases: during the calibration, which must be short, and if
        // the user has requested a mapping after a certain number of items.
        if self.is_calibrating || !self.run_spec.script.is_empty() { self.replan(at, out) } else { Ok(()) }
    }

    fn replan(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(progress) = self.progress_at(at) else { return Ok(()) };
        let Progress { elapsed, items, .. } = progress;
        if self.change.is_some() {
            return Ok(());
        }
        if self.is_calibrating {
            // The calibration, in which rank 0 runs all stages to measure them, ends when enough items have reached the sink, even if few source
            // items are finished, because a stage may make many items from the first one.
            let delivered = self.machine.source().map_or(0, |source| source.items_delivered());
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

    /// Compares the current mapping with another one, and starts the preparation of the other one if the predicted gain of the change
    /// exceeds its cost.
    fn control(&mut self, progress: Progress, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let mine = self.observer.metrics.measurements(self.machine.volumes());
        self.performance_model.measured(0, mine, progress.now)?;
        let Some(controller) = &mut self.controller else { return Ok(()) };
        let decision =
            controller.replan(progress, &self.mapping, &mut self.performance_model, || at.cpu())?;
        if let Some(outcome) = controller.outcome()
            && let Some(last) = self.remaps.last_mut()
        {
            (last.before, last.after) = (outcome.measured_before, Some(outcome.measured_after));
            let epoch = self.machine.epoch();
            let before_s = outcome.measured_before.unwrap_or(outcome.predicted_before);
            let (predicted_s, after_s) = (outcome.predicted_after, outcome.measured_after);
            let of = Subject::Mapping;
            self.observer.log(at, || Event::Outcome { of, epoch, before_s, predicted_s, after_s });
            log::info!("mapping {epoch}: {outcome}");
        }
        let Some(decision) = decision else { return Ok(()) };
        let outline = &self.run_spec.outline;
        let inputs = controller.inputs();
        self.observer
            .log(at, || controller::event(&decision, inputs, |mapping| mapping.display(outline).to_string()));
        match decision.candidate {
            Some(ref candidate) if decision.action == Action::Act => {
                self.log_measurements(at);
                let why = decision.savings().unwrap_or_default();
                log::info!("another mapping pays: {why}");
                let remap = Remap::decided(why, Some(candidate.time));
                self.begin(candidate.arrangement.clone(), remap, at, out)
            }
            _ => Ok(()),
        }
    }

    fn log_measurements(&mut self, at: &Moment) {
        for (rank, stage, service) in self.performance_model.services() {
            self.observer.log(at, || Event::Measured {
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
            self.observer.log(at, || links::event(from, to, &link));
        }
    }

    /// Plans the first mapping from the measurements of the calibration, in which rank 0 has run all stages.
    fn plan_first(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let drawn = self.drawn();
        let now = at.now();
        let mine = self.observer.metrics.measurements(self.machine.volumes());
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

    fn update_cost(&mut self, at: &Moment) {
        let Some(source) = self.machine.source() else { return };
        let (done, drawn) = (source.items_done(), source.items_drawn());
        if done >= self.cost.next(drawn.saturating_sub(done))
            && let Some(progress) = self.progress_at(at)
        {
            let update = self.cost.see(progress);
            self.take_cost(progress, update);
        }
    }

    /// Passes the measured cost of the last change of the mapping to the controller, and adds it to the record of this change.
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
