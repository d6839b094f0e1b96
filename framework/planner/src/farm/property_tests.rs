//! Tests that each task of a farm is dispatched exactly once, in whatever order workers request chunks, die and join.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum FarmEvent {
    Ask(usize),
    /// The results of the oldest chunk of the n-th worker arrive; each task took the given number of microseconds.
    Back(usize, u32),
    Die(usize),
    Join(usize),
    /// The caller returns one task of the last chunk of the n-th worker, as if the source had fewer tasks.
    Less(usize),
}

fn step() -> impl Strategy<Value = FarmEvent> {
    prop_oneof![
        6 => (0..6_usize).prop_map(FarmEvent::Ask),
        5 => (0..6_usize, 0..2000_u32).prop_map(|(worker, time)| FarmEvent::Back(worker, time)),
        1 => (0..6_usize).prop_map(FarmEvent::Die),
        1 => (0..6_usize).prop_map(FarmEvent::Join),
        1 => (0..6_usize).prop_map(FarmEvent::Less),
    ]
}

fn policies() -> Vec<Chunking> {
    Chunking::all().chain([Chunking::fixed(7)]).collect()
}

#[derive(Default)]
struct Books {
    out: Vec<VecDeque<u64>>,
    given: u64,
    done: u64,
    now: f64,
}

impl Books {
    fn new() -> Self {
        Books { out: vec![VecDeque::new(); 6], ..Books::default() }
    }

    fn ask(&mut self, chunker: &mut Chunker, worker: usize, knowledge: &mut Knowledge) -> bool {
        self.now += 1e-4;
        knowledge.now = self.now;
        let before = chunker.left();
        let size = chunker.next(worker, knowledge);
        if let Supply::Exactly(left) = before {
            assert_eq!(size.is_none(), left == 0);
            assert!(size.is_none_or(|size| (1..=left).contains(&size)), "{size:?} of {left}");
        }
        let Some(size) = size else { return false };
        self.out[worker].push_back(size);
        self.given += size;
        true
    }

    fn back(&mut self, chunker: &mut Chunker, worker: usize, micros: u32) {
        let Some(tasks) = self.out[worker].pop_front() else { return };
        let seconds = f64::from(micros) * 1e-6 * tasks as f64;
        chunker.done(&ChunkDone::timed(worker, tasks, seconds));
        self.done += tasks;
    }

    fn die(&mut self, chunker: &mut Chunker, worker: usize) {
        chunker.leave(worker);
        let lost: u64 = self.out[worker].drain(..).sum();
        chunker.return_tasks(lost);
        self.given -= lost;
    }

    fn play(&mut self, chunker: &mut Chunker, step: &FarmEvent, knowledge: &mut Knowledge) {
        match *step {
            FarmEvent::Ask(worker) => {
                self.ask(chunker, worker, knowledge);
            }
            FarmEvent::Back(worker, micros) => self.back(chunker, worker, micros),
            FarmEvent::Die(worker) => self.die(chunker, worker),
            FarmEvent::Join(worker) => chunker.join(worker),
            FarmEvent::Less(worker) => {
                if let Some(tasks) = self.out[worker].back_mut()
                    && *tasks > 1
                {
                    *tasks -= 1;
                    self.given -= 1;
                    chunker.return_tasks(1);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_task_is_dispatched_once(
        iterations in prop::collection::vec((0..3000_u64, prop::collection::vec(step(), 0..60)), 1..5),
        messages in (0.0..2e-3_f64, 0.0..1e-5_f64),
        ahead in 0..4_u32,
    ) {
        for chunking in policies() {
            let mut knowledge = Knowledge {
                messages: MessageCosts::new(messages.0, messages.1),
                task_bytes: 20.0,
                result_bytes: 8.0,
                ahead,
                ..Knowledge::default()
            };
            let mut chunker = Chunker::new(chunking);
            for (tasks, steps) in &iterations {
                let mut books = Books { now: knowledge.now, ..Books::new() };
                chunker.begin(Supply::Exactly(*tasks), &[0, 1, 4], &knowledge);
                for step in steps {
                    books.play(&mut chunker, step, &mut knowledge);
                    prop_assert_eq!(chunker.left(), Supply::Exactly(tasks - books.given), "{}", chunking);
                }
                for worker in [0, 1, 2, 4, 5] {
                    books.die(&mut chunker, worker);
                }
                let mut chunks = 0;
                while books.ask(&mut chunker, 3, &mut knowledge) {
                    chunks += 1;
                    prop_assert!(chunks <= *tasks);
                }
                while !books.out[3].is_empty() {
                    books.back(&mut chunker, 3, 100);
                }
                prop_assert_eq!((books.given, books.done), (*tasks, *tasks), "{}", chunking);
            }
        }
    }

    #[test]
    fn stream_is_dispatched_until_its_end(
        length in 0..5000_u64,
        steps in prop::collection::vec(step(), 0..200),
        window in 1..300_u64,
    ) {
        for chunking in policies() {
            let mut knowledge = Knowledge { messages: MessageCosts::new(1e-4, 1e-8), ..Knowledge::default() };
            let mut chunker = Chunker::new(chunking);
            chunker.begin(Supply::AtLeast(0), &[0, 1], &knowledge);
            let (mut left, mut ended) = (length, false);
            for step in &steps {
                match *step {
                    FarmEvent::Ask(worker) => {
                        knowledge.now += 1e-4;
                        let size = chunker.next_up_to(worker, window, &knowledge).unwrap();
                        prop_assert!((1..=window).contains(&size));
                        // The stream has fewer tasks left than the chunk needs, so the caller returns the missing tasks and reports the end of the
                        // stream.
                        if size > left {
                            chunker.return_tasks(size - left);
                            chunker.set_supply(Supply::Exactly(0), &knowledge);
                            (left, ended) = (0, true);
                            break;
                        }
                        left -= size;
                    }
                    FarmEvent::Back(worker, micros) => {
                        chunker.done(&ChunkDone::timed(worker, 3, f64::from(micros) * 1e-6));
                    }
                    _ => {}
                }
            }
            if !ended {
                chunker.set_supply(Supply::Exactly(left), &knowledge);
            }
            while let Some(size) = chunker.next(1, &knowledge) {
                prop_assert!(size <= left);
                left -= size;
            }
            prop_assert_eq!(left, 0);
        }
    }
}

#[test]
fn dispatch_ends_with_extreme_times_and_costs() {
    for chunking in policies() {
        for knowledge in [
            Knowledge { messages: MessageCosts::new(1e9, 1e9), task_bytes: 1e12, ..Knowledge::default() },
            Knowledge { messages: MessageCosts::FREE, ..Knowledge::default() },
        ] {
            let mut chunker = Chunker::new(chunking);
            for seconds in [0.0, f64::NAN, 1e300, f64::INFINITY, -1.0] {
                chunker.begin(Supply::Exactly(50), &[0, 1], &knowledge);
                let mut left = 50;
                while let Some(size) = chunker.next(usize::from(left % 2 == 0), &knowledge) {
                    left -= size;
                    chunker.done(&ChunkDone::timed(1, size, seconds));
                }
                assert_eq!(left, 0, "{chunking}");
            }
        }
    }
}
