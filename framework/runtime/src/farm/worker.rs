//! What a user writes: a worker, as a trait impl or a closure.

use std::fmt;

use crate::error::BoxError;
use crate::wire::Item;

/// What one rank sets up once and then uses for every task that it is given.
///
/// The result of a task must depend on the task alone: which rank gets it, in which order and how often is not
/// known. A task that fails, or whose rank is lost, is tried again elsewhere.
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
///     Ok(farm.collect(session, lines)?.map(|(counts, _)| counts))
/// })?;
/// assert_eq!(counts.unwrap(), [2, 1, 0]);
/// # Ok::<(), armature::Error>(())
/// ```
pub trait Worker: Send {
    /// A task.
    type In: Item;
    /// Its result.
    type Out: Item;

    /// Does one task.
    ///
    /// # Errors
    /// An error, like a panic, is one failed attempt: the task is tried again as often as
    /// [`retries`](super::Farm::retries) says, then it comes back as a [`FailedTask`](super::FailedTask).
    fn work(&mut self, task: Self::In, cx: &mut Context) -> Result<Self::Out, BoxError>;
}

/// What a worker may ask while it does a task.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) rank: usize,
    pub(crate) task: u64,
    pub(crate) attempt: u32,
}

impl Context {
    /// A context for calling a worker by hand, as the first attempt at task 0 on rank 0.
    pub fn for_test() -> Self {
        Context { rank: 0, task: 0, attempt: 0 }
    }

    /// The rank that does the task. Results must not depend on it.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The task's number in the order in which tasks were drawn, from 0; in iterations, in the present one.
    pub fn task(&self) -> u64 {
        self.task
    }

    /// How often the task has failed before; a process that died in it counts.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Does `work` and accounts for its cost, as [`crate::declare`] does.
    pub fn declare<R>(&self, flops: f64, work: impl FnOnce() -> R) -> R {
        crate::declare(flops, work)
    }
}

/// A closure as a worker.
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
    F: FnMut(I) -> Result<O, BoxError> + Send,
    I: Item,
    O: Item,
{
    type In = I;
    type Out = O;

    #[inline]
    fn work(&mut self, task: I, _: &mut Context) -> Result<O, BoxError> {
        (self.call)(task)
    }
}

impl<F, I, O> fmt::Debug for Closure<F, I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closure")
    }
}
