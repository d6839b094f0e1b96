//! Doing a chunk: one virtual call for all its tasks, and a note of those that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::worker::Worker;
use crate::comm::clock::Clock;
use crate::context::Context;
use crate::error::Error;
use crate::rank::trail::Trail;
use crate::user_code;

/// A task of a chunk that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// Its place in the chunk, from 0.
    pub(crate) place: u32,
    pub(crate) panicked: bool,
    pub(crate) message: String,
}

/// What comes out of a chunk.
#[derive(Debug)]
pub(crate) struct ChunkResult<O> {
    /// Results of the tasks that did not fail, in order.
    pub(crate) results: Vec<O>,
    /// The others, in order.
    pub(crate) failures: Vec<Failure>,
    /// Sum of the tasks' times and of their squares, in seconds, where they are timed one by one.
    pub(crate) sum: f64,
    pub(crate) squares: f64,
}

impl<O> ChunkResult<O> {
    pub(crate) fn with_room(tasks: usize) -> Self {
        ChunkResult { results: Vec::with_capacity(tasks), failures: Vec::new(), sum: 0.0, squares: 0.0 }
    }
}

/// What the compute side is doing; read by the thread that communicates.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Counts up with every task that is begun or ended.
    beat: AtomicU64,
    /// The number of the task and one, or 0 for none.
    task: AtomicU64,
}

impl Activity {
    #[inline]
    pub(crate) fn set(&self, task: Option<u64>) {
        self.task.store(task.map_or(0, |task| task + 1), Ordering::Relaxed);
        self.beat.fetch_add(1, Ordering::Relaxed);
    }

    /// The task in hand, and a number that changes with it.
    pub(crate) fn get(&self) -> (u64, Option<u64>) {
        let beat = self.beat.load(Ordering::Relaxed);
        let task = self.task.load(Ordering::Relaxed);
        (beat, task.checked_sub(1))
    }
}

/// Times tasks one by one: each reading of the clock ends one task and begins the next.
#[derive(Debug)]
pub(crate) struct TaskTimer<'a> {
    pub(crate) clock: Clock,
    pub(crate) activity: Arc<Activity>,
    /// Where the begin of a task is noted, and the number of its chunk.
    pub(crate) trail: Option<(&'a mut Trail, u64)>,
    pub(crate) last: Duration,
}

impl TaskTimer<'_> {
    fn begin(&mut self, task: u64) {
        self.activity.set(Some(task));
        if let Some((trail, chunk)) = &mut self.trail {
            trail.begin(*chunk, Some(task));
        }
    }

    fn lap<O>(&mut self, chunk: &mut ChunkResult<O>) {
        let now = self.clock.now();
        let took = now.saturating_sub(self.last).as_secs_f64();
        self.last = now;
        chunk.sum += took;
        chunk.squares += took * took;
    }
}

/// A worker that does whole chunks.
pub(crate) trait ErasedWorker<I, O>: Send {
    /// Does the tasks from number `cx.number` on, timed one by one if `timer` are to be taken.
    fn run(
        &mut self,
        tasks: Vec<I>,
        cx: &mut Context,
        timer: Option<&mut TaskTimer<'_>>,
        chunk: &mut ChunkResult<O>,
    );
}

impl<W: Worker> ErasedWorker<W::In, W::Out> for W {
    fn run(
        &mut self,
        tasks: Vec<W::In>,
        cx: &mut Context,
        mut timer: Option<&mut TaskTimer<'_>>,
        chunk: &mut ChunkResult<W::Out>,
    ) {
        let first = cx.number;
        let mut begun = 0u32;
        let mut tasks = tasks.into_iter();
        // Once around for the chunk, and once more for every panic.
        loop {
            let whole = user_code::call(|| {
                match &mut timer {
                    None => {
                        for task in tasks.by_ref() {
                            cx.number = first + u64::from(begun);
                            begun += 1;
                            one(self, task, cx, begun - 1, chunk);
                        }
                    }
                    Some(timer) => {
                        for task in tasks.by_ref() {
                            cx.number = first + u64::from(begun);
                            begun += 1;
                            timer.begin(cx.number);
                            one(self, task, cx, begun - 1, chunk);
                            timer.lap(chunk);
                        }
                    }
                }
                Ok::<_, Error>(())
            });
            let Err(panic) = whole else { return };
            if let Some(timer) = &mut timer {
                timer.lap(chunk);
            }
            // Nothing else than a task can have panicked, so that one has begun.
            let place = begun.saturating_sub(1);
            let message = panic.message().to_string();
            chunk.failures.push(Failure { place, panicked: true, message });
        }
    }
}

#[inline]
fn one<W: Worker>(
    worker: &mut W,
    task: W::In,
    cx: &mut Context,
    place: u32,
    chunk: &mut ChunkResult<W::Out>,
) {
    match worker.work(task, cx) {
        Ok(result) => chunk.results.push(result),
        Err(error) => {
            let message = user_code::described(error).message().to_string();
            chunk.failures.push(Failure { place, panicked: false, message });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::worker::Closure;
    use super::*;

    #[test]
    fn a_chunk_goes_on_behind_errors_and_panics() {
        let mut worker = Closure::new(|x: u8, _: &mut Context| match x {
            3 => Err("three".into()),
            4 => panic!("four"),
            _ => Ok(u32::from(x) * 10),
        });
        for timed in [false, true] {
            let mut cx = Context { number: 100, ..Context::for_test() };
            let mut chunk = ChunkResult::with_room(6);
            let (activity, last) = (Arc::new(Activity::default()), Duration::ZERO);
            let mut timer = TaskTimer { clock: Clock::wall(), activity: activity.clone(), trail: None, last };
            worker.run(vec![1, 3, 4, 4, 5], &mut cx, timed.then_some(&mut timer), &mut chunk);
            assert_eq!(chunk.results, [10, 50]);
            let failed: Vec<_> =
                chunk.failures.iter().map(|f| (f.place, f.panicked, f.message.as_str())).collect();
            assert_eq!(failed, [(1, false, "three"), (2, true, "four"), (3, true, "four")]);
            assert_eq!((cx.number, activity.get().1), (104, timed.then_some(104)));
            assert_eq!(chunk.sum > 0.0, timed);
        }
    }
}
