//! How a farm is written down: what is done with a task, and how the tasks are handed out.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use armature_planner::farm::Chunking;

use super::chunk_result::ErasedWorker;
use super::options::Options;
use super::task_runner::{Codecs, WorkerSlot};
use super::worker::{Closure, Worker};
use crate::context::Context;
use crate::error::{BoxError, Result};
use crate::session::Balance;
use crate::wire::{Codec, Item, Movable};

/// Tasks are handed out by rank 0, the master, to whichever rank asks, and their results collected there.
///
/// Every rank builds the same farm and calls the same method to run it. See the [module's page](super) for a complete
/// program.
#[must_use = "a farm does nothing until it is run"]
pub struct Farm<'f, I, O> {
    pub(super) name: String,
    pub(super) slot: WorkerSlot<'f, I, O>,
    pub(super) codecs: Codecs<I, O>,
    pub(super) options: Options,
}

impl<'f, I: Item, O: Item> Farm<'f, I, O> {
    /// A farm whose tasks are arguments of a function.
    pub fn new<F>(name: &str, mut f: F) -> Self
    where
        F: FnMut(I) -> O + Movable + Clone + 'f,
        I: 'f,
        O: 'f,
    {
        Farm::try_new(name, move |task| Ok(f(task)))
    }

    /// The same for a function that can fail; see [`retries`](Farm::retries) for what becomes of its errors.
    pub fn try_new<F>(name: &str, mut f: F) -> Self
    where
        F: FnMut(I) -> Result<O, BoxError> + Movable + Clone + 'f,
        I: 'f,
        O: 'f,
    {
        Farm::with_context(name, move |task, _| f(task))
    }

    /// The same for a function that is also told where it runs, and what for: the task's number, the attempt, the rank.
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// let told = armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let mut farm = Farm::with_context("letters", |letter: char, cx| Ok(format!("{} {letter}", cx.number())));
    ///     Ok(farm.collect(session, ['a', 'b'])?.map(|(told, _)| told))
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

