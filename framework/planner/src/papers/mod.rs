//! Equations of the papers that no decision uses. Reference tests verify them.
//!
//! - [`Barriers`], [`Oscillation`]: cost of barriers in a loop, and the best possible efficiency under a load that appears and disappears (Siegell
//!   and Steenkiste 1997).
//! - [`RateEstimator`]: rate of a server that is never blocked, from counts of sampling periods (Beard and Chamberlain 2015).
//! - [`Period`], [`reading_probability`], [`writing_probability`]: length of the sampling period of a queue, and probability of a period without
//!   blocking (Beard and Chamberlain 2015).

mod barriers;
mod blocking;
mod oscillation;
mod sampling_period;
mod service_rate;

pub use barriers::Barriers;
pub use blocking::{reading_probability, writing_probability};
pub use oscillation::{Oscillation, Reaction};
pub use sampling_period::{Period, PeriodOptions, PeriodState};
pub use service_rate::{RateEstimate, RateEstimator, RateOptions, Sample, gaussian, laplacian_of_gaussian};
