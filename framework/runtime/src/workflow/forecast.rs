//! Forecast of the run times, value sizes and memory of tasks: the values in the workflow's description, corrected by measurements of completed
//! tasks of the same kind and by measured speeds of the ranks. This module has no clock and no thread.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use armature_planner::estimate::Running;

use super::graph::Graph;
use crate::observe::number_format::short;

/// Minimum number of measured tasks of a kind, or on a rank, before their deviation from the plan's assumption counts. The variation of fewer
/// measurements is not known well enough.
const LEAST_TASKS: u64 = 3;
/// Minimum relative deviation of measured run times or sizes (their mean) from the plan's assumption that leads to a new plan. Run times in a
/// description are seldom more accurate, and smaller deviations hardly change a plan.
const LEAST_PART: f64 = 0.1;
/// Minimum deviation of measured run times or sizes (their mean) from the plan's assumption that leads to a new plan, in standard errors. Chance
/// causes a deviation of two standard errors in one of twenty cases. With a smaller value plans are computed in vain; with a larger one they are
/// computed later.
const CERTAIN: f64 = 2.0;
/// Size in bytes below which deviations of memory and of the sizes of task values (results) are ignored. Values of this size are sent
/// without a reservation of memory.
const SMALL: u64 = 64 << 10;
/// Weight of the speed that was known for a rank before the run, when it is combined with measurements: it counts like this number of measured tasks.
/// This weight prevents one unusual first task from dominating the estimate.
const TASKS_OF_PRIOR: f64 = 4.0;
/// Number of iterations that fit two sets of factors alternately: the run time factor of each kind of task, and the slowness of each rank. Each
/// iteration at least halves the remaining error.
const ROUNDS: usize = 20;

#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) task: usize,
    pub(super) rank: usize,
    /// Run time of the task in seconds.
    pub(super) took: f64,
    /// Size in bytes of the value of the task.
    pub(super) bytes: u64,
    /// For a command: peak memory of its processes in bytes.
    pub(super) peak: Option<u64>,
}

/// Ratio of measured to assumed run times, sizes or memory of one kind of task, or of the run times on one rank.
#[derive(Clone, Debug)]
struct Factor {
    /// Factor by which the assumed run times, sizes or memory are multiplied for the next plan.
    value: f64,
    /// Mean and variation of the ratio of measured run times, sizes or memory to the corrected assumptions (assumed value times `value`),
    /// over the tasks that have ended since `value` was set.
    since: Running,
}

impl Factor {
    fn new() -> Self {
        Factor { value: 1.0, since: Running::new() }
    }

    /// Returns true if measured run times, sizes or memory differ from the corrected assumptions by more than chance explains: the mean of
    /// their ratios is not 1.
    fn is_off(&self) -> bool {
        let off = (self.since.mean() - 1.0).abs();
        self.since.count() >= LEAST_TASKS && off > LEAST_PART.max(CERTAIN * self.since.standard_error())
    }

    fn set(&mut self, value: f64) {
        if value > 0.0 && value.is_finite() {
            self.value = value;
        }
        self.since = Running::new();
    }
}

/// Correction of the assumed sizes of task values (results), or of the assumed memory, of the tasks of one kind.
#[derive(Clone, Debug)]
struct Bytes {
    factor: Factor,
    /// Sum of the measured sizes of values or memory in bytes, and sum of the sizes that the plan assumed for the same tasks.
    sums: (f64, f64),
}

impl Bytes {
    fn new() -> Self {
        Bytes { factor: Factor::new(), sums: (0.0, 0.0) }
    }

    fn add(&mut self, measured: u64, assumed: u64) {
        // An assumed size of 0 means that the size is unknown. It is replaced by one byte, so that the factor becomes the mean of the measured
        // sizes.
        let (measured, assumed) = (measured as f64, assumed.max(1) as f64);
        self.sums = (self.sums.0 + measured, self.sums.1 + assumed);
        let expected = assumed * self.factor.value;
        let is_small = measured.max(expected) < SMALL as f64;
        self.factor.since.add(if is_small { 1.0 } else { measured / expected });
    }

