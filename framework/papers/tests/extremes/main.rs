//! Functions of this crate with arbitrary numbers: each call returns an answer or an error, without a panic, an
//! endless loop or unbounded memory. If models accept the numbers, the call returns an answer.

mod equations;
#[path = "../../../planner/tests/extremes/numbers.rs"]
mod numbers;
mod pipeline;
mod rate;
mod simulate;
