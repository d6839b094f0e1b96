//! Runs the tasks of a chunk, with one virtual call for the whole chunk, and records the tasks that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::worker::Worker;
use crate::comm::clock::Clock;
use crate::context::Context;
use crate::error::{BoxError, Error, Result};
use crate::rank::flight_recorder::FlightRecorder;
use crate::user_code;
use crate::wire::erased::{Items, typed};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) place: u32,
    pub(crate) panicked: bool,
    pub(crate) message: String,
}

impl Failure {
    fn of_error(place: u32, error: BoxError) -> Self {
        let message = user_code::described(error).message().to_string();
        Failure { place, panicked: false, message }
    }
}

#[derive(Debug)]
pub(crate) struct ChunkResult {
    pub(crate) results: Items,
    pub(crate) failures: Vec<Failure>,
    pub(crate) rest: Option<Items>,
}

/// Number of the task that the computing thread runs; the communicating thread reads it.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Counter that is incremented whenever a task begins, so that a reader notices the next task even if it has the same number.
    beat: AtomicU64,
    /// Number of the current task plus 1, or 0 for none.
    task: AtomicU64,
}

impl Activity {
    #[inline]
    pub(crate) fn set(&self, task: Option<u64>) {
        self.task.store(task.map_or(0, |task| task + 1), Ordering::Relaxed);
        self.beat.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> (u64, Option<u64>) {
        let beat = self.beat.load(Ordering::Relaxed);
        let task = self.task.load(Ordering::Relaxed);
        (beat, task.checked_sub(1))
    }
}

/// Time for which a worker runs a chunk before it sends the results so far, polls for messages, and runs the rest of the chunk.
/// Without this limit, results of long chunks would reach the journal and the display late, and a farm would stop late.
pub(crate) const PART: Duration = Duration::from_millis(100);

/// Clock for the tasks of a chunk. If tasks are timed one by one, each reading of the clock ends one task and starts the next. Otherwise the
/// clock is only read after several tasks, to find out whether the worker has to stop.
#[derive(Debug)]
pub(crate) struct TaskTimer<'a> {
    pub(crate) clock: Clock,
    pub(crate) activity: Arc<Activity>,
    /// Recorder of the rank's flight record (its last activity, readable after its death), and the number of the chunk that the
    /// record names.
    pub(crate) flight_recorder: Option<(&'a mut FlightRecorder, u64)>,
    /// Number of tasks between two readings of the clock; `None` if tasks are timed one by one.
    pub(crate) stride: Option<usize>,
    pub(crate) last: Duration,
    /// Time at which the worker starts no more tasks of the chunk.
    pub(crate) end: Duration,
    /// Sum of the run times of the timed tasks in seconds; `squares` is the sum of the squared run times. Both are 0 if tasks are not
    /// timed one by one.
    pub(crate) sum: f64,
    pub(crate) squares: f64,
}

impl TaskTimer<'_> {
    fn begin(&mut self, task: u64) {
        self.activity.set(Some(task));
        if let Some((flight_recorder, chunk)) = &mut self.flight_recorder {
            flight_recorder.begin(*chunk, Some(task));
        }
    }

    fn lap(&mut self) {
        let now = self.clock.now();
        let took = now.saturating_sub(self.last).as_secs_f64();
        self.last = now;
        self.sum += took;
        self.squares += took * took;
    }

    fn has_finished(&self) -> bool {
        self.last >= self.end
    }
}

