//! The ranks of a farm: who works, who has how much, who asks for more.

use std::collections::BTreeSet;

use armature_planner::farm::WorkerCount;

/// What a rank is to the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerState {
    /// It has not come to the farm yet.
    Expected,
    /// It takes tasks.
    Active,
    /// It could take tasks, but gets none: with fewer workers the farm does better. It finishes what it has.
    Parked,
    /// It works for a sub-master.
    Delegated,
    /// It hangs in a task beyond the limit that the user set.
    TimedOut,
    /// It computes on the thread that communicates and has been silent for long: it is dead, or a task takes longer than
    /// the ones before it. It is given nothing until it is heard again.
    Suspected,
    /// It gives no sign of life.
    Dead,
    /// It has reported and left.
    Left,
}

/// The level of a rank that does not ask.
const NEVER: u32 = u32::MAX;

/// Ranks that are to be told that they are parked, or woken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) parked: Vec<usize>,
    pub(crate) woken: Vec<usize>,
}

/// The ranks by number. A worker *asks* as long as it holds no more than it may ask for ahead: every result that it
/// sends is also a request.
#[derive(Debug)]
pub(crate) struct WorkerTable {
    state: Vec<WorkerState>,
    held: Vec<u32>,
    /// Whether a rank has a chunk that it is to do alone: it gets nothing else meanwhile.
    exclusive: Vec<bool>,
    /// Workers that a rank does tasks with: of a sub-master its members, else the rank alone.
    span: Vec<u32>,
    /// Working ranks with the number of chunks that they hold for each of their workers, fewest first.
    requesting: BTreeSet<(u32, usize)>,
    /// Workers of all working ranks.
    capacity: usize,
    parked: usize,
}

impl WorkerTable {
    pub(super) fn new(size: usize) -> Self {
        WorkerTable {
            state: vec![WorkerState::Expected; size],
            held: vec![0; size],
            exclusive: vec![false; size],
            span: vec![1; size],
            requesting: BTreeSet::new(),
            capacity: 0,
            parked: 0,
        }
    }

    pub(crate) fn state_of(&self, rank: usize) -> WorkerState {
        self.state[rank]
    }

    /// Nothing is wanted, or to be expected, of this rank any more.
    pub(crate) fn is_gone(&self, rank: usize) -> bool {
        matches!(self.state[rank], WorkerState::Dead | WorkerState::Suspected | WorkerState::Left)
    }

    /// Ranks that work.
    pub(crate) fn working(&self) -> usize {
        self.requesting.len()
    }

    /// Workers of these ranks: more, if some are sub-masters.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Chunks that a rank holds for each of its workers. A sub-master has some more, so that it can give its workers the
    /// next ones at once.
    fn level(&self, rank: usize) -> u32 {
        match self.span[rank] {
            _ if self.exclusive[rank] => NEVER,
            1 => self.held[rank],
            span => self.held[rank].saturating_sub(span / 4) / span,
        }
    }

    /// Chunks that a rank may be given if its workers may hold `ahead` beyond the one in hand.
    pub(crate) fn room(&self, rank: usize, ahead: u32) -> u32 {
        let span = self.span[rank];
        let stock = if span > 1 { span / 4 } else { 0 };
        span.saturating_mul(ahead.saturating_add(1)).saturating_add(stock).saturating_sub(self.held[rank])
    }

    /// A rank does tasks with `span` workers from now on.
    pub(crate) fn set_capacity(&mut self, rank: usize, span: u32) {
        let state = self.state[rank];
        self.remove(rank);
        self.span[rank] = span.max(1);
        if state == WorkerState::Active {
            self.insert(rank);
        }
    }

    fn remove(&mut self, rank: usize) {
        if self.requesting.remove(&(self.level(rank), rank)) {
            self.capacity -= self.span[rank] as usize;
        }
    }

    fn insert(&mut self, rank: usize) {
        if self.requesting.insert((self.level(rank), rank)) {
            self.capacity += self.span[rank] as usize;
        }
    }

    pub(super) fn size(&self) -> usize {
        self.state.len()
    }

    /// With how many workers a rank does tasks.
    pub(super) fn span(&self, rank: usize) -> usize {
        self.span[rank] as usize
    }

    /// Whether a rank gives what it gets to workers of its own.
    pub(super) fn is_leader(&self, rank: usize) -> bool {
        self.span[rank] > 1
    }

    /// A rank does not ask before it has finished what it has.
    pub(super) fn make_exclusive(&mut self, rank: usize) {
        if !self.is_leader(rank) {
            self.remove(rank);
            self.exclusive[rank] = true;
            self.count(rank, self.held[rank]);
        }
    }

    /// A rank has nothing any more.
    pub(super) fn forget(&mut self, rank: usize) {
        self.count(rank, 0);
    }

    /// Ranks that are parked.
    pub(crate) fn parked(&self) -> usize {
        self.parked
    }

    /// Whether no other rank than this one works, and none is parked that could.
    pub(super) fn is_alone(&self, rank: usize) -> bool {
        self.parked == 0 && self.working() == usize::from(self.state[rank] == WorkerState::Active)
    }

    /// Chunks that a rank has.
    pub(crate) fn held(&self, rank: usize) -> u32 {
        self.held[rank]
    }

