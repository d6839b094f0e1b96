//! Arbitrary numbers as input of the planner, and a time limit for each test case.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;

/// Maximum time of a test case, also on a busy machine. Most cases take milliseconds.
const LIMIT: Duration = Duration::from_secs(60);

/// Calls the function `what` on a separate thread, and returns its result.
///
/// # Panics
/// If `what` panics, or does not return within a minute.
#[track_caller]
pub(crate) fn in_time<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = channel();
    let thread = std::thread::spawn(move || drop(send.send(what())));
    match receive.recv_timeout(LIMIT) {
        Ok(done) => done,
        Err(RecvTimeoutError::Timeout) => panic!("it goes on for more than {LIMIT:?}"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => panic!("the thread has ended without a result"),
        },
    }
}

/// Generates positive numbers that the planner's models accept, including the smallest and the largest.
pub(crate) fn positive() -> impl Strategy<Value = f64> + Clone {
    prop_oneof![3 => 1e-3..1e3_f64, 2 => select(vec![1e-60, 1e-30, 1e-9, 1.0, 1e9, 1e30, 1e60])]
}

/// Generates numbers that the planner's models accept, including 0.
pub(crate) fn amount() -> impl Strategy<Value = f64> + Clone {
    prop_oneof![6 => positive(), 1 => Just(0.0)]
}

/// Generates numbers of all kinds, including negative, subnormal, infinite and NaN.
pub(crate) fn number() -> impl Strategy<Value = f64> + Clone {
    let hostile = vec![
        -0.0,
        5e-324,
        f64::MIN_POSITIVE,
        1e-300,
        f64::EPSILON,
        1e300,
        f64::MAX,
        f64::MIN,
        -1.0,
        -1e-300,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    prop_oneof![4 => amount(), 1 => select(hostile)]
}

/// Generates mostly numbers that the planner's models accept, so that inputs with several numbers are not always refused.
pub(crate) fn mostly_amount() -> impl Strategy<Value = f64> + Clone {
    prop_oneof![15 => amount(), 1 => number()]
}

pub(crate) fn mostly_positive() -> impl Strategy<Value = f64> + Clone {
    prop_oneof![15 => positive(), 1 => number()]
}

/// Generates arbitrary numbers of tasks or of loop units (rows or indices), for functions whose time and memory do not depend on this number.
pub(crate) fn count() -> impl Strategy<Value = u64> + Clone {
    let edges = vec![0, 1, 2, 1 << 22, 1 << 32, 1 << 33, (1 << 53) + 1, 1 << 63, u64::MAX - 1, u64::MAX];
    prop_oneof![2 => 0..200_u64, 2 => select(edges)]
}

/// Generates rank indices and numbers of ranks, workers or stages: mostly small ones, and some far too large.
pub(crate) fn index() -> impl Strategy<Value = usize> + Clone {
    prop_oneof![6 => 0..6_usize, 1 => select(vec![100, 1 << 20, 1 << 40, usize::MAX - 1, usize::MAX])]
}

pub(crate) fn some<S: Strategy + Clone>(each: S) -> impl Strategy<Value = Vec<S::Value>> + Clone
where
    S::Value: Clone,
{
    prop::collection::vec(each, 0..6)
}
