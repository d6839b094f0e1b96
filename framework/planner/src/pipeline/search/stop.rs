//! Flag with which another thread ends a search early.

use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Copy, Debug)]
pub(in crate::pipeline) struct Stop<'a>(Option<&'a AtomicBool>);

impl<'a> Stop<'a> {
    pub(in crate::pipeline) fn new(flag: Option<&'a AtomicBool>) -> Self {
        Stop(flag)
    }

    #[cfg(test)]
    pub(in crate::pipeline) fn never() -> Self {
        Stop(None)
    }

    pub(in crate::pipeline) fn is_set(&self) -> bool {
        self.0.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}