    /// A rank is from now on what `state` says. One that is lost holds nothing; one that is parked keeps what it has.
    pub(crate) fn set(&mut self, rank: usize, state: WorkerState) {
        self.remove(rank);
        self.parked -= usize::from(self.state[rank] == WorkerState::Parked);
        self.state[rank] = state;
        match state {
            WorkerState::Active => self.insert(rank),
            WorkerState::Parked => self.parked += 1,
            // What they were given before still counts.
            WorkerState::Expected | WorkerState::Delegated => {}
            WorkerState::TimedOut | WorkerState::Suspected | WorkerState::Dead | WorkerState::Left => {
                (self.held[rank], self.exclusive[rank]) = (0, false);
            }
        }
    }

    /// The ranks of this state.
    fn all(&self, state: WorkerState) -> impl Iterator<Item = usize> {
        self.state.iter().enumerate().filter(move |&(_, s)| *s == state).map(|(rank, _)| rank)
    }

    /// Who is to be parked and who woken so that `target` ranks work: the slowest are parked first, the fastest woken
    /// first, by the `seconds` that a task takes them. Rank 0 is never parked.
    pub(super) fn adjust_active(&self, target: usize, seconds: impl Fn(usize) -> Option<f64>) -> Change {
        let (working, target) = (self.working(), target.max(1));
        let mut change = Change::default();
        if working > target {
            let times: Vec<_> =
                self.all(WorkerState::Active).filter(|&r| r > 0).map(|r| (r, seconds(r))).collect();
            let others = target - usize::from(self.state[0] == WorkerState::Active);
            let stay = WorkerCount::active(&times, others);
            let parked = times.into_iter().map(|(rank, _)| rank).filter(|r| stay.binary_search(r).is_err());
            change.parked = parked.collect();
        } else if working < target && self.parked > 0 {
            let times: Vec<_> = self.all(WorkerState::Parked).map(|r| (r, seconds(r))).collect();
            change.woken = WorkerCount::active(&times, target - working);
        }
        change
    }

    pub(super) fn gave(&mut self, rank: usize) {
        self.count(rank, self.held[rank] + 1);
    }

    pub(super) fn got(&mut self, rank: usize) {
        self.count(rank, self.held[rank].saturating_sub(1));
    }

    fn count(&mut self, rank: usize, held: u32) {
        self.remove(rank);
        self.held[rank] = held;
        self.exclusive[rank] &= held > 0;
        if self.state[rank] == WorkerState::Active {
            self.insert(rank);
        }
    }

    /// The working ranks other than 0 that hold at most `ahead` chunks, those with the fewest first: the order in
    /// which to give chunks to them.
    pub(crate) fn requesting(&self, ahead: u32) -> impl Iterator<Item = usize> {
        let fewest = self.requesting.iter().filter(|&&(_, rank)| rank != 0);
        fewest.take_while(move |&&(level, _)| level <= ahead && level < NEVER).map(|&(_, rank)| rank)
    }

    /// The first of them.
    pub(crate) fn next_requesting(&self, ahead: u32) -> Option<usize> {
        self.requesting(ahead).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_holds_the_fewest_is_served_first() {
        let mut workers = WorkerTable::new(4);
        assert_eq!(workers.next_requesting(9), None, "nobody has joined");
        (0..4).for_each(|r| workers.set(r, WorkerState::Active));
        let mut served = Vec::new();
        while let Some(rank) = workers.next_requesting(1) {
            workers.gave(rank);
            served.push(rank);
        }
        assert_eq!(served, [1, 2, 3, 1, 2, 3]);
        workers.got(2);
        assert_eq!(workers.next_requesting(1), Some(2));
        workers.set(2, WorkerState::Dead);
        assert_eq!((workers.next_requesting(1), workers.held(2), workers.working()), (None, 0, 3));
        workers.got(3);
        assert_eq!((workers.next_requesting(1), workers.held(3)), (Some(3), 1));
    }

    #[test]
    fn the_slowest_are_parked_and_the_fastest_woken() {
        let mut workers = WorkerTable::new(5);
        let seconds = |rank: usize| [None, Some(0.2), Some(0.1), None, Some(0.9)][rank];
        (0..5).for_each(|r| workers.set(r, WorkerState::Active));
        workers.gave(4);
        let change = workers.adjust_active(3, seconds);
        assert_eq!(change, Change { parked: vec![3, 4], woken: vec![] });
        change.parked.into_iter().for_each(|r| workers.set(r, WorkerState::Parked));
        assert_eq!((workers.working(), workers.parked(), workers.held(4)), (3, 2, 1), "it keeps what it has");
        assert_eq!(
            (workers.adjust_active(3, seconds), workers.adjust_active(4, seconds).woken),
            (Change::default(), vec![3])
        );
        assert_eq!(workers.adjust_active(0, seconds).parked, [1, 2], "rank 0 goes on");
        workers.got(4);
        workers.set(4, WorkerState::Active);
        assert_eq!(
            (workers.held(4), workers.parked(), workers.adjust_active(9, seconds).woken),
            (0, 1, vec![3])
        );
        workers.set(3, WorkerState::Dead);
        assert_eq!((workers.parked(), workers.adjust_active(9, seconds)), (0, Change::default()));
    }
}
