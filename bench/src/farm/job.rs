//! Parameters and results of a farm that runs the tasks of a [`TaskSet`] on MPI ranks.

use std::time::Duration;

use armature_bench_simulated::settings;
use armature_planner::farm::Chunking;

use super::task_set::TaskSet;
use crate::{
    RunResult,
    ranks::{Launch, one},
};

const LIMIT: Duration = Duration::from_secs(300);

/// Parameters of a run of the farm.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Tasks of the farm.
    pub task_set: TaskSet,
    /// Method that distributes the tasks to the ranks.
    pub way: Way,
    /// Cores to which the ranks are pinned in equal groups, the first group to the first core. Empty if ranks are not
    /// pinned.
    pub cores: Vec<usize>,
}

/// Method that distributes tasks to ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// Hand-written MPI: one task at a time, with the given number of tasks requested ahead; rank 0 computes as well.
    Ahead(usize),
    /// Hand-written MPI: half of the number of tasks on each of two ranks.
    Halves,
    /// Hand-written MPI: tasks with half of the total work on each of two ranks. Task lengths must be known. This is the optimum of two undisturbed
    /// ranks.
    Even,
    /// Framework with the given chunking policy (rule for the number of tasks per message).
    Farm(Chunking),
}

impl Job {
    /// Runs the farm under mpirun on two ranks.
    ///
    /// # Errors
    /// If the ranks cannot be started; also errors of the rank programs.
    pub fn on_two_ranks(&self) -> RunResult<Run> {
        let program = if matches!(self.way, Way::Farm(_)) { "farm" } else { "by-hand" };
        let values = Launch { limit: LIMIT, ..Launch::ranks(2) }.output(program, &self.arguments())?;
        Run::read(&values, 2)
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        let Job { task_set: TaskSet { tasks, mean, deviation, seed }, way, cores } = self;
        let mut arguments = vec![
            format!("tasks={tasks}"),
            format!("mean={mean}"),
            format!("deviation={deviation}"),
            format!("seed={seed}"),
            match way {
                Way::Ahead(chunks) => format!("ahead={chunks}"),
                Way::Halves => "split=halves".into(),
                Way::Even => "split=even".into(),
                Way::Farm(chunking) => format!("farm={chunking}"),
            },
        ];
        arguments.extend(cores.iter().map(|core| format!("core={core}")));
        arguments
    }

    pub(crate) fn parse(arguments: &[String]) -> RunResult<Self> {
        let task_set = TaskSet { tasks: 0, mean: 1.0, deviation: 1.0, seed: 0 };
        let mut job = Job { task_set, way: Way::Halves, cores: Vec::new() };
        settings(arguments, |name, value| {
            match (name, value) {
                ("tasks", _) => job.task_set.tasks = value.parse()?,
                ("mean", _) => job.task_set.mean = value.parse()?,
                ("deviation", _) => job.task_set.deviation = value.parse()?,
                ("seed", _) => job.task_set.seed = value.parse()?,
                ("ahead", _) => job.way = Way::Ahead(value.parse::<usize>()?.max(1)),
                ("split", "halves") => job.way = Way::Halves,
                ("split", "even") => job.way = Way::Even,
                ("farm", _) => job.way = Way::Farm(value.parse()?),
                ("core", _) => job.cores.push(value.parse()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(job)
    }
}

/// Results of a run of the farm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Seconds from the time when the first task is taken from the input to the last result.
    pub seconds: f64,
    /// Sum of the seconds of all tasks, measured around each task.
    pub busy: f64,
    /// Number of ranks that compute.
    pub workers: f64,
}

impl Run {
    /// Returns the efficiency: Σ task times / (workers × makespan).
    pub fn efficiency(&self) -> f64 {
        self.busy / (self.workers * self.seconds)
    }

    fn read(output: &str, workers: usize) -> RunResult<Self> {
        let values = one(output)?;
        let value = |name: &str| {
            values.get(name).copied().ok_or_else(|| format!("expected {name} in the result:\n{output}"))
        };
        Ok(Run { seconds: value("seconds")?, busy: value("busy")?, workers: workers as f64 })
    }
}

pub(crate) fn print_result(time: Duration, busy: Duration) {
    println!("result seconds {} busy {}", time.as_secs_f64(), busy.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;
    use armature_planner::farm::Published;

    #[test]
    fn job_arguments_round_trip() {
        let task_set = TaskSet { tasks: 7, mean: 2.5, deviation: 0.8, seed: 9 };
        let ways = [
            Way::Ahead(8),
            Way::Halves,
            Way::Even,
            Way::Farm(Chunking::Policy(Published::Fac2)),
            Way::Farm(Chunking::fixed(32)),
        ];
        for way in ways {
            let job = Job { task_set, way, cores: vec![0, 3] };
            assert_eq!(Job::parse(&job.arguments()).unwrap(), job);
        }
        assert!(Job::parse(&["tasks".into()]).is_err() && Job::parse(&["speed=3".into()]).is_err());
    }

    #[test]
    fn efficiency_is_the_fraction_of_time_spent_in_tasks() {
        let run = Run::read("result seconds 2 busy 3\n", 2).unwrap();
        assert_eq!(run.efficiency(), 0.75);
    }
}
