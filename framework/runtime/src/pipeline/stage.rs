//! What a user writes: a stage, as a trait impl or a closure.

use std::fmt;

use crate::context::Context;
use crate::error::BoxError;
use crate::wire::Item;

/// What a stage gives back for one item: `Ok(Some(output))`, `Ok(None)` to drop the item, or an error, which
/// ends the job.
pub type StageResult<T> = Result<Option<T>, BoxError>;

/// One step of a pipeline: maps an item to an item, or drops it.
///
/// A stage is made by its factory on every rank that hosts it, so it may hold what is dear to set up (an index,
/// a model, buffers). What it remembers between items makes it *stateful*: such a stage must be declared
/// [`serial`](super::Pipeline::serial), so that one rank runs it and sees the items in order. All other stages
/// may be replicated, and must give the same output for the same item wherever they run.
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
    /// What comes in.
    type In: Item;
    /// What goes out.
    type Out: Item;

    /// Processes one item.
    ///
    /// # Errors
    /// Whatever is returned ends the job on every rank, with this rank, the stage and the item's number in the
    /// message. A panic does the same.
    fn process(&mut self, item: Self::In, cx: &mut Context) -> StageResult<Self::Out>;

    /// The state of a serial stage as bytes, if the stage can go on elsewhere from them.
    ///
    /// `None`, the default, says that it cannot: the framework then leaves a serial stage on the rank where it
    /// has begun. A stage without state returns `Some(Vec::new())`.
    fn save(&self) -> Option<Vec<u8>> {
        None
    }

    /// Takes over the state that another rank's instance has [saved](Stage::save).
    ///
    /// # Errors
    /// An error ends the job. The default refuses any state but the empty one.
    fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
        if state.is_empty() {
            return Ok(());
        }
        Err(format!("the stage was handed {} bytes of state but has no `restore`", state.len()).into())
    }
}

/// A closure as a stage; made by [`map`](super::Pipeline::map), [`try_map`](super::Pipeline::try_map) and
/// [`filter_map`](super::Pipeline::filter_map).
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
