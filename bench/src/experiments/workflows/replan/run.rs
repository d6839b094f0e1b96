//! A run in the planner's event model, in which the plan is made anew.

use armature_planner::workflow::{Cluster, Plan, Situation, Workflow, plan_rest, replan, retrace};

use crate::Outcome;

/// At so many equal steps of the predicted makespan it is asked whether a fresh plan ends earlier.
const STEPS: f64 = 20.0;
/// A fresh plan is worth it if it ends earlier by this part of the predicted makespan.
const WORTH: f64 = 0.01;
/// How many tasks' weights become known at a time as long as all goes well. Where one does not fit, one at a time: it is found in
/// the order of starts.
const AT_ONCE: usize = 16;

/// How a run ended.
pub(super) struct Ended {
    /// When, if what remained could be planned at all.
    pub(super) makespan: Option<f64>,
    /// How many plans were made anew.
    pub(super) fresh: usize,
}

/// What is known of the run.
struct Run<'a> {
    real: &'a Workflow,
    cluster: &'a Cluster,
    /// Real weights of tasks that have started, planned ones of others.
    known: Workflow,
    is_known: Vec<bool>,
    /// The present plan, where it was made, and how it goes on by what is known.
    plan: Plan,
    from: Situation,
    trace: Plan,
    fresh: usize,
}

/// The run of a plan whose tasks' real work and memory are known when they start.
pub(super) fn adapted(planned: &Workflow, real: &Workflow, cluster: &Cluster, plan: Plan) -> Outcome<Ended> {
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
            run.reconsider(next_step, step * STEPS * WORTH);
            next_step += step;
        } else if !run.reveal(&starts)? && !run.reveal(&starts[..1])? && !run.plan_around(first)? {
            return Ok(Ended { makespan: None, fresh: run.fresh });
        }
    }
    Ok(Ended { makespan: Some(run.trace.makespan), fresh: run.fresh })
}

impl Run<'_> {
    /// The next tasks to start of those whose weights are not known.
    fn next_starts(&self) -> Vec<usize> {
        let mut tasks: Vec<usize> = (0..self.is_known.len()).filter(|&task| !self.is_known[task]).collect();
        tasks.sort_by(|&a, &b| self.trace.start[a].total_cmp(&self.trace.start[b]).then(a.cmp(&b)));
        tasks.truncate(AT_ONCE);
        tasks
    }

    fn known_with(&self, tasks: &[usize]) -> Outcome<Workflow> {
        let weights = tasks.iter().map(|&task| (task, self.real.work(task), self.real.memory(task)));
        Ok(self.known.clone().with_measured(weights)?)
    }

    /// These tasks start. Returns whether they fit; if not, nothing has happened.
    fn reveal(&mut self, tasks: &[usize]) -> Outcome<bool> {
        let known = self.known_with(tasks)?;
        let Some(trace) = retrace(&known, self.cluster, &self.plan, &self.from) else { return Ok(false) };
        (self.known, self.trace) = (known, trace);
        tasks.iter().for_each(|&task| self.is_known[task] = true);
        Ok(true)
    }

    /// A task that is about to start does not fit where it should: what is left is planned anew. Returns whether that is possible.
    fn plan_around(&mut self, task: usize) -> Outcome<bool> {
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

    /// Goes over to a fresh plan if it ends earlier by this much.
    fn reconsider(&mut self, now: f64, worth: f64) {
        let situation = self.from.later(&self.known, &self.trace, now);
        // From the middle of transfers there may be no plan; then all goes on.
        let Ok(anew) = replan(&self.known, self.cluster, &self.plan, &situation, worth) else { return };
        // A plan that is kept sends again what is on its way now: its own trace, in which that goes on, may end earlier.
        if !anew.kept && anew.plan.makespan + worth < self.trace.makespan {
            self.adopt(anew.plan, situation);
        }
    }

    fn adopt(&mut self, plan: Plan, situation: Situation) {
        self.trace = plan.clone();
        (self.plan, self.from) = (plan, situation);
        self.fresh += 1;
    }
}
