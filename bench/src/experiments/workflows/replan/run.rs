//! Simulated run of a workflow plan whose tasks differ from their estimates, with replanning during
//! the run. Times are those of the planner's event model.

use armature_planner::workflow::{Cluster, Plan, Situation, Workflow, plan_rest, replan, retrace};

use crate::RunResult;

/// Number of equal steps into which the run divides the predicted makespan; after each it checks whether a new plan ends earlier.
const STEPS: f64 = 20.0;
/// Minimum time that a new plan must save, relative to the predicted makespan.
const MIN_GAIN: f64 = 0.01;
/// Number of tasks whose real work and memory the simulated run reveals at once if they fit into memory. If they do not, it reveals tasks one by one
/// in the order of their starts, to find the task that does not fit.
const REVEALED_AT_ONCE: usize = 16;

pub(super) struct Ended {
    /// Makespan, or `None` if the remaining tasks could not be planned.
    pub(super) makespan: Option<f64>,
    pub(super) fresh: usize,
}

struct Run<'a> {
    real: &'a Workflow,
    cluster: &'a Cluster,
    /// Workflow with the real work and memory of started tasks, and the estimates for the other tasks.
    known: Workflow,
    is_known: Vec<bool>,
    plan: Plan,
    /// Progress of the run (started tasks and transfers) when the current plan was made.
    from: Situation,
    /// Start and end times of tasks and transfers under the current plan, given what is known of the tasks' work and
    /// memory.
    trace: Plan,
    fresh: usize,
}

/// Runs a plan whose tasks reveal their real work and memory when they start.
pub(super) fn adapted(
    planned: &Workflow,
    real: &Workflow,
    cluster: &Cluster,
    plan: Plan,
) -> RunResult<Ended> {
    let step = plan.makespan / STEPS;
    let mut run = Run {
        real,
        cluster,
        known: planned.clone(),
        is_known: vec![false; planned.len()],
        trace: plan.clone(),
        from: Situation::new(planned, cluster),
        plan,
        fresh: 0,
    };
    let mut next_step = step;
    loop {
        let starts = run.next_starts();
        let Some(&first) = starts.first() else { break };
        if run.trace.start[first] >= next_step {
            run.reconsider(next_step, step * STEPS * MIN_GAIN);
            next_step += step;
        } else if !run.reveal(&starts)? && !run.reveal(&starts[..1])? && !run.plan_around(first)? {
            return Ok(Ended { makespan: None, fresh: run.fresh });
        }
    }
    Ok(Ended { makespan: Some(run.trace.makespan), fresh: run.fresh })
}

impl Run<'_> {
    fn next_starts(&self) -> Vec<usize> {
        let mut tasks: Vec<usize> = (0..self.is_known.len()).filter(|&task| !self.is_known[task]).collect();
        tasks.sort_by(|&a, &b| self.trace.start[a].total_cmp(&self.trace.start[b]).then(a.cmp(&b)));
        tasks.truncate(REVEALED_AT_ONCE);
        tasks
    }

    fn known_with(&self, tasks: &[usize]) -> RunResult<Workflow> {
        let weights = tasks.iter().map(|&task| (task, self.real.work(task), self.real.memory(task)));
        Ok(self.known.clone().with_measured(weights)?)
    }

    /// Reveals the real work and memory of starting tasks. Returns true if the tasks fit into the memory of their processors; otherwise the state is
    /// unchanged.
    fn reveal(&mut self, tasks: &[usize]) -> RunResult<bool> {
        let known = self.known_with(tasks)?;
        let Some(trace) = retrace(&known, self.cluster, &self.plan, &self.from) else { return Ok(false) };
        (self.known, self.trace) = (known, trace);
        tasks.iter().for_each(|&task| self.is_known[task] = true);
        Ok(true)
    }

    /// Replans the remaining tasks if a starting task does not fit into the memory of its processor. Returns true if a plan exists.
    fn plan_around(&mut self, task: usize) -> RunResult<bool> {
        let now = self.trace.start[task];
        let situation = self.from.later(&self.known, &self.trace, now);
        self.known = self.known_with(&[task])?;
        self.is_known[task] = true;
        let Ok(plan) = plan_rest(&self.known, self.cluster, &situation, self.plan.task_memory) else {
            return Ok(false);
        };
        self.adopt(plan, situation);
        Ok(true)
    }

    fn reconsider(&mut self, now: f64, worth: f64) {
        let situation = self.from.later(&self.known, &self.trace, now);
        // The planner may find no plan for a situation in which files are being transferred. In this case the current plan continues.
        let Ok(replanned) = replan(&self.known, self.cluster, &self.plan, &situation, worth) else { return };
        // In the new plan, transfers in progress begin again; in the current plan, they continue. Therefore the current plan may end earlier even if
        // the new plan places the tasks better.
        if !replanned.kept && replanned.plan.makespan + worth < self.trace.makespan {
            self.adopt(replanned.plan, situation);
        }
    }

    fn adopt(&mut self, plan: Plan, situation: Situation) {
        self.trace = plan.clone();
        (self.plan, self.from) = (plan, situation);
        self.fresh += 1;
    }
}
