//! What every rank does, whichever skeleton runs on it.

pub(crate) mod executor;
