//! Functions of the planner with arbitrary numbers: each call returns a value or an error, without a panic, an endless loop or unbounded memory. If
//! the models accept the numbers, the call returns a value.

mod estimate;
mod farm;
mod loops;
mod numbers;
mod simulate;
mod tuner;