    fn refit(&mut self) {
        if self.factor.is_off() {
            self.factor.set(self.sums.0 / self.sums.1);
        }
    }

    fn of(&self, assumed: u64) -> u64 {
        match self.factor.value == 1.0 {
            true => assumed,
            false => (assumed.max(1) as f64 * self.factor.value).round() as u64,
        }
    }
}

/// Sums over the completed tasks of one kind on one rank: measured run times and assumed run times in seconds, and number of tasks.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    measured: f64,
    assumed: f64,
    tasks: f64,
}

/// Assumption of the plan that the measurements contradict: run time, value size or memory of a kind of task (the number is that of the kind), or
/// speed of a rank (the number is the rank).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspect {
    Work(usize),
    Size(usize),
    Memory(usize),
    Speed(usize),
}

/// Run time, memory and value size of each task, as the next plan assumes them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Weights {
    /// By task: run time in seconds on a rank of speed 1.
    pub(super) works: Vec<f64>,
    pub(super) memories: Vec<u64>,
    /// Tasks whose results (values) are assumed to have another size than the description states, with this size in bytes.
    pub(super) sizes: Vec<(usize, u64)>,
}

/// Deviation of measurements from an assumption of the plan. Its `Display` completes the sentence that explains why a new plan is computed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Deviation {
    what: String,
    factor: f64,
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} times the assumed value", self.what, short(self.factor))
    }
}

/// Forecast of a run: the assumptions of the plan, and the measurements that correct them.
#[derive(Debug)]
pub(super) struct Forecast {
    graph: Arc<Graph>,
    works: Vec<Factor>,
    sizes: Vec<Bytes>,
    memories: Vec<Bytes>,
    /// By rank: ratio of measured run times to the run times that follow from the rank's known speed.
    slowness: Vec<Factor>,
    known: Vec<f64>,
    cells: BTreeMap<(usize, usize), Cell>,
    /// By task: size of its value in bytes, once the task is done.
    measured: Vec<Option<u64>>,
    suspect: Option<Suspect>,
}

impl Forecast {
    pub(super) fn new(graph: Arc<Graph>, speeds: Vec<f64>) -> Self {
        let kinds = graph.kinds.len();
        Forecast {
            works: vec![Factor::new(); kinds],
            sizes: vec![Bytes::new(); kinds],
            memories: vec![Bytes::new(); kinds],
            slowness: vec![Factor::new(); speeds.len()],
            known: speeds,
            cells: BTreeMap::new(),
            measured: vec![None; graph.len()],
            suspect: None,
            graph,
        }
    }

    pub(super) fn on_done(&mut self, sample: Sample) {
        let Sample { task, rank, took, bytes, peak } = sample;
        let (kind, is_command) = (self.graph.kind_of[task], self.graph.needs(task).is_command);
        let mut suspect_tasks = Vec::with_capacity(4);
        let assumed = self.graph.dag.work(task);
        if assumed > 0.0 && took > 0.0 {
            let cell = self.cells.entry((kind, rank)).or_default();
            cell.measured += took;
            cell.assumed += assumed / self.known[rank];
            cell.tasks += 1.0;
            let expected = assumed * self.works[kind].value * self.slowness[rank].value / self.known[rank];
            self.works[kind].since.add(took / expected);
            self.slowness[rank].since.add(took / expected);
            suspect_tasks.extend([Suspect::Speed(rank), Suspect::Work(kind)]);
        }
        if !is_command && !self.graph.is_final(task) {
            self.measured[task] = Some(bytes);
            self.sizes[kind].add(bytes, self.graph.output(task));
            suspect_tasks.push(Suspect::Size(kind));
        }
        if let Some(peak) = peak {
            self.memories[kind].add(peak, self.graph.dag.memory(task));
            suspect_tasks.push(Suspect::Memory(kind));
        }
        if self.suspect.is_none() {
            self.suspect = suspect_tasks.into_iter().find(|&suspect| self.factor(suspect).is_off());
        }
    }

