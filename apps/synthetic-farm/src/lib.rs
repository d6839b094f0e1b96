//! Farm of synthetic tasks with a given number, mean time, deviation, and number of bytes to send and to return; adjacent tasks can have equal times.
//! The program prints its efficiency: the sum of the task times divided by workers times makespan.
//!
//! The program follows the generator of synthetic programs with which Cesar, Moreno, Sorribes and Luque tested the distribution of tasks ("Modeling
//! Master/Worker applications for automatic performance tuning", Parallel Computing 32, 2006, section 5.4). [`plan`] draws the tasks, [`payload`]
//! generates and checks the bytes, [`work_method`] spends the time, and [`report`] computes the efficiency.

pub mod cli;
pub mod farm;
pub mod payload;
pub mod plan;
pub mod report;
pub mod work_method;
