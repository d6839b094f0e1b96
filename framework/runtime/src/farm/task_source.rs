//! Source of tasks: the user's iterator, from which tasks are drawn as chunks are dispatched. The iterator is called on rank 0's communicating thread
//! while its calls are short, and otherwise on a separate thread, so that rank 0 sends heartbeats to its workers during a long call.

use std::thread::Scope;
use std::time::Duration;

use super::user_job::{JobTime, JobTimer};
use crate::comm::Waker;
use crate::comm::clock::Clock;
use crate::error::{Error, Result};
use crate::rank::executor::Executor;
use crate::rank::user_code::UserCode;
use crate::session::Driver;
use crate::user_code;
use crate::wire::erased::Items;
use crate::wire::{Item, weigh};

#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) most: u64,
    /// Limit on the total bytes of the tasks of one call. The task that reaches the limit is the last one drawn.
    pub(super) bytes: u64,
    /// Sampling interval: the size of one task in `step` is measured.
    pub(super) step: usize,
}

struct Draw {
    wanted: Wanted,
    /// True if calls of the iterator are limited in time, because they run on the communicating thread.
    limited: bool,
}

struct Drawn {
    time: JobTime,
    tasks: Items,
    /// True if drawing stopped because the tasks have as many bytes as requested ([`Wanted::bytes`]).
    full: bool,
    ended: bool,
    hint: (usize, Option<usize>),
}

pub(super) trait Source {
    fn taken(&self) -> u64;

    /// Returns true if the source is known to have no task left. An iterator may have ended although its end is not known yet. A worklist may
    /// get more tasks as long as results are outstanding.
    fn has_ended(&self) -> bool;

    fn end(&mut self);

    /// Returns the number of tasks left in the source, and true if the number is exact.
    fn left(&self) -> (u64, bool);

    /// Returns the number of tasks that are divided among the workers, and true if the number is exact. For a worklist this is the number of tasks
    /// that wait now.
    fn to_share(&self) -> (u64, bool) {
        self.left()
    }

    /// Returns the maximum number of tasks of one chunk, which leaves enough tasks for chunks of the other workers.
    fn share(&self) -> u64 {
        u64::MAX
    }

    /// Holds the source back, or releases it. A source that is held back returns no tasks; it is released when all results from the journal are
    /// delivered.
    fn hold(&mut self, _held: bool) {}

    /// Returns true if ranks may have died in the tasks that were drawn last. These tasks are drawn separately from all others.
    fn drew_suspect_tasks(&self) -> bool {
        false
    }

    /// Returns true if no separate thread of rank 0 calls the iterator at the moment. The communicating thread may then poll without sleeping,
    /// because it takes the core from no other thread.
    fn leaves_the_core(&self) -> bool;

    /// Returns true if the user's iterator runs on the communicating thread of rank 0 at the moment, because its calls have been
    /// short so far.
    fn is_interleaved(&self) -> bool {
        false
    }

    /// Receives tasks that the iterator's thread has drawn. Returns true if there were any.
    ///
    /// # Errors
    /// If the user's iterator has panicked.
    fn advance(&mut self) -> Result<bool>;

    /// Returns the next tasks, as many as are `wanted`, or fewer if no more are available. Returns none if the user's iterator has not
    /// answered yet.
    ///
    /// # Errors
    /// If the user's iterator panics.
    fn draw(&mut self, wanted: Wanted) -> Result<Option<Items>>;
}

pub(super) trait Tasks: Send {
    fn hint(&self) -> (usize, Option<usize>);

    /// Draws tasks until `wanted` is reached in number or in bytes, or until `timer` stops the call. Returns the tasks, true if the limit of bytes
    /// was reached, and true if the iterator has ended.
    ///
    /// # Errors
    /// If the iterator panics. The error names the task at which it panicked; `drawn` is the number of tasks that earlier calls have drawn.
    fn draw(&mut self, wanted: Wanted, timer: &mut JobTimer, drawn: u64) -> Result<(Items, bool, bool)>;
}

impl<T: Iterator<Item: Item> + Send> Tasks for T {
    fn hint(&self) -> (usize, Option<usize>) {
        self.size_hint()
    }

