//! User code of a farm: a worker, as a trait impl or a closure.

use std::fmt;

use crate::context::Context;
use crate::error::BoxError;
use crate::wire::Item;

/// State that a rank sets up once and uses for all of its tasks.
///
/// The result of a task may depend on the task only: the rank, the order and the number of attempts are not known in advance. The tasks of
/// a lost rank run on other ranks, and a failed task may be [tried again](super::Farm::retries) on another rank.
///
/// ```
/// use armature::BoxError;
/// use armature::farm::{Context, Farm, Worker};
///
/// /// Counts the occurrences of a word in lines of text.
/// struct Count {
///     word: String,
/// }
///
/// impl Worker for Count {
///     type In = String;
///     type Out = usize;
///
///     fn work(&mut self, line: String, _: &mut Context) -> Result<usize, BoxError> {
///         Ok(line.matches(&self.word).count())
///     }
/// }
///
/// let counts = armature::run(&armature::Config::new(), |session| {
///     let lines = ["a rose is a rose", "is a rose", ""].map(String::from);
///     let mut farm = Farm::worker("count", || Ok(Count { word: "rose".into() }));
///     Ok(farm.collect(session, lines)?.on_root())
/// })?;
/// assert_eq!(counts.unwrap(), [2, 1, 0]);
/// # Ok::<(), armature::Error>(())
/// ```
pub trait Worker: Send {
    /// Type of the tasks.
    type In: Item;
    /// Type of the results.
    type Out: Item;

    /// Runs one task.
    ///
    /// # Errors
    /// An error or a panic is one failed attempt: the task is tried again up to [`retries`](super::Farm::retries) times. Then it ends the
    /// job, or becomes a [`FailedTask`](super::FailedTask) if the run [keeps failed tasks](super::Farm::for_each_result).
    fn work(&mut self, task: Self::In, cx: &mut Context) -> Result<Self::Out, BoxError>;
}

/// Adapts a closure to [`Worker`].
pub(crate) struct Closure<F, I, O> {
    call: F,
    types: std::marker::PhantomData<fn(I) -> O>,
}

impl<F, I, O> Closure<F, I, O> {
    pub(crate) fn new(call: F) -> Self {
        Closure { call, types: std::marker::PhantomData }
    }
}

impl<F, I, O> Worker for Closure<F, I, O>
where
    F: FnMut(I, &mut Context) -> Result<O, BoxError> + Send,
    I: Item,
    O: Item,
{
    type In = I;
    type Out = O;

    #[inline]
    fn work(&mut self, task: I, cx: &mut Context) -> Result<O, BoxError> {
        (self.call)(task, cx)
    }
}

impl<F, I, O> fmt::Debug for Closure<F, I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closure")
    }
}
