//! Model of the time of a farm's iteration (equations 4 to 9 of Cesar et al. 2006), and of the best number of workers (equations 10 to 13).

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::messages::MessageCosts;
use crate::error::{Error, ErrorKind, Result};
use crate::range::MOST_RANKS;
use crate::range::{self, AMOUNT};

/// Behaviour of the master of a farm during the transfer of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// The master sends the next message as soon as the start-up time of the previous message has passed.
    Asynchronous,
    /// The master sends the next message when the transfer of the previous message is complete.
    Synchronous,
}

/// Model of an iteration of a farm with balanced load, as a function of the number of workers. The model is valid up to
/// [`most_workers`](IterationModel::most_workers); with more workers, the workers wait for the master, and the predicted time is too short.
///
/// ```
/// use armature_planner::farm::{IterationModel, MessageCosts, Protocol};
///
/// // Fig. 6 of the paper, in ms: mo = 1, λ = 0.001 ms/byte, V = 4096 bytes, Tc = 1600 ms.
/// let model = IterationModel {
///     messages: MessageCosts::new(1.0, 0.001),
///     volume: 4096.0,
///     out: 0.5,
///     compute: 1600.0,
///     master: 0.0,
///     protocol: Protocol::Asynchronous,
/// };
/// assert_eq!((model.fastest(10..=60), model.best(10..=60)), (40, 23));
/// assert!((model.time(23) - 93.7433).abs() < 1e-4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct IterationModel {
    /// Start-up time and time per byte of messages (`mo` and `λ` in the paper of Cesar et al.). The start-up time is that of a message of `volume`/n
    /// bytes, for n workers.
    pub messages: MessageCosts,
    /// Bytes of an iteration in both directions (V in the paper of Cesar et al.).
    pub volume: f64,
    /// Fraction of the volume that is sent to the workers (α in the paper of Cesar et al.).
    pub out: f64,
    /// Total computing time of all workers in seconds (Tc in the paper of Cesar et al.).
    pub compute: f64,
    /// Time in seconds that the master needs to prepare the next tasks (lm in the paper of Cesar et al.).
    pub master: f64,
    /// Behaviour of the master during a transfer, which determines when it can send the next message.
    pub protocol: Protocol,
}

impl IterationModel {
    /// Checks that every parameter of the model is valid.
    ///
    /// # Errors
    /// [`ErrorKind::Farm`] with the invalid parameter and its range: 0, or from 1e-60 to 1e60; for `out` from 0 to 1.
    pub fn validate(&self) -> Result<()> {
        self.messages.validate()?;
        for (name, value) in
            [("volume", self.volume), ("computing time", self.compute), ("master's time", self.master)]
        {
            if !range::is_amount(value) {
                let message = format!("the {name} of an iteration must be {AMOUNT}, but is {value}");
                return Err(Error::new(ErrorKind::Farm, message));
            }
        }
        if !(0.0..=1.0).contains(&self.out) {
            let message =
                format!("the part of the bytes that goes to workers must be 0 to 1, but is {}", self.out);
            return Err(Error::new(ErrorKind::Farm, message));
        }
        Ok(())
    }

    fn start_up(&self, n: usize) -> f64 {
        self.messages.start_up.of(self.volume / n as f64)
    }

    /// Returns the time of the transfer of all bytes of an iteration, without start-up times (λV in the paper of Cesar et al.).
    fn carry(&self) -> f64 {
        self.messages.per_byte * self.volume
    }

    /// Returns true if start-up times and not bytes limit an asynchronous master with `n` workers. This is the case of equation 7, mo > λαV/n, with
    /// the parameters of [`IterationModel`].
    pub fn is_start_up_bound(&self, n: usize) -> bool {
        n as f64 * self.start_up(n) > self.out * self.carry()
    }

    /// Returns the seconds of an iteration on `n` workers, by equation 9 of the paper of Cesar et al. for a synchronous protocol, and by equation 7
    /// or 8 for an asynchronous one, depending on `n`. The time is infinite without a worker.
    pub fn time(&self, n: usize) -> f64 {
        if n == 0 {
            return f64::INFINITY;
        }
        let (mo, carry, x) = (self.start_up(n), self.carry(), n as f64);
        let distributed = (((x - 1.0) * self.out + 1.0) * carry + self.compute) / x;
        let parallel = match self.protocol {
            Protocol::Synchronous => (x + 1.0) * mo + distributed,
            Protocol::Asynchronous if self.is_start_up_bound(n) => {
                (x + 1.0) * mo + (self.compute + carry) / x
            }
            Protocol::Asynchronous => 2.0 * mo + distributed,
        };
        parallel + self.master
    }

    /// Returns the fraction of the workers' time in which `n` workers compute: total computing time / (n · time of the iteration).
    pub fn efficiency(&self, n: usize) -> f64 {
        self.compute / (n as f64 * self.time(n))
    }

