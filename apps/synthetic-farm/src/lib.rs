//! A farm whose tasks are made to measure: so many, of this mean and deviation, alike in blocks, with so many bytes to send
//! and to return. It prints its efficiency, the sum of the tasks' times divided by workers times makespan.
//!
//! It is the generator of synthetic programs with which Cesar, Moreno, Sorribes and Luque tested the distribution of
//! tasks ("Modeling Master/Worker applications for automatic performance tuning", Parallel Computing 32, 2006, section
//! 5.4). [`plan`] draws the tasks, [`payload`] makes and checks the bytes, [`toil`] spends the time, [`report`] computes
//! the efficiency.

pub mod cli;
pub mod farm;
pub mod payload;
pub mod plan;
pub mod report;
pub mod toil;
