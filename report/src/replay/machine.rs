//! The replay: ranks that do what they are told, and messages that take no time.

use std::collections::{HashMap, HashSet, VecDeque};

/// What a rank does, one after the other. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    /// Begins a job, beside which it goes on.
    Begins,
    /// Awaits the end of the first of its jobs, which takes so long.
    Ended(f64),
    /// Works.
    Worked(f64),
    /// Sends a message.
    Sent { to: usize, number: u64 },
    /// Awaits a message.
    Received { from: usize, number: u64 },
}

/// A message: from, to, number.
type Key = (usize, usize, u64);

/// A rank in the replay.
#[derive(Debug, Default)]
struct Rank {
    /// The first action that is not done.
    next: usize,
    /// Up to when it has gone on with messages.
    now: f64,
    /// Up to when its jobs last.
    busy: f64,
    /// When each of the jobs was handed over that have not ended.
    jobs: VecDeque<f64>,
}

impl Rank {
    /// Jobs are done one after the other, each no sooner than it was handed over.
    fn works(&mut self, handed_over: f64, took: f64) {
        self.busy = self.busy.max(handed_over) + took;
        self.now = self.now.max(self.busy);
    }
}

/// When the last rank has done all it is told, by rank. `None` if ranks wait for each other in a circle: then this is no account of
/// what has happened.
pub(super) fn replay(ranks: &[Vec<Action>]) -> Option<f64> {
    let to_come: HashSet<Key> =
        ranks.iter().enumerate().flat_map(|(from, actions)| sends(from, actions)).collect();
    let mut sent: HashMap<Key, f64> = HashMap::new();
    // Who waits for which message.
    let mut waiting: HashMap<Key, usize> = HashMap::new();
    let mut states: Vec<Rank> = ranks.iter().map(|_| Rank::default()).collect();
    let mut can_go_on: VecDeque<usize> = (0..ranks.len()).collect();
    while let Some(rank) = can_go_on.pop_front() {
        let state = &mut states[rank];
        while let Some(action) = ranks[rank].get(state.next) {
            match *action {
                Action::Begins => state.jobs.push_back(state.now),
                Action::Ended(took) => {
                    let handed_over = state.jobs.pop_front().unwrap_or(state.now);
                    state.works(handed_over, took);
                }
                Action::Worked(took) => state.works(state.now, took),
                Action::Sent { to, number } => {
                    let key = (rank, to, number);
                    sent.insert(key, state.now);
                    can_go_on.extend(waiting.remove(&key));
                }
                Action::Received { from, number } => {
                    let key = (from, rank, number);
                    match sent.get(&key) {
                        Some(at) => state.now = state.now.max(*at),
                        None if to_come.contains(&key) => {
                            waiting.insert(key, rank);
                            break;
                        }
                        // It was sent before.
                        None => {}
                    }
                }
            }
            state.next += 1;
        }
    }
    let are_done = states.iter().zip(ranks).all(|(state, actions)| state.next == actions.len());
    are_done.then(|| states.iter().map(|state| state.now.max(state.busy)).fold(0.0, f64::max))
}

fn sends(from: usize, actions: &[Action]) -> impl Iterator<Item = Key> + '_ {
    actions.iter().filter_map(move |action| match action {
        Action::Sent { to, number } => Some((from, *to, *number)),
        _ => None,
    })
}
