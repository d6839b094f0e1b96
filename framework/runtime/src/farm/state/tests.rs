//! Tests the task table in a simulation in which workers join late, answer in any order, fail, die, and answer after
//! they were declared dead.

use super::*;
use crate::wire::Item;
use crate::wire::erased::typed;

pub(super) fn fresh<T: Item>(first: u64, tasks: Vec<T>) -> PendingTasks {
    PendingTasks { first, tasks: Box::new(tasks), attempts: Attempts::default(), avoid: None }
}

fn failed(failed: u32) -> Attempts {
    Attempts { failed, ..Attempts::default() }
}

pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

#[derive(Clone)]
struct Held {
    id: u64,
    worker: usize,
    tasks: Vec<u64>,
    attempt: u32,
}

struct World {
    dice: Dice,
    master: TaskTable<Vec<u64>>,
    drawn: u64,
    total: u64,
    held: Vec<Held>,
    ended: Vec<u32>,
    tried: Vec<u32>,
    retries: u32,
    copies: bool,
}

impl World {
    fn new(seed: u64, size: usize, total: u64, retries: u32) -> Self {
        World {
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            master: TaskTable::new(size, retries),
            drawn: 0,
            total,
            held: Vec::new(),
            ended: vec![0; total as usize],
            tried: vec![0; total as usize],
            retries,
            copies: seed.is_multiple_of(2),
        }
    }

    fn serve(&mut self) {
        let ahead = self.dice.below(3) as f64;
        let own = (self.dice.below(3) == 0 && self.master.workers().state_of(0) == WorkerState::Active)
            .then_some(0);
        for worker in own.into_iter().chain(self.master.workers().requesting(ahead).collect::<Vec<_>>()) {
            let size = 1 + self.dice.below(5) as u64;
            let pending = self.master.take_requeued(worker, size).or_else(|| {
                let tasks: Vec<u64> = (self.drawn..self.total.min(self.drawn + size)).collect();
                let pending = fresh(self.drawn, tasks);
                self.drawn += pending.tasks.len() as u64;
                (pending.tasks.len() > 0).then_some(pending)
            });
            let Some(PendingTasks { first, tasks, attempts, .. }) = pending else { continue };
            let tasks = typed::<u64>(tasks).unwrap();
            assert!(
                !attempts.is_suspect() || (worker > 0 && self.master.workers().held(worker) == 0),
                "done alone"
            );
            assert!(
                tasks.len() as u64 <= size && tasks.iter().copied().eq(first..first + tasks.len() as u64)
            );
            let range = (first, tasks.len() as u32);
            let id = self.master.dispatch(worker, range, attempts, tasks.clone(), Duration::ZERO);
            self.held.push(Held { id, worker, tasks, attempt: attempts.failed });
            return;
        }
    }

    fn copy(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let of = self.held[self.dice.below(self.held.len())].id;
        let size = self.master.workers().size();
        let is_idle = |&rank: &usize| {
            self.master.workers().state_of(rank) == WorkerState::Active
                && self.master.workers().held(rank) == 0
        };
        let Some(worker) = (0..size).find(is_idle) else { return };
        let Some(copy) = self.master.give_copy(of, worker, Duration::ZERO) else { return };
        let tasks = copy.kept[copy.skip as usize..][..copy.count as usize].to_vec();
        assert!(tasks[0] == copy.first && !copy.attempts.is_suspect());
        self.held.push(Held { id: copy.id, worker, tasks, attempt: copy.attempts.failed });
    }

    /// Delivers the result of a random worker. If the worker was lost, its result must be ignored.
    fn answer(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let at = self.dice.below(self.held.len());
        let Held { id, worker, tasks, attempt } = self.held.swap_remove(at);
        let count = 1 + self.dice.below(tasks.len());
        let mut tasks = tasks;
        let rest = tasks.split_off(count);
        let is_superseded = self.master.superseded(worker, id).is_some();
        let Some((given, is_last)) = self.master.done(worker, id, count as u32) else {
            // The worker continues a chunk of which no task is needed any more, because it does not know that.
            if is_superseded && !rest.is_empty() {
                self.held.push(Held { id, worker, tasks: rest, attempt });
            }
            return;
        };
        assert_eq!((given.first, given.worker, given.attempts.failed), (tasks[0], worker, attempt));
        assert!(given.kept[given.skip as usize..].starts_with(&tasks) && is_last == rest.is_empty());
        if !is_last {
            self.held.push(Held { id, worker, tasks: rest, attempt });
        }
        for task in tasks {
            if self.dice.below(8) > 0 {
                if !self.master.close(&given, task..task + 1).is_empty() {
                    self.end(task, false);
                }
                continue;
            }
            if self.master.take_back(&given, task..task + 1).is_empty() {
                continue;
            }
            self.tried[task as usize] += 1;
            let attempts = failed(attempt + 1);
            match attempts.is_exhausted(self.master.tries()) {
                true => self.end(task, true),
                false => {
                    let avoid = Some(worker);
                    self.master.requeue(PendingTasks { attempts, avoid, ..fresh(task, vec![task]) });
                }
            }
        }
    }

