//! Tests of chunk sizes, numbers of workers and iteration times of farms with arbitrary numbers: no call panics or runs without end.

use armature_planner::farm::{
    ChunkDone, Chunker, Chunking, FarmFit, IterationModel, Knowledge, MessageCosts, Protocol, StartUp,
    StreamModel, Supply, TaskStatistics, WorkerCount, performance_index,
};
use proptest::prelude::*;

use crate::numbers::{count, in_time, index, number, some};

/// Call of a method of a chunker (the object that chooses the sizes of a farm's chunks).
#[derive(Clone, Debug)]
enum ChunkerCall {
    Begin(Supply, Vec<usize>),
    Ask(usize, u64),
    Done(ChunkDone),
    /// The results of the newest chunk arrive; each task has taken the given number of seconds.
    Back(f64),
    GiveBack(u64),
    Supply(Supply),
    Join(usize),
    Leave(usize),
}

fn supply() -> impl Strategy<Value = Supply> + Clone {
    prop_oneof![3 => count().prop_map(Supply::Exactly), 1 => count().prop_map(Supply::AtLeast)]
}

fn step() -> impl Strategy<Value = ChunkerCall> + Clone {
    let done = (index(), count(), number(), number(), number()).prop_map(
        |(worker, tasks, sum, squares, elapsed)| {
            ChunkerCall::Done(ChunkDone { worker, tasks, sum, squares, elapsed })
        },
    );
    prop_oneof![
        2 => (supply(), some(index())).prop_map(|(supply, workers)| ChunkerCall::Begin(supply, workers)),
        6 => (index(), count()).prop_map(|(worker, most)| ChunkerCall::Ask(worker, most)),
        3 => number().prop_map(ChunkerCall::Back),
        2 => done,
        1 => count().prop_map(ChunkerCall::GiveBack),
        1 => supply().prop_map(ChunkerCall::Supply),
        1 => index().prop_map(ChunkerCall::Join),
        1 => index().prop_map(ChunkerCall::Leave),
    ]
}

fn messages() -> impl Strategy<Value = MessageCosts> + Clone {
    (number(), number(), number(), number()).prop_map(|(small, border, large, per_byte)| MessageCosts {
        start_up: StartUp { small, border, large },
        per_byte,
    })
}

/// Generates numbers of chunks that a worker requests ahead, mostly those of real farms.
pub(crate) fn ahead() -> impl Strategy<Value = u32> + Clone {
    prop_oneof![30 => 0..3_u32, 1 => any::<u32>()]
}

fn knowledge() -> impl Strategy<Value = Knowledge> + Clone {
    let numbers = (number(), number(), number(), number());
    (numbers, messages(), ahead(), prop::option::of(index())).prop_map(
        |((now, latency, task_bytes, result_bytes), messages, ahead, master)| Knowledge {
            now,
            messages,
            latency,
            task_bytes,
            result_bytes,
            ahead,
            master,
        },
    )
}

fn play(chunking: Chunking, steps: &[ChunkerCall], knowledge: &[Knowledge]) {
    let mut chunker = Chunker::new(chunking);
    let mut newest = None;
    for (step, knowledge) in steps.iter().zip(knowledge.iter().cycle()) {
        let left = chunker.left();
        match step {
            ChunkerCall::Begin(supply, workers) => chunker.begin(*supply, workers, knowledge),
            ChunkerCall::Ask(worker, most) => {
                let size = chunker.next_up_to(*worker, *most, knowledge);
                assert!(size.is_none_or(|size| (1..=(*most).max(1)).contains(&size)), "{size:?} of {most}");
                if let Supply::Exactly(left) = left {
                    assert_eq!(size.is_none(), left == 0);
                    assert!(size.is_none_or(|size| size <= left), "{size:?} of {left}");
                    assert_eq!(chunker.left(), Supply::Exactly(left - size.unwrap_or(0)));
                }
                newest = size.map(|size| (*worker, size));
            }
            ChunkerCall::Back(seconds) => {
                if let Some((worker, tasks)) = newest.take() {
                    chunker.done(&ChunkDone::timed(worker, tasks, seconds * tasks as f64));
                }
            }
            ChunkerCall::Done(done) => chunker.done(done),
            ChunkerCall::GiveBack(tasks) => chunker.return_tasks(*tasks),
            ChunkerCall::Supply(supply) => chunker.set_supply(*supply, knowledge),
            ChunkerCall::Join(worker) => chunker.join(*worker),
            ChunkerCall::Leave(worker) => chunker.leave(*worker),
        }
        let _ = (chunker.take_choice(), chunker.simulated_chunks());
    }
    let all = chunker.statistics().all();
    assert!(all.mean().is_finite() && all.variance() >= 0.0, "{all:?}");
}

