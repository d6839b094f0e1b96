//! What the master of a farm knows and decides: who has which tasks, and what becomes of them.
//!
//! No clock, no thread, no transport, no item that is looked at. The `README.md` beside this file has the protocol,
//! the states and the invariants.

mod blame;
mod crew;
mod deputy;
mod messages;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub(crate) use blame::{Heir, InHand, Suspicion};
pub(crate) use crew::{Change, Crew, Standing};
pub(crate) use deputy::Deputy;
pub(crate) use messages::{Attach, Driving, Giving, Hung, Join, Lead, Lost, Status, Times};

/// Consecutive tasks that lie at the master: drawn and not given to anyone, or come back from somebody.
#[derive(Debug)]
pub(crate) struct Piece<T> {
    /// Number of the first task.
    pub(crate) first: u64,
    pub(crate) tasks: Vec<T>,
    /// How often each of them has been tried before.
    pub(crate) attempt: u32,
    /// Where the last try failed: another rank is preferred.
    pub(crate) avoid: Option<usize>,
    /// Whether ranks have died over them.
    pub(crate) suspicion: Suspicion,
}

impl<T> Piece<T> {
    fn split_front(&mut self, most: u64) -> Piece<T> {
        let most = usize::try_from(most).unwrap_or(usize::MAX).clamp(1, self.tasks.len());
        let rest = self.tasks.split_off(most);
        let tasks = std::mem::replace(&mut self.tasks, rest);
        let first = self.first;
        self.first += most as u64;
        Piece { first, tasks, attempt: self.attempt, avoid: self.avoid, suspicion: self.suspicion }
    }
}

/// A chunk that somebody has: which tasks, and what is kept of them in case they come back.
#[derive(Debug)]
pub(crate) struct Given<K> {
    pub(crate) id: u64,
    pub(crate) worker: usize,
    pub(crate) first: u64,
    pub(crate) count: u32,
    pub(crate) attempt: u32,
    pub(crate) suspicion: Suspicion,
    /// When it was given, by the master's clock.
    pub(crate) since: Duration,
    /// Whether its worker had no other chunk then.
    pub(crate) alone: bool,
    pub(crate) kept: K,
}

/// What is to be done about a task that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is tried again.
    Again,
    /// It has failed for good.
    Failed,
}

/// The master's machine: `T` is a task, `K` what is kept of a chunk that was given away.
#[derive(Debug)]
pub(crate) struct Master<T, K> {
    crew: Crew,
    retries: u32,
    /// How many ranks are to work, those that are away or lost not counted.
    target: usize,
    /// Tasks that came back, the oldest first.
    back: VecDeque<Piece<T>>,
    given: BTreeMap<u64, Given<K>>,
    next_id: u64,
    /// Deaths over tasks so far.
    deaths: u32,
    /// Tasks in `given`.
    out: u64,
    /// Tasks in `back`.
    waiting: u64,
    tally: Tally,
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tasks that have a result or have failed for good.
    pub(crate) ended: u64,
    pub(crate) failed: u64,
    /// Tries after the first, because of an error or a death.
    pub(crate) retried: u64,
    /// Tasks that were handed out again because their worker was lost.
    pub(crate) again: u64,
    pub(crate) chunks: u64,
    /// Results that came for chunks which somebody else has by now.
    pub(crate) late: u64,
}

impl<T, K> Master<T, K> {
    /// The machine of rank 0 among `size` ranks; nobody has joined yet.
    pub(crate) fn new(size: usize, retries: u32) -> Self {
        Master {
            crew: Crew::new(size),
            retries,
            target: usize::MAX,
            back: VecDeque::new(),
            given: BTreeMap::new(),
            next_id: 0,
            deaths: 0,
            out: 0,
            waiting: 0,
            tally: Tally::default(),
        }
    }

    pub(crate) fn crew(&self) -> &Crew {
        &self.crew
    }

    pub(crate) fn crew_mut(&mut self) -> &mut Crew {
        &mut self.crew
    }

    /// How many ranks are to work.
    pub(crate) fn target(&self) -> usize {
        self.target
    }

    /// So many ranks are to work from now on; see [`staff`](Master::staff).
    pub(crate) fn set_target(&mut self, target: usize) {
        self.target = target.max(1);
    }

