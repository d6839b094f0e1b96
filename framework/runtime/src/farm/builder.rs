//! Construction of a farm: the function of its tasks, and its options.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use armature_planner::farm::Chunking;
use serde::Serialize;

use super::chunk_result::ErasedWorker;
use super::incumbent::Incumbent;
use super::options::Options;
use super::task_runner::WorkerSlot;
use super::worker::{Closure, Worker};
use crate::context::Context;
use crate::error::{BoxError, Result};
use crate::persist::identity::RunIdentity;
use crate::session::Balance;
use crate::wire::{Codec, Item, Movable};

/// A task farm: rank 0, the master, sends tasks to the other ranks on request and collects their results.
///
/// Every rank builds the same farm and calls the same method to run it. See the [module documentation](super) for a complete program.
#[must_use = "a farm does nothing until it is run"]
pub struct Farm<'f, I, O> {
    pub(super) name: String,
    pub(super) slot: WorkerSlot<'f>,
    pub(super) tasks: Codec<I>,
    pub(super) results: Codec<O>,
    pub(super) options: Options,
}

impl<'f, I: Item, O: Item> Farm<'f, I, O> {
    /// Creates a farm that calls a function with each task as its argument.
    pub fn new<F>(name: &str, mut f: F) -> Self
    where
        F: FnMut(I) -> O + Movable + Clone + 'f,
        I: 'f,
        O: 'f,
    {
        Farm::try_new(name, move |task| Ok(f(task)))
    }

    /// Creates a farm with a function that can fail. An error ends the job, unless the task is [tried again](Farm::retries) or
    /// the run [keeps failed tasks](Farm::for_each_result).
    pub fn try_new<F>(name: &str, mut f: F) -> Self
    where
        F: FnMut(I) -> Result<O, BoxError> + Movable + Clone + 'f,
        I: 'f,
        O: 'f,
    {
        Farm::with_context(name, move |task, _| f(task))
    }

    /// Creates a farm with a function that also gets a [`Context`]: the number of the task, the attempt, the rank.
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// let told = armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let mut farm = Farm::with_context("letters", |letter: char, cx| Ok(format!("{} {letter}", cx.number())));
    ///     Ok(farm.collect(session, ['a', 'b'])?.on_root())
    /// })?;
    /// assert_eq!(told.unwrap(), ["0 a", "1 b"]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn with_context<F>(name: &str, f: F) -> Self
    where
        F: FnMut(I, &mut Context) -> Result<O, BoxError> + Movable + Clone + 'f,
        I: 'f,
        O: 'f,
    {
        Farm::worker(name, move || Ok(Closure::new(f.clone())))
    }

