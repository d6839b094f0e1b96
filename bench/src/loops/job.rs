//! Parameters and results of a parallel loop that runs on several ranks.

use std::{fmt, path::Path, str::FromStr, time::Duration};

use armature_bench_simulated::settings;

use crate::{
    RunResult,
    ranks::{Launch, Values, one},
};

const LIMIT: Duration = Duration::from_secs(300);

/// Kind of computation that a measured loop does in each pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Matrix product in each pass; the framework moves rows between ranks.
    Matmul,
    /// Sweep of successive over-relaxation in Gauss-Seidel order in each pass; the framework moves rows between
    /// ranks. Each rank sends results to the next rank after every strip (group of columns).
    Sor,
    /// Step of the heat equation in each pass; the framework moves rows between ranks.
    Heat,
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kernel::Matmul => "matmul",
            Kernel::Sor => "sor",
            Kernel::Heat => "heat",
        })
    }
}

impl FromStr for Kernel {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Kernel::Matmul, Kernel::Sor, Kernel::Heat];
        all.into_iter()
            .find(|kernel| kernel.to_string() == name)
            .ok_or_else(|| format!("there is no loop {name}"))
    }
}

/// Parameters of a run of a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Computation of the loop in each pass.
    pub kernel: Kernel,
    /// Number of rows and of columns, edges included.
    pub size: usize,
    /// Number of warm-up passes before the measurement.
    pub settle: usize,
    /// Number of measured passes.
    pub passes: usize,
    /// Number of columns in a strip, after which a rank of the sweep sends results to the next rank. With 0 the
    /// framework chooses the number, and in the hand-written program a strip is a whole row.
    pub columns: usize,
    /// Fraction of the rows on rank 0 with two ranks; with the framework, the initial fraction. With any other number
    /// of ranks, all ranks have equal shares.
    pub split: f64,
    /// True if the framework moves rows between ranks during the run.
    pub live: bool,
    /// True if rank 0 compares the whole result with the result of the serial loop.
    pub verify: bool,
    /// Cores to which the ranks are pinned in equal groups, the first group to the first core. Empty if ranks are not
    /// pinned.
    pub cores: Vec<usize>,
}

impl Job {
    /// Creates a loop over `size` rows and columns without warm-up and without pinning. Rank 0 of two ranks has half
    /// of the rows; a strip (columns after which a rank sends results) is a whole row.
    pub fn new(kernel: Kernel, size: usize, passes: usize) -> Self {
        Job {
            kernel,
            size,
            settle: 0,
            passes,
            columns: 0,
            split: 0.5,
            live: false,
            verify: false,
            cores: Vec::new(),
        }
    }

    /// Runs the hand-written loop under mpirun.
    ///
    /// # Errors
    /// If the ranks cannot be started; also errors of the rank program.
    pub fn by_hand(&self, ranks: usize) -> RunResult<Run> {
        let this = std::env::current_exe().map_err(|e| format!("cannot find this binary: {e}"))?;
        self.by_hand_from(&this, ranks)
    }

    /// Runs the hand-written loop like [`by_hand`](Job::by_hand), from another binary that contains the rank programs,
    /// for tests whose own binary does not.
    ///
    /// # Errors
    /// Same as [`by_hand`](Job::by_hand).
    pub fn by_hand_from(&self, binary: &Path, ranks: usize) -> RunResult<Run> {
        self.run("loop-by-hand", binary, ranks)
    }

    /// Runs the loop with the framework under mpirun.
    ///
    /// # Errors
    /// If the ranks cannot be started; also errors of the rank program.
    pub fn with_framework(&self, ranks: usize) -> RunResult<Run> {
        let this = std::env::current_exe().map_err(|e| format!("cannot find this binary: {e}"))?;
        self.with_framework_from(&this, ranks)
    }

    /// Runs the loop like [`with_framework`](Job::with_framework), from another binary that contains the rank
    /// programs, for tests whose own binary does not.
    ///
    /// # Errors
    /// Same as [`with_framework`](Job::with_framework).
    pub fn with_framework_from(&self, binary: &Path, ranks: usize) -> RunResult<Run> {
        self.run("loop", binary, ranks)
    }

