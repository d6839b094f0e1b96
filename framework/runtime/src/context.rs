//! Information that user code receives about its current call.

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
///     Ok(Farm::worker("letter", || Ok(Told)).collect(session, ['a', 'b'])?.on_root())
/// })?;
/// assert_eq!(told.unwrap(), ["letter 0: a", "letter 1: b"]);
/// # Ok::<(), armature::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) place: RankPlace,
    pub(crate) name: Arc<str>,
    pub(crate) number: u64,
    pub(crate) attempt: u32,
    pub(crate) is_suspect: bool,
    pub(crate) clock: Clock,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RankPlace {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    /// Number of threads that the rank may run at once without taking cores from other ranks.
    pub(crate) threads: usize,
}

impl RankPlace {
    pub(crate) const ALONE: RankPlace = RankPlace { rank: 0, ranks: 1, threads: 1 };
}

impl Context {
    pub(crate) fn new(place: RankPlace, name: &str) -> Self {
        Context { place, name: name.into(), number: 0, attempt: 0, is_suspect: false, clock: Clock::wall() }
    }

    /// Returns a context for tests that call user code directly. It describes the first attempt at item or task 0, on the only rank; the name is
    /// `test`.
    pub fn for_test() -> Self {
        Context::new(RankPlace::ALONE, "test")
    }

    /// Returns the rank that runs the current call.
    pub fn rank(&self) -> usize {
        self.place.rank
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.place.ranks
    }

    /// Returns the number of threads that user code may run at once on this rank without taking cores from other ranks, at least 1.
    ///
    /// The number is this rank's share of the cores that it may use; see [`Session::threads`](crate::Session::threads). A task that uses threads,
    /// rayon or OpenMP starts at most this number of threads.
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// let sums = armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let mut farm = Farm::with_context("sum", |numbers: Vec<u64>, cx| {
    ///         let part = numbers.len().div_ceil(cx.threads()).max(1);
    ///         Ok(std::thread::scope(|scope| {
    ///             let parts = numbers.chunks(part).map(|part| scope.spawn(|| part.iter().sum::<u64>()));
    ///             let parts: Vec<_> = parts.collect();
    ///             parts.into_iter().map(|part| part.join().unwrap()).sum::<u64>()
    ///         }))
    ///     });
    ///     Ok(farm.collect(session, [vec![1; 1000], vec![2; 1000]])?.on_root())
    /// })?;
    /// assert_eq!(sums.unwrap(), [1000, 2000]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn threads(&self) -> usize {
        self.place.threads
    }

    /// Returns the name of the stage, of the farm, or of the task of a workflow.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the item or task, from 0. In a pipeline it is the item's position in the pipeline's source; items that a stage produces
    /// from one item share the number of that item. In a farm it is the position in the source, or in the current iteration; in a workflow the
    /// position in its description.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of earlier failed attempts, including those that ended with the death of a process. Always 0 in pipelines, which
    /// do not retry.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns a seed for a random number generator. It depends on the [name](Context::name) and the [number](Context::number) only, so that
    /// results are the same on every number of ranks and at every attempt.
    ///
    /// Each iteration of a farm starts with the same numbers: make the name of the farm, or the tasks, depend on the iteration. In a
    /// [search](crate::farm::Farm::explore) the numbers follow the order in which tasks were created, which changes from run to run: store a seed in
    /// each task.
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// let points_in_circle = |ranks| {
    ///     armature::run(&armature::Config::new().ranks(ranks), |session| {
    ///         let mut farm = Farm::with_context("circle", |points: u32, cx| {
    ///             // xorshift64; any generator will do.
    ///             let mut state = cx.seed() | 1;
    ///             let mut draw = || {
    ///                 state ^= state << 13;
    ///                 state ^= state >> 7;
    ///                 state ^= state << 17;
    ///                 (state >> 11) as f64 / (1u64 << 53) as f64
    ///             };
    ///             Ok((0..points).filter(|_| draw().hypot(draw()) < 1.0).count())
    ///         });
    ///         Ok(farm.collect(session, [10_000; 10])?.on_root().map(|counts| counts.iter().sum::<usize>()))
    ///     })
    /// };
    /// let inside = points_in_circle(1)?.unwrap();
    /// assert_eq!(points_in_circle(3)?, Some(inside));
    /// assert!((4.0 * inside as f64 / 1e5 - std::f64::consts::PI).abs() < 0.05);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn seed(&self) -> u64 {
        // The seed is computed by FNV-1a over the name, then the finaliser of SplitMix64, so that the seeds of neighbouring item numbers
        // differ in half of their bits.
        let name = self.name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mixed = name.wrapping_add(self.number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Calls `work` and accounts for its cost of `flops` floating-point operations in simulated time, as [`crate::declare`] does.
    pub fn declare<R>(&self, flops: f64, work: impl FnOnce() -> R) -> R {
        crate::declare(flops, work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_depends_only_on_name_and_number() {
        let of = |name, rank, number, attempt| {
            let place = RankPlace { rank, ranks: 4, threads: 1 };
            let context = Context { number, attempt, ..Context::new(place, name) };
            context.seed()
        };
        assert_eq!(of("farm", 0, 7, 0), of("farm", 3, 7, 2));
        // Seeds must not change, so that results of earlier versions of a program can be repeated.
        let expected = [0xfe8e_41ae_ed63_9e6f, 0x01a6_213c_5824_3203];
        assert_eq!([of("farm", 0, 0, 0), of("farm", 0, 1, 0)], expected);
        let seeds =
            ["farm", "farn", ""].into_iter().flat_map(|name| (0..10_000).map(move |n| of(name, 0, n, 0)));
        let seeds: std::collections::BTreeSet<u64> = seeds.collect();
        assert_eq!(seeds.len(), 30_000);
        let ones: u32 = seeds.iter().map(|seed| seed.count_ones()).sum();
        assert!((ones as f64 / 30_000.0 - 32.0).abs() < 0.2, "{ones}");
    }
}
