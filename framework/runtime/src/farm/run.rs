//! Runs of farms in a session: streams of tasks, collected results, and iterations.

use std::sync::Arc;
use std::thread::Scope;
use std::time::Duration;

use super::builder::Farm;
use super::delivery::{Collected, Sink, SinkOf};
use super::flow::{Answer, Flow, answer, plain};
use super::follower::Follower;
use super::master::MasterRank;
use super::master::run::MasterRun;
use super::options::Options;
use super::result_journal::Kind;
use super::summary::Summary;
use super::task_runner::{Codecs, TaskRunner, WorkerSlot};
use super::task_source::{Source, Tasks};
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::failed_task::FailedTask;
use crate::outcome::Outcome;
use crate::rank::driver;
use crate::rank::executor::Executor;
use crate::session::{Announcement, Driver, Session};
use crate::user_code;
use crate::wire::erased::{Items, typed};
use crate::wire::{Item, Movable};

pub(super) enum Script<'s> {
    /// A stream of tasks. `is_short` is true if the sink is the framework's own, whose calls are always short.
    Stream { tasks: Box<dyn FnOnce() -> Box<dyn Tasks + 's> + 's>, sink: Box<dyn Sink + 's>, is_short: bool },
    /// Sets of tasks, each made from the results of the previous set.
    Iterations(Box<dyn Sets + 's>),
    /// Tasks of a worklist (tasks whose results add tasks). The function `first` adds the first tasks to the list.
    Worklist {
        first: Box<dyn FnOnce() + Send + 's>,
        source: Box<dyn Source + 's>,
        sink: Box<dyn Sink + 's>,
        kind: Kind,
    },
}

impl<I: Item, O: Item> Farm<'_, I, O> {
    /// Runs all `tasks` and passes each result to `sink` exactly once, with the number of the task: in the order of the tasks, or in the
    /// order of arrival if the farm is [unordered](Farm::unordered). The first failed task ends the job.
    ///
    /// Rank 0 draws the tasks and runs the sink, each on a separate thread, so both may take any time. If their calls are short and frequent, rank 0
    /// makes them between messages instead. A single long call then delays the workers, up to [`Config::join_limit`](crate::Config::join_limit). With
    /// [`Driver::Threaded`](crate::Driver::Threaded) source and sink always have threads, with [`Driver::Inline`](crate::Driver::Inline) never.
    /// `tasks` may be endless: only as many are drawn as fit [`window_bytes`](Farm::window_bytes) together with their results, and a sink that
    /// returns [`ControlFlow::Break`](std::ops::ControlFlow::Break) ends the run.
    ///
    /// # Errors
    /// A task that fails at every attempt; an error of the sink; a panic of the iterator or the sink; a worker that cannot be created; the
    /// loss of all workers, or of rank 0.
    pub fn for_each<R: Flow>(
        &mut self,
        session: &mut Session,
        tasks: impl IntoIterator<Item = I, IntoIter: Movable>,
        mut sink: impl FnMut(u64, O) -> R + Movable,
    ) -> Result<Outcome<(), Summary>> {
        let sink = move |number, result| plain(result, |result| sink(number, result));
        let script = Script::stream(tasks, sink, false);
        self.run(session, self.failing_fast(), "for_each", script).map(Outcome::of)
    }

    /// Like [`for_each`](Farm::for_each), but a task that fails at every attempt is passed to `sink` as a [`FailedTask`], and the run
    /// continues.
    ///
    /// # Errors
    /// The errors of [`for_each`](Farm::for_each), except for failed tasks.
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// let failed = armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let mut failed = Vec::new();
    ///     let mut farm = Farm::try_new("parse", |word: String| Ok(word.parse::<u64>()?));
    ///     farm.for_each_result(session, ["1", "x", "3"].map(String::from), |number, result| {
    ///         if result.is_err() {
    ///             failed.push(number);
    ///         }
    ///     })?;
    ///     Ok(failed)
    /// })?;
    /// assert_eq!(failed, [1]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn for_each_result<R: Flow>(
        &mut self,
        session: &mut Session,
        tasks: impl IntoIterator<Item = I, IntoIter: Movable>,
        mut sink: impl FnMut(u64, Result<O, FailedTask>) -> R + Movable,
    ) -> Result<Outcome<(), Summary>> {
        let sink = move |number, result| answer(sink(number, result));
        let script = Script::stream(tasks, sink, false);
        self.run(session, self.options.clone(), "for_each_result", script).map(Outcome::of)
    }

    /// Runs all `tasks` and returns their results in the order of the tasks, on rank 0. The first failed task ends the job.
    ///
    /// # Errors
    /// The errors of [`for_each`](Farm::for_each).
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// let squares = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     Ok(Farm::new("square", |x: u64| x * x).collect(session, 0..5)?.on_root())
    /// })?;
    /// assert_eq!(squares.unwrap(), [0, 1, 4, 9, 16]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn collect(
        &mut self,
        session: &mut Session,
        tasks: impl IntoIterator<Item = I, IntoIter: Movable>,
    ) -> Result<Outcome<Vec<O>, Summary>> {
        self.collected(session, "collect", tasks)
    }

    /// Like [`collect`](Farm::collect), but returns the results on every rank.
    ///
    /// # Errors
    /// The errors of [`for_each`](Farm::for_each).
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let squares = Farm::new("square", |x: u64| x * x).collect_on_all(session, 0..5)?;
    ///     assert_eq!(squares, [0, 1, 4, 9, 16]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn collect_on_all(
        &mut self,
        session: &mut Session,
        tasks: impl IntoIterator<Item = I, IntoIter: Movable>,
    ) -> Result<Vec<O>> {
        let results = self.collected(session, "collect_on_all", tasks)?.on_root();
        let farm = format!("the farm {:?}", self.name);
        session.share(&farm, &self.results, results, |error| error.in_farm(&self.name))
    }

    fn collected(
        &mut self,
        session: &mut Session,
        method: &str,
        tasks: impl IntoIterator<Item = I, IntoIter: Movable>,
    ) -> Result<Outcome<Vec<O>, Summary>> {
        let mut results = Vec::new();
        let options = Options { ordered: true, ..self.failing_fast() };
        let sink = |_, result: Result<O, FailedTask>| {
            results.extend(result);
            Answer::Continue(())
        };
        let summary = self.run(session, options, method, Script::stream(tasks, sink, true))?;
        Ok(Outcome::new(summary.map(|summary| (results, summary))))
    }

    /// Like [`collect`](Farm::collect), but a task that fails at every attempt is returned as a [`FailedTask`], and the run continues.
    ///
    /// # Errors
    /// The errors of [`for_each`](Farm::for_each), except for failed tasks.
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// let odd = armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let mut farm = Farm::try_new("odd", |x: u64| if x % 2 == 1 { Ok(x) } else { Err("even".into()) });
    ///     Ok(farm.collect_results(session, 1..4)?.on_root())
    /// })?;
    /// let odd = odd.unwrap();
    /// assert_eq!((odd[0].as_ref(), odd[2].as_ref()), (Ok(&1), Ok(&3)));
    /// assert_eq!(odd[1].as_ref().unwrap_err().message(), "even");
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn collect_results(
        &mut self,
        session: &mut Session,
        tasks: impl IntoIterator<Item = I, IntoIter: Movable>,
    ) -> Result<Outcome<Vec<Result<O, FailedTask>>, Summary>> {
        let mut results = Vec::new();
        let options = Options { ordered: true, ..self.options.clone() };
        let sink = |_, result| {
            results.push(result);
            Answer::Continue(())
        };
        let summary = self.run(session, options, "collect_results", Script::stream(tasks, sink, true))?;
        Ok(Outcome::new(summary.map(|summary| (results, summary))))
    }

    /// Runs iterations that depend on each other. `next` gets all results of a set of tasks, in their order, with the number of the
    /// iteration from 0, and returns the next set, or `None` to end the run. The first failed task ends the job.
    ///
    /// Only rank 0 draws `first` and calls `next`, on a thread that does not communicate, so both may take any time.
    ///
    /// # Errors
    /// The errors of [`collect`](Farm::collect), and an error of `next`.
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// // Each value becomes the mean of its neighbours on a ring.
    /// let neighbours = |v: &[f64]| -> Vec<(f64, f64)> {
    ///     (0..v.len()).map(|i| (v[(i + v.len() - 1) % v.len()], v[(i + 1) % v.len()])).collect()
    /// };
    /// let config = armature::Config::new().ranks(2);
    /// let last = armature::run(&config, |session| {
    ///     let mut last = Vec::new();
    ///     let mut farm = Farm::new("mean", |(left, right): (f64, f64)| (left + right) / 2.0);
    ///     farm.iterate(session, neighbours(&[8.0, 0.0, 0.0, 0.0, 0.0]), |means, iteration| {
    ///         last.clone_from(&means);
    ///         Ok((iteration < 2).then(|| neighbours(&means)))
    ///     })?;
    ///     Ok(last)
    /// })?;
    /// assert_eq!(last, [0.0, 3.0, 1.0, 1.0, 3.0]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn iterate(
        &mut self,
        session: &mut Session,
        first: impl IntoIterator<Item = I> + Movable,
        mut next: impl FnMut(Vec<O>, usize) -> Result<Option<Vec<I>>, BoxError> + Movable,
    ) -> Result<Outcome<(), Summary>> {
        let options = Options { ordered: true, ..self.failing_fast() };
        // `flatten` drops no result, because a failed task would have ended the job.
        let next = move |results: Vec<Result<O, FailedTask>>, iteration| {
            next(results.into_iter().flatten().collect(), iteration)
        };
        self.run(session, options, "iterate", Script::iterations(first, next)).map(Outcome::of)
    }

    /// Like [`iterate`](Farm::iterate), but passes failed tasks to `next` together with the results.
    ///
    /// # Errors
    /// The errors of [`for_each_result`](Farm::for_each_result), and an error of `next`.
    pub fn iterate_results(
        &mut self,
        session: &mut Session,
        first: impl IntoIterator<Item = I> + Movable,
        next: impl FnMut(Vec<Result<O, FailedTask>>, usize) -> Result<Option<Vec<I>>, BoxError> + Movable,
    ) -> Result<Outcome<(), Summary>> {
        let options = Options { ordered: true, ..self.options.clone() };
        self.run(session, options, "iterate_results", Script::iterations(first, next)).map(Outcome::of)
    }

    pub(super) fn failing_fast(&self) -> Options {
        Options { fail_fast: true, ..self.options.clone() }
    }

    pub(super) fn run(
        &mut self,
        session: &mut Session,
        options: Options,
        method: &str,
        script: Script<'_>,
    ) -> Result<Option<Summary>> {
        let codecs = Codecs { tasks: Arc::new(self.tasks), results: Arc::new(self.results) };
        FarmRun { name: &self.name, slot: &mut self.slot, codecs, options }.run(session, method, script)
    }
}