    /// Creates a farm with set-up on each rank: before its first task a rank calls `make` once, which opens a model or a database and
    /// returns the function for tasks.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use armature::farm::{Context, Farm};
    ///
    /// let translated = armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let mut farm = Farm::with_setup("translate", || {
    ///         // Here a file would be read. An error ends the job.
    ///         let words = BTreeMap::from([("tea".to_string(), "Tee"), ("milk".to_string(), "Milch")]);
    ///         Ok(move |word: String, _: &mut Context| Ok(words.get(&word).ok_or("no such word")?.to_string()))
    ///     });
    ///     Ok(farm.collect(session, ["milk", "tea"].map(String::from))?.on_root())
    /// })?;
    /// assert_eq!(translated.unwrap(), ["Milch", "Tee"]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    ///
    /// This is a short form of [`worker`](Farm::worker).
    pub fn with_setup<F>(name: &str, mut make: impl FnMut() -> Result<F, BoxError> + Movable + 'f) -> Self
    where
        F: FnMut(I, &mut Context) -> Result<O, BoxError> + Send + 'f,
        I: 'f,
        O: 'f,
    {
        Farm::worker(name, move || Ok(Closure::new(make()?)))
    }

    /// Creates a farm with a [`Worker`] on each rank. A rank calls `make` once, before its first task; a rank without tasks, such as a
    /// [dedicated master](Farm::dedicated_master), does not call it. The worker is kept for all runs of the farm and dropped with the farm.
    ///
    /// An error or panic of `make` ends the job. The [`Summary`](super::Summary) contains the time of `make`, which counts as idle time.
    pub fn worker<W>(name: &str, mut make: impl FnMut() -> Result<W, BoxError> + Movable + 'f) -> Self
    where
        W: Worker<In = I, Out = O> + 'f,
    {
        let factory = move || Ok(Box::new(make()?) as Box<dyn ErasedWorker + 'f>);
        Farm {
            name: name.to_string(),
            slot: WorkerSlot { factory: Box::new(factory), worker: None },
            tasks: Codec::of_type(),
            results: Codec::of_type(),
            options: Options::default(),
        }
    }

    /// Sets how tasks are grouped into chunks. The default is [`Chunking::Auto`].
    ///
    /// ```
    /// use armature::farm::{Chunking, Farm};
    ///
    /// let summary = armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let mut farm = Farm::new("square", |x: u64| x * x).chunking(Chunking::fixed(25));
    ///     Ok(farm.collect(session, 0..100)?.into_summary())
    /// })?.unwrap();
    /// assert_eq!((summary.tasks, summary.chunks), (100, 4));
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn chunking(mut self, chunking: Chunking) -> Self {
        self.options.chunking = chunking;
        self
    }

    /// Passes results to the sink in the order of their arrival. The default is the order of the tasks.
    ///
    /// ```
    /// use std::sync::Mutex;
    ///
    /// use armature::farm::Farm;
    ///
    /// let squares = Mutex::new(Vec::new());
    /// armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let mut farm = Farm::new("square", |x: u64| x * x).unordered();
    ///     farm.for_each(session, 0..5, |_, square| squares.lock().unwrap().push(square))?;
    ///     Ok(())
    /// })?;
    /// let mut squares = squares.into_inner().unwrap();
    /// squares.sort();
    /// assert_eq!(squares, [0, 1, 4, 9, 16]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn unordered(mut self) -> Self {
        self.options.ordered = false;
        self
    }

    /// Sets how many times a failed task is tried again, on another rank if there is one. The default is 0.
    ///
    /// The death of a process in a task counts as a try, if the launcher lets the other ranks continue. A task in which one rank died is not run by
    /// rank 0, and a task in which two ranks died is not run by the last worker; these tasks may therefore fail after fewer tries. If it is not known
    /// in which task of a chunk a rank died, the tasks of the chunk are tried again separately, and the death counts as a try when its task is known.
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// // A task that never succeeds is tried once and three times more.
    /// let summary = armature::run(&armature::Config::new(), |session| {
    ///     let mut farm = Farm::try_new("odd", |x: u64| if x % 2 == 1 { Ok(x) } else { Err("even".into()) }).retries(3);
    ///     Ok(farm.collect_results(session, [1, 2, 3])?.into_summary())
    /// })?.unwrap();
    /// assert_eq!((summary.failed, summary.retried), (1, 3));
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = retries;
        self
    }

    /// Lets rank 0 only dispatch tasks and collect results, if there are other ranks. By default rank 0 runs tasks too.
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// let summary = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let mut farm = Farm::new("square", |x: u64| x * x).dedicated_master();
    ///     Ok(farm.collect(session, 0..100)?.into_summary())
    /// })?.unwrap();
    /// assert_eq!(summary.ranks[0].tasks, 0);
    /// assert_eq!(summary.ranks[1].tasks + summary.ranks[2].tasks, 100);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn dedicated_master(mut self) -> Self {
        self.options.dedicated = true;
        self
    }

    /// Sets the number of ranks that run tasks at first: at least 1, including rank 0 if it runs tasks. The other ranks are parked. By
    /// default no rank is parked.
    ///
    /// The number changes during the run unless [`balance`](Farm::balance) forbids it: workers are parked when they do not pay, and woken
    /// when they do.
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// let summary = armature::run(&armature::Config::new().ranks(4), |session| {
    ///     let mut farm = Farm::new("square", |x: u64| x * x).workers(2).balance(armature::Balance::Off);
    ///     Ok(farm.collect(session, 0..100)?.into_summary())
    /// })?.unwrap();
    /// assert_eq!((summary.started_with, summary.ended_with), (2, 2));
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn workers(mut self, workers: usize) -> Self {
        self.options.workers = Some(workers);
        self
    }

