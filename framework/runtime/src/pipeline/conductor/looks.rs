//! Rank 0's looks at a stream that runs: whether another mapping pays, and what the last change cost.

use armature_planner::tuner::Verdict;

use super::super::cost::News;
use super::super::links;
use super::super::remaps::Remap;
use super::super::tuning::{self, Standing};
use super::{CALIBRATE_ITEMS, CALIBRATE_MOST, CALIBRATE_TIME, Conductor};
use crate::error::Result;
use crate::observe::{Event, Subject};

impl<'p: 'scope, 'scope> Conductor<'_, '_, 'scope, '_, 'p> {
    /// What has to be looked at now and then: the display, and whether another mapping is due.
    pub(super) fn look(&mut self) -> Result<()> {
        let Some(standing) = self.standing() else { return Ok(()) };
        let Standing { now, elapsed, items, .. } = standing;
        self.rank.endpoint().note_done(items);
        if self.display.is_due(now)
            && let Some(flow) = self.rank.source().map(|s| s.flow())
        {
            let rest =
                format!("{}/{} batches in flight  {}", flow.in_flight, flow.limit, self.text(&self.mapping));
            self.display.show(now, (items, "items"), &rest);
        }
        if self.change.is_some() {
            return Ok(());
        }
        if self.calibrating {
            if (items >= CALIBRATE_ITEMS && elapsed >= CALIBRATE_TIME)
                || (items > 0 && elapsed >= CALIBRATE_MOST)
            {
                self.plan_first()?;
            }
            return Ok(());
        }
        if let Some(mapping) = self.score.script.due(items) {
            return self.begin(mapping, Remap::scripted(items));
        }
        match &self.tuning {
            Some(tuning) if tuning.is_due(standing) => self.tune(standing),
            _ => Ok(()),
        }
    }

    /// Decides whether another mapping pays, and has it prepared if so.
    fn tune(&mut self, standing: Standing) -> Result<()> {
        let mine = self.rank.measures();
        self.balancer.measured(0, mine, standing.now)?;
        let clock = self.rank.clock();
        let Some(tuning) = &mut self.tuning else { return Ok(()) };
        let decision = tuning.look(standing, &self.mapping, &mut self.balancer, || clock.cpu())?;
        if let Some(outcome) = tuning.outcome()
            && let Some(last) = self.remaps.last_mut()
        {
            (last.before, last.after) = (outcome.measured_before, Some(outcome.measured_after));
            let epoch = self.rank.epoch();
            let before_s = outcome.measured_before.unwrap_or(outcome.predicted_before);
            let (predicted_s, after_s) = (outcome.predicted_after, outcome.measured_after);
            let of = Subject::Mapping;
            self.rank.tell(|| Event::Outcome { of, epoch, before_s, predicted_s, after_s });
            log::info!("mapping {epoch}: {outcome}");
        }
        let Some(decision) = decision else { return Ok(()) };
        let outline = &self.score.outline;
        let inputs = tuning.inputs();
        self.rank.tell(|| tuning::event(&decision, inputs, |mapping| mapping.display(outline).to_string()));
        match decision.candidate {
            Some(ref candidate) if decision.verdict == Verdict::Act => {
                self.tell_measures();
                let why = tuning::why(&decision);
                log::info!("another mapping pays: {why}");
                let remap = Remap::decided(why, Some(candidate.time));
                self.begin(candidate.arrangement.clone(), remap)
            }
            _ => Ok(()),
        }
    }

    /// Puts what the decision stands on into the log of events.
    fn tell_measures(&mut self) {
        for (rank, stage, service) in self.balancer.services() {
            self.rank.tell(|| Event::Measured {
                stage: self.score.outline.stages[stage].name.clone(),
                rank,
                items: service.items,
                seconds_per_item: service.seconds.value,
                by: format!("the {}", service.seconds.source),
                settled: service.seconds.settled,
            });
        }
        let now = self.rank.clock().now();
        for (from, to, link) in self.balancer.links(now) {
            self.rank.tell(|| links::event(from, to, &link));
        }
    }

    /// Plans a mapping from what the calibration run has measured.
    fn plan_first(&mut self) -> Result<()> {
        let drawn = self.drawn();
        let now = self.rank.clock().now();
        let mine = self.rank.measures();
        self.balancer.measured(0, mine, now)?;
        let model = self.balancer.model(&self.mapping, now)?;
        let plan = model.plan(&[])?;
        log::info!("measured {}", model.describe());
        self.tell_measures();
        self.predicted = Some(plan.prediction.production_time);
        self.calibrating = false;
        self.calibrated = Some((now, drawn));
        self.begin(plan.mapping, Remap::planned(plan.prediction.production_time))
    }

    /// Tells the account of changes what has arrived, where it wants to know.
    pub(super) fn watch_cost(&mut self) {
        let Some(source) = self.rank.source() else { return };
        let (done, drawn) = (source.items_done(), source.items_drawn());
        if done >= self.cost.next(drawn.saturating_sub(done))
            && let Some(standing) = self.standing()
        {
            let news = self.cost.see(standing);
            self.note_cost(standing, news);
        }
    }

    /// Takes up what has become known of the cost of the mapping in force.
    pub(super) fn note_cost(&mut self, standing: Standing, news: Option<News>) {
        let Some(news) = news else { return };
        if let Some(tuning) = &mut self.tuning {
            tuning.hear(standing, news);
        }
        if let (News::Settled(cost), Some(last)) = (news, self.remaps.last_mut()) {
            (last.cost, last.cost_windows) = (Some(cost.seconds), cost.windows);
        }
    }
}
