//! Change of mapping: every rank prepares the next mapping, and when all are ready all switch to it.

use armature_planner::pipeline::Mapping;

use super::super::controller::Controller;
use super::super::machine::table::Table;
use super::super::messages::{Prepare, Ready, Switch, frame};
use super::super::remaps::Remap;
use super::{Change, Coordinator, out_of_step};
use crate::error::Result;
use crate::observe::Event;
use crate::rank::protocol::{Moment, Outgoing};

/// Minimum number of batches on which the sizes of items are measured. A single batch may be the first or the last one, and unlike the others.
const SIZED_BATCHES: usize = 3;

impl Coordinator<'_, '_> {
    /// Starts the preparation of a mapping on every rank. It comes into force when all ranks are ready.
    pub(super) fn begin(
        &mut self,
        mapping: Mapping,
        remap: Remap,
        at: &Moment,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let epoch = self.participant.epoch() + 1;
        let serial: Vec<bool> = self.run_spec.outline.stages.iter().map(|s| s.serial).collect();
        let (dispatch, ordered) = (self.run_spec.dispatch, self.run_spec.ordered);
        let table = Table::new(epoch, mapping.clone(), dispatch, &serial, ordered);
        let is_sized = epoch == 1 && self.performance_model.wants_measurements();
        let weigh = if is_sized { SIZED_BATCHES } else { 0 };
        let mut prepare = Prepare {
            table: table.clone(),
            weigh,
            elapsed: at.now().saturating_sub(self.start),
            measure_every: self.performance_model.measure_every(),
            links: Vec::new(),
        };
        let text = self.text(&mapping);
        self.participant.log(at, || Event::Prepare { epoch, mapping: text });
        if epoch > 1
            && let Some(progress) = self.progress_at(at)
        {
            let update = self.cost.ordered(progress);
            self.take_cost(progress, update);
        }
        for to in 1..self.participant.size() {
            prepare.links = self.performance_model.links_into(to);
            out.send(to, frame(out.run(), &prepare)?)?;
        }
        self.change = Some(Change { mapping, remap, waiting: (0..self.participant.size()).collect() });
        self.participant.measure(weigh, None, at);
        self.participant.watch_links(&self.performance_model.links_into(0));
        self.participant.prepare(table);
        Ok(())
    }

    /// Registers that rank `from` has set up its stages of the next mapping.
    pub(super) fn ready(
        &mut self,
        from: usize,
        ready: &Ready,
        at: &Moment,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let Some(change) = &mut self.change else { return Err(out_of_step(from, "that it is ready")) };
        change.waiting.retain(|&rank| rank != from);
        let all = change.waiting.is_empty();
        self.performance_model.ready(from, &ready.movable, &ready.warm_up);
        if all { self.switch(at, out) } else { Ok(()) }
    }

    /// Puts the prepared mapping into force, because all ranks are ready.
    fn switch(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(Change { mapping, mut remap, .. }) = self.change.take() else { return Ok(()) };
        let epoch = self.participant.epoch() + 1;
        for to in 1..self.participant.size() {
            out.send(to, frame(out.run(), &Switch { epoch })?)?;
        }
        let window = self.run_spec.window(&mapping, self.config, self.is_calibrating);
        if let Some(source) = self.participant.source() {
            source.replan(window);
            let elapsed = at.now().saturating_sub(self.start);
            remap.in_force(elapsed, source.items_done(), source.flow().in_flight);
        }
        self.participant.switch(epoch, at, out)?;
        let text = self.text(&mapping);
        self.participant.log(at, || Event::Switch { epoch, mapping: text.clone() });
        if epoch > 1
            && let Some(progress) = self.progress_at(at)
        {
            self.cost.in_force(progress);
            self.controller.iter_mut().for_each(Controller::changed);
        }
        if self.is_calibrating {
            log::debug!("calibrating with {text}");
        } else if self.participant.size() > 1 {
            let hosts = |r: &usize| mapping.blocks.iter().any(|b| b.hosts.contains(r));
            let parked: Vec<usize> = (0..self.participant.size()).filter(|r| !hosts(r)).collect();
            let parked =
                if parked.is_empty() { String::new() } else { format!("; parked: ranks {parked:?}") };
            log::info!("mapping {text}{parked}");
        }
        self.mapping = mapping;
        remap.to = text;
        self.remaps.push(remap);
        Ok(())
    }
}
