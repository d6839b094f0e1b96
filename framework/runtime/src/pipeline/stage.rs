//! Stages of a pipeline, which users write as implementations of a trait or as closures.

use std::fmt;

use crate::context::Context;
use crate::error::BoxError;
use crate::wire::Item;

/// Result of a stage for one item: `Ok(Some(output))`, `Ok(None)` to drop the item, or an error, which ends the job.
pub type StageResult<T> = Result<Option<T>, BoxError>;

/// Stage of a pipeline: maps an item to an item, or drops it.
///
/// A factory creates the stage on every rank that hosts it, so a stage may hold data that is expensive to set up (an index, a model, buffers). A
/// stage with state between items is *stateful* and must be declared [`serial`](super::Pipeline::serial), so that it runs on one rank and gets the
/// items in order. All other stages may be replicated, and must return the same output for the same item on every rank.
///
/// ```
/// use armature::pipeline::{Context, Stage, StageResult};
///
/// /// Counts the items that pass.
/// #[derive(Default)]
/// struct Number(u64);
///
/// impl Stage for Number {
///     type In = String;
///     type Out = (u64, String);
///
///     fn process(&mut self, line: String, _: &mut Context) -> StageResult<(u64, String)> {
///         self.0 += 1;
///         Ok(Some((self.0, line)))
///     }
/// }
///
/// let mut stage = Number::default();
/// let out = stage.process("first".into(), &mut Context::for_test()).unwrap();
/// assert_eq!(out, Some((1, "first".into())));
/// ```
pub trait Stage: Send {
    /// Type of the input items.
    type In: Item;
    /// Type of the output items.
    type Out: Item;

    /// Processes one item.
    ///
    /// # Errors
    /// An error ends the job on every rank. Its message names the rank, the stage and the number of the item. A panic has the same effect.
    fn process(&mut self, item: Self::In, cx: &mut Context) -> StageResult<Self::Out>;

    /// Returns the last item of the stage at the end of the stream, behind all other items: the last record, the rest of a buffer, a sum.
    ///
    /// Only serial stages may return an item here. Each replica of another stage has processed only some of the items, so an item that it returns is
    /// an error, which ends the job. Later stages process the item like any other item and finish after that. A stage that has migrated to another
    /// rank finishes there, once.
    ///
    /// ```
    /// use armature::pipeline::{Context, Pipeline, Stage, StageResult};
    ///
    /// /// Adds items up in pairs.
    /// #[derive(Default)]
    /// struct Pairs(Option<u64>);
    ///
    /// impl Stage for Pairs {
    ///     type In = u64;
    ///     type Out = u64;
    ///
    ///     fn process(&mut self, item: u64, _: &mut Context) -> StageResult<u64> {
    ///         match self.0.take() {
    ///             Some(first) => Ok(Some(first + item)),
    ///             None => {
    ///                 self.0 = Some(item);
    ///                 Ok(None)
    ///             }
    ///         }
    ///     }
    ///
    ///     fn finish(&mut self, _: &mut Context) -> StageResult<u64> {
    ///         Ok(self.0.take())
    ///     }
    /// }
    ///
    /// let sums = armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let numbers = Pipeline::source("numbers", || 1..6u64);
    ///     Ok(numbers.stage("pairs", || Ok(Pairs::default())).serial().collect(session)?.on_root())
    /// })?;
    /// assert_eq!(sums.unwrap(), [3, 7, 5]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`process`](Stage::process).
    fn finish(&mut self, _: &mut Context) -> StageResult<Self::Out> {
        Ok(None)
    }

    /// Returns the state of a serial stage as bytes, if the stage can continue from this state on another rank.
    ///
    /// With `None`, the default, the stage stays on the rank where it started. A stage without state returns `Some(Vec::new())`.
    fn save(&self) -> Option<Vec<u8>> {
        None
    }

    /// Restores the state that an instance of the stage on another rank, or in an earlier start of the job, has [saved](Stage::save).
    ///
    /// # Errors
    /// An error ends the job. The default implementation refuses every state that is not empty.
    fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
        if state.is_empty() {
            return Ok(());
        }
        Err(format!("the stage received {} bytes of state but has no `restore`", state.len()).into())
    }
}

/// Stage with a closure. Created by [`try_map`](super::Pipeline::try_map), [`filter_map`](super::Pipeline::filter_map) and
/// [`filter`](super::Pipeline::filter).
pub(crate) struct Closure<F, I, O> {
    call: F,
    types: std::marker::PhantomData<fn(I) -> O>,
}

impl<F, I, O> Closure<F, I, O> {
    pub(crate) fn new(call: F) -> Self {
        Closure { call, types: std::marker::PhantomData }
    }
}

impl<F, I, O> Stage for Closure<F, I, O>
where
    F: FnMut(I) -> StageResult<O> + Send,
    I: Item,
    O: Item,
{
    type In = I;
    type Out = O;

    #[inline]
    fn process(&mut self, item: I, _: &mut Context) -> StageResult<O> {
        (self.call)(item)
    }
}

impl<F, I, O> fmt::Debug for Closure<F, I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closure")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::pipeline::Pipeline;
    use crate::session::{Config, run};

    struct Zero(bool);

    impl Stage for Zero {
        type In = u8;
        type Out = u8;

        fn process(&mut self, item: u8, _: &mut Context) -> StageResult<u8> {
            Ok(Some(item))
        }

        fn finish(&mut self, cx: &mut Context) -> StageResult<u8> {
            if self.0 { Err(format!("nothing behind {} items", cx.number()).into()) } else { Ok(Some(0)) }
        }
    }

    #[test]
    fn only_serial_stages_may_emit_final_items() {
        for ranks in [1, 3] {
            let error = run(&Config::new().ranks(ranks), |session| {
                let numbers = Pipeline::source("numbers", || 1..5u8).stage("zero", || Ok(Zero(false)));
                Ok(numbers.collect(session)?)
            });
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains("stage zero: returns an item at the end"), "{error}");
        }
    }

    #[test]
    fn error_in_finish_names_the_stage() {
        let error = run(&Config::new().ranks(2), |session| {
            let numbers = Pipeline::source("numbers", || 1..5u8).stage("zero", || Ok(Zero(true))).serial();
            Ok(numbers.collect(session)?)
        });
        let error = error.unwrap_err().to_string();
        assert!(error.contains("stage zero: ") && error.contains("nothing behind 4 items"), "{error}");
    }
}
