//! Tests which tasks are blamed for deaths of ranks, in a simulation with tasks that kill every rank that runs them, and with unrelated deaths.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::tests::{Dice, fresh};
use super::super::{PendingTasks, WorkerState};
use super::*;
use crate::tasks::Suspicion;
use crate::wire::erased::typed;

fn chunk(id: u64, first: u64, count: u32) -> OutstandingChunk<()> {
    OutstandingChunk {
        id,
        worker: 1,
        first,
        count,
        skip: 0,
        attempts: Attempts::default(),
        since: Duration::ZERO,
        alone: false,
        is_copy: false,
        has_copy: false,
        superseded: false,
        kept: (),
    }
}

fn blames_of(
    chunks: &[OutstandingChunk<()>],
    last_activity: LastActivity,
) -> Vec<(usize, Range<u32>, Blame)> {
    blame(chunks, last_activity).into_iter().map(|s| (s.chunk, s.places, s.blame)).collect()
}

#[test]
fn only_the_task_in_the_trail_is_guilty() {
    use Blame::{Guilty, Innocent, Suspect};
    let chunks = [chunk(4, 10, 5), chunk(6, 20, 5)];
    let blames = blames_of(&chunks, LastActivity::Chunk { id: 4, task: Some(12) });
    let rest = (1, 0..5, Innocent);
    assert_eq!(blames, [(0, 0..2, Innocent), (0, 2..3, Guilty), (0, 3..5, Innocent), rest]);
    // If the flight record (last activity) of the dead rank names only a chunk, all tasks of this chunk are suspected of the death.
    let blames = blames_of(&chunks, LastActivity::Chunk { id: 6, task: None });
    assert_eq!(blames, [(0, 0..5, Innocent), (1, 0..5, Suspect(1))]);
    assert_eq!(blames_of(&chunks[..1], LastActivity::Innocent), [(0, 0..5, Innocent)]);
    assert_eq!(blames_of(&[chunk(1, 3, 1)], LastActivity::Chunk { id: 1, task: None }), [(0, 0..1, Guilty)]);
    // If the dead rank's flight record (last activity) names a chunk that the rank has completed, no task is suspected of the death.
    assert_eq!(blames_of(&chunks[..1], LastActivity::Chunk { id: 1, task: None }), [(0, 0..5, Innocent)]);
}

#[test]
fn tasks_after_the_last_heartbeat_are_suspect_without_trail() {
    use Blame::{Guilty, Innocent, Suspect};
    let chunks = [chunk(4, 10, 5), chunk(6, 20, 5), chunk(7, 25, 9)];
    let blames = blames_of(&chunks, LastActivity::Behind(Some(22)));
    let second = [(1, 0..2, Innocent), (1, 2..5, Suspect(1))];
    assert_eq!(blames, [&[(0, 0..5, Innocent)], &second[..], &[(2, 0..9, Suspect(9))]].concat());
    let blames = blames_of(&chunks[..2], LastActivity::Behind(None));
    assert_eq!(blames, [(0, 0..5, Suspect(1)), (1, 0..5, Suspect(5))]);
    assert_eq!(blames_of(&[chunk(4, 10, 1)], LastActivity::Behind(None)), [(0, 0..1, Guilty)]);
    let two = [chunk(4, 10, 1), chunk(5, 11, 1)];
    assert_eq!(blames_of(&two, LastActivity::Behind(None)), [(0, 0..1, Suspect(1)), (1, 0..1, Suspect(1))]);
    // The 41,000 tasks of a single chunk are suspected. They run again in chunks of eleven, because one chunk for each would take too long.
    assert_eq!(blames_of(&[chunk(4, 0, 41_000)], LastActivity::Behind(None)), [(0, 0..41_000, Suspect(11))]);
}