    /// Sets whether the number of workers changes during the run. The default is [`Config::balance`](crate::Config::balance); if that is not
    /// set, the number changes whenever a change pays.
    pub fn balance(mut self, balance: Balance) -> Self {
        self.options.balance = Some(balance);
        self
    }

    /// Sets the maximum number of bytes in tasks that are drawn and results that are not yet taken by the sink. The default is 256 MiB, or
    /// `ARMATURE_WINDOW_BYTES`.
    pub fn window_bytes(mut self, bytes: usize) -> Self {
        self.options.window_bytes = Some(bytes);
        self
    }

    /// Sets the number of sub-masters; 0 for none. By default sub-masters are introduced when a stream has more workers than rank 0 can
    /// supply with chunks.
    ///
    /// A sub-master runs no tasks: it receives chunks for its workers from rank 0, many in one message, and returns their results in the
    /// same way. The option is an error together with a [`task_limit`](Farm::task_limit).
    pub fn sub_masters(mut self, count: usize) -> Self {
        self.options.sub_masters = Some(count);
        self
    }

    /// Sets the number of chunks that a worker holds in addition to the running one. By default the number is as large as needed to keep the worker
    /// busy until the master answers, and 0 while chunks take more than 0.2 s.
    pub fn request_ahead(mut self, chunks: usize) -> Self {
        self.options.ahead = Some(u32::try_from(chunks).unwrap_or(u32::MAX));
        self
    }

