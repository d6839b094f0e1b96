//! What it takes to send a message.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::range::{self, AMOUNT};

/// The start-up time of a message, `mo`, as a function of its size: one value up to a border, one above it.
///
/// MPI libraries change their protocol at some size (the eager limit), and the start-up time with it. Tables 1 to 4
/// of Cesar, Moreno, Sorribes and Luque (2006) cannot be explained by one value.
///
/// ```
/// use armature_planner::farm::StartUp;
///
/// let start_up = StartUp { small: 1.32e-3, border: 3200.0, large: 2.145e-3 };
/// assert_eq!((start_up.of(3200.0), start_up.of(3201.0)), (1.32e-3, 2.145e-3));
/// assert_eq!(StartUp::constant(1e-4).of(1e9), 1e-4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartUp {
    /// Seconds for a message of at most `border` bytes.
    pub small: f64,
    /// Most bytes of a small message; infinite if all are alike.
    pub border: f64,
    /// Seconds for a larger one.
    pub large: f64,
}

impl StartUp {
    /// The same for every size.
    pub const fn constant(seconds: f64) -> Self {
        StartUp { small: seconds, border: f64::INFINITY, large: seconds }
    }

    /// Seconds for a message of `bytes`.
    pub fn of(&self, bytes: f64) -> f64 {
        if bytes <= self.border { self.small } else { self.large }
    }
}

/// What a message costs: start-up time and time for each byte.
///
/// ```
/// use armature_planner::farm::MessageCosts;
///
/// let lan = MessageCosts::new(1e-4, 1e-7); // 0.1 ms and 10 MB/s
/// assert_eq!(lan.time(1e4), 1.1e-3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageCosts {
    /// `mo` (s).
    pub start_up: StartUp,
    /// `λ`, the inverse of the bandwidth (s/byte).
    pub per_byte: f64,
}

impl MessageCosts {
    /// Messages that cost nothing.
    pub const FREE: MessageCosts = MessageCosts::new(0.0, 0.0);

    /// A start-up time (s) that does not depend on the size, and seconds for each byte.
    pub const fn new(start_up: f64, per_byte: f64) -> Self {
        MessageCosts { start_up: StartUp::constant(start_up), per_byte }
    }

    /// Seconds for a message of `bytes`.
    pub fn time(&self, bytes: f64) -> f64 {
        self.start_up.of(bytes) + self.per_byte * bytes
    }

    /// The same in numbers that models work with: what is negative or no number is 0, and what is too large the largest.
    pub(super) fn usable(&self) -> Self {
        let StartUp { small, border, large } = self.start_up;
        let border = if border.is_nan() { f64::INFINITY } else { border };
        MessageCosts {
            start_up: StartUp {
                small: range::amount_or_nearest(small),
                border,
                large: range::amount_or_nearest(large),
            },
            per_byte: range::amount_or_nearest(self.per_byte),
        }
    }

    /// Checks that every number can be used.
    ///
    /// # Errors
    /// [`ErrorKind::Farm`] naming the number that is not 0 and not from 1e-60 to 1e60.
    pub fn validate(&self) -> Result<()> {
        let StartUp { small, border, large } = self.start_up;
        for (name, value) in
            [("start-up time", small), ("start-up time", large), ("time for a byte", self.per_byte)]
        {
            if !range::is_amount(value) {
                let message = format!("the {name} of a message in seconds must be {AMOUNT}, but is {value}");
                return Err(Error::new(ErrorKind::Farm, message));
            }
        }
        if border.is_nan() {
            return Err(Error::new(ErrorKind::Farm, "the border of small messages is not a number"));
        }
        Ok(())
    }
}