struct FarmRun<'a, 'f> {
    name: &'a str,
    slot: &'a mut WorkerSlot<'f>,
    codecs: Codecs,
    options: Options,
}

impl FarmRun<'_, '_> {
    /// Returns the settings of the farm that must be equal on all ranks, which the ranks compare before the run. The chunk size and the journal are
    /// not compared, because only rank 0 uses them.
    fn announcement(&self, method: &str) -> Announcement {
        let options = &self.options;
        let what = Announcement::new(format!("runs the farm {:?}", self.name)).without_the_dead();
        let what = what
            .with("method", method)
            .with("tasks of type", self.codecs.tasks.item())
            .with("results of type", self.codecs.results.item())
            .with("order", if options.ordered { "that of the tasks" } else { "any" })
            .with("retries", options.retries)
            .with("task_limit", shown(options.task_limit))
            .with("silence_limit", shown(options.silence));
        match &options.incumbent {
            Some(incumbent) => what.with("incumbent", incumbent.describe()),
            None => what,
        }
    }

    fn run(self, session: &mut Session, method: &str, script: Script<'_>) -> Result<Option<Summary>> {
        let (endpoint, config) = session.endpoint();
        let checked = self.options.check().map_err(|e| e.in_farm(self.name).at_rank(endpoint.rank()));
        checked.inspect_err(|error| endpoint.report(error))?;
        let run = endpoint.begin_work(&self.announcement(method), config.join_limit)?;
        let FarmRun { name, slot, codecs, options } = self;
        let (rank, clock) = (endpoint.rank(), endpoint.clock());
        if options.task_limit.is_some()
            && !clock.is_simulated()
            && (!endpoint.is_process() || endpoint.size() == 1)
        {
            // The thread of a task that never ends cannot be killed, so the run could not return if ranks are threads.
            let text = "a task limit needs workers that are processes, because threads cannot be killed: start the \
                        program with mpirun on two or more ranks, or remove the limit";
            let error = Error::new(ErrorKind::Config, text).in_farm(name).at_rank(rank);
            endpoint.report(&error);
            return Err(error);
        }
        if let Some((path, _)) = options.journal.as_ref().filter(|_| rank == 0) {
            let claimed = endpoint.claim(path).map_err(|error| error.in_farm(name));
            claimed.inspect_err(|error| endpoint.report(error))?;
        }
        let mut runner = TaskRunner::new(slot, codecs.clone(), name, run, endpoint.place(), clock);
        let activity = runner.activity();
        if options.task_limit.is_some() {
            runner.watch_every_task();
        }
        // If rank 0 dies, the job ends, and nobody reads its flight record (its last activity, readable after its death).
        let flight_recorder =
            (endpoint.is_process() && rank > 0).then(|| runner.start_flight_recorder()).flatten();
        let waker = endpoint.transport().waker();
        // With a time limit for tasks, tasks do not run on the communicating thread, so that the rank can report a task that exceeds the limit.
        let driver = if options.task_limit.is_some() { Driver::Threaded } else { config.driver };
        std::thread::scope(|scope| {
            let executor = Executor::new(scope, rank, driver, waker, clock, runner)?;
            let driver = driver::RankDriver::new(endpoint, executor, config, "the farm")
                .with_heartbeats_within(options.silence(config));
            let result = if rank == 0 {
                MasterRank::new(endpoint, codecs, (name, run), activity, options, config)
                    .and_then(|master| MasterRun::begin(master, endpoint, driver))
                    .and_then(|mut run| {
                        let iterations = script.play(&mut run, scope)?;
                        run.finish(iterations).map(Some)
                    })
            } else {
                let follower = Follower::new(endpoint, (activity, flight_recorder), name, &options, config);
                follower.run(driver, endpoint).map(|()| None)
            };
            // A failure is reported to the other ranks before the scope of threads ends, because the end of the scope waits for the computing
            // thread, which may be in user code for a long time.
            result.inspect_err(|error| endpoint.report(error))
        })
        .and_then(|summary| endpoint.check_run_stopped().map(|()| summary))
    }
}

