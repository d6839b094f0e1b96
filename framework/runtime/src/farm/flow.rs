//! Return types of a farm's sink, which tell the farm to continue or to stop.

use std::ops::ControlFlow;

use crate::error::BoxError;
use crate::failed_task::FailedTask;

/// Return types of a sink: `()`, [`ControlFlow`], or a `Result` with one of them as its value. An error ends the job.
///
/// ```
/// use std::ops::ControlFlow;
/// use armature::farm::Farm;
///
/// let first = armature::run(&armature::Config::new(), |session| {
///     let mut first = None;
///     Farm::new("square", |x: u64| x * x).for_each(session, 0.., |_, square| {
///         if square <= 1_000 {
///             return ControlFlow::Continue(());
///         }
///         first = Some(square);
///         ControlFlow::Break(())
///     })?;
///     Ok(first)
/// })?;
/// assert_eq!(first, Some(1_024));
/// # Ok::<(), armature::Error>(())
/// ```
pub trait Flow {
    /// Returns the decision of the sink: `Continue` if it takes more results, `Break` to end the run.
    ///
    /// # Errors
    /// The error of the sink.
    fn flow(self) -> Result<ControlFlow<()>, BoxError>;
}

impl Flow for () {
    #[inline]
    fn flow(self) -> Result<ControlFlow<()>, BoxError> {
        Ok(ControlFlow::Continue(()))
    }
}

impl Flow for ControlFlow<()> {
    #[inline]
    fn flow(self) -> Result<ControlFlow<()>, BoxError> {
        Ok(self)
    }
}

impl<F: Flow> Flow for Result<F, BoxError> {
    #[inline]
    fn flow(self) -> Result<ControlFlow<()>, BoxError> {
        self.and_then(Flow::flow)
    }
}

pub(crate) type Answer = ControlFlow<Option<BoxError>>;

#[inline]
pub(crate) fn answer(flow: impl Flow) -> Answer {
    match flow.flow() {
        Ok(ControlFlow::Continue(())) => Answer::Continue(()),
        Ok(ControlFlow::Break(())) => Answer::Break(None),
        Err(error) => Answer::Break(Some(error)),
    }
}

/// Passes a result to a sink that takes no failed tasks. A failed task ends the job instead.
#[inline]
pub(crate) fn plain<O, R: Flow>(result: Result<O, FailedTask>, sink: impl FnOnce(O) -> R) -> Answer {
    match result {
        Ok(result) => answer(sink(result)),
        Err(failed) => Answer::Break(Some(failed.into())),
    }
}
