//! Tasks for the compute side of a pipeline's rank, and their outcomes.

use std::time::Duration;

use super::job_cost::JobCost;
use super::machine::{Done, Job};
use super::stage_host::{SetUp, StageHost};
use crate::balance::probe::{self, Speed};
use crate::error::Result;
use crate::observe::Tally;
use crate::rank::user_code::UserCode;

/// Task for the compute side.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are jobs, and a box for each would be an allocation a batch"
)]
pub(crate) enum Task {
    Job(Job),
    /// Create the hosted stages that do not exist on this rank yet.
    SetUp {
        hosted: Vec<usize>,
    },
    /// Measure the sizes of items on the next `batches` batches of every edge.
    Measure {
        batches: usize,
    },
    /// Measure the speed of the rank.
    Probe,
}

/// Outcome of a task.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are of jobs, and a box for each would be an allocation a batch"
)]
pub(crate) enum Outcome {
    Job(Done, JobCost),
    SetUp(SetUp),
    Probed(Speed),
}

impl UserCode for StageHost<'_> {
    type Task = Task;
    type Outcome = Outcome;

    fn run(&mut self, task: Task) -> Result<Option<Outcome>> {
        match task {
            Task::Job(job) => self.run(job).map(|(done, cost)| Some(Outcome::Job(done, cost))),
            Task::SetUp { hosted } => self.set_up(&hosted).map(|set_up| Some(Outcome::SetUp(set_up))),
            Task::Measure { batches } => {
                self.measure_sizes(batches);
                Ok(None)
            }
            Task::Probe => Ok(Some(Outcome::Probed(probe::speed(self.clock())))),
        }
    }

    fn answers(task: &Task) -> bool {
        !matches!(task, Task::Measure { .. })
    }

    fn is_work(task: &Task) -> bool {
        matches!(task, Task::Job(Job::Draw { .. } | Job::Process { .. } | Job::Consume { .. }))
    }

    fn may_block(&self, task: &Task) -> bool {
        // A factory may take long to load its data.
        matches!(task, Task::SetUp { hosted } if self.lacks(hosted))
    }

    fn took(outcome: &Outcome) -> Option<Duration> {
        match outcome {
            Outcome::Job(_, cost) => Some(cost.took),
            Outcome::SetUp(_) | Outcome::Probed(_) => None,
        }
    }

    /// Counts items and times by source, stages and sink.
    fn tally(outcome: &Outcome, tally: &mut Tally) {
        let Outcome::Job(done, cost) = outcome else { return };
        match done {
            Done::Drawn { batch, .. } => {
                let range = batch.as_ref().map(|batch| &batch.range);
                let items = range.map_or(0, |range| u64::from(range.count));
                tally.add(0, range.map(|range| range.first), items, cost.took);
            }
            Done::Processed { batch, .. } => {
                for time in &cost.stage_times {
                    tally.add(time.stage + 1, Some(batch.range.first), time.items as u64, time.took);
                }
                for &(stage, items, took) in &cost.unsampled {
                    tally.add(stage + 1, Some(batch.range.first), items as u64, took);
                }
            }
            // Counted in items of the source, so that the number of items in flight can be derived.
            Done::Consumed(consumed) => {
                tally.add(tally.last_kind(), None, u64::from(consumed.done), cost.took);
            }
            Done::Released { .. } | Done::Restored { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::Waker;
    use crate::comm::clock::Clock;
    use crate::context::RankPlace;
    use crate::error::BoxError;
    use crate::pipeline::Pipeline;
    use crate::pipeline::fill::Fill;

    use crate::pipeline::source_sink::{NamedSink, SinkOf};
    use crate::rank::executor::Executor;
    use crate::session::Driver;

    #[test]
    fn an_error_of_user_code_is_told_also_when_the_next_task_comes_before_it_is_fetched() {
        let items = || [Err::<u8, BoxError>("torn".into())];
        let pipeline = Pipeline::try_source("numbers", items);
        let sink = NamedSink { name: "out".into(), sink: Box::new(SinkOf::<_, u8>::new(drop::<u8>)) };
        let stage_host = StageHost::new(pipeline.def, sink, RankPlace::ALONE, Clock::wall(), (true, false));
        let draw = || {
            Task::Job(Job::Draw { number: 0, first: 0, fill: Fill { items: 1, time: None }, is_end: false })
        };
        let error = std::thread::scope(|scope| {
            let waker = Waker::for_this_thread();
            let mut executor =
                Executor::new(scope, 0, Driver::Threaded, waker, Clock::wall(), stage_host).unwrap();
            loop {
                // A task is refused as soon as the thread has ended.
                if let Err(error) = executor.submit(draw()) {
                    break error;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        assert_eq!(error.to_string(), "rank 0: stage numbers: item 0: torn");
    }
}
