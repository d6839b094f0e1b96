//! Helpers shared by the cases: comparison with the serial result, and work with a duration derived from a seed.

use std::fmt::Debug;
use std::time::Duration;

use armature::{BoxError, Session};

/// Checks on rank 0 that `found` equals `expected`, item by item, and on other ranks that `found` is empty. `what`
/// names the run in error messages.
///
/// # Errors
/// Returns an error with the position of the first difference.
pub fn check_equal<T: PartialEq + Debug>(
    session: &Session,
    what: &str,
    found: &[T],
    expected: &[T],
) -> Result<(), BoxError> {
    if !session.is_root() {
        return ensure(found.is_empty(), || format!("{what}: rank {} has fed a sink", session.rank()));
    }
    if let Some(at) = found.iter().zip(expected).position(|(a, b)| a != b) {
        let (a, b) = (shortened(&found[at]), shortened(&expected[at]));
        return Err(format!("{what}: item {at} of the result is {a}, expected {b}").into());
    }
    ensure(found.len() == expected.len(), || {
        format!("{what}: the result has {} items, expected {}", found.len(), expected.len())
    })
}

/// Returns an error with `text` if the condition `holds` is false.
///
/// # Errors
/// Returns an error if `holds` is false.
pub fn ensure(holds: bool, text: impl FnOnce() -> String) -> Result<(), BoxError> {
    if holds { Ok(()) } else { Err(text().into()) }
}

fn shortened(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
        None => text,
    }
}

/// Returns a pseudorandom number that depends only on `seed` and `n`, and is therefore equal on all ranks.
pub fn noise(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x1234_5678_9abc_def1);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Simulates work that takes time: by a sleep or, on a simulated host, by operations that are declared to the simulator (at 1 Gflop/s).
#[derive(Clone, Copy, Debug)]
pub struct Work {
    simulated: bool,
}

impl Work {
    /// On simulated hosts of `session`, work is declared to the simulator; on real ones it is a sleep.
    pub fn on(session: &Session) -> Self {
        Work { simulated: session.is_simulated() }
    }

    /// Takes the time `time`: by a sleep, or by operations that are declared to the simulator.
    pub fn take(self, time: Duration) {
        if self.simulated {
            armature::declare(time.as_secs_f64() * 1e9, || ());
        } else if !time.is_zero() {
            std::thread::sleep(time);
        }
    }

    /// Takes a time that depends on `seed` and `item`. Most items take no time, some take 200 µs, and a few take 3
    /// ms, long enough for many other items to overtake them.
    pub fn take_uneven(self, seed: u64, item: u64) {
        match noise(seed, item) % 64 {
            0 => self.take(Duration::from_millis(3)),
            1..8 => self.take(Duration::from_micros(200)),
            _ => {}
        }
    }
}

/// Returns the number in the environment variable `name`, or `default` if the variable is not set.
///
/// # Errors
/// Returns an error if the variable does not contain a whole number.
pub fn setting(name: &str, default: usize) -> Result<usize, BoxError> {
    match std::env::var(name) {
        Ok(text) => text.parse().map_err(|_| format!("{name}={text}: expected a whole number").into()),
        Err(_) => Ok(default),
    }
}
