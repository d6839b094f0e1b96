//! Whatever numbers any entry of the planner is given, there is an answer or an error: no panic, no run without an end, no more
//! memory than is bounded. Where numbers are within the range that models take, there is an answer.

mod estimate;
mod farm;
mod loops;
mod numbers;
mod pipeline;
mod rate;
mod simulate;
mod tuner;
