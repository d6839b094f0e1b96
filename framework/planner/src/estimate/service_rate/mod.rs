//! How fast a server is when nothing holds it up, from what it does while much holds it up.
//!
//! After Beard and Chamberlain, *Run Time Approximation of Non-blocking Service Rates for Streaming Systems* (2015).
//! A queue's monitor counts the items that the server moved in each sampling period T. Periods in which the server
//! was blocked say nothing and are left out. The others are still noisy: many saw only part of an execution, some an
//! outlier. The estimate is therefore not their mean but near their upper end:
//!
//! 1. A sliding window of w counts is smoothed with a Gaussian of radius 2, without padding (Eq. 2).
//! 2. The quantile q = mean + 1.645 · standard deviation of the smoothed window is taken at each sample (Eq. 3).
//! 3. The mean of all q since the last estimate is the rate, once it has converged: when the standard error of that
//!    mean, filtered with a Laplacian of Gaussian (Eq. 4), stays within a tolerance for some time.
//!
//! [`RateEstimator`] does that. [`Period`](crate::papers::Period) finds a sampling period, and [`reading_probability`](crate::papers::reading_probability) and
//! [`writing_probability`](crate::papers::writing_probability) say how likely a period without blocking is (Eq. 1). [`ServiceMonitor`] takes finished
//! batches instead of periods, and uses this heuristic where it is good and the robust mean elsewhere.
//!
//! The text that we have of the paper lacks several numbers, and a few of its details can be read in two ways; they
//! are [`RateOptions`] and [`PeriodOptions`](crate::papers::PeriodOptions), with the reasons.

mod convergence;
mod estimator;
mod kernel;
mod monitor;
mod options;
mod running;
mod smooth;

pub use estimator::{RateEstimate, RateEstimator, Sample};
pub use kernel::{gaussian, laplacian_of_gaussian};
pub use monitor::{MonitorOptions, ServiceMonitor};
pub use options::RateOptions;
pub use running::Running;
