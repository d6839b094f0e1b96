//! Experiments behind every claim of speed or quality.
//!
//! `ci/bench.sh` runs the experiments. An [`Experiment`] measures, prints its tables, draws its plots, and states for
//! each measured value with a target (printed as "mark") whether the target was reached:
//!
//! ```text
//! pipeline-throughput 8 B against hand-written MPI: 0.97 of its items/s, mark at least 0.9: reached
//! ```
//!
//! Alternatives are measured round-robin in one session ([`pairs`]), because the speed of a machine drifts. A target
//! counts as reached only if the whole 95 % confidence interval lies on the required side of it ([`verdict`]).
//!
//! Tables are also written as CSV and plots as SVG, under `target/bench/`.

pub mod baseline;
pub mod deaths;
pub mod expanding;
pub mod experiment;
pub mod experiments;
pub mod farm;
pub mod loops;
pub mod machine;
pub mod pairs;
pub mod platforms;
pub mod plot;
pub mod ranks;
pub mod remap_run;
pub mod snapshot_run;
pub mod stats;
pub mod streams;
pub mod synthetic_work;
pub mod table;
pub mod task_bench;
pub mod tested_program;
pub mod verdict;
pub mod workflows;

/// Programs that occupy a core with computation while another program is measured.
pub use armature_tests::burner;
pub use experiment::{Experiment, Extent, Report, RunResult};
pub use plot::{Bars, Histogram, Lines};
pub use table::Table;
pub use verdict::{Target, TargetedValue, Verdict};