    fn end(&mut self, task: u64, failed: bool) {
        self.ended[task as usize] += 1;
        self.master.ended(1, u64::from(failed));
    }

    fn lose(&mut self, worker: usize, state: WorkerState) {
        for given in self.master.lose(worker, state) {
            let attempts = given.attempts;
            for run in self.master.take_back(&given, given.first..given.first + u64::from(given.count)) {
                let place = |task: u64| given.skip as usize + (task - given.first) as usize;
                let left = given.kept[place(run.start)..place(run.end)].to_vec();
                self.master.requeue(PendingTasks { attempts, ..fresh(run.start, left) });
            }
        }
    }

    /// Parks and wakes ranks, and checks that the intended number of ranks runs tasks, or all ranks that can if these are fewer. One rank more may
    /// run tasks if the number is one.
    fn adjust_active(&mut self, size: usize) {
        let seconds = |rank: usize| (!rank.is_multiple_of(3)).then_some(rank as f64);
        self.master.adjust_active(seconds);
        let workers = self.master.workers();
        let (working, target) = (workers.working(), self.master.target());
        let all =
            (0..size).filter(|&r| [WorkerState::Active, WorkerState::Parked].contains(&workers.state_of(r)));
        let all = all.count();
        assert!(
            working == target.min(all) || (target == 1 && working == 2),
            "{working} of {all}, {target} wanted"
        );
        assert!(workers.state_of(0) == WorkerState::Active && workers.parked() == all - working);
    }

    fn run(&mut self, size: usize) {
        self.master.workers_mut().set(0, WorkerState::Active);
        let mut steps = 0;
        while self.drawn < self.total || !self.master.is_empty() {
            steps += 1;
            assert!(steps < 100_000, "it does not end: {}", self.master.describe());
            // Ranks are parked (get no more tasks) and woken in every step; this must not affect tasks that are lost or requeued.
            self.adjust_active(size);
            match self.dice.below(40) {
                2 => self.master.set_target(self.dice.below(size + 1)),
                0 => {
                    let rank = self.dice.below(size);
                    if self.master.workers().state_of(rank) == WorkerState::Expected {
                        let enough = self.master.workers().working() >= self.master.target();
                        assert_eq!(self.master.join(rank, 0), !enough);
                    }
                }
                1 if self.dice.below(4) == 0 => {
                    let rank = self.dice.below(size);
                    if rank > 0 && self.master.workers().state_of(rank) != WorkerState::Dead {
                        self.lose(rank, WorkerState::Dead);
                    }
                }
                20 => {
                    let rank = self.dice.below(size);
                    match self.master.workers().state_of(rank) {
                        WorkerState::Suspected => self.master.workers_mut().set(rank, WorkerState::Active),
                        WorkerState::Active | WorkerState::Parked if rank > 0 => {
                            self.lose(rank, WorkerState::Suspected)
                        }
                        _ => {}
                    }
                }
                3..20 => self.serve(),
                21..30 if self.copies => self.copy(),
                _ => self.answer(),
            }
        }
    }
}