fn policies() -> impl Iterator<Item = Chunking> {
    Chunking::all().chain([Chunking::fixed(7), Chunking::fixed(usize::MAX)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn chunker_dispatches_all_tasks_on_any_input(
        steps in prop::collection::vec(step(), 0..40),
        knowledge in prop::collection::vec(knowledge(), 1..4),
    ) {
        in_time(move || {
            for chunking in policies() {
                play(chunking, &steps, &knowledge);
            }
        });
    }

    #[test]
    fn any_number_of_tasks_is_dispatched(
        tasks in count(),
        workers in prop::collection::vec(index(), 1..5),
        knowledge in knowledge(),
        seconds in number(),
    ) {
        in_time(move || {
            for chunking in policies() {
                let mut chunker = Chunker::new(chunking);
                for _ in 0..2 {
                    chunker.begin(Supply::Exactly(tasks), &workers, &knowledge);
                    let (mut left, mut asked) = (tasks, 0);
                    while let Some(size) = chunker.next(workers[asked % workers.len()], &knowledge) {
                        left -= size;
                        chunker.done(&ChunkDone::timed(workers[asked % workers.len()], size, seconds * size as f64));
                        asked += 1;
                        if asked == 60 {
                            break;
                        }
                    }
                    assert!(left == 0 || asked == 60, "{chunking}: {left} left after {asked} chunks");
                }
            }
        });
    }

    #[test]
    fn any_model_compares_all_worker_counts(
        messages in messages(),
        (volume, out, compute, master) in (number(), number(), number(), number()),
        synchronous in any::<bool>(),
        (first, last) in (index(), index()),
        serving in number(),
    ) {
        in_time(move || {
            let protocol = if synchronous { Protocol::Synchronous } else { Protocol::Asynchronous };
            let model = IterationModel { messages, volume, out, compute, master, protocol };
            let stream = StreamModel { serving, compute };
            let is_in = |n: usize| n == first.max(1) || (first..=last).contains(&n);
            assert!(is_in(model.fastest(first..=last)) && is_in(model.best(first..=last)));
            let most = model.most_workers(first..=last);
            assert!(most == first || (first..=last).contains(&most));
            let _ = (model.time(0), model.time(first), model.efficiency(last), model.performance_index(first));
            let _ = (model.capability(first), model.is_start_up_bound(last), stream.busy());
            let mut count = WorkerCount::new(WorkerCount::options()).unwrap();
            for wanted in [count.wanted(first..=last, &model), count.wanted(first..=last, &stream)] {
                assert!(wanted >= 1);
            }
            for now in [0.0, serving, compute] {
                let decision = count.evaluate(now, volume, first, first..=last, &model, None, master);
                if decision.is_act() {
                    count.acted(now, master);
                }
                let _ = (count.evaluate(now, master, last, first..=last, &stream, Some(1), out), count.outcome());
            }
            if model.validate().is_ok() {
                let time = model.time(1);
                assert!(time >= 0.0 && time.is_finite(), "{time}");
            }
        });
    }

    #[test]
    fn formulas_statistics_and_fits_accept_any_numbers(
        messages in messages(),
        seen in prop::collection::vec((number(), number()), 0..40),
        iterations in some((number(), number(), number(), number())),
        reports in some((index(), count(), number(), number())),
        (workers, mean, deviation) in (index(), number(), number()),
        times in some((index(), prop::option::of(number()))),
    ) {
        in_time(move || {
            let mut fit = FarmFit::new(messages);
            seen.iter().for_each(|&(bytes, seconds)| fit.message(bytes, seconds));
            iterations.iter().for_each(|&(out, back, compute, master)| fit.iteration(out, back, compute, master));
            let costs = fit.messages();
            assert!(costs.start_up.small.is_finite() && costs.per_byte.is_finite(), "{costs:?}");
            let _ = fit.model(Protocol::Asynchronous);
            let mut statistics = TaskStatistics::default();
            for (i, &(worker, tasks, sum, squares)) in reports.iter().enumerate() {
                statistics.add(&ChunkDone { worker, tasks, sum, squares, elapsed: sum });
                statistics.add(&ChunkDone::timed(worker, tasks, sum));
                if i % 3 == 2 {
                    statistics.begin();
                    statistics.forget(worker);
                }
            }
            assert!(statistics.block() >= 1.0 && statistics.all().mean().is_finite());
            let _ = performance_index(workers, mean, deviation);
            assert_eq!(WorkerCount::active(&times, workers).len(), times.len().min(workers));
        });
    }
}

/// Regression: the simulation multiplied the numbers of tasks in two parts of an iteration, which overflowed with more than 2^32 tasks in each part.
#[test]
fn iterations_of_very_many_tasks_are_simulated() {
    for tasks in [1 << 33, 1 << 40, u64::MAX] {
        in_time(move || {
            let mut chunker = Chunker::new(Chunking::Auto);
            let mut knowledge = Knowledge { messages: MessageCosts::new(1e-4, 1e-8), ..Knowledge::default() };
            for _ in 0..3 {
                chunker.begin(Supply::Exactly(tasks), &[0, 1, 2, 3], &knowledge);
                let mut left = tasks;
                for worker in (0..4).cycle() {
                    knowledge.now += 1.0;
                    let Some(size) = chunker.next(worker, &knowledge) else { break };
                    left -= size;
                    // The time per task differs between workers, so that the variance of task times is not 0.
                    let seconds = size as f64 * 1e-9 * (1.0 + 0.1 * worker as f64);
                    chunker.done(&ChunkDone::timed(worker, size, seconds));
                }
                assert_eq!((left, chunker.left()), (0, Supply::Exactly(0)));
            }
            let all = chunker.statistics().all();
            assert!((1e-9..1.4e-9).contains(&all.mean()), "{all:?}");
        });
    }
}

#[test]
fn worker_numbers_may_be_arbitrary() {
    for chunking in policies() {
        in_time(move || {
            let workers = [usize::MAX, 1 << 40, 3];
            let knowledge = Knowledge::default();
            let mut chunker = Chunker::new(chunking);
            for _ in 0..3 {
                chunker.begin(Supply::Exactly(1000), &workers, &knowledge);
                let mut left = 1000;
                for worker in workers.into_iter().cycle() {
                    let Some(size) = chunker.next(worker, &knowledge) else { break };
                    left -= size;
                    chunker.done(&ChunkDone::timed(
                        worker,
                        size,
                        size as f64 * if worker == 3 { 0.1 } else { 0.3 },
                    ));
                }
                assert_eq!(left, 0);
            }
        });
    }
}