/// A second rank dies while it holds a task of which one rank has died. If the second rank's flight record (its last activity) does not name this
/// task, the rank was killed before it began the task, and the task is not blamed for this death.
#[test]
fn suspect_missing_from_the_trail_is_innocent() {
    use Blame::{Guilty, Innocent, Suspect};
    let suspicion = Suspicion { certain: 1, most: 1, ..Suspicion::default() };
    let attempts = Attempts { failed: 0, suspicion };
    let suspect = || OutstandingChunk { attempts, ..chunk(4, 10, 1) };
    assert_eq!(blames_of(&[suspect()], LastActivity::Unrecorded(None)), [(0, 0..1, Innocent)]);
    assert_eq!(blames_of(&[suspect()], LastActivity::Behind(None)), [(0, 0..1, Guilty)]);
    // Flight records (last activities of dead ranks) do not name short chunks. A task in which no rank has died is therefore blamed although the
    // record of the dead rank names nothing.
    assert_eq!(blames_of(&[chunk(4, 10, 1)], LastActivity::Unrecorded(None)), [(0, 0..1, Guilty)]);
    let blames = blames_of(&[chunk(3, 5, 2), suspect()], LastActivity::Unrecorded(None));
    assert_eq!(blames, [(0, 0..2, Suspect(1)), (1, 0..1, Innocent)]);
}

/// Simulation of a farm in which some tasks kill every rank that runs them. Dead ranks may leave flight records (their last activities).
struct World {
    dice: Dice,
    master: TaskTable<Vec<u64>>,
    deadly: BTreeSet<u64>,
    /// Deadly tasks (tasks that kill every rank that runs them) that have already killed one rank.
    killed: BTreeSet<u64>,
    drawn: u64,
    total: u64,
    held: BTreeMap<usize, Vec<(u64, Vec<u64>)>>,
    done: BTreeSet<u64>,
    failed: BTreeSet<u64>,
    deaths: usize,
    flight_records: bool,
    copies: bool,
}

impl World {
    fn serve(&mut self) {
        let ahead = self.dice.below(3) as f64;
        let mut workers: Vec<usize> = self.master.workers().requesting(ahead).collect();
        workers.push(0);
        for worker in workers {
            if self.master.must_drain(worker) {
                continue;
            }
            let size = 1 + self.dice.below(6) as u64;
            let pending = self.master.take_requeued(worker, size).or_else(|| {
                let tasks: Vec<u64> = (self.drawn..self.total.min(self.drawn + size)).collect();
                let first = self.drawn;
                self.drawn += tasks.len() as u64;
                (!tasks.is_empty()).then(|| fresh(first, tasks))
            });
            let Some(PendingTasks { first, tasks, attempts, .. }) = pending else { continue };
            let tasks = typed::<u64>(tasks).unwrap();
            assert!(worker > 0 || !attempts.is_suspect(), "rank 0 risks nothing");
            assert!(tasks.len() as u64 <= u64::from(attempts.suspicion.most.max(6)));
            let range = (first, tasks.len() as u32);
            let id = self.master.dispatch(worker, range, attempts, tasks.clone(), Duration::ZERO);
            self.held.entry(worker).or_default().push((id, tasks));
        }
    }

    /// Lets a rank complete tasks of its oldest chunk, or die if the chunk contains a deadly task (one that kills every rank that
    /// runs it).
    fn work(&mut self, rank: usize) {
        let Some(chunks) = self.held.get_mut(&rank).filter(|chunks| !chunks.is_empty()) else { return };
        let (id, tasks) = chunks[0].clone();
        if rank == 0 && self.master.superseded(0, id).is_some() {
            // Tasks that have ended in another copy of the chunk need not run, so rank 0 drops the chunk.
            chunks.remove(0);
            assert!(self.master.done(0, id, tasks.len() as u32).is_none());
            return;
        }
        if rank == 0 {
            // Rank 0 may get a deadly task (one that kills every rank that runs it) as long as no rank has died in it. In this simulation rank 0
            // survives the task.
            assert!(tasks.iter().all(|task| !self.killed.contains(task)), "rank 0 dies of {tasks:?}");
            self.deadly.retain(|task| !tasks.contains(task));
        }
        let Some(&deadly) = tasks.iter().find(|task| self.deadly.contains(task)) else {
            let count = 1 + self.dice.below(tasks.len());
            let (tasks, rest) = tasks.split_at(count);
            if rest.is_empty() {
                chunks.remove(0);
            } else {
                chunks[0].1 = rest.to_vec();
            }
            let is_superseded = self.master.superseded(rank, id).is_some();
            let Some((given, _)) = self.master.done(rank, id, count as u32) else {
                assert!(is_superseded, "it is the rank's");
                return;
            };
            for task in
                self.master.close(&given, tasks[0]..tasks[0] + tasks.len() as u64).into_iter().flatten()
            {
                self.master.ended(1, 0);
                assert!(self.done.insert(task), "task {task} is done twice");
            }
            return;
        };
        self.killed.insert(deadly);
        let last_activity = match self.dice.below(3) {
            0 if self.flight_records => LastActivity::Chunk { id, task: Some(deadly) },
            1 if self.flight_records => LastActivity::Chunk { id, task: None },
            _ => LastActivity::Behind(None),
        };
        self.die(rank, last_activity);
    }

