//! Cost of messages between master and workers.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::range::{self, AMOUNT};

/// Start-up time of a message as a function of its size (`mo` in the farm model): one value up to a border, and another value above the border.
///
/// MPI libraries change their protocol at a certain size (the eager limit), and with it the start-up time. One value cannot explain Tables 1 to 4
/// of Cesar, Moreno, Sorribes and Luque (2006).
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
    /// Start-up time in seconds of a message of at most `border` bytes.
    pub small: f64,
    /// Maximum bytes of a small message; infinite if all messages have the same start-up time.
    pub border: f64,
    /// Start-up time in seconds of a message of more than `border` bytes.
    pub large: f64,
}

impl StartUp {
    /// Creates a start-up time that does not depend on the size of the message.
    pub const fn constant(seconds: f64) -> Self {
        StartUp { small: seconds, border: f64::INFINITY, large: seconds }
    }

    /// Returns the start-up time of a message of `bytes`, in seconds.
    pub fn of(&self, bytes: f64) -> f64 {
        if bytes <= self.border { self.small } else { self.large }
    }
}

/// Cost of a message: a start-up time, and a time per byte.
///
/// ```
/// use armature_planner::farm::MessageCosts;
///
/// let lan = MessageCosts::new(1e-4, 1e-7); // 0.1 ms and 10 MB/s
/// assert_eq!(lan.time(1e4), 1.1e-3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageCosts {
    /// Start-up time of a message in seconds (`mo` in the farm model).
    pub start_up: StartUp,
    /// Inverse bandwidth in seconds per byte (`λ` in the farm model).
    pub per_byte: f64,
}

impl MessageCosts {
    /// Costs of messages that take no time.
    pub const FREE: MessageCosts = MessageCosts::new(0.0, 0.0);

    /// Creates message costs from a start-up time (s) that does not depend on the size of the message, and the seconds per byte.
    pub const fn new(start_up: f64, per_byte: f64) -> Self {
        MessageCosts { start_up: StartUp::constant(start_up), per_byte }
    }

    /// Returns the seconds for a message of `bytes`.
    pub fn time(&self, bytes: f64) -> f64 {
        self.start_up.of(bytes) + self.per_byte * bytes
    }

    /// Clamps the message costs to the range that the planner's models accept: negative numbers and NaN become 0, and
    /// numbers that are too large become the largest accepted number.
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

    /// Checks that every number of the message costs is valid.
    ///
    /// # Errors
    /// [`ErrorKind::Farm`] with the number that is neither 0 nor from 1e-60 to 1e60, or if the border is NaN.
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
