//! What a rank says of itself, as a sign of life.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Whether a rank has something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Occupation {
    /// It waits for others.
    Waits,
    /// It computes something.
    Computes,
    /// Nobody wants anything of it, as long as that is so.
    Rests,
}

/// What a rank says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sign {
    pub(crate) occupation: Occupation,
    /// User code runs on the thread that communicates, although the user has not asked for that: the rank says nothing while a call
    /// of it lasts, which may be longer than those before.
    pub(crate) is_interleaved: bool,
    /// For how long it has begun nothing and ended nothing, which the driver adds.
    pub(crate) steady: Duration,
    /// What it does and what it waits for, in words that follow "rank 3: ".
    pub(crate) state: String,
    /// What its protocol adds, in an encoding of its own.
    pub(crate) details: Vec<u8>,
}

impl Sign {
    /// A sign to which the protocol adds nothing.
    pub(crate) fn new(is_computing: bool, state: impl Into<String>) -> Self {
        let occupation = if is_computing { Occupation::Computes } else { Occupation::Waits };
        let (steady, details) = (Duration::ZERO, Vec::new());
        Sign { occupation, is_interleaved: false, steady, state: state.into(), details }
    }

    /// The same, of a rank that `computes` although its protocol does not say so.
    pub(crate) fn or_computes(self, computes: bool) -> Self {
        Sign { occupation: if computes { Occupation::Computes } else { self.occupation }, ..self }
    }

    /// The same, of a rank of which nothing is wanted if it `rests`.
    pub(crate) fn or_rests(self, rests: bool) -> Self {
        let rests = rests && !self.is_computing();
        Sign { occupation: if rests { Occupation::Rests } else { self.occupation }, ..self }
    }

    pub(crate) fn is_computing(&self) -> bool {
        self.occupation == Occupation::Computes
    }
}
