//! A stage of a pipeline that has been written down: its name, where it may run, and what makes it.

use super::erased::ErasedStage;
use crate::error::{BoxError, Result};

/// Makes an instance of a stage on the rank that hosts it.
pub(crate) type Factory<'p> = Box<dyn FnMut() -> Result<Box<dyn ErasedStage + 'p>, BoxError> + Send + 'p>;

/// One stage as the runtime sees it.
pub(crate) struct StageDef<'p> {
    pub(crate) name: String,
    pub(crate) serial: bool,
    pub(crate) at_root: bool,
    /// Whether it makes several items of one.
    pub(crate) expands: bool,
    /// Whether it may have something to give at the end of the stream: whoever wrote it may have said so.
    pub(crate) may_finish: bool,
    pub(crate) factory: Factory<'p>,
}
