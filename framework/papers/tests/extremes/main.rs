//! Tests of the crate's functions with arbitrary numbers: each call returns a value or an error, without a panic, an
//! endless loop or unbounded memory. If the models accept the numbers, the call returns a value.

mod equations;
#[path = "../../../planner/tests/extremes/numbers.rs"]
mod numbers;
mod pipeline;
mod rate;
mod simulate;