    fn draw(&mut self, wanted: Wanted, timer: &mut JobTimer, before: u64) -> Result<(Items, bool, bool)> {
        let Wanted { most, bytes, step } = wanted;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut drawn: Vec<T::Item> = Vec::new();
        let (mut full, mut ended) = (false, false);
        let outcome = user_code::call(|| {
            drawn.reserve(most.min(self.size_hint().0.max(64)));
            let (mut weight, mut skip) = (0, 0);
            while !full && drawn.len() < most {
                if !std::mem::needs_drop::<T::Item>() {
                    // Tasks that own no memory all have the same size, which the caller knows, so they are drawn without being measured.
                    let some = timer.until_reading(drawn.len()).min(most - drawn.len());
                    let before = drawn.len();
                    drawn.extend(self.by_ref().take(some));
                    ended = drawn.len() < before + some;
                } else if let Some(task) = self.next() {
                    if skip == 0 {
                        weight += (weigh(std::slice::from_ref(&task)) * step) as u64;
                        (full, skip) = (weight >= bytes, step);
                    }
                    skip -= 1;
                    drawn.push(task);
                } else {
                    ended = true;
                }
                if ended || timer.has_finished(drawn.len()) {
                    break;
                }
            }
            Ok::<_, Error>(())
        });
        outcome.map_err(|e| e.on_item(before + drawn.len() as u64))?;
        Ok((Box::new(drawn), full, ended))
    }
}

/// Adapter by which an executor, which runs user code on a thread, calls the user's iterator.
struct SourceCode<'scope> {
    tasks: Box<dyn Tasks + 'scope>,
    drawn: u64,
    farm: String,
    timer: JobTimer,
}

impl UserCode for SourceCode<'_> {
    type Job = Draw;
    type Done = Drawn;

    fn run(&mut self, Draw { wanted, limited }: Draw) -> Result<Option<Drawn>> {
        let SourceCode { tasks, drawn, farm, timer } = self;
        timer.begin(limited);
        let here = |e: Error| e.at_rank(0).in_farm(farm);
        let (new, full, ended) = tasks.draw(wanted, timer, *drawn).map_err(here)?;
        *drawn += new.len() as u64;
        let hint = user_code::call(|| Ok::<_, Error>(tasks.hint())).map_err(|e| here(e.on_item(*drawn)))?;
        let ended = ended || hint == (0, Some(0));
        Ok(Some(Drawn { time: timer.end(), tasks: new, full, ended, hint }))
    }

    fn answers(_: &Draw) -> bool {
        true
    }

    fn may_block(&self, _: &Draw) -> bool {
        false
    }

    fn took(drawn: &Drawn) -> Option<Duration> {
        drawn.time.took()
    }
}

pub(super) struct TaskSource<'scope, 'env> {
    executor: Executor<'scope, 'env, SourceCode<'scope>>,
    buffer: Option<Items>,
    full: bool,
    taken: u64,
    ended: bool,
    hint: (usize, Option<usize>),
}

impl<'scope, 'env> TaskSource<'scope, 'env> {
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        driver: Driver,
        (waker, clock): (Waker, Clock),
        farm: &str,
        tasks: Box<dyn Tasks + 'scope>,
    ) -> Result<Self> {
        let hint = tasks.hint();
        let code = SourceCode { tasks, drawn: 0, farm: farm.to_string(), timer: JobTimer::new(clock) };
        let executor = Executor::new(scope, 0, driver, waker, clock, code)?;
        Ok(TaskSource { executor, buffer: None, full: false, taken: 0, ended: false, hint })
    }

    fn buffered(&self) -> u64 {
        self.buffer.as_ref().map_or(0, |tasks| tasks.len() as u64)
    }
}

impl Source for TaskSource<'_, '_> {
    fn taken(&self) -> u64 {
        self.taken
    }

    fn has_ended(&self) -> bool {
        self.ended && self.buffer.is_none()
    }

    fn end(&mut self) {
        self.ended = true;
        self.buffer = None;
    }

    fn left(&self) -> (u64, bool) {
        let here = self.buffered();
        if self.ended {
            return (here, true);
        }
        let (low, high) = self.hint;
        // The size hint of an endless iterator is not used as the number of tasks left. While a call of the iterator is running, that number is not
        // exact either.
        match (low, high) {
            (usize::MAX, None) => (here, false),
            _ => ((low as u64).saturating_add(here), high == Some(low)),
        }
    }

    fn leaves_the_core(&self) -> bool {
        self.executor.leaves_the_core()
    }

    fn is_interleaved(&self) -> bool {
        self.executor.is_interleaved()
    }

    fn advance(&mut self) -> Result<bool> {
        let Some(drawn) = self.executor.fetch()? else { return Ok(false) };
        (self.full, self.hint) = (drawn.full, drawn.hint);
        if !self.ended {
            self.ended = drawn.ended;
            match &mut self.buffer {
                Some(buffer) => buffer.append(drawn.tasks)?,
                None => self.buffer = Some(drawn.tasks).filter(|tasks| tasks.len() > 0),
            }
        }
        Ok(true)
    }