    fn factor(&self, suspect: Suspect) -> &Factor {
        match suspect {
            Suspect::Work(kind) => &self.works[kind],
            Suspect::Size(kind) => &self.sizes[kind].factor,
            Suspect::Memory(kind) => &self.memories[kind].factor,
            Suspect::Speed(rank) => &self.slowness[rank],
        }
    }

    pub(super) fn deviation(&mut self) -> Option<Deviation> {
        // The deviation that an earlier measurement indicated is checked again: later measurements may have shown that it was chance.
        self.suspect = self.suspect.filter(|&suspect| self.factor(suspect).is_off());
        self.suspect.map(|suspect| {
            let kind = |kind: usize| format!("{:?}", self.graph.kinds[kind]);
            let what = match suspect {
                Suspect::Work(of) => format!("tasks of kind {} take", kind(of)),
                Suspect::Size(of) => format!("the output of tasks of kind {} has", kind(of)),
                Suspect::Memory(of) => format!("tasks of kind {} use", kind(of)),
                Suspect::Speed(rank) => format!("rank {rank} takes"),
            };
            Deviation { what, factor: self.factor(suspect).since.mean() }
        })
    }

    pub(super) fn refit(&mut self) {
        let mut kinds: Vec<f64> = self.works.iter().map(|factor| factor.value).collect();
        let mut ranks: Vec<f64> = self.slowness.iter().map(|factor| factor.value).collect();
        let total = self.cells.values().fold(Cell::default(), |sum, cell| Cell {
            measured: sum.measured + cell.measured,
            assumed: sum.assumed + cell.assumed,
            tasks: sum.tasks + cell.tasks,
        });
        let prior = TASKS_OF_PRIOR * total.measured / total.tasks.max(1.0);
        for _ in 0..ROUNDS {
            let mut sums = vec![(0.0, 0.0); kinds.len()];
            for (&(kind, rank), cell) in &self.cells {
                sums[kind].0 += cell.measured / ranks[rank];
                sums[kind].1 += cell.assumed;
            }
            let fit = |(value, (measured, assumed)): (&mut f64, (f64, f64))| {
                if assumed > 0.0 {
                    *value = measured / assumed;
                }
            };
            kinds.iter_mut().zip(sums).for_each(fit);
            let mut sums = vec![(prior, prior); ranks.len()];
            for (&(kind, rank), cell) in &self.cells {
                sums[rank].0 += cell.measured;
                sums[rank].1 += cell.assumed * kinds[kind];
            }
            ranks.iter_mut().zip(sums).for_each(fit);
        }
        self.works.iter_mut().zip(kinds).for_each(|(factor, value)| factor.set(value));
        self.slowness.iter_mut().zip(ranks).for_each(|(factor, value)| factor.set(value));
        self.sizes.iter_mut().chain(&mut self.memories).for_each(Bytes::refit);
        self.suspect = None;
    }

    pub(super) fn speeds(&self) -> Vec<f64> {
        self.known.iter().zip(&self.slowness).map(|(known, slowness)| known / slowness.value).collect()
    }

    /// Returns the corrected run time of a task in seconds, on a rank of speed 1.
    pub(super) fn work(&self, task: usize) -> f64 {
        self.graph.dag.work(task) * self.works[self.graph.kind_of[task]].value
    }