    /// Returns the performance index of `n` workers (equation 13 of the paper of Cesar et al.): the time of an iteration divided by the efficiency,
    /// in seconds. With more workers than at the minimum of the index, the loss of efficiency exceeds the gain of time.
    pub fn performance_index(&self, n: usize) -> f64 {
        performance_index(n, self.time(n), self.compute)
    }

    /// Returns the number of workers in `range` with the shortest time of an iteration, or the smallest such number. All numbers are evaluated,
    /// because the time has a step where messages become small. Numbers that are larger than the first by a million or more are not evaluated.
    pub fn fastest(&self, range: RangeInclusive<usize>) -> usize {
        self.least(range, |n| self.time(n))
    }

    /// Returns the number of workers in `range` with the smallest [`performance_index`](IterationModel::performance_index).
    pub fn best(&self, range: RangeInclusive<usize>) -> usize {
        self.least(range, |n| self.performance_index(n))
    }

    fn least(&self, range: RangeInclusive<usize>, value: impl Fn(usize) -> f64) -> usize {
        let first = (*range.start()).max(1);
        let mut best = (first, value(first));
        for n in tried(first..=*range.end()).skip(1) {
            let value = value(n);
            if value < best.1 {
                best = (n, value);
            }
        }
        best.0
    }

    /// Returns the chunk managing capability of the master: the maximum number of workers that the master can serve within one round trip, by
    /// equation 10, 11 or 12 of the paper of Cesar et al., with the start-up time for `n` workers. The result is `usize::MAX` if there is no limit.
    pub fn capability(&self, n: usize) -> usize {
        let real = self.real_capability(n);
        if real < usize::MAX as f64 { real.max(0.0) as usize } else { usize::MAX }
    }

    fn real_capability(&self, n: usize) -> f64 {
        let (mo, carry) = (self.start_up(n), self.carry());
        match self.protocol {
            Protocol::Synchronous => capability_synchronous(mo, carry, self.out, self.compute),
            Protocol::Asynchronous => {
                let bytes = capability_by_bytes(mo, carry, self.out, self.compute);
                if bytes * mo <= self.out * carry {
                    bytes
                } else {
                    capability_by_start_up(mo, carry, self.out, self.compute)
                }
            }
        }
    }

    /// Returns the largest number n of workers in `range` that the master can serve, by its [chunk managing capability](IterationModel::capability)
    /// for n workers, or the first number of the range if there is none. Numbers that are larger than the first by a million or more are not
    /// evaluated.
    pub fn most_workers(&self, range: RangeInclusive<usize>) -> usize {
        let first = *range.start();
        tried(range).rev().find(|&n| n <= self.capability(n)).unwrap_or(first)
    }
}

/// Leaves out numbers of workers that are larger than the first by a million or more.
pub(super) fn tried(range: RangeInclusive<usize>) -> RangeInclusive<usize> {
    let (first, last) = range.into_inner();
    first..=last.min(first.saturating_add(MOST_RANKS - 1))
}

/// Computes the number of workers that the master can serve by equation 10 of Cesar et al., ⌊√(mo² + mo((1 − α)λV + Tc))/mo + 1⌋, without rounding
/// down. The parameters are those of [`capability_by_bytes`].
pub(super) fn capability_by_start_up(mo: f64, carry: f64, out: f64, compute: f64) -> f64 {
    (mo * mo + mo * ((1.0 - out) * carry + compute)).sqrt() / mo + 1.0
}

/// Computes the number of workers that the master can serve by equation 11 of Cesar et al., ⌊(λV + Tc)/(λαV − mo)⌋, without rounding down; infinite
/// if λαV ≤ mo. `mo` is the start-up time of a message; `carry` is λV, the time for the bytes of an iteration; `out` is α, the fraction of these
/// bytes that is sent to workers; `compute` is Tc, the computing time of all workers.
pub(super) fn capability_by_bytes(mo: f64, carry: f64, out: f64, compute: f64) -> f64 {
    let busy = out * carry - mo;
    if busy <= 0.0 { f64::INFINITY } else { (carry + compute) / busy }
}

/// Computes the number of workers that the master can serve by equation 12 of Cesar et al., ⌊(2mo − λαV + √((λαV − 2mo)² + 4mo(λV + Tc)))/(2mo)⌋,
/// without rounding down. The parameters are those of [`capability_by_bytes`].
pub(super) fn capability_synchronous(mo: f64, carry: f64, out: f64, compute: f64) -> f64 {
    let rest = 2.0 * mo - out * carry;
    if mo <= 0.0 {
        return capability_by_bytes(mo, carry, out, compute);
    }
    (rest + (rest * rest + 4.0 * mo * (carry + compute)).sqrt()) / (2.0 * mo)
}

/// Computes the performance index of a measured iteration (equation 13 of the paper of Cesar et al.): its `time` divided by its efficiency, where
/// `compute` is the computing time of all workers.
pub fn performance_index(workers: usize, time: f64, compute: f64) -> f64 {
    workers as f64 * time * time / compute
}