    /// Sends the last tasks of a run to idle ranks too, if the ranks that hold these tasks are slow. The first result of a task counts.
    ///
    /// When no task is left to be sent, an idle rank gets a second copy of tasks that it is expected to complete before the rank that holds them:
    /// that rank was slow in its latest tasks, or has already taken longer than expected. Each task has at most two copies. If a task fails in one
    /// copy, the other copy counts.
    ///
    /// A task may run twice, also at the same time. If that has effects besides the result, such as a file with a fixed name, leave the option off.
    /// The run ends with the first results, but a rank that is in a task returns from the run only after this task. [`explore`](Farm::explore) sends
    /// no second copies.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use armature::farm::{Chunking, Farm};
    ///
    /// let summary = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let mut farm = Farm::with_context("slow", |n: u64, cx| {
    ///         // Rank 1 is slow, but alive.
    ///         std::thread::sleep(Duration::from_millis(if cx.rank() == 1 { 400 } else { 5 }));
    ///         Ok(n)
    ///     });
    ///     farm = farm.chunking(Chunking::fixed(1)).second_copies();
    ///     Ok(farm.collect(session, 0..40)?.into_summary())
    /// })?.unwrap();
    /// assert_eq!(summary.tasks, 40);
    /// assert!(summary.copies > 0);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn second_copies(mut self) -> Self {
        self.options.second_copies = true;
        self
    }

    /// Sets the maximum time of a task. A task that exceeds it counts as failed, and is [tried again](Farm::retries) on another rank if the
    /// farm has retries; its rank gets no more tasks. By default the time is not limited.
    ///
    /// The rank cannot stop the task. It therefore stays in the task until the end of the job, does not return from the run of the farm, and
    /// leaves with the other ranks. With a limit rank 0 runs no tasks, because no rank could replace it.
    ///
    /// The job must have at least two ranks, which must be processes, because a thread cannot be ended. Otherwise the run returns an error.
    pub fn task_limit(mut self, limit: Duration) -> Self {
        self.options.task_limit = Some(limit);
        self
    }

    /// Keeps every result in a file on the host of rank 0. A job that is started again with the same file reads these results and runs only
    /// the missing tasks; failed tasks are run again.
    ///
    /// `identity` names everything on which the results depend, except the numbers of the tasks: parameters, seeds, the input or its
    /// checksum. A file with another identity, or of a farm with another name, is refused. All tasks are drawn from the source again,
    /// including those that are not run again.
    ///
    /// [`iterate`](Farm::iterate) repeats its iterations; those with all results in the file compute nothing. The tasks that `next` makes
    /// must be a function of the results: other tasks than before are refused. For the same reason tasks that failed in
    /// [`iterate_results`](Farm::iterate_results) stay failed.
    ///
    /// Within a job a file belongs to one run: a second run with the same file returns an error.
    ///
    /// ```
    /// use armature::farm::Farm;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("squares.journal");
    ///
    /// for known in [0, 100] {
    ///     let summary = armature::run(&armature::Config::new(), |session| {
    ///         let mut farm = Farm::new("square", |x: u64| x * x).journal(&path, "0..100");
    ///         Ok(farm.collect(session, 0..100)?.into_summary())
    ///     })?;
    ///     assert_eq!(summary.unwrap().known, known);
    /// }
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn journal(mut self, path: impl Into<PathBuf>, identity: &(impl Serialize + ?Sized)) -> Self {
        self.options.journal = Some((path.into(), RunIdentity::of(identity)));
        self
    }

    /// Attaches the best value of a branch-and-bound search, which ranks exchange while the farm runs. A farm has at most one
    /// [`Incumbent`]. All ranks must attach one of the same type and direction.
    pub fn incumbent<T: Item + PartialOrd + Clone>(mut self, best: &Incumbent<T>) -> Self {
        self.options.incumbent = Some(best.shared.clone());
        self
    }

    /// Sets the silence after which the tasks of a worker are sent to other workers. The default is 10 s, or
    /// [`Config::peer_limit`](crate::Config::peer_limit) if that is shorter.
    ///
    /// A long task does not delay heartbeats, because tasks run on a separate thread. Only chunks of less than 5 ms on average run between
    /// messages, on the communicating thread. A rank that falls silent during such chunks is either dead, or has a task that is much longer
    /// than earlier ones. The rank takes part again as soon as it sends a message; it counts as dead after
    /// [`Config::peer_limit`](crate::Config::peer_limit), or when the farm has ended without it. Other ranks run its tasks, on a compute
    /// thread. With [`Driver::Inline`](crate::Driver::Inline) a long task cannot be distinguished from a death, and only
    /// [`Config::peer_limit`](crate::Config::peer_limit) applies.
    ///
    /// A rank that has not reached the farm runs the code of the program, in which no other rank can replace it: if the rank dies there, or
    /// takes longer than [`Config::join_limit`](crate::Config::join_limit), the job fails.
    pub fn silence_limit(mut self, limit: Duration) -> Self {
        self.options.silence = Some(limit);
        self
    }
}

impl<I: Item + bytemuck::Pod, O> Farm<'_, I, O> {
    /// Sends tasks as the bytes of their memory, without serialisation.
    ///
    /// Numbers and vectors of numbers are always sent in this way. The option is for plain structs and arrays, on ranks with the same byte order.
    /// serde is not used, although the type must implement its traits like every [`Item`].
    pub fn plain_tasks(mut self) -> Self {
        self.tasks = Codec::plain();
        self
    }
}

impl<I, O: Item + bytemuck::Pod> Farm<'_, I, O> {
    /// Sends results as the bytes of their memory, without serialisation; see [`plain_tasks`](Farm::plain_tasks).
    pub fn plain_results(mut self) -> Self {
        self.results = Codec::plain();
        self
    }
}

impl<I: Item + bytemuck::Pod, O: Item + bytemuck::Pod> Farm<'_, I, O> {
    /// Sends tasks and results as the bytes of their memory, without serialisation; see [`plain_tasks`](Farm::plain_tasks).
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// let lengths = armature::run(&armature::Config::new(), |session| {
    ///     let mut farm = Farm::new("length", |[x, y]: [f64; 2]| [x.hypot(y)]).plain();
    ///     Ok(farm.collect(session, [[3.0, 4.0], [5.0, 12.0]])?.on_root())
    /// })?;
    /// assert_eq!(lengths.unwrap(), [[5.0], [13.0]]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn plain(self) -> Self {
        self.plain_tasks().plain_results()
    }
}

impl<I, O> fmt::Debug for Farm<'_, I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Farm")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