    fn die(&mut self, rank: usize, last_activity: LastActivity) {
        self.deaths += 1;
        self.held.remove(&rank);
        let chunks = self.master.lose(rank, WorkerState::Dead);
        let reassigned = self.master.assess_death(&chunks, last_activity);
        let tasks = |share: &Share| {
            let first = chunks[share.chunk].first;
            first + u64::from(share.places.start)..first + u64::from(share.places.end)
        };
        let blamed = reassigned.iter().filter(|(_, share)| share.blame != Blame::Innocent);
        let recalled: Vec<_> = blamed
            .filter_map(|(_, share)| self.master.recall_other(&chunks[share.chunk], tasks(share)))
            .collect();
        for (attempts, share) in &reassigned {
            self.requeue(&chunks[share.chunk], tasks(share), *attempts);
        }
        for chunk in recalled {
            self.requeue(&chunk, chunk.first..chunk.first + u64::from(chunk.count), chunk.attempts);
        }
        self.master.clear_suspicions();
    }

    fn requeue(&mut self, given: &OutstandingChunk<Vec<u64>>, tasks: Range<u64>, attempts: Attempts) {
        for run in self.master.take_back(given, tasks) {
            let left = run.clone().collect();
            self.master.requeue(PendingTasks { attempts, ..fresh(run.start, left) });
        }
    }

    fn copy(&mut self, size: usize) {
        let workers = self.master.workers();
        let is_idle =
            |&rank: &usize| workers.state_of(rank) == WorkerState::Active && workers.held(rank) == 0;
        let Some(worker) = (0..size).find(is_idle) else { return };
        let ids: Vec<u64> = self.held.values().flatten().map(|(id, _)| *id).collect();
        if ids.is_empty() {
            return;
        }
        let of = ids[self.dice.below(ids.len())];
        let Some(copy) = self.master.give_copy(of, worker, Duration::ZERO) else { return };
        let tasks = (copy.first..copy.first + u64::from(copy.count)).collect();
        self.held.entry(worker).or_default().push((copy.id, tasks));
    }

    fn fail_abandoned(&mut self) {
        while let Some(pending) = self.master.take_abandoned() {
            self.master.ended(pending.tasks.len() as u64, pending.tasks.len() as u64);
            self.failed.extend(typed::<u64>(pending.tasks).unwrap());
        }
    }

    fn run(&mut self, size: usize) {
        (0..size).for_each(|rank| self.master.workers_mut().set(rank, WorkerState::Active));
        let mut steps = 0;
        while self.drawn < self.total || !self.master.is_empty() {
            steps += 1;
            assert!(steps < 100_000, "it does not end: {}", self.master.describe());
            self.master.adjust_active(|_| None);
            self.fail_abandoned();
            match self.dice.below(8) {
                0 => self.master.set_target(1 + self.dice.below(size)),
                1..4 => self.serve(),
                4 if self.copies => self.copy(size),
                _ => {
                    let rank = self.dice.below(size);
                    self.work(rank);
                }
            }
        }
    }
}

fn world(seed: u64, size: usize, retries: u32, deadly: &[u64]) -> World {
    World {
        dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        master: TaskTable::new(size, retries),
        deadly: deadly.iter().copied().collect(),
        killed: BTreeSet::new(),
        drawn: 0,
        total: 60,
        held: BTreeMap::new(),
        done: BTreeSet::new(),
        failed: BTreeSet::new(),
        deaths: 0,
        flight_records: seed.is_multiple_of(2),
        copies: false,
    }
}

