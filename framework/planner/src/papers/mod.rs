//! Equations of the papers that no decision uses: their reference tests keep them right for whoever needs them.
//!
//! - [`Barriers`], [`Oscillation`]: what barriers cost a loop, and what can be reached under a load that comes and goes (Siegell
//!   and Steenkiste 1997).
//! - [`RateEstimator`]: how fast a server is when nothing holds it up, by counts of periods (Beard and Chamberlain 2015).
//! - [`Period`], [`reading_probability`], [`writing_probability`]: how long to sample a queue, and how likely a period without
//!   blocking is (the same).

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
