//! Parameters of a search for METG, as arguments of the rank programs.

use std::{fmt, str::FromStr};

use armature::Session;

use super::{Grid, Kernel, Pattern, Trial, search, skeletons};
use crate::{RunResult, settings};

/// Way in which a grid of tasks is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Farm of the framework.
    Farm,
    /// Stencil loop of the framework.
    Stencil,
    /// Workflow of closures without run times, which is not planned.
    Workflow,
    /// Workflow of closures with their run times, which is planned.
    PlannedWorkflow,
    /// Program by hand in which each rank keeps its columns.
    ByHand,
    /// Farm by hand.
    FarmByHand,
}

impl System {
    const ALL: [System; 6] = [
        System::Farm,
        System::Stencil,
        System::Workflow,
        System::PlannedWorkflow,
        System::ByHand,
        System::FarmByHand,
    ];
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            System::Farm => "farm",
            System::Stencil => "stencil",
            System::Workflow => "workflow",
            System::PlannedWorkflow => "planned-workflow",
            System::ByHand => "by-hand",
            System::FarmByHand => "farm-by-hand",
        })
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = System::ALL.into_iter().find(|system| system.to_string() == name);
        found.ok_or_else(|| format!("there is no system {name}"))
    }
}

/// Parameters of a search for METG(50 %).
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Program that runs the grid.
    pub system: System,
    /// Dependences and lengths of the tasks.
    pub pattern: Pattern,
    /// Number of columns.
    pub width: usize,
    /// Number of time steps.
    pub steps: usize,
    /// First task length of the search in seconds.
    pub start: f64,
    /// Maximum number of runs with the same task length, of which the best counts.
    pub tries: usize,
    /// Number of sub-masters of a farm.
    pub sub_masters: usize,
    /// Cores to which the ranks are pinned. Empty if ranks are not pinned.
    pub cores: Vec<usize>,
}

impl Job {
    /// Returns the parameters as command-line arguments.
    pub fn arguments(&self) -> Vec<String> {
        let Job { system, pattern, width, steps, start, tries, sub_masters, cores } = self;
        let mut arguments = vec![
            format!("system={system}"),
            format!("pattern={pattern}"),
            format!("width={width}"),
            format!("steps={steps}"),
            format!("start={start}"),
            format!("tries={tries}"),
            format!("sub-masters={sub_masters}"),
        ];
        arguments.extend(cores.iter().map(|core| format!("core={core}")));
        arguments
    }

    /// Parses command-line arguments.
    ///
    /// # Errors
    /// If an argument is not one of [`arguments`](Job::arguments).
    pub fn parse(arguments: &[String]) -> RunResult<Self> {
        let mut job = Job {
            system: System::ByHand,
            pattern: Pattern::Trivial,
            width: 0,
            steps: 0,
            start: 1e-4,
            tries: 1,
            sub_masters: 0,
            cores: Vec::new(),
        };
        settings(arguments, |name, value| {
            match name {
                "system" => job.system = value.parse()?,
                "pattern" => job.pattern = value.parse()?,
                "width" => job.width = value.parse()?,
                "steps" => job.steps = value.parse()?,
                "start" => job.start = value.parse()?,
                "tries" => job.tries = value.parse()?,
                "sub-masters" => job.sub_masters = value.parse()?,
                "core" => job.cores.push(value.parse()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(job)
    }

    /// Returns the grid with tasks of `mean` seconds, if the kernel computes `per_second` steps in a second.
    pub fn grid(&self, mean: f64, per_second: f64) -> Grid {
        let Job { pattern, width, steps, .. } = *self;
        Grid { pattern, width, steps, mean: (mean * per_second).round().max(1.0) as u64 }
    }

    /// Searches METG(50 %) in seconds on the ranks of a session. `run` runs a grid; `direct` is its kernel without the individual steps.
    ///
    /// # Errors
    /// If a checksum is wrong; errors of `run`.
    pub fn search(
        &self,
        session: &mut Session,
        per_second: f64,
        direct: impl Kernel,
        mut run: impl FnMut(&mut Session, Grid) -> RunResult<Trial>,
    ) -> RunResult<f64> {
        search::metg(self.start, self.tries, |mean| {
            let grid = self.grid(mean, per_second);
            let trial = run(session, grid)?;
            let efficiency = match session.is_root() {
                true => Some(grid.efficiency(trial, session.size(), per_second, direct)?),
                false => None,
            };
            Ok(session.broadcast(efficiency)?)
        })
    }

    /// Runs a grid with the framework's farm or stencil loop.
    ///
    /// # Errors
    /// If the job asks for another system; errors of the framework.
    pub fn farm_or_stencil(
        &self,
        session: &mut Session,
        grid: Grid,
        kernel: impl Kernel,
    ) -> RunResult<Trial> {
        match self.system {
            System::Farm => skeletons::farm(session, grid, self.sub_masters, kernel),
            System::Stencil => skeletons::stencil(session, grid, kernel),
            other => Err(format!("{other} is a system of another program").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_round_trip() {
        for (system, pattern) in
            System::ALL.into_iter().zip([Pattern::Nearest, Pattern::Imbalanced].repeat(3))
        {
            let (width, steps, cores) = (8, 100, vec![0, 3]);
            let job = Job { system, pattern, width, steps, start: 2.5e-5, tries: 3, sub_masters: 2, cores };
            assert_eq!(Job::parse(&job.arguments()).unwrap(), job);
        }
        assert!(Job::parse(&["system=cloud".into()]).is_err());
        assert!(Job::parse(&["depth=3".into()]).is_err());
    }
}
