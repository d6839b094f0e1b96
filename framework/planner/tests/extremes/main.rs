//! Functions of the planner with arbitrary numbers: each call returns an answer or an error, without a panic, an
//! endless loop or unbounded memory. If models accept the numbers, the call returns an answer.

mod estimate;
mod farm;
mod loops;
mod numbers;
mod simulate;
mod tuner;
