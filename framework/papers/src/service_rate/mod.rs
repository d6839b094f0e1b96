//! Rate of a server that is never blocked: the estimate of Beard and Chamberlain (2015), described at [`RateEstimator`].

mod convergence;
mod estimator;
mod kernel;
mod options;
mod smooth;

pub use estimator::{RateEstimate, RateEstimator, Sample};
pub use kernel::{gaussian, laplacian_of_gaussian};
pub use options::RateOptions;
