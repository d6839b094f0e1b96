//! Definition of a pipeline's stage: its name, the ranks that may run it, and its factory.

use super::erased::ErasedStage;
use crate::error::{BoxError, Result};

pub(crate) type Factory<'p> = Box<dyn FnMut() -> Result<Box<dyn ErasedStage + 'p>, BoxError> + Send + 'p>;

pub(crate) struct StageDef<'p> {
    pub(crate) name: String,
    pub(crate) serial: bool,
    pub(crate) at_root: bool,
    /// True if the stage is declared to have no state between items, so that it can continue on another rank.
    pub(crate) stateless: bool,
    pub(crate) expands: bool,
    /// True if the stage may emit an additional item at the end of the stream, because it is a user's implementation of
    /// [`Stage`](super::stage::Stage).
    pub(crate) may_finish: bool,
    pub(crate) factory: Factory<'p>,
}
