//! When a stream that runs is worth rearranging.
//!
//! A planner finds an arrangement that is predicted to be faster than the present one. Whether to change to it is
//! another question, and this room answers it, in the same way for every skeleton: an *arrangement* is a mapping of
//! a pipeline, a distribution of a loop's rows, a number of workers; the [`Tuner`] only copies and compares it.
//!
//! Two tests are asked apart, and both have to pass:
//!
//! - **Gain.** The candidate is faster by at least a [threshold](TunerOptions::threshold), as a part of the present
//!   time for an item (Siegell and Steenkiste's `rfract ≥ tfract`).
//! - **Profit.** Over the horizon the gain saves more than [`margin`](TunerOptions::margin) times what the change
//!   costs. The horizon is the time that the remaining items would take as things are. Where their number is not
//!   known, a stream that has run for a while is expected to run as long again: of all streams that are seen at
//!   an age, half can be expected to have half of their life before them, whatever the unit of time.
//!
//! A single look at noisy measurements decides nothing. Both tests must hold in [several
//! looks](TunerOptions::persistence) in a row; the candidate may differ from look to look, what must last is the
//! gain. The first arrangement may be far off, because nothing was known when it was chosen: until it is left,
//! [a large gain](TunerOptions::decisive) can be enough at the second look. As noise does not last, half of the threshold can be enough after [many more
//! looks](TunerOptions::patience). After a change there is a pause, long in proportion to what the change cost, and
//! longer after each change that did not bring half of what was predicted. An arrangement that was left is returned to only with a larger
//! gain, unless it is now predicted to be clearly faster than when it was left. So noise moves nothing back and
//! forth.
//!
//! Every [`Decision`] carries what went into it, and reads as a sentence. What came of a change is told some
//! periods later by [`Tuner::outcome`].
//!
//! ```
//! use armature_planner::tuner::{Candidate, Reason, Situation, Tuner, TunerOptions, Verdict};
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
//! assert_eq!(first.verdict, Verdict::Keep(Reason::NotPersistent { seen: 1, needed: 2 }));
//! let second = tuner.consider(look(6.0), Some(better));
//! assert_eq!(second.verdict, Verdict::Act);
//! assert_eq!(
//!     second.to_string(),
//!     "change: 20.0 ms an item becomes 14.0 ms (gain 30.0 %), which saves 60.0 s of the 200 s ahead for a cost of 500 ms"
//! );
//! // … the skeleton changes, and says when the new arrangement is in force and what that took.
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

pub use decision::{Candidate, Decision, Reason, Situation, Verdict};
pub use options::TunerOptions;
pub use outcome::Outcome;
pub use steps::Tuner;
