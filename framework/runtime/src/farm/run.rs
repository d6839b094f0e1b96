//! Running a farm on a session.

use std::any::type_name;

use super::builder::{Farm, Options};
use super::desk::Desk;
use super::hand::Hand;
use super::outcome::{Answer, FailedTask, Flow, answer};
use super::store::Kind;
use super::summary::Summary;
use super::supply::Supply;
use super::workbench::Workbench;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::rank::executor::Executor;
use crate::session::{Announcement, Driver, Session};
use crate::user_code;
use crate::wire::Item;

/// What rank 0 does in a run; returns the number of iterations.
trait Script<I: Item, O: Item> {
    fn play<'scope, 'w: 'scope, 'f: 'scope>(
        self,
        desk: &mut Desk<'_, 'scope, '_, 'w, 'f, I, O>,
    ) -> Result<usize>;
}

impl<I: Item, O: Item> Farm<'_, I, O> {
    /// Does all `tasks` and hands their results to `sink`, each exactly once, with the task's number: in the order of
    /// the tasks, or as they come if the farm is [unordered](Farm::unordered).
    ///
    /// Tasks are drawn, and the sink is fed, on rank 0 and between messages: what blocks there for longer than
    /// [`Config::peer_limit`](crate::Config::peer_limit) makes the workers take rank 0 for dead. `tasks` may be endless:
    /// no more of them are drawn than fit [`Config::window_bytes`](crate::Config::window_bytes) with their results,
    /// and a sink that returns [`ControlFlow::Break`](std::ops::ControlFlow::Break) ends the run.
    ///
    /// Returns a [`Summary`] on rank 0 and `None` on the others.
    ///
    /// # Errors
    /// An error of the sink; a panic of the iterator or the sink; a worker that cannot be made; a task that failed, if
    /// that [ends the job](Farm::fail_fast); the loss of all workers, or of rank 0. On MPI a failure ends the job
    /// instead of returning.
    pub fn map<R: Flow>(
        &mut self,
        session: &Session,
        tasks: impl IntoIterator<Item = I>,
        mut sink: impl FnMut(u64, Result<O, FailedTask>) -> R,
    ) -> Result<Option<Summary>> {
        let sink = move |number, result| answer(sink(number, result));
        self.run(session, self.options.clone(), "map", Stream { tasks, sink })
    }

    /// Does all `tasks` and returns their results in the order of the tasks; on rank 0 only.
    ///
    /// # Errors
    /// As [`map`](Farm::map); here a task that failed at every attempt always ends the job.
    pub fn collect(
        &mut self,
        session: &Session,
        tasks: impl IntoIterator<Item = I>,
    ) -> Result<Option<(Vec<O>, Summary)>> {
        let mut results = Vec::new();
        let options = Options { fail_fast: true, ordered: true, ..self.options.clone() };
        let sink = |_, result: Result<O, FailedTask>| {
            results.extend(result);
            Answer::Continue(())
        };
        let summary = self.run(session, options, "collect", Stream { tasks, sink })?;
        Ok(summary.map(|summary| (results, summary)))
    }

    /// Iterations that depend on each other: `next` gets all results of a set of tasks, in their order, with the
    /// number of the iteration from 0, and makes the next set from them, or ends the run by `None`.
    ///
    /// Only rank 0 calls `next`, on a thread beside the one that communicates; it may take as long as it likes.
    ///
    /// # Errors
    /// As [`collect`](Farm::collect), and an error of `next`.
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
        session: &Session,
        first: impl IntoIterator<Item = I>,
        mut next: impl FnMut(Vec<O>, usize) -> Result<Option<Vec<I>>, BoxError> + Send,
    ) -> Result<Option<Summary>> {
        let options = Options { fail_fast: true, ordered: true, ..self.options.clone() };
        // A failed task has ended the job.
        let next = move |results: Vec<Result<O, FailedTask>>, iteration| {
            next(results.into_iter().flatten().collect(), iteration)
        };
        self.run(session, options, "iterate", Iterations { first, next })
    }

    /// As [`iterate`](Farm::iterate), but tasks that failed at every attempt come along with the results.
    ///
    /// # Errors
    /// As [`map`](Farm::map), and an error of `next`.
    pub fn try_iterate(
        &mut self,
        session: &Session,
        first: impl IntoIterator<Item = I>,
        next: impl FnMut(Vec<Result<O, FailedTask>>, usize) -> Result<Option<Vec<I>>, BoxError> + Send,
    ) -> Result<Option<Summary>> {
        let options = Options { ordered: true, ..self.options.clone() };
        self.run(session, options, "try_iterate", Iterations { first, next })
    }

    /// What all ranks must run in the same way. How tasks are put together, and where results are kept, rank 0 decides.
    fn announcement(&self, options: &Options, form: &str) -> Announcement {
        let what = Announcement::new(format!("runs the farm {:?}", self.name)).without_the_dead();
        what.with("method", form)
            .with("tasks of type", type_name::<I>())
            .with("results of type", type_name::<O>())
            .with("order", if options.ordered { "as of the tasks" } else { "as they come" })
            .with("retries", options.retries)
            .with("end at a failure", options.fail_fast)
            .with("task limit", format_args!("{:?}", options.task_limit))
    }

    fn run(
        &mut self,
        session: &Session,
        options: Options,
        form: &str,
        script: impl Script<I, O>,
    ) -> Result<Option<Summary>> {
        let config = session.config();
        let mut endpoint = session.endpoint()?;
        let endpoint = &mut *endpoint;
        let run = endpoint.begin_run(&self.announcement(&options, form), config.join_limit)?;
        let (rank, clock) = (endpoint.rank(), endpoint.clock());
        if options.task_limit.is_some()
            && !clock.is_simulated()
            && (!endpoint.is_process() || endpoint.size() == 1)
        {
            // A run that waited for a task which never ends would never end itself.
            let text = "a task limit needs workers that are processes, since a task cannot be ended, nor its thread: \
                        start the program by mpirun on two ranks or more, or leave the limit away";
            let error = Error::new(ErrorKind::Config, text).in_farm(&self.name).at_rank(rank);
            endpoint.report(&error);
            return Err(error);
        }
        let options =
            Options { ran_before: std::mem::replace(&mut self.options.ran_before, true), ..options };
        let Farm { name, seat, codecs, .. } = self;
        let codecs = *codecs;
        let mut bench = Workbench::new(seat, codecs, name, run, rank, clock);
        let activity = bench.activity();
        if options.task_limit.is_some() {
            bench.watch_every_task();
        }
        // The death of rank 0 is the job's, whatever it was doing.
        let trail = (endpoint.is_process() && rank > 0).then(|| bench.leave_trail()).flatten();
        let waker = endpoint.transport().waker();
        // Who is in a task must be able to say so.
        let driver = if options.task_limit.is_some() { Driver::Threaded } else { config.driver };
        std::thread::scope(|scope| {
            let engine = Executor::new(scope, rank, driver, waker, clock, bench)?;
            let result = if rank == 0 {
                Desk::new(&mut *endpoint, engine, codecs, (name, run), options, config).and_then(
                    |mut desk| {
                        desk.open()?;
                        let iterations = script.play(&mut desk)?;
                        desk.finish(iterations).map(Some)
                    },
                )
            } else {
                let hand = Hand::new(&mut *endpoint, engine, (activity, trail), name, &options, config);
                hand.run().map(|()| None)
            };
            // The scope waits for the compute thread, which may be in user code for long. The others must not
            // wait for that, so a failure is told before.
            result.inspect_err(|error| endpoint.report(error))
        })
    }
}