    fn draw(&mut self, wanted: Wanted) -> Result<Option<Items>> {
        let most = wanted.most;
        if most == 0 {
            return Ok(None);
        }
        self.advance()?;
        if self.buffered() < most && !self.ended && !self.full && self.executor.is_idle() {
            let limited = self.executor.is_inline();
            let wanted = Wanted { most: most - self.buffered(), ..wanted };
            self.executor.submit(Draw { wanted, limited })?;
            self.advance()?;
        }
        if self.buffered() < most && !self.ended && !self.full {
            return Ok(None);
        }
        let tasks = match &mut self.buffer {
            Some(buffer) if buffer.len() as u64 > most => Some(buffer.split_front(most as usize)),
            buffer => {
                self.full = false;
                buffer.take()
            }
        };
        self.taken += tasks.as_ref().map_or(0, |tasks| tasks.len() as u64);
        Ok(tasks)
    }
}

impl std::fmt::Debug for TaskSource<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskSource")
            .field("taken", &self.taken)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::erased::typed;

    fn with<T: Iterator<Item: Item> + Send>(
        tasks: T,
        driver: Driver,
        test: impl for<'scope, 'env> FnOnce(TaskSource<'scope, 'env>),
    ) {
        std::thread::scope(|scope| {
            let ends = (Waker::for_this_thread(), Clock::wall());
            test(TaskSource::new(scope, driver, ends, "test", Box::new(tasks)).expect("it starts"));
        });
    }

    fn draw<I: Item>(source: &mut TaskSource<'_, '_>, wanted: Wanted) -> Result<Vec<I>> {
        loop {
            match source.draw(wanted)? {
                Some(tasks) => return typed(tasks),
                None if source.has_ended() => return Ok(Vec::new()),
                None => {}
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    fn most(most: u64) -> Wanted {
        Wanted { most, bytes: u64::MAX, step: 1 }
    }

    #[test]
    fn source_ends_with_its_iterator() {
        for driver in [Driver::Inline, Driver::Threaded] {
            with((0..5).filter(|x| *x != 3), driver, |mut source| {
                assert_eq!(source.left(), (0, false));
                assert_eq!(draw::<i32>(&mut source, most(3)).unwrap(), [0, 1, 2]);
                assert!(!source.has_ended());
                assert_eq!(draw::<i32>(&mut source, most(3)).unwrap(), [4]);
                assert!(source.has_ended() && source.taken() == 4);
                assert!(source.draw(most(3)).unwrap().is_none());
            });
            with(0u64.., driver, |mut endless| {
                assert_eq!(
                    (endless.left(), draw::<u64>(&mut endless, most(2)).unwrap()),
                    ((0, false), vec![0, 1])
                );
            });
            with(0..4, driver, |mut exact| {
                assert_eq!(exact.left(), (4, true));
                assert_eq!((draw::<i32>(&mut exact, most(4)).unwrap().len(), exact.left()), (4, (0, true)));
                assert!(exact.has_ended(), "known without another look");
            });
        }
    }

    #[test]
    fn iterator_panic_names_the_task() {
        with((0..5).inspect(|x| assert!(*x != 2, "two")), Driver::Inline, |mut source| {
            assert_eq!(draw::<i32>(&mut source, most(1)).unwrap(), [0]);
            let error = draw::<i32>(&mut source, most(3)).unwrap_err();
            assert_eq!(error.to_string(), "rank 0: farm test: task 2: panicked: two");
        });
    }

    #[test]
    fn drawn_tasks_are_limited_by_bytes() {
        let tasks = [10, 20, 500, 30, 40].into_iter().map(|n| vec![0u8; n]);
        with(tasks, Driver::Inline, |mut source| {
            let wanted = Wanted { most: 4, bytes: 500, step: 1 };
            let mut lengths =
                || draw::<Vec<u8>>(&mut source, wanted).unwrap().iter().map(Vec::len).collect::<Vec<_>>();
            assert_eq!((lengths(), lengths()), (vec![10, 20, 500], vec![30, 40]));
            assert!(source.has_ended());
        });
    }

    #[test]
    fn slow_iterator_does_not_block_its_caller() {
        let slow = (0..4).inspect(|_| std::thread::sleep(Duration::from_millis(100)));
        with(slow, Driver::Threaded, |mut source| {
            assert!(
                source.draw(most(4)).unwrap().is_none() && !source.has_ended(),
                "it has not answered yet"
            );
            assert_eq!(draw::<i32>(&mut source, most(4)).unwrap(), [0, 1, 2, 3], "and then it has, with all");
        });
    }
}