#[test]
fn only_the_deadly_task_fails_and_workers_survive() {
    let mut failed = 0;
    for seed in 1..600 {
        let (size, retries) = (3 + seed as usize % 5, seed as u32 % 4);
        let mut world = world(seed, size, retries, &[seed % 60]);
        world.run(size);
        assert!(world.failed.iter().eq(&world.deadly), "seed {seed}: {:?} failed", world.failed);
        assert_eq!(world.done.len() + world.failed.len(), 60, "seed {seed}");
        failed += world.failed.len();
        // A deadly task (one that kills every rank that runs it) kills at most one rank in its first chunk, one in a smaller chunk of suspected
        // tasks, and `retries` + 1 ranks when it runs alone.
        assert!(world.deaths <= 3 + retries as usize, "seed {seed}: {} deaths", world.deaths);
        assert!(size < 5 || world.deaths < size - 1, "seed {seed}: {} of {size} died", world.deaths);
    }
    assert!(failed > 300, "rank 0 had the task first in too many worlds: {failed}");
}

#[test]
fn rank_0_survives_and_executes_harmless_tasks() {
    for seed in 1..300 {
        let size = 2 + seed as usize % 4;
        let mut world = world(seed, size, 1, &[7, 21, 22, 40]);
        world.run(size);
        assert!(world.deadly.is_subset(&world.failed), "seed {seed}");
        assert_eq!(world.done.len() + world.failed.len(), 60, "seed {seed}");
        assert!(world.done.is_disjoint(&world.failed), "seed {seed}");
    }
}

#[test]
fn a_deadly_task_in_two_copies_is_the_only_one_that_fails() {
    let mut copies = 0;
    for seed in 1..600 {
        let (size, retries) = (3 + seed as usize % 5, seed as u32 % 4);
        let mut world = World { copies: true, ..world(seed, size, retries, &[seed % 60]) };
        world.run(size);
        assert!(world.failed.iter().eq(&world.deadly), "seed {seed}: {:?} failed", world.failed);
        assert_eq!(world.done.len() + world.failed.len(), 60, "seed {seed}");
        // A deadly task (one that kills every rank that runs it) may kill one rank more if its first chunk has a second copy.
        assert!(world.deaths <= 4 + retries as usize, "seed {seed}: {} deaths", world.deaths);
        copies += world.master.counts().copies;
    }
    assert!(copies > 200, "{copies} copies");
    for seed in 1..300 {
        let size = 2 + seed as usize % 4;
        let mut world = World { copies: true, ..world(seed, size, 1, &[7, 21, 22, 40]) };
        world.run(size);
        assert!(
            world.deadly.is_subset(&world.failed) && world.done.is_disjoint(&world.failed),
            "seed {seed}"
        );
        assert_eq!(world.done.len() + world.failed.len(), 60, "seed {seed}");
    }
}

#[test]
fn rank_drains_its_chunks_before_retrying_a_suspect() {
    let mut master = TaskTable::<()>::new(3, 1);
    (0..3).for_each(|r| master.workers_mut().set(r, WorkerState::Active));
    master.count_deaths_from(1);
    let suspicion = Suspicion { certain: 0, shared: 1, death: 1, most: 1 };
    let attempts = Attempts { failed: 0, suspicion };
    let first = master.dispatch(1, (0, 4), Default::default(), (), Duration::ZERO);
    master.requeue(PendingTasks { attempts, ..fresh(7, vec![7u64, 8]) });
    assert!(master.must_drain(1) && !master.must_drain(2) && !master.must_drain(0));
    assert!(
        master.take_requeued(1, 9).is_none() && master.take_requeued(0, 9).is_none(),
        "one is busy, one is rank 0"
    );
    let pending = master.take_requeued(2, 9).unwrap();
    assert_eq!((pending.first, typed::<u64>(pending.tasks).unwrap()), (7, vec![7]));
    let id = master.dispatch(2, (7, 1), attempts, (), Duration::ZERO);
    assert_eq!(master.workers().requesting(f64::MAX).collect::<Vec<_>>(), [1], "rank 2 gets nothing else");
    master.done(2, id, 1).unwrap();
    assert_eq!(master.workers().next_requesting(0.0), Some(2));
    master.done(1, first, 4).unwrap();
    assert!(!master.must_drain(1));
    // The last rank may try a task of which one rank has died, but not a task of which two ranks have died.
    master.lose(2, WorkerState::Dead);
    assert_eq!(master.take_requeued(1, 9).map(|pending| pending.first), Some(8));
    let two = Suspicion { certain: 2, shared: 0, death: 0, most: 1 };
    master.requeue(PendingTasks { attempts: Attempts { failed: 1, suspicion: two }, ..fresh(9, vec![9u64]) });
    assert!(master.take_requeued(1, 9).is_none());
    assert_eq!(master.take_abandoned().map(|pending| pending.first), Some(9));
}
