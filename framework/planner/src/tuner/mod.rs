//! Decision whether a running stream changes its arrangement: its mapping, its distribution of rows or its number of workers.
//!
//! A planner finds an arrangement that is predicted to be faster than the current one. The [`Tuner`] decides whether a change to this candidate pays,
//! in the same way for every skeleton. An *arrangement* is a mapping of a pipeline, a distribution of the rows of a loop, or a number of workers; the
//! [`Tuner`] only copies and compares arrangements.
//!
//! A change requires two independent tests to pass:
//!
//! - **Gain.** The candidate is faster by at least a [threshold](TunerOptions::threshold), as a fraction of the current time per
//!   item (`rfract ≥ tfract` of Siegell and Steenkiste).
//! - **Profit.** Over the horizon the gain saves more than [`margin`](TunerOptions::margin) times the cost of the change. The horizon is the time
//!   of the remaining items in the current arrangement. If their number is unknown, a stream is expected to run for as long again as it has run: of
//!   all streams observed at a given age, half can be expected to have half of their life ahead, whatever the unit of time.
//!
//! A *look* is one comparison of the candidate with the current arrangement, with the latest measurements. A single look does not lead to a
//! change, because measurements are noisy. Both tests must pass in [several looks](TunerOptions::persistence) in a row. The candidate may
//! differ between looks; only the gain must persist. The first arrangement may be poor, because nothing was known when it was chosen. Until
//! the first change, [a large gain](TunerOptions::decisive) can therefore be enough at the second look. Because noise does not persist, half
//! of the threshold can be enough after [many more looks](TunerOptions::patience). After a change there is a pause. Its length is
//! proportional to the cost of the change, and grows after each change with less than half of its predicted gain. A return to an earlier
//! arrangement requires a larger gain, unless the arrangement is now predicted to be clearly faster than when it was left. These rules
//! prevent oscillation due to noise.
//!
//! Every [`Decision`] contains its input, and its `Display` is one sentence. Some periods after a change, [`Tuner::outcome`] returns the measured
//! effect of the change.
//!
//! ```
//! use armature_planner::tuner::{Candidate, Reason, Situation, Tuner, TunerOptions, Action};
//!
//! let mut tuner = Tuner::new(TunerOptions { persistence: 2, ..TunerOptions::default() })?;
//! let look = |now: f64| Situation {
//!     now,
//!     period: 1.0,
//!     elapsed: now,
//!     current: "two replicas",
//!     current_time: 0.020,
//!     measured_time: Some(0.021),
//!     remaining_items: Some(10_000),
//!     settled: true,
//! };
//! let better = Candidate { arrangement: "three replicas", time: 0.014, cost: 0.5 };
//!
//! let first = tuner.consider(look(5.0), Some(better.clone()));
//! assert_eq!(first.action, Action::Keep(Reason::NotPersistent { seen: 1, needed: 2 }));
//! let second = tuner.consider(look(6.0), Some(better));
//! assert_eq!(second.action, Action::Act);
//! assert_eq!(
//!     second.to_string(),
//!     "change: 20.0 ms an item becomes 14.0 ms (gain 30.0 %), which saves 60.0 s of the remaining 200 s for a cost of 500 ms"
//! );
//! // … the skeleton changes, and reports when the new arrangement took effect and how many seconds the change cost.
//! tuner.acted(6.5, 0.4);
//! # Ok::<(), armature_planner::Error>(())
//! ```

mod decision;
mod history;
#[cfg(test)]
mod noise_tests;
mod options;
mod outcome;
mod steps;
#[cfg(test)]
mod tests;

pub use decision::{Action, Candidate, Decision, Reason, Situation};
pub use options::TunerOptions;
pub use outcome::ChangeOutcome;
pub use steps::Tuner;