    fn run(&self, program: &str, binary: &Path, ranks: usize) -> RunResult<Run> {
        let mut launch = Launch { limit: LIMIT, ..Launch::ranks(ranks) };
        if self.verify {
            launch.environment.push(("OMPI_MCA_mpi_yield_when_idle", "1"));
        }
        let arguments: Vec<String> =
            ["rank", program].map(String::from).into_iter().chain(self.arguments()).collect();
        Run::read(&one(&launch.run_other(binary, &arguments)?)?)
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        let Job { kernel, size, settle, passes, columns, split, live, verify, cores } = self;
        let mut arguments = vec![
            format!("loop={kernel}"),
            format!("size={size}"),
            format!("settle={settle}"),
            format!("passes={passes}"),
            format!("columns={columns}"),
            format!("split={split}"),
            format!("live={live}"),
            format!("verify={verify}"),
        ];
        arguments.extend(cores.iter().map(|core| format!("core={core}")));
        arguments
    }

    pub(crate) fn parse(arguments: &[String]) -> RunResult<Self> {
        let mut job = Job::new(Kernel::Matmul, 0, 0);
        settings(arguments, |name, value| {
            match name {
                "loop" => job.kernel = value.parse()?,
                "size" => job.size = value.parse()?,
                "settle" => job.settle = value.parse()?,
                "passes" => job.passes = value.parse()?,
                "columns" => job.columns = value.parse()?,
                "split" => job.split = value.parse()?,
                "live" => job.live = value.parse()?,
                "verify" => job.verify = value.parse()?,
                "core" => job.cores.push(value.parse()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        if job.size < 3 || !(0.0..=1.0).contains(&job.split) {
            let text =
                format!("a loop needs a size of at least 3 and a split from 0 to 1, not {arguments:?}");
            return Err(text.into());
        }
        Ok(job)
    }

    pub(crate) fn strips(&self) -> Vec<std::ops::Range<usize>> {
        let end = self.size - 1;
        let width = if self.columns == 0 { end } else { self.columns };
        (1..end).step_by(width).map(|first| first..(first + width).min(end)).collect()
    }
}

/// Results of a run. Fields that only the framework can measure are 0 for the hand-written loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    /// Seconds of the measured passes.
    pub seconds: f64,
    /// Number of rows or columns that a rank computes between two polls for messages (a block), at the end of the
    /// run.
    pub block: f64,
    /// Total number of blocks (of rows or columns) that all ranks computed.
    pub blocks: f64,
    /// Total computing seconds of all ranks.
    pub computing: f64,
    /// Total seconds that all ranks spent on balancing: reports to rank 0, and its decisions.
    pub interacting: f64,
    /// Number of reports of all ranks to rank 0, each followed by a decision about moving rows.
    pub interactions: f64,
    /// Number of decisions by which the framework moved rows between ranks, including those of the warm-up.
    pub movements: f64,
    /// Number of rows on rank 0 at the end of the run.
    pub held: f64,
}

impl Run {
    fn read(values: &Values) -> RunResult<Self> {
        let value = |name: &str| values.get(name).copied().unwrap_or_default();
        let seconds = values.get("seconds").copied().ok_or("the loop printed no seconds")?;
        Ok(Run {
            seconds,
            block: value("block"),
            blocks: value("blocks"),
            computing: value("computing"),
            interacting: value("interacting"),
            interactions: value("interactions"),
            movements: value("movements"),
            held: value("held"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_arguments_round_trip() {
        for kernel in [Kernel::Matmul, Kernel::Sor, Kernel::Heat] {
            let job = Job {
                settle: 3,
                columns: 10,
                split: 0.625,
                live: true,
                verify: true,
                cores: vec![0, 3],
                ..Job::new(kernel, 40, 7)
            };
            assert_eq!(Job::parse(&job.arguments()).unwrap(), job);
        }
        for arguments in ["size", "loop=sort", "speed=3", "size=2", "size=9 split=1.5"] {
            let arguments: Vec<String> = arguments.split_whitespace().map(str::to_string).collect();
            assert!(Job::parse(&arguments).is_err(), "{arguments:?}");
        }
    }

    #[test]
    fn strips_cover_a_row_without_its_edges() {
        let job = |columns| Job { columns, ..Job::new(Kernel::Sor, 12, 1) };
        assert!(matches!(&job(0).strips()[..], [only] if *only == (1..11)));
        assert_eq!(job(4).strips(), [1..5, 5..9, 9..11]);
        assert_eq!(job(50).strips(), job(0).strips());
    }
}
