//! What user code may ask while it works.

use std::sync::Arc;

use crate::comm::clock::Clock;

/// What user code may ask while it processes an item of a pipeline or does a task of a farm or a workflow: where it runs, and what for.
///
/// Results must depend on none of it but the [number](Context::number).
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
    /// Ranks may have died in it.
    pub(crate) is_suspect: bool,
    /// That of the rank, where it runs by another than wall time.
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

    /// A context for calling user code by hand: the first attempt at number 0 of `test`, on the only rank.
    pub fn for_test() -> Self {
        Context::new((0, 1), "test")
    }

    /// The rank on which this runs.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks the job has.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// The name of the stage, of the farm, or of the workflow's task.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The item's or task's number in the order of the source, from 0; behind a stage of a pipeline that makes several items of one,
    /// that of the one; in a farm's iterations, in the present one; in a workflow, in the order of its description.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How often this has failed before; a process that died in it counts. Always 0 in pipelines, which try nothing again.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Does `work` and accounts for its cost, as [`crate::declare`] does.
    pub fn declare<R>(&self, flops: f64, work: impl FnOnce() -> R) -> R {
        crate::declare(flops, work)
    }
}
