//! What survives a crash.

pub mod journal;
