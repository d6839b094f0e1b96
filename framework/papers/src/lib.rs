//! Methods of the papers on which armature is based. No run of a program needs the methods in this crate: equations,
//! generators, simulators, and planners that assign one block of tasks to each processor. Runs are planned by
//! [`armature_planner`]. Tests verify its predictions with the simulators here, and the command `armature plan` also
//! tries the block planners.
//!
//! - [`workflow`]: block planners, partitions, and the workflows and clusters of the papers.
//! - [`optimal_plan`]: exhaustive planner of small pipelines.
//! - [`simulate`]: simulators of pipelines and of loops.
//! - [`Barriers`], [`Oscillation`]: cost of barriers in a loop, and the best possible efficiency under a load that
//!   appears and disappears (Siegell and Steenkiste 1997).
//! - [`RateEstimator`]: rate of a server that is never blocked, from counts of sampling periods (Beard and
//!   Chamberlain 2015).
//! - [`Period`], [`reading_probability`], [`writing_probability`]: length of the sampling period of a queue, and
//!   probability of a period without blocking (Beard and Chamberlain 2015).
//! - [`unbalanced_time`], [`real_optima`], [`idle_index`] and others: equations of farms (Cesar, Moreno, Sorribes and
//!   Luque 2006).

mod barriers;
mod blocking;
mod farm;
mod grain;
mod oscillation;
mod pipeline;
#[cfg(test)]
#[path = "../../planner/src/reference.rs"]
mod reference;
#[cfg(test)]
mod reference_tests;
mod sampling_period;
mod service_rate;
pub mod simulate;
pub mod workflow;

pub use barriers::Barriers;
pub use blocking::{reading_probability, writing_probability};
pub use farm::{idle_bound, idle_index, real_optima, time_bound, unbalanced_time};
pub use grain::{block_of_grain, iteration_time};
pub use oscillation::{Oscillation, Reaction};
pub use pipeline::optimal_plan;
pub use sampling_period::{Period, PeriodOptions, PeriodState};
pub use service_rate::{RateEstimate, RateEstimator, RateOptions, Sample, gaussian, laplacian_of_gaussian};
