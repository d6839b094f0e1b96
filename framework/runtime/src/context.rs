//! Information about the current call for user code.

use std::sync::Arc;

use crate::comm::clock::Clock;

/// Information about the current call of user code, for an item of a pipeline or a task of a farm or a workflow.
///
/// Results may depend on the [number](Context::number) and on nothing else in the context: everything else changes from run to run.
///
/// ```
/// use armature::BoxError;
/// use armature::farm::{Context, Farm, Worker};
///
/// struct Told;
///
/// impl Worker for Told {
///     type In = char;
///     type Out = String;
///
///     fn work(&mut self, task: char, cx: &mut Context) -> Result<String, BoxError> {
///         assert!(cx.rank() < cx.ranks() && cx.attempt() == 0);
///         Ok(format!("{} {}: {task}", cx.name(), cx.number()))
///     }
/// }
///
/// let told = armature::run(&armature::Config::new().ranks(2), |session| {
///     Ok(Farm::worker("letter", || Ok(Told)).collect(session, ['a', 'b'])?.map(|(told, _)| told))
/// })?;
/// assert_eq!(told.unwrap(), ["letter 0: a", "letter 1: b"]);
/// # Ok::<(), armature::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) name: Arc<str>,
    pub(crate) number: u64,
    pub(crate) attempt: u32,
    /// Number of failed attempts, deaths of ranks included.
    pub(crate) is_suspect: bool,
    /// Clock of the rank, if it is not wall time.
    pub(crate) clock: Clock,
}

impl Context {
    pub(crate) fn new((rank, ranks): (usize, usize), name: &str) -> Self {
        Context {
            rank,
            ranks,
            name: name.into(),
            number: 0,
            attempt: 0,
            is_suspect: false,
            clock: Clock::wall(),
        }
    }

    /// Returns a context for tests that call user code directly: the first attempt at number 0 of `test`, on the only rank.
    pub fn for_test() -> Self {
        Context::new((0, 1), "test")
    }

    /// Returns the rank that runs the call.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Returns the name of the stage, of the farm, or of the task of a workflow.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the item or task, from 0. In a pipeline it is the position in the source; items that a stage makes of one item
    /// share its number. In a farm it is the position in the source, or in the current iteration; in a workflow the position in its
    /// description.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of earlier failed attempts, including those that ended with the death of a process. Always 0 in pipelines, which
    /// do not retry.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Calls `work` and accounts for its declared cost, as [`crate::declare`] does.
    pub fn declare<R>(&self, flops: f64, work: impl FnOnce() -> R) -> R {
        crate::declare(flops, work)
    }
}
