//! Estimation of the planner's input from measurements: one value for each quantity, together with the kind of measurement from which it comes.
//!
//! - [`ServiceTime`]: seconds per item of a stage on a rank, from finished batches.
//! - [`CoreShare`]: fraction of its core that a rank gets, from the time in which its stages were ready without a core.
//! - [`fit`](fit()): works of the stages and speeds of the ranks, from the service times of some stages on some ranks.
//! - [`LinkTraffic`]: set-up time and bandwidth of a connection, from its messages; [`cautious`](LinkTraffic::cautious) returns the values on which
//!   a planner may rely.
//!
//! Results are [`Estimate`]s: a value, its [`Source`], and true if the value has settled. Until there are enough measurements, the estimate is the
//! earlier value (such as a declared one) with the source of that value.

mod core_share;
mod envelope;
mod fit;
mod link;
mod link_confidence;
mod normal;
mod running;
mod service_time;
mod value;

pub use core_share::{CoreShare, load_of_others};
pub use fit::{Fit, FitOptions, Measurement, Prior, fit};
pub use link::{LinkEstimate, LinkTraffic};
pub use running::Running;
pub use service_time::ServiceTime;
pub use value::{Estimate, Source};