    /// A rank has come: it works, or is parked if enough do or will, `expected` of whom have not come yet. Returns
    /// whether it works.
    pub(crate) fn join(&mut self, rank: usize, expected: usize) -> bool {
        let works = self.crew.working() + expected < self.target;
        self.crew.set(rank, if works { Standing::Working } else { Standing::Parked });
        works
    }

    /// Parks and wakes ranks so that as many work as are to: to be called when that number has changed, when ranks have
    /// come or are lost, and when tasks have failed. A task that failed on the only rank that works is reason enough to
    /// wake another.
    pub(crate) fn staff(&mut self, seconds: impl Fn(usize) -> Option<f64>) -> Change {
        let crew = &self.crew;
        let shunned = |p: &Piece<T>| p.avoid.is_some_and(|rank| crew.standing(rank) == Standing::Working);
        // Rank 0 alone does no tasks that ranks have died over.
        let only_0 = crew.standing(0) == Standing::Working && crew.working() == 1;
        let needs_other = |p: &Piece<T>| shunned(p) || (only_0 && p.suspicion.is_there());
        let stuck =
            self.target == 1 && crew.working() + crew.parked() > 1 && self.back.iter().any(needs_other);
        let change = crew.staff(if stuck { 2 } else { self.target }, seconds);
        change.parked.iter().for_each(|&rank| self.crew.set(rank, Standing::Parked));
        change.woken.iter().for_each(|&rank| self.crew.set(rank, Standing::Working));
        change
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// The number that the next chunk will have.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Tasks that came back and wait for somebody.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Tasks that somebody has.
    pub(crate) fn out(&self) -> u64 {
        self.out
    }

    /// True when nobody has a task and none has come back: with a source that has ended, the end.
    pub(crate) fn is_empty(&self) -> bool {
        self.given.is_empty() && self.back.is_empty()
    }

    /// The oldest task that came back and that `worker` should try, at most `most` of them, if there are any.
    ///
    /// A rank on which a task has failed gets it again only where nobody else is there to try.
    pub(crate) fn take_back(&mut self, worker: usize, most: u64) -> Option<Piece<T>> {
        let alone = self.crew.is_alone(worker);
        let suits = |p: &Piece<T>| match p.suspicion.is_there() {
            true => !self.is_spent(p) && blame::may_try(&self.crew, worker, p.suspicion, false),
            false => alone || p.avoid != Some(worker),
        };
        let at = self.back.iter().position(suits)?;
        let piece = &mut self.back[at];
        let most = if piece.suspicion.is_there() { most.min(piece.suspicion.most.into()) } else { most };
        let taken =
            if (piece.tasks.len() as u64) > most { piece.split_front(most) } else { self.back.remove(at)? };
        self.waiting -= taken.tasks.len() as u64;
        Some(taken)
    }

    /// Whether `worker` is to finish what it has and gets nothing else before: tasks wait that ranks have died over, which
    /// it may try as soon as it has nothing.
    pub(crate) fn must_become_free(&self, worker: usize) -> bool {
        let waits =
            |p: &Piece<T>| p.suspicion.is_there() && blame::may_try(&self.crew, worker, p.suspicion, true);
        self.deaths > 0
            && self.crew.held(worker) > 0
            && !self.crew.is_leader(worker)
            && self.back.iter().any(waits)
    }

    /// Takes tasks out that ranks have died over and that nobody may try any more, if there are some.
    pub(crate) fn take_hopeless(&mut self) -> Option<Piece<T>> {
        let nobody =
            |p: &Piece<T>| p.suspicion.is_there() && !blame::is_worth_a_rank(&self.crew, p.suspicion);
        let hopeless = |p: &Piece<T>| self.is_spent(p) || nobody(p);
        let at = if self.deaths > 0 { self.back.iter().position(hopeless)? } else { return None };
        let piece = self.back.remove(at)?;
        self.waiting -= piece.tasks.len() as u64;
        Some(piece)
    }

    /// Whether ranks have died of it as often as they may.
    fn is_spent(&self, piece: &Piece<T>) -> bool {
        piece.suspicion.certain > 0 && self.is_exhausted(piece.attempt)
    }

    /// Whether a task that has been tried `attempt` times has had all its attempts.
    pub(crate) fn is_exhausted(&self, attempt: u32) -> bool {
        attempt > self.retries
    }

    /// Notes that `worker` is given `count` tasks from `first` on; returns the chunk's number.
    pub(crate) fn give(
        &mut self,
        worker: usize,
        (first, count): (u64, u32),
        (attempt, suspicion): (u32, Suspicion),
        kept: K,
        now: Duration,
    ) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let alone = self.crew.held(worker) == 0;
        self.given
            .insert(id, Given { id, worker, first, count, attempt, suspicion, since: now, alone, kept });
        self.out += u64::from(count);
        self.tally.chunks += 1;
        if attempt > 0 {
            self.tally.retried += u64::from(count);
        }
        self.crew.gave(worker);
        if suspicion.is_there() {
            self.crew.single_out(worker);
        }
        id
    }

