//! Plans of the master: the first plan, and when, why and from which state a new plan is computed.

use std::sync::Arc;
use std::time::Duration;

use armature_planner::workflow::{Cluster, Plan, Replanned};

use super::replanning::{Cause, Change, Replanning};
use super::{Master, State};
use crate::balance::is_affordable;
use crate::workflow::forecast::Forecast;
use crate::workflow::planning::{Clusters, ReplanQuestion, TaskProgress};

impl Master {
    /// Activates the first plan at time `now`. `clusters` describes the ranks as the planner assumed them, and `takes` is the expected time to
    /// compute a further plan.
    pub(in crate::workflow) fn has_planned(
        &mut self,
        plan: Plan,
        clusters: Clusters,
        takes: Duration,
        now: Duration,
    ) {
        let lost = self.lost().last().copied();
        // A plan is not activated if one of its ranks died while the plan was computed.
        if lost.is_none() {
            self.plan(&plan.processor_of, &plan.sequence);
        }
        let processors = clusters.in_memory.processors();
        let speeds = processors.iter().map(|processor| processor.speed).collect();
        self.replanning = Some(Replanning {
            forecast: Forecast::new(self.graph.clone(), speeds),
            clusters: Arc::new(clusters),
            plan: Arc::new(plan),
            at: now,
            takes,
            lost,
            requested: None,
        });
    }

    /// Returns the active plan, if there is one, and the speeds, memory and links of the ranks that the planner assumed.
    pub(in crate::workflow) fn active_plan(&self) -> Option<(&Plan, &Cluster)> {
        let replanning = self.replanning.as_ref()?;
        self.supply.is_planned().then_some((&*replanning.plan, &replanning.clusters.with_disk))
    }

    /// Returns, at time `now`, a request to the planner for a new plan and the reason for it, if there is a reason and planning is fast enough: the
    /// expected planning time is compared with the time since the last request and with the remaining time of the run.
    pub(in crate::workflow) fn replan_question(
        &mut self,
        now: Duration,
    ) -> Option<(Cause, Box<ReplanQuestion>)> {
        let replanning = self.replanning.as_mut().filter(|replanning| replanning.requested.is_none())?;
        let cause = match replanning.lost {
            // After the death of a rank no plan is active, so a new plan is requested without regard to the time since the last one.
            Some(rank) => Cause::Lost(rank),
            None if is_affordable(replanning.takes, now.saturating_sub(replanning.at)) => {
                Cause::Deviation(replanning.forecast.deviation()?)
            }
            None => return None,
        };
        replanning.at = now;
        replanning.forecast.refit();
        let replanning = self.replanning.as_ref()?;
        let left = self.left_at_least(replanning);
        if left.is_zero() || !is_affordable(replanning.takes, left) {
            // The remaining run is too short for a new plan. Without a plan, ranks run any task that is ready.
            self.replanning.as_mut()?.lost = None;
            return None;
        }
        let lost = self.lost();
        let request = ReplanQuestion {
            clusters: replanning.clusters.clone(),
            speeds: replanning.forecast.speeds(),
            weights: replanning.forecast.weights(),
            progress: (0..self.tasks.len()).map(|task| self.progress_of(task)).collect(),
            plan: replanning.plan.clone(),
            takes: replanning.takes.as_secs_f64(),
            lost,
        };
        let replanning = self.replanning.as_mut()?;
        (replanning.lost, replanning.requested) = (None, Some(request.lost.len()));
        Some((cause, Box::new(request)))
    }

    pub(in crate::workflow) fn on_replanned(
        &mut self,
        found: armature_planner::Result<Replanned>,
        takes: Duration,
        now: Duration,
    ) -> Change {
        let lost = self.lost().len();
        let Some(replanning) = &mut self.replanning else { return Change::None };
        (replanning.at, replanning.takes) = (now, takes);
        let is_stale = replanning.requested.take() != Some(lost);
        let Replanned { plan, kept } = match found {
            Ok(found) if !is_stale => found,
            // A reply that was computed for ranks of which one has died is discarded. The death leads to a new request.
            _ => return Change::None,
        };
        let makespan = plan.makespan;
        // After the death of a rank no plan is active. The plan must then be activated again even if the planner keeps the earlier plan.
        if !kept || !self.supply.is_planned() {
            self.plan(&plan.processor_of, &plan.sequence);
            self.recount();
            self.fill();
        }
        if let Some(replanning) = &mut self.replanning {
            replanning.plan = Arc::new(plan);
        }
        if kept { Change::Kept(makespan) } else { Change::Fresh(makespan) }
    }

    fn left_at_least(&self, replanning: &Replanning) -> Duration {
        let waits = |task: &usize| self.tasks[*task].state == State::Waiting;
        let work: f64 = (0..self.tasks.len()).filter(waits).map(|task| replanning.forecast.work(task)).sum();
        let speeds = replanning.forecast.speeds();
        let alive = (0..self.ranks.len()).filter(|&rank| !self.ranks[rank].is_lost);
        let left = work / alive.map(|rank| speeds[rank]).sum::<f64>();
        Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX)
    }

    fn lost(&self) -> Vec<usize> {
        (0..self.ranks.len()).filter(|&rank| self.ranks[rank].is_lost).collect()
    }

    fn progress_of(&self, task: usize) -> TaskProgress {
        match self.tasks[task].state {
            State::Waiting => TaskProgress::Waiting,
            State::Dispatched(rank) => TaskProgress::Dispatched(rank),
            State::Done(rank) => TaskProgress::Ended(rank),
            // The planner needs a rank for every ended task; any rank is correct, because no task reads the value any more.
            State::Dropped | State::Failed | State::Skipped => TaskProgress::Ended(0),
        }
    }
}