    /// A farm whose ranks each set something up, once, before their first task: `make` opens a model or a database, and returns the
    /// function that does tasks with it.
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
    ///     Ok(farm.collect(session, ["milk", "tea"].map(String::from))?.map(|(words, _)| words))
    /// })?;
    /// assert_eq!(translated.unwrap(), ["Milch", "Tee"]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    ///
    /// It is as with [`worker`](Farm::worker), of which this is a short form.
    pub fn with_setup<F>(name: &str, mut make: impl FnMut() -> Result<F, BoxError> + Movable + 'f) -> Self
    where
        F: FnMut(I, &mut Context) -> Result<O, BoxError> + Send + 'f,
        I: 'f,
        O: 'f,
    {
        Farm::worker(name, move || Ok(Closure::new(make()?)))
    }

    /// A farm whose ranks each make a [`Worker`], once, before their first task: also one that is parked at first and woken later. A rank that
    /// does no tasks, such as a [dedicated master](Farm::dedicated_master), makes none. It stays for all runs of the farm, and is dropped with it.
    ///
    /// An error or panic of `make` ends the job. The [`Summary`](super::Summary) has the time that it takes, which counts as idle.
    pub fn worker<W>(name: &str, mut make: impl FnMut() -> Result<W, BoxError> + Movable + 'f) -> Self
    where
        W: Worker<In = I, Out = O> + 'f,
    {
        let factory = move || Ok(Box::new(make()?) as Box<dyn ErasedWorker<I, O> + 'f>);
        Farm {
            name: name.to_string(),
            slot: WorkerSlot { factory: Box::new(factory), worker: None },
            codecs: Codecs { tasks: Codec::of_type(), results: Codec::of_type() },
            options: Options::default(),
        }
    }

    /// How tasks are put together to chunks; [`Chunking::Auto`] unless it is set.
    ///
    /// ```
    /// use armature::farm::{Chunking, Farm};
    ///
    /// let summary = armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let mut farm = Farm::new("square", |x: u64| x * x).chunking(Chunking::Fixed(25));
    ///     Ok(farm.collect(session, 0..100)?.map(|(_, summary)| summary))
    /// })?.unwrap();
    /// assert_eq!((summary.tasks, summary.chunks), (100, 4));
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn chunking(mut self, chunking: Chunking) -> Self {
        self.options.chunking = chunking;
        self
    }

    /// Hands results to the sink as they come. Without it they come in the order of the tasks.
    ///
    /// ```
    /// use std::sync::Mutex;
    ///
    /// use armature::farm::Farm;
    ///
    /// let squares = Mutex::new(Vec::new());
    /// armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let mut farm = Farm::new("square", |x: u64| x * x).unordered();
    ///     farm.for_each(session, 0..5, |_, square| squares.lock().unwrap().extend(square))?;
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

    /// How often a task that failed is tried again, on another rank where there is one; 1 unless it is set.
    ///
    /// The death of a process in a task counts as a failure of it, where the launcher lets the others go on. Rank 0 tries no
    /// task that others have died of, and the last worker none that two have: such a task may have failed after fewer
    /// attempts. Where it is not known which task of several it was, each is tried alone first.
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// // A task that never succeeds is tried once and three times more.
    /// let summary = armature::run(&armature::Config::new(), |session| {
    ///     let mut farm = Farm::try_new("odd", |x: u64| if x % 2 == 1 { Ok(x) } else { Err("even".into()) }).retries(3);
    ///     Ok(farm.for_each(session, [1, 2, 3], |_, _| ())?)
    /// })?.unwrap();
    /// assert_eq!((summary.failed, summary.retried), (1, 3));
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = retries;
        self
    }

    /// Ends the job when a task has failed at every attempt. Without it the sink gets it as a
    /// [`FailedTask`](super::FailedTask).
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// let error = armature::run(&armature::Config::new(), |session| {
    ///     let mut farm = Farm::try_new("odd", |x: u64| if x % 2 == 1 { Ok(x) } else { Err("even".into()) }).fail_fast();
    ///     Ok(farm.for_each(session, [1, 2, 3], |_, _| ())?)
    /// }).unwrap_err();
    /// assert!(error.to_string().contains("even"), "{error}");
    /// ```
    pub fn fail_fast(mut self) -> Self {
        self.options.fail_fast = true;
        self
    }

    /// Leaves rank 0 to handing out and collecting, where there are other ranks. Without it rank 0 does tasks, too.
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// let summary = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let mut farm = Farm::new("square", |x: u64| x * x).dedicated_master();
    ///     Ok(farm.collect(session, 0..100)?.map(|(_, summary)| summary))
    /// })?.unwrap();
    /// assert_eq!(summary.ranks[0].tasks, 0);
    /// assert_eq!(summary.ranks[1].tasks + summary.ranks[2].tasks, 100);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn dedicated_master(mut self) -> Self {
        self.options.dedicated = true;
        self
    }

    /// How many ranks do tasks at first, at least 1, rank 0 among them if it does; the others are parked. Without it, all.
    ///
    /// The number is changed while the farm runs, unless [`balance`](Farm::balance) says otherwise: workers beyond those that
    /// pay are parked, and woken when they pay.
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// let summary = armature::run(&armature::Config::new().ranks(4), |session| {
    ///     let mut farm = Farm::new("square", |x: u64| x * x).workers(2).balance(armature::Balance::Off);
    ///     Ok(farm.collect(session, 0..100)?.map(|(_, summary)| summary))
    /// })?.unwrap();
    /// assert_eq!((summary.started_with, summary.ended_with), (2, 2));
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn workers(mut self, workers: usize) -> Self {
        self.options.workers = Some(workers);
        self
    }

    /// Whether the number of workers is changed while the farm runs. Without it,
    /// [`Config::balance`](crate::Config::balance) says so, and by default it is changed whenever that pays.
    pub fn balance(mut self, balance: Balance) -> Self {
        self.options.balance = Some(balance);
        self
    }

    /// Bytes that tasks which are drawn, and results which are not yet taken, may have, at most: 256 MiB unless it is set, by this
    /// or by `ARMATURE_WINDOW_BYTES`.
    pub fn window_bytes(mut self, bytes: usize) -> Self {
        self.options.window_bytes = Some(bytes);
        self
    }

    /// What [`collect`](Farm::collect) returns is given to every rank, not to rank 0 alone. With any other method of a run it is an
    /// error.
    pub fn on_all_ranks(mut self) -> Self {
        self.options.on_all_ranks = true;
        self
    }

    /// Puts the workers under `count` sub-masters from the start, or never if 0. Without it, they are put under some when
    /// a stream has more of them than rank 0 can send chunks to.
    ///
    /// A sub-master does no tasks: it gets chunks for its workers from rank 0, many in one message, and sends their
    /// results back in the same way. With a [`task_limit`](Farm::task_limit) there are none, and to ask for some is an error.
    pub fn sub_masters(mut self, count: usize) -> Self {
        self.options.sub_masters = Some(count);
        self
    }

    /// How many chunks a worker holds beyond the one that it computes. Without it, as many as keep it busy while the
    /// master does not answer.
    pub fn request_ahead(mut self, chunks: usize) -> Self {
        self.options.ahead = Some(u32::try_from(chunks).unwrap_or(u32::MAX));
        self
    }

    /// A task that takes longer than `limit` is given up: its rank is not used any more, and the task counts as
    /// failed and is tried on another rank. Without it, a task may take as long as it likes.
    ///
    /// The rank cannot end the task: it stays until the end of the job, without coming back from the farm's run, and leaves
    /// with the others then. With a limit rank 0 does no tasks, because nobody could take over from it.
    ///
    /// Ranks must be processes, two at least: a thread cannot be ended, and a run would wait for it for ever. Elsewhere a
    /// farm with a limit is an error when it is run.
    pub fn task_limit(mut self, limit: Duration) -> Self {
        self.options.task_limit = Some(limit);
        self
    }

    /// Keeps every result in a file on rank 0's host. A job that is started again with the same file takes them from
    /// there and does only the tasks that are missing; tasks that failed are done again.
    ///
    /// `fingerprint` is whatever the results depend on beside the tasks' numbers: parameters, seeds, the input or a
    /// checksum of it. A file that was written with another one, or by a farm of another name, is refused. The tasks
    /// are drawn as before, also those that are not done again.
    ///
    /// [`iterate`](Farm::iterate) goes through its iterations as before, those whose results are all known without
    /// computing anything. The tasks that `next` makes must follow from the results; other ones than when the file was
    /// written are refused. Since what follows depends on them, tasks that failed in
    /// [`try_iterate`](Farm::try_iterate) stay failed.
    ///
    /// A file is of one run: a farm that has a journal and is run a second time says so.
    ///
    /// ```
    /// use armature::farm::Farm;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("squares.journal");
    ///
    /// for known in [0, 100] {
    ///     let summary = armature::run(&armature::Config::new(), |session| {
    ///         let mut farm = Farm::new("square", |x: u64| x * x).journal(&path, "0..100");
    ///         Ok(farm.collect(session, 0..100)?.map(|(_, summary)| summary))
    ///     })?;
    ///     assert_eq!(summary.unwrap().known, known);
    /// }
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn journal(mut self, path: impl Into<PathBuf>, fingerprint: impl Into<Vec<u8>>) -> Self {
        self.options.journal = Some((path.into(), fingerprint.into()));
        self
    }

    /// The tasks of a worker that gives no sign of life for `limit` go to others: 10 s unless it is set, or
    /// [`Config::peer_limit`](crate::Config::peer_limit) if that is less.
    ///
    /// Signs of life do not wait for tasks, so a long task does not count: a thread of its own computes. Only where chunks
    /// take less than a millisecond they are done between messages. A rank that falls silent there is either dead, or
    /// has met a task that is much longer than the ones before; it takes part again as soon as it is heard, and is dead
    /// after [`Config::peer_limit`](crate::Config::peer_limit), or when the farm has ended without it. Whoever does its
    /// tasks meanwhile does them beside the messages. With [`Driver::Inline`](crate::Driver::Inline) no task can be told
    /// from a death, and only [`Config::peer_limit`](crate::Config::peer_limit) counts. A rank that has not come to the
    /// farm is in the caller's own code, where nobody can stand in for it: if it dies there, or takes longer than
    /// [`Config::join_limit`](crate::Config::join_limit), the job fails.
    pub fn silence_limit(mut self, limit: Duration) -> Self {
        self.options.silence = Some(limit);
        self
    }
}

impl<I: Item + bytemuck::Pod, O> Farm<'_, I, O> {
    /// Sends tasks as the memory that they are.
    ///
    /// Numbers, and vectors of numbers, are sent so anyway. This is for plain structs and arrays, on ranks of one
    /// byte order. serde is not asked, although the type must implement its traits as every [`Item`] does.
    pub fn plain_tasks(mut self) -> Self {
        self.codecs.tasks = Codec::plain();
        self
    }
}

impl<I, O: Item + bytemuck::Pod> Farm<'_, I, O> {
    /// The same for results.
    pub fn plain_results(mut self) -> Self {
        self.codecs.results = Codec::plain();
        self
    }
}

impl<I: Item + bytemuck::Pod, O: Item + bytemuck::Pod> Farm<'_, I, O> {
    /// Sends tasks and results as the memory that they are; see [`plain_tasks`](Farm::plain_tasks).
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// let lengths = armature::run(&armature::Config::new(), |session| {
    ///     let mut farm = Farm::new("length", |[x, y]: [f64; 2]| [x.hypot(y)]).plain();
    ///     Ok(farm.collect(session, [[3.0, 4.0], [5.0, 12.0]])?.map(|(lengths, _)| lengths))
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