fn shown(limit: Option<Duration>) -> String {
    limit.map_or("unset".to_string(), |limit| format!("{limit:?}"))
}

impl<'s> Script<'s> {
    fn stream<O: Item>(
        tasks: impl IntoIterator<Item: Item, IntoIter: Movable> + 's,
        sink: impl FnMut(u64, Result<O, FailedTask>) -> Answer + Send + 's,
        is_short: bool,
    ) -> Self {
        Script::Stream {
            tasks: Box::new(|| Box::new(tasks.into_iter())),
            sink: Box::new(SinkOf::new(sink)),
            is_short,
        }
    }

    fn iterations<I: Item, O: Item>(
        first: impl IntoIterator<Item = I> + Send + 's,
        next: impl FnMut(Vec<Result<O, FailedTask>>, usize) -> Result<Option<Vec<I>>, BoxError> + Send + 's,
    ) -> Self {
        Script::Iterations(Box::new(SetsOf { first: Some(first), next, results: Collected::default() }))
    }

    fn play<'scope, 'env, 'w: 'scope, 'f: 'scope>(
        self,
        run: &mut MasterRun<'_, 'scope, 'env, 'w, 'f>,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Result<usize>
    where
        's: 'scope,
    {
        match self {
            Script::Stream { tasks, sink, is_short } => {
                run.master.open_journal(Kind::Stream)?;
                run.master.streaming = true;
                let mut source = run.source(scope, tasks(), false)?;
                let mut delivery = run.delivery(scope, sink, is_short)?;
                run.stream(&mut source, &mut delivery)?;
            }
            Script::Worklist { first, mut source, sink, kind } => {
                run.master.open_journal(kind)?;
                run.master.streaming = true;
                run.on_thread(first)?;
                let mut delivery = run.delivery(scope, sink, false)?;
                run.stream(&mut *source, &mut delivery)?;
            }
            Script::Iterations(sets) => return iterate(sets, run, scope),
        }
        Ok(1)
    }
}

fn iterate<'scope, 'env, 'w: 'scope, 'f: 'scope>(
    mut sets: Box<dyn Sets + 'scope>,
    run: &mut MasterRun<'_, 'scope, 'env, 'w, 'f>,
    scope: &'scope Scope<'scope, 'env>,
) -> Result<usize> {
    run.master.open_journal(Kind::Iterations)?;
    let mut tasks = run.on_thread(|| sets.first())?;
    for iteration in 0.. {
        tasks = run.master.begin_set(iteration, tasks)?;
        let (tasks_of_set, sink) = sets.begin(tasks)?;
        let mut source = run.source(scope, tasks_of_set, true)?;
        let mut delivery = run.delivery(scope, sink, true)?;
        run.stream(&mut source, &mut delivery)?;
        delivery.finish()?;
        if run.master.is_cut() {
            return Ok(iteration + 1);
        }
        let begin = run.master.clock.now();
        match run.on_thread(|| sets.next(iteration))? {
            Ok(Some(next)) => {
                tasks = next;
                run.between(run.master.clock.now().saturating_sub(begin))?;
            }
            Ok(None) => return Ok(iteration + 1),
            Err(error) => return Err(user_code::described(error).at_rank(0).in_farm(run.master.name())),
        }
    }
    Err(Error::new(ErrorKind::User, "the farm has more iterations than can be counted").at_rank(0))
}

pub(super) trait Sets: Send {
    fn first(&mut self) -> Items;