    /// A result for chunk `id` has come from `worker`. `None`: it is not `worker`'s any more, and the result must not
    /// be used.
    pub(crate) fn done(&mut self, worker: usize, id: u64) -> Option<Given<K>> {
        if self.given.get(&id).is_none_or(|g| g.worker != worker) {
            self.tally.late += 1;
            return None;
        }
        let given = self.given.remove(&id)?;
        self.out -= u64::from(given.count);
        self.crew.got(worker);
        Some(given)
    }

    /// What becomes of a task that has failed after `attempt` earlier tries.
    pub(crate) fn fate(&self, attempt: u32) -> Fate {
        if attempt < self.retries { Fate::Again } else { Fate::Failed }
    }

    /// Tasks come back: they were tried in vain, or their worker was lost.
    pub(crate) fn put_back(&mut self, piece: Piece<T>) {
        if !piece.tasks.is_empty() {
            self.waiting += piece.tasks.len() as u64;
            self.back.push_back(piece);
        }
    }

    /// So many tasks have ended, `failed` of them without a result.
    pub(crate) fn ended(&mut self, tasks: u64, failed: u64) {
        self.tally.ended += tasks;
        self.tally.failed += failed;
    }

    /// `worker` is not used any more: returns what it had, oldest first, whose tasks are to be
    /// [put back](Master::put_back).
    pub(crate) fn lose(&mut self, worker: usize, standing: Standing) -> Vec<Given<K>> {
        self.crew.set(worker, standing);
        self.crew.forget(worker);
        let ids: Vec<u64> =
            self.given.iter().filter(|(_, g)| g.worker == worker).map(|(id, _)| *id).collect();
        self.take_from(&ids)
    }

    /// A worker of the sub-master `leader` is lost: returns its chunks, whose numbers are `ids`, like [`lose`](Master::lose).
    pub(crate) fn lose_member(&mut self, leader: usize, ids: &[u64]) -> Vec<Given<K>> {
        let its = |id: &u64| self.given.get(id).is_some_and(|g| g.worker == leader);
        let ids: Vec<u64> = ids.iter().copied().filter(its).collect();
        ids.iter().for_each(|_| self.crew.got(leader));
        self.take_from(&ids)
    }

    fn take_from(&mut self, ids: &[u64]) -> Vec<Given<K>> {
        let lost: Vec<Given<K>> = ids.iter().filter_map(|id| self.given.remove(id)).collect();
        let tasks: u64 = lost.iter().map(|g| u64::from(g.count)).sum();
        self.out -= tasks;
        self.tally.again += tasks;
        lost
    }

    /// Forgets everything that is not given away, because nothing more is wanted.
    pub(crate) fn drop_waiting(&mut self) {
        self.back.clear();
        self.waiting = 0;
    }

    /// What the machine waits for, for an error message.
    pub(crate) fn describe(&self) -> String {
        let mut text = format!(
            "{} tasks ended, {} out in {} chunks, {} waiting to be tried again",
            self.tally.ended,
            self.out,
            self.given.len(),
            self.waiting
        );
        if let Some(oldest) = self.given.values().next() {
            text += &format!(
                "; the oldest chunk is tasks {} to {} on rank {}",
                oldest.first,
                oldest.first + u64::from(oldest.count) - 1,
                oldest.worker
            );
        }
        text
    }
}
