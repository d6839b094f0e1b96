//! Rank program that measures the overhead of a workflow's task: the tasks are empty closures or the command
//! `/bin/true`.

use std::str::FromStr;
use std::time::Instant;

use armature::workflow::{Action, Description, Task, Workflow};
use armature::{BoxError, Commands, Config, Progress, Session};

use crate::{RunResult, ranks::Launch};

/// Dependences between the tasks, and the kind of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Empty closures that do not depend on each other.
    Independent,
    /// Commands `/bin/true` that do not depend on each other.
    Commands,
    /// Layers of a hundred closures; each task reads the values of two tasks of the previous layer.
    Layers,
}

/// Program that the commands run.
pub const TRUE: &str = "/bin/true";

const LAYER: usize = 100;

impl Shape {
    /// Returns the name of this kind of workflow in the arguments of the rank program.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Independent => "independent",
            Shape::Commands => "commands",
            Shape::Layers => "layers",
        }
    }

    fn parents(self, task: usize) -> Vec<usize> {
        if self != Shape::Layers || task < LAYER {
            return Vec::new();
        }
        let (before, place) = (task - task % LAYER - LAYER, task % LAYER);
        vec![before + place, before + (place + 1) % LAYER]
    }

    fn action(self) -> Action {
        match self {
            Shape::Commands => Action::Command { program: TRUE.into(), arguments: Vec::new() },
            Shape::Independent | Shape::Layers => Action::Closure("nothing".into()),
        }
    }

    fn describe(self, tasks: usize) -> RunResult<Description> {
        let mut builder = Description::builder(self.name());
        for task in 0..tasks {
            builder.task(Task::new(task.to_string(), self.action()));
            for parent in self.parents(task) {
                builder.edge(parent.to_string(), task.to_string(), 0);
            }
        }
        Ok(builder.build()?)
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = [Shape::Independent, Shape::Commands, Shape::Layers];
        let found = known.into_iter().find(|shape| shape.name() == name);
        found.ok_or_else(|| format!("expected independent, commands or layers, got {name:?}"))
    }
}

/// Runs `tasks` tasks on two ranks and returns tasks per second.
///
/// # Errors
/// If the ranks cannot be started; also errors of [`main`].
pub fn measure(shape: Shape, tasks: usize) -> RunResult<f64> {
    let values = Launch::ranks(2).run("empty-workflow", &[shape.name().into(), tasks.to_string()])?;
    values.get("tasks_per_s").copied().ok_or_else(|| "the workflow printed no tasks_per_s".into())
}

/// Runs the rank program; prints `result tasks_per_s R` on rank 0. The first run establishes connections and is not
/// measured.
///
/// # Errors
/// If the arguments are wrong, or not every task ran once.
pub fn main(arguments: &[String]) -> RunResult {
    let [shape, tasks] = arguments else {
        return Err(format!("expected SHAPE TASKS, got {arguments:?}").into());
    };
    let (shape, tasks) = (shape.parse::<Shape>()?, tasks.parse::<usize>()?);
    let described = shape.describe(tasks)?;
    let mut config = Config::from_env()?.progress(Progress::Off);
    if shape == Shape::Commands {
        config = config.commands(Commands::new());
    }
    Ok(armature::run(&config, |session| {
        run_once(session, &described)?;
        let start = Instant::now();
        run_once(session, &described)?;
        if session.is_root() {
            println!("result tasks_per_s {}", tasks as f64 / start.elapsed().as_secs_f64());
        }
        Ok(())
    })?)
}

fn run_once(session: &mut Session, described: &Description) -> Result<(), BoxError> {
    let mut workflow = Workflow::from_description(described.clone()).closure("nothing", |_, _| Ok(()));
    let Some(summary) = workflow.run(session)?.into_summary() else { return Ok(()) };
    let done: u64 = summary.ranks.iter().map(|rank| rank.tasks).sum();
    if done != described.tasks().len() as u64 {
        return Err(format!("{done} tasks ran of {}", described.tasks().len()).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once() {
        for shape in [Shape::Independent, Shape::Layers] {
            assert_eq!(shape.name().parse(), Ok(shape));
            let described = shape.describe(1_000).unwrap();
            let config = Config::new().ranks(2).progress(Progress::Off);
            armature::run(&config, |session| run_once(session, &described)).unwrap();
        }
        assert!("rows".parse::<Shape>().is_err());
    }
}