    fn begin(&mut self, tasks: Items) -> Result<(Box<dyn Tasks>, Box<dyn Sink>)>;

    fn next(&mut self, iteration: usize) -> Result<Option<Items>, BoxError>;
}

struct SetsOf<F, N, O> {
    first: Option<F>,
    next: N,
    results: Collected<O>,
}

impl<I, O, F, N> Sets for SetsOf<F, N, O>
where
    I: Item,
    O: Item,
    F: IntoIterator<Item = I> + Send,
    N: FnMut(Vec<Result<O, FailedTask>>, usize) -> Result<Option<Vec<I>>, BoxError> + Send,
{
    fn first(&mut self) -> Items {
        Box::new(self.first.take().into_iter().flatten().collect::<Vec<I>>())
    }

    fn begin(&mut self, tasks: Items) -> Result<(Box<dyn Tasks>, Box<dyn Sink>)> {
        let tasks = typed::<I>(tasks)?;
        self.results.lock().reserve(tasks.len());
        Ok((Box::new(tasks.into_iter()), Box::new(self.results.clone())))
    }

    fn next(&mut self, iteration: usize) -> Result<Option<Items>, BoxError> {
        let results = std::mem::take(&mut *self.results.lock());
        Ok((self.next)(results, iteration)?.map(|tasks| Box::new(tasks) as Items))
    }
}
