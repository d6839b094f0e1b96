//! From what was measured to what a planner needs: one value for each quantity, with where it comes from.
//!
//! - [`ServiceTime`]: seconds an item, from the batches that a stage finished on a rank.
//! - [`CoreShare`]: the part of its core that a rank gets, from how long its stages were kept from it.
//! - [`fit`](fit()): what the stages cost and how fast the ranks are, from the service times of some stages on some
//!   ranks.
//! - [`LinkTraffic`]: set-up time and bandwidth of a connection, from the messages that went over it;
//!   [`cautious`](LinkTraffic::cautious) is what a planner may believe of it.
//!
//! Each is an [`Estimate`]: a value, its [`Source`], and whether it has settled. Until enough was seen, it is the
//! value that was known before, and says so.

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
