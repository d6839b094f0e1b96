//! Experiment on the farm's chunking policies in the planner's simulator: efficiencies and order of the fixed policies against independently computed
//! values, and the automatic policy against the best fixed policy.
//!
//! The automatic policy is judged on the farms of `reference.txt`, on random farms drawn from other seeds (other means, deviations, block lengths,
//! networks and numbers of workers), and on tasks whose times vary with their index. The cost of its decisions is the number of chunks that it
//! simulates, multiplied by the measured time of a simulated chunk.

mod cost;
mod reference;
mod unseen;
mod wandering;

use armature_planner::farm::{Chunker, Chunking, Knowledge, MessageCosts, Published};
use armature_planner::simulate::farm::{Dispatch, Farm, Tasks};

use crate::farm::tasks::TaskShape;
use crate::plot::Series;
use crate::verdict::Interval;
use crate::{Experiment, Lines, Report, RunResult, Target, TargetedValue};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "farm-policies",
    about: "chunking policies in simulation, and the automatic choice against the best of them",
    needs: "nothing",
    run,
};

const FIXED: [Chunking; 10] = [
    Chunking::Static,
    Chunking::Policy(Published::Fsc),
    Chunking::Policy(Published::Dpf),
    Chunking::Policy(Published::Daf),
    Chunking::Policy(Published::Gss),
    Chunking::Policy(Published::Tss),
    Chunking::Policy(Published::Fac2),
    Chunking::Policy(Published::Fac),
    Chunking::Policy(Published::AwfB),
    Chunking::Policy(Published::Af),
];
const ITERATIONS: usize = 15;
const MARK: f64 = 0.95;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Setting {
    workers: usize,
    messages: MessageCosts,
    volume: f64,
    shape: TaskShape,
}

struct Finish {
    busy: f64,
    time: f64,
    workers: usize,
    /// Name of the fixed policy that the automatic policy chose last, if it chose one.
    choice: Option<String>,
    /// Number of chunks that the automatic policy simulated to choose fixed policies.
    simulated: u64,
}

impl Finish {
    /// Returns the efficiency in percent: computing time of the tasks, divided by number of workers times total time.
    fn efficiency(&self) -> f64 {
        self.efficiency_with(0.0)
    }

    /// Returns the efficiency in percent if each chunk that the automatic policy simulates delays the master and all workers by `chunk_cost` seconds.
    fn efficiency_with(&self, chunk_cost: f64) -> f64 {
        100.0 * self.busy / (self.workers as f64 * (self.time + chunk_cost * self.simulated as f64))
    }
}

impl Setting {
    fn knowledge(&self) -> Knowledge {
        let each = 0.5 * self.volume / self.shape.tasks as f64;
        Knowledge { messages: self.messages, task_bytes: each, result_bytes: each, ..Knowledge::default() }
    }

    fn tasks(&self, iterations: usize, seed: u64) -> RunResult<Vec<Tasks>> {
        Ok(self.shape.iterations(seed)?.take(iterations).map(|times| Tasks::new(&times)).collect())
    }

    fn run(&self, chunking: Chunking, iterations: &[Tasks]) -> Finish {
        let workers: Vec<usize> = (0..self.workers).collect();
        let mut knowledge = self.knowledge();
        let farm = Farm::new(knowledge);
        let mut chunker = Chunker::new(chunking);
        let (mut busy, mut time, mut choice) = (0.0, 0.0, None);
        for tasks in iterations {
            let run = Dispatch::new(&mut chunker, tasks, knowledge).iteration(&farm, &workers);
            busy += run.busy;
            time += run.time;
            knowledge.now += run.time;
            choice = chunker.take_choice().or(choice);
        }
        let choice = choice.map(|choice| choice.policy.to_string());
        Finish { busy, time, workers: self.workers, choice, simulated: chunker.simulated_chunks() }
    }

    fn fixed(&self, iterations: &[Tasks]) -> Vec<f64> {
        FIXED.iter().map(|&chunking| self.run(chunking, iterations).efficiency()).collect()
    }
}

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let rows = reference::rows(smoke)?;
    let chunk_cost = cost::measure(report, &rows, smoke)?;
    let seen = reference::compare(report, &rows, smoke)?;
    let new = unseen::many_iterations(report, chunk_cost, smoke)?;
    let single = unseen::one_iteration(report, chunk_cost, smoke)?;
    let wandering = wandering::compare(report, smoke)?;
    let sorted = |mut ratios: Vec<f64>| {
        ratios.sort_by(f64::total_cmp);
        let last = (ratios.len() - 1).max(1) as f64;
        ratios.into_iter().enumerate().map(|(i, ratio)| (100.0 * i as f64 / last, ratio)).collect::<Vec<_>>()
    };
    let mut plot = Lines::new(
        "The automatic choice against the best fixed policy",
        "settings, the worst first [%]",
        "efficiency / efficiency of the best",
    );
    plot.add(Series::new("rows of the table", sorted(seen)));
    plot.add(Series::new("unseen settings", sorted(new)));
    plot.add(Series::new("one long iteration", sorted(single)));
    plot.add(Series::new("times that wander along the tasks", sorted(wandering)));
    report.lines("", &plot)
}

fn best(fixed: &[f64]) -> (Chunking, f64) {
    let pairs = FIXED.into_iter().zip(fixed.iter().copied());
    pairs.fold((FIXED[0], 0.0), |best, next| if next.1 > best.1 { next } else { best })
}

fn mark_worst(report: &mut Report, what: &str, ratios: &[f64]) {
    let worst = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let reached = ratios.iter().filter(|&&ratio| ratio >= MARK).count();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    report.note(format!(
        "{what}: {worst:.4} of the best fixed policy; mean {mean:.4}; {reached} of {} at {MARK} or more",
        ratios.len()
    ));
    report.mark(TargetedValue::new(what, Interval::exact(worst), "of the best", Target::AtLeast(MARK)));
}