    pub(super) fn weights(&self) -> Weights {
        let graph = &self.graph;
        let size = |task: usize| {
            if graph.needs(task).is_command || graph.is_final(task) {
                return None;
            }
            let assumed = graph.output(task);
            let size = self.measured[task].unwrap_or_else(|| self.sizes[graph.kind_of[task]].of(assumed));
            (size != assumed).then_some((task, size))
        };
        Weights {
            works: (0..graph.len()).map(|task| self.work(task)).collect(),
            memories: (0..graph.len())
                .map(|task| self.memories[graph.kind_of[task]].of(graph.dag.memory(task)))
                .collect(),
            sizes: (0..graph.len()).filter_map(size).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use armature_planner::workflow::TaskMemory;
    use armature_workflow_files::{Action, Description, Task};

    use super::*;

    /// Returns a graph of twenty tasks, alternately of the kinds `a` and `b`, each with an expected run time of 2 s and an expected output of 100
    /// kB, and one task that reads all outputs.
    fn graph() -> Arc<Graph> {
        let mut builder = Description::builder("kinds");
        for number in 0..20 {
            let name = number.to_string();
            let mut task = Task::new(name.as_str(), Action::Closure("c".into()));
            task.kind = Some(["a", "b"][number % 2].to_string());
            task.run_time = Some(2.0);
            builder.task(task);
            builder.edge(name, "sum", 100_000);
        }
        builder.task(Task::new("sum", Action::Closure("c".into())));
        Arc::new(Graph::new(&builder.build().unwrap(), 1, TaskMemory::Additive).unwrap())
    }

    fn sample(task: usize, rank: usize, took: f64) -> Sample {
        Sample { task, rank, took, bytes: 100_000, peak: None }
    }

    #[test]
    fn insignificant_differences_are_no_deviation() {
        let mut forecast = Forecast::new(graph(), vec![1.0; 2]);
        for (task, took) in [1.9, 2.1, 2.05, 2.0, 1.95, 2.1, 2.0, 2.1].into_iter().enumerate() {
            forecast.on_done(sample(task, task / 2 % 2, took));
            assert_eq!(forecast.deviation(), None);
        }
        // Run times of 0.8 s to 4.5 s are a third longer on average than the expected 2 s, but four measurements that differ so much may be chance.
        let mut forecast = Forecast::new(graph(), vec![1.0; 2]);
        for (task, took) in [0.8, 4.5, 1.0, 4.4].into_iter().enumerate() {
            forecast.on_done(sample(2 * task, task % 2, took));
            assert_eq!(forecast.deviation(), None);
        }
    }

    #[test]
    fn task_kinds_and_rank_speeds_are_distinguished() {
        let mut forecast = Forecast::new(graph(), vec![1.0; 2]);
        // Tasks of kind b take three times as long as those of kind a, and rank 1 is half as fast as rank 0.
        let took = |task: usize| [2.0, 6.0][task % 2] * [1.0, 2.0][task / 2 % 2];
        for task in 0..16 {
            forecast.on_done(sample(task, task / 2 % 2, took(task)));
        }
        let deviation = forecast.deviation().expect("all but one of four take longer");
        assert!(deviation.to_string().ends_with(" times the assumed value"), "{deviation}");
        forecast.refit();
        assert_eq!(forecast.deviation(), None);
        let speeds = forecast.speeds();
        assert!((speeds[0] / speeds[1] - 2.0).abs() < 0.5, "{speeds:?}");
        let works = forecast.weights().works;
        assert!((works[17] / works[16] - 3.0).abs() < 0.1, "{works:?}");
        // The assumptions are now corrected, so further tasks with the same run times are no deviation from them.
        (16..20).for_each(|task| forecast.on_done(sample(task, task / 2 % 2, took(task))));
        assert_eq!(forecast.deviation(), None);
    }

    #[test]
    fn known_speeds_explain_measured_times() {
        let mut forecast = Forecast::new(graph(), vec![1.0, 0.25]);
        for task in 0..12 {
            forecast.on_done(sample(task, task / 2 % 2, [2.0, 8.0][task / 2 % 2]));
        }
        assert_eq!(forecast.deviation(), None);
        forecast.refit();
        assert!((forecast.speeds()[1] - 0.25).abs() < 0.01, "{:?}", forecast.speeds());
    }

    #[test]
    fn large_values_update_the_assumed_sizes() {
        let mut forecast = Forecast::new(graph(), vec![1.0; 2]);
        assert_eq!(forecast.weights().sizes, []);
        for task in [0, 2, 4] {
            forecast.on_done(Sample { bytes: 250_000, ..sample(task, 0, 2.0) });
        }
        let deviation = forecast.deviation().expect("values are larger").to_string();
        assert_eq!(deviation, "the output of tasks of kind \"a\" has 2.50 times the assumed value");
        forecast.refit();
        let sizes = forecast.weights().sizes;
        assert_eq!(sizes, (0..20).step_by(2).map(|task| (task, 250_000)).collect::<Vec<_>>());
    }
}