#[test]
fn every_task_ends_once_despite_deaths_and_failures() {
    let mut ended_in_copies = 0;
    for seed in 1..800 {
        let (size, total, retries) = (1 + seed as usize % 6, seed % 97, seed as u32 % 4);
        let mut world = World::new(seed, size, total, retries);
        world.run(size);
        assert!(world.ended.iter().all(|&n| n == 1), "seed {seed}: {:?}", world.ended);
        assert!(world.tried.iter().all(|&n| n <= world.retries + 1), "seed {seed}");
        let counts = world.master.counts();
        let failed = world.tried.iter().filter(|&&n| n == retries + 1).count() as u64;
        assert_eq!((counts.ended, counts.failed), (total, failed), "seed {seed}");
        assert_eq!(world.master.waiting(), 0);
        while !world.held.is_empty() {
            world.answer();
        }
        assert!(world.ended.iter().all(|&n| n == 1), "seed {seed}");
        assert!((0..size).all(|rank| world.master.workers().held(rank) == 0), "seed {seed}");
        assert!(world.master.counts().copies == 0 || world.copies);
        ended_in_copies += counts.ended_in_copies;
    }
    assert!(ended_in_copies > 200, "the copies hardly matter: {ended_in_copies}");
}

#[test]
fn failed_task_is_retried_on_another_rank_if_possible() {
    let mut master = TaskTable::<()>::new(3, 1);
    (1..3).for_each(|r| master.workers_mut().set(r, WorkerState::Active));
    master.requeue(PendingTasks { attempts: failed(1), avoid: Some(1), ..fresh(7, vec![7u8, 8, 9]) });
    assert!(master.take_requeued(1, 9).is_none());
    let pending = master.take_requeued(2, 2).unwrap();
    assert_eq!((pending.first, typed::<u8>(pending.tasks).unwrap(), master.waiting()), (7, vec![7, 8], 1));
    assert!(master.lose(2, WorkerState::TimedOut).is_empty());
    let pending = master.take_requeued(1, 2).unwrap();
    assert_eq!(
        (pending.first, typed::<u8>(pending.tasks).unwrap(), pending.attempts.failed, master.waiting()),
        (9, vec![9], 1, 0)
    );
}

#[test]
fn results_count_only_from_the_holder_of_the_chunk() {
    let mut master = TaskTable::<&str>::new(3, 0);
    (1..3).for_each(|r| master.workers_mut().set(r, WorkerState::Active));
    let id = master.dispatch(1, (0, 4), Default::default(), "kept", Duration::ZERO);
    assert!(master.done(2, id, 4).is_none() && master.done(1, id + 1, 4).is_none());
    let lost = master.lose(1, WorkerState::Dead);
    assert_eq!((lost.len(), lost[0].kept, lost[0].count), (1, "kept", 4));
    assert!(master.done(1, id, 4).is_none());
    assert_eq!((master.counts().stale, master.counts().again), (3, 4));
}

#[test]
fn parked_ranks_finish_chunks_and_replace_dead_ranks() {
    let mut master = TaskTable::<&str>::new(4, 0);
    (1..4).for_each(|r| master.workers_mut().set(r, WorkerState::Active));
    let id = master.dispatch(3, (0, 4), Default::default(), "kept", Duration::ZERO);
    let lost = master.dispatch(2, (4, 4), Default::default(), "lost", Duration::ZERO);
    master.set_target(1);
    let change = master.adjust_active(|rank| Some(rank as f64));
    assert_eq!((change.parked, master.workers().requesting(9.0).collect::<Vec<_>>()), (vec![2, 3], vec![1]));
    assert_eq!(master.done(3, id, 4).map(|g| g.0.kept), Some("kept"), "its result counts");
    assert_eq!(master.lose(2, WorkerState::Dead)[0].kept, "lost", "what a parked rank had comes back");
    assert!(master.done(2, lost, 4).is_none());
    master.lose(1, WorkerState::Dead);
    assert_eq!(master.workers().working(), 0);
    assert_eq!(master.adjust_active(|_| None).woken, [3], "somebody has to work");
    assert_eq!(master.adjust_active(|_| None), Change::default());
}

#[test]
fn parked_rank_is_woken_to_retry_a_failed_task() {
    let mut master = TaskTable::<()>::new(3, 1);
    (1..3).for_each(|r| master.workers_mut().set(r, WorkerState::Active));
    master.set_target(1);
    assert_eq!(master.adjust_active(|_| None).parked, [2]);
    master.requeue(PendingTasks { attempts: failed(1), avoid: Some(1), ..fresh(7, vec![7u8]) });
    assert!(master.take_requeued(1, 1).is_none());
    assert_eq!(master.adjust_active(|_| None).woken, [2]);
    assert_eq!(master.take_requeued(2, 1).map(|p| p.first), Some(7));
    assert_eq!(master.adjust_active(|_| None).parked, [2], "it is needed no more");
}