/// Worker of a farm, without the types of its tasks and results, so that the runtime need not be generic over them.
pub(crate) trait ErasedWorker: Send {
    /// Runs the tasks of a chunk, the first of which has the number `cx.number`, until `timer` stops the worker. At least one task is run.
    fn run(&mut self, tasks: Items, cx: &mut Context, timer: &mut TaskTimer<'_>) -> Result<ChunkResult>;
}

impl<W: Worker> ErasedWorker for W {
    fn run(&mut self, tasks: Items, cx: &mut Context, timer: &mut TaskTimer<'_>) -> Result<ChunkResult> {
        let mut tasks = typed::<W::In>(tasks)?.into_iter();
        let mut results = Vec::with_capacity(tasks.len());
        let mut failures = Vec::new();
        let first = cx.number;
        let mut started = 0u32;
        loop {
            let whole = user_code::call(|| {
                while tasks.len() > 0 && !timer.has_finished() {
                    for task in tasks.by_ref().take(timer.stride.unwrap_or(1)) {
                        cx.number = first + u64::from(started);
                        started += 1;
                        if timer.stride.is_none() {
                            timer.begin(cx.number);
                        }
                        match self.work(task, cx) {
                            Ok(result) => results.push(result),
                            Err(error) => failures.push(Failure::of_error(started - 1, error)),
                        }
                    }
                    timer.lap();
                }
                Ok::<_, Error>(())
            });
            let Err(panic) = whole else { break };
            timer.lap();
            // Only tasks can panic in this call of user code, and the panic ended the task that was started last.
            let place = started.saturating_sub(1);
            failures.push(Failure { place, panicked: true, message: panic.message().to_string() });
        }
        let rest = (tasks.len() > 0).then(|| Box::new(tasks.collect::<Vec<_>>()) as Items);
        if rest.is_some() {
            results.shrink_to_fit();
        }
        Ok(ChunkResult { results: Box::new(results), failures, rest })
    }
}

#[cfg(test)]
mod tests {
    use super::super::worker::Closure;
    use super::*;

    #[test]
    fn chunk_continues_after_errors_and_panics() {
        let mut worker = Closure::new(|x: u8, _: &mut Context| match x {
            3 => Err("three".into()),
            4 => panic!("four"),
            _ => Ok(u32::from(x) * 10),
        });
        for stride in [Some(2), None] {
            let mut cx = Context { number: 100, ..Context::for_test() };
            let activity = Arc::new(Activity::default());
            let mut timer = timer(&activity, stride, Duration::MAX);
            let chunk = worker.run(Box::new(vec![1_u8, 3, 4, 4, 5]), &mut cx, &mut timer).unwrap();
            assert_eq!(*chunk.results.downcast_ref::<Vec<u32>>().unwrap(), [10, 50]);
            let failed: Vec<_> =
                chunk.failures.iter().map(|f| (f.place, f.panicked, f.message.as_str())).collect();
            assert_eq!(failed, [(1, false, "three"), (2, true, "four"), (3, true, "four")]);
            let timed = stride.is_none();
            assert_eq!((cx.number, activity.get().1), (104, timed.then_some(104)));
        }
    }

    #[test]
    fn chunk_stops_between_tasks_at_its_deadline() {
        let mut worker = Closure::new(|x: u8, _: &mut Context| if x == 2 { panic!("two") } else { Ok(x) });
        // The worker has to stop after 1 ns, before its first task. It still runs one task, or as many as lie between two readings of the clock.
        for (stride, done, failed) in [(None, 1, 0), (Some(2), 2, 0), (Some(3), 2, 1)] {
            let mut cx = Context { number: 100, ..Context::for_test() };
            let mut timer = timer(&Arc::default(), stride, Duration::from_nanos(1));
            let tasks = Box::new(vec![1_u8, 3, 2, 5, 6]);
            let chunk = worker.run(tasks, &mut cx, &mut timer).unwrap();
            assert_eq!((chunk.results.len(), chunk.failures.len()), (done, failed), "{stride:?}");
            assert_eq!(chunk.rest.map_or(0, |rest| rest.len()), 5 - done - failed);
        }
    }

    fn timer<'a>(activity: &Arc<Activity>, stride: Option<usize>, end: Duration) -> TaskTimer<'a> {
        let (clock, last) = (Clock::wall(), Duration::ZERO);
        TaskTimer {
            clock,
            activity: activity.clone(),
            flight_recorder: None,
            stride,
            last,
            end,
            sum: 0.0,
            squares: 0.0,
        }
    }
}