/// Independent tasks.
struct Stream<T, S> {
    tasks: T,
    sink: S,
}

impl<I, O, T, S> Script<I, O> for Stream<T, S>
where
    I: Item,
    O: Item,
    T: IntoIterator<Item = I>,
    S: FnMut(u64, Result<O, FailedTask>) -> Answer,
{
    fn play<'scope, 'w: 'scope, 'f: 'scope>(
        mut self,
        desk: &mut Desk<'_, 'scope, '_, 'w, 'f, I, O>,
    ) -> Result<usize> {
        desk.open_journal(Kind::Stream)?;
        desk.streaming = true;
        desk.stream(&mut Supply::new(self.tasks.into_iter()), &mut self.sink)?;
        Ok(1)
    }
}

/// Sets of tasks, each from the results of the one before.
struct Iterations<T, N> {
    first: T,
    next: N,
}

impl<I, O, T, N> Script<I, O> for Iterations<T, N>
where
    I: Item,
    O: Item,
    T: IntoIterator<Item = I>,
    N: FnMut(Vec<Result<O, FailedTask>>, usize) -> Result<Option<Vec<I>>, BoxError> + Send,
{
    fn play<'scope, 'w: 'scope, 'f: 'scope>(
        mut self,
        desk: &mut Desk<'_, 'scope, '_, 'w, 'f, I, O>,
    ) -> Result<usize> {
        desk.open_journal(Kind::Iterations)?;
        let mut tasks: Vec<I> = self.first.into_iter().collect();
        for iteration in 0.. {
            tasks = desk.begin_set(iteration, tasks)?;
            let mut results = Vec::with_capacity(tasks.len());
            let mut sink = |_, result| {
                results.push(result);
                Answer::Continue(())
            };
            desk.stream(&mut Supply::new(tasks.into_iter()), &mut sink)?;
            let begin = desk.clock.now();
            match desk.beside(|| (self.next)(results, iteration))? {
                Ok(Some(next)) => {
                    tasks = next;
                    desk.between(desk.clock.now().saturating_sub(begin))?;
                }
                Ok(None) => return Ok(iteration + 1),
                Err(error) => return Err(user_code::described(error).at_rank(0).in_farm(desk.name())),
            }
        }
        Err(Error::new(ErrorKind::User, "more iterations than can be counted").at_rank(0))
    }
}
