//! What cases share: comparing with the serial result, and work that takes a seeded time.

use std::fmt::Debug;
use std::time::Duration;

use armature::{BoxError, Session};

/// Checks on rank 0 that `got` is `expected`, item by item; `what` names the run. Other ranks have nothing.
///
/// # Errors
/// Says where the first difference is.
pub fn same<T: PartialEq + Debug>(
    session: &Session,
    what: &str,
    got: &[T],
    expected: &[T],
) -> Result<(), BoxError> {
    if !session.is_root() {
        return that(got.is_empty(), || format!("{what}: rank {} has fed a sink", session.rank()));
    }
    if let Some(at) = got.iter().zip(expected).position(|(a, b)| a != b) {
        let (a, b) = (brief(&got[at]), brief(&expected[at]));
        return Err(format!("{what}: item {at} of the result is {a}, expected {b}").into());
    }
    that(got.len() == expected.len(), || {
        format!("{what}: the result has {} items, expected {}", got.len(), expected.len())
    })
}

/// An error with `text` unless `holds`.
///
/// # Errors
/// If it does not hold.
pub fn that(holds: bool, text: impl FnOnce() -> String) -> Result<(), BoxError> {
    if holds { Ok(()) } else { Err(text().into()) }
}

fn brief(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
        None => text,
    }
}

/// A number that looks random, the same for the same `seed` and `n` on every rank.
pub fn noise(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x1234_5678_9abc_def1);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Work that costs time and nothing else: a sleep, or declared work on a simulated host (of 1 Gflop/s).
#[derive(Clone, Copy, Debug)]
pub struct Work {
    simulated: bool,
}

impl Work {
    /// Work for the ranks of `session`.
    pub fn on(session: &Session) -> Self {
        Work { simulated: session.is_simulated() }
    }

    /// Takes this long.
    pub fn take(self, time: Duration) {
        if self.simulated {
            armature::declare(time.as_secs_f64() * 1e9, || ());
        } else if !time.is_zero() {
            std::thread::sleep(time);
        }
    }

    /// Most items take no time, some a little, a few long enough for many others to overtake them.
    pub fn uneven(self, seed: u64, item: u64) {
        match noise(seed, item) % 64 {
            0 => self.take(Duration::from_millis(3)),
            1..8 => self.take(Duration::from_micros(200)),
            _ => {}
        }
    }
}

/// A number from the environment, or the default.
///
/// # Errors
/// If the variable does not hold a number.
pub fn setting(name: &str, default: usize) -> Result<usize, BoxError> {
    match std::env::var(name) {
        Ok(text) => text.parse().map_err(|_| format!("{name}={text}: expected a whole number").into()),
        Err(_) => Ok(default),
    }
}
