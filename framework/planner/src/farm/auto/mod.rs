//! The choice among the policies.
//!
//! As long as nothing is known, each worker gets a small chunk, and after that a quarter of its share of what is left.
//! When as many chunks have come back as there are workers, the rest of the iteration is simulated with each
//! [`Candidate`], from the state that the farm is in, on task times like those measured: mean, deviation, and blocks
//! of neighbours that are alike. The fastest is taken. That is done again at each new iteration, and whenever half of
//! what was left is gone.
//!
//! What this may cost is a small part of the time that lies ahead.

mod candidates;
mod choice;
mod forecast;
mod synthetic;

pub use candidates::Candidate;
pub use choice::Choice;

use super::knowledge::ChunkDone;
use super::policy::{Policy, View};
use forecast::Ahead;
use synthetic::{Likeness, Synthetic};

/// Part of an even share that a worker gets while nothing is known.
const PROBE: f64 = 1.0 / 8.0;
/// Seconds that the simulation of a chunk takes, by order of magnitude.
const CHUNK_COST: f64 = 0.25e-6;
/// Part of the time ahead that a choice may cost.
const OVERHEAD: f64 = 0.01;
/// Chunks simulated for a choice, at most.
const MOST_CHUNKS: f64 = 100_000.0;
/// Chunks for each worker that it takes to simulate every candidate once.
const ROW_CHUNKS: f64 = 250.0;
/// Rows of tasks that are drawn, at most.
const MOST_ROWS: u64 = 16;
/// What is in force is left only for something that is better by this part.
const HYSTERESIS: f64 = 0.003;
/// A candidate is not simulated further when it is worse than the best by this part in one row.
const HOPELESS: f64 = 1.25;
/// After each row, candidates that are worse by this part of the best, divided by the number of rows, are dropped.
const WORSE: f64 = 0.08;
/// While few chunks have come back, tasks are taken to differ by this part of their mean as well; it weighs as much as
/// so many chunks.
const PRIOR_SPREAD: f64 = 0.5;
const PRIOR_WEIGHT: f64 = 4.0;

/// A chunk that is out.
#[derive(Clone, Copy, Debug)]
struct Out {
    worker: usize,
    tasks: u64,
    since: f64,
}

/// A candidate while it is compared; what is in force has no name here.
#[derive(Debug)]
struct Trial {
    candidate: Option<Candidate>,
    policy: Box<dyn Policy>,
    /// Seconds in all rows so far.
    total: f64,
    /// It could be simulated, and is not hopeless.
    stands: bool,
}

impl Trial {
    fn new(candidate: Option<Candidate>, policy: Box<dyn Policy>) -> Self {
        Trial { candidate, policy, total: 0.0, stands: true }
    }
}

/// The policy behind [`Chunking::Auto`](super::Chunking::Auto).
#[derive(Debug)]
pub(super) struct Auto {
    policy: Box<dyn Policy>,
    in_force: Candidate,
    /// Something was measured, so that the policy counts; else chunks are probes.
    informed: bool,
    choice: Option<Choice>,
    out: Vec<Out>,
    /// Reported chunks, and tasks left, at which the next look is due.
    look_at_chunks: u64,
    look_at_left: u64,
    /// Chunks that were simulated so far.
    spent: f64,
}

impl Default for Auto {
    fn default() -> Self {
        Auto {
            policy: Candidate::SAFE.policy(1, 1),
            in_force: Candidate::SAFE,
            informed: false,
            choice: None,
            out: Vec::new(),
            look_at_chunks: 0,
            look_at_left: 0,
            spent: 0.0,
        }
    }
}

impl Auto {
    pub(super) fn begin(&mut self, view: &View<'_>) {
        self.policy = self.in_force.policy(view.left, view.n());
        self.policy.begin(&View { iteration: view.iteration.max(2), ..*view });
        self.look_at_left = view.left / 2;
        self.look_at_chunks = u64::MAX;
        if view.statistics.chunks() > 0 {
            self.look(view, true);
        }
        if view.statistics.chunks() < view.n() {
            self.look_at_chunks = view.statistics.chunks() + 1;
        }
    }

    pub(super) fn next(&mut self, worker: usize, most: u64, view: &View<'_>) -> u64 {
        let chunks = view.statistics.chunks();
        if !self.informed && chunks > 0 {
            // The policy knows the mean, and with it the least chunk, from now on.
            self.informed = true;
            self.policy.begin(&View { iteration: view.iteration.max(2), ..*view });
        }
        if chunks >= self.look_at_chunks || view.left <= self.look_at_left {
            self.look_at_left = view.left / 2;
            self.look_at_chunks =
                if chunks < 2 * view.n() { (4 * chunks).min(view.n().max(2 * chunks)) } else { u64::MAX };
            if view.left > view.n() && chunks > 0 {
                let first = self.choice.is_none() && self.spent == 0.0;
                self.look(view, first || chunks == view.n());
            }
        }
        let size = if self.informed {
            self.policy.next(worker, most, view)
        } else {
            (PROBE * view.total as f64 / view.n() as f64).ceil() as u64
        };
        let size = size.clamp(1, most.min(view.left));
        self.out.push(Out { worker, tasks: size, since: view.knowledge.now });
        size
    }

    pub(super) fn done(&mut self, done: &ChunkDone) {
        let Some(place) = self.out.iter().position(|out| out.worker == done.worker) else { return };
        self.out.remove(place);
    }

    pub(super) fn leave(&mut self, worker: usize) {
        self.out.retain(|out| out.worker != worker);
    }

    pub(super) fn take_choice(&mut self) -> Option<Choice> {
        self.choice.take()
    }

    /// Simulates the rest of the iteration with every candidate, and takes the fastest.
    fn look(&mut self, view: &View<'_>, due: bool) {
        let all = view.statistics.all();
        let view = &View { iteration: view.iteration.max(2), ..*view };
        if all.mean() <= 0.0 {
            return;
        }
        let likeness = likeness(view);
        // A small part of the time that has passed and that lies ahead, on the whole.
        let time = (all.count() + view.left) as f64 * likeness.mean / view.n() as f64;
        let budget = OVERHEAD * time / CHUNK_COST - self.spent;
        // The first choice and one for each iteration are made whatever they cost; others wait until it is little.
        let row = ROW_CHUNKS * view.n() as f64;
        if budget < row && !due {
            return;
        }
        let mut budget = budget.clamp(row.min(MOST_CHUNKS), MOST_CHUNKS) as u64;
        let allowed = budget;
        let slowness = slowness(view, &likeness);
        let unequal = slowness.iter().any(|slow| (slow - 1.0).abs() > 0.02);
        let asks = self.asks(view, &likeness, &slowness);
        let ahead = Ahead { view: *view, asks: &asks, slowness: &slowness };

        // What is in force goes on as it is; the others begin with what is left.
        let mut tried = vec![Trial::new(None, self.policy.copy())];
        for candidate in Candidate::all(unequal) {
            let mut policy = candidate.policy(view.left, view.n());
            policy.begin(view);
            tried.push(Trial::new(Some(candidate), policy));
        }
        let rows = if likeness.deviation > 1e-3 * likeness.mean { MOST_ROWS } else { 1 };
        let mut rounds = 0;
        for seed in 0..rows {
            let row = Synthetic::draw(&likeness, view.left, seed);
            let before = budget;
            let mut best = f64::INFINITY;
            for trial in tried.iter_mut().filter(|trial| trial.stands) {
                let (time, chunks) = ahead.simulate(trial.policy.copy(), &row, budget, HOPELESS * best);
                budget -= chunks;
                match time {
                    Some(time) if time <= HOPELESS * best => {
                        trial.total += time;
                        best = best.min(time);
                    }
                    _ => trial.stands = false,
                }
            }
            rounds += 1;
            let standing = tried.iter_mut().filter(|trial| trial.stands);
            let least = standing.map(|trial| trial.total).fold(f64::INFINITY, f64::min);
            let limit = least * (1.0 + WORSE / f64::from(rounds));
            tried.iter_mut().for_each(|trial| trial.stands &= trial.total <= limit);
            // Another round takes no more than this one.
            if before - budget > budget {
                break;
            }
        }
        self.spent += (allowed - budget) as f64;
        let compared = tried.len();
        let mean = |total: f64| total / f64::from(rounds);
        let before = tried[0].stands.then(|| mean(tried[0].total));
        let standing = tried.into_iter().filter(|trial| trial.stands && trial.candidate.is_some());
        let best = standing.min_by(|a, b| a.total.total_cmp(&b.total));
        if let Some(Trial { candidate: Some(candidate), policy, total, .. }) = best {
            let predicted = mean(total);
            if before.is_some_and(|before| predicted >= before * (1.0 - HYSTERESIS)) {
                return;
            }
            self.choice = Some(Choice {
                now: view.knowledge.now,
                candidate,
                before: self.in_force,
                left: view.left,
                workers: view.workers.len(),
                mean: likeness.mean,
                deviation: likeness.deviation,
                block: likeness.block,
                message: view.knowledge.send_time(1),
                predicted,
                predicted_before: before,
                compared,
            });
            self.in_force = candidate;
            self.policy = policy;
            self.informed = true;
        }
    }

    /// When each worker will ask again, by what it has been given. The one that asks now is among those that have
    /// nothing.
    fn asks(&self, view: &View<'_>, likeness: &Likeness, slowness: &[f64]) -> Vec<(f64, usize)> {
        let mut asks = Vec::new();
        for &worker in view.workers {
            let slow = slowness.get(worker).copied().unwrap_or(1.0);
            let (mut at, mut chunks) = (0.0_f64, 0);
            for out in self.out.iter().filter(|out| out.worker == worker) {
                let computing = out.tasks as f64 * likeness.mean * slow;
                let from = (out.since - view.knowledge.now) + view.knowledge.send_time(out.tasks);
                // A chunk that is overdue is still somewhere within its last tasks.
                at = (from.max(at) + computing).max(0.5 * likeness.mean * slow);
                asks.push((at + view.knowledge.return_time(out.tasks), worker));
                chunks += 1;
            }
            for _ in chunks..=view.knowledge.ahead {
                asks.push((0.0, worker));
            }
        }
        asks.sort_by(|a, b| a.0.total_cmp(&b.0));
        asks
    }
}

/// What the tasks ahead will be like, by those that came back.
fn likeness(view: &View<'_>) -> Likeness {
    let (all, chunks) = (view.statistics.all(), view.statistics.chunks() as f64);
    let mean = all.mean();
    let mix =
        |measured: f64, prior: f64| (measured * chunks + prior * PRIOR_WEIGHT) / (chunks + PRIOR_WEIGHT);
    let few = chunks < 4.0 * PRIOR_WEIGHT;
    let variance = if few { mix(all.variance(), (PRIOR_SPREAD * mean).powi(2)) } else { all.variance() };
    // Tasks of one chunk may well be alike: as long as little is known they are taken for it.
    let size = all.count() as f64 / chunks.max(1.0);
    let block = view.statistics.block();
    let block = if few { mix(block, size.max(1.0)) } else { block };
    Likeness { mean, deviation: variance.sqrt(), block }
}

/// How many times as long as the mean each worker takes for a task, as far as workers differ by more than chance: by
/// the empirical Bayes estimate of normal means.
fn slowness(view: &View<'_>, likeness: &Likeness) -> Vec<f64> {
    let Likeness { mean, deviation, block } = *likeness;
    let mut slowness = vec![1.0; view.workers.last().map_or(0, |&last| last + 1)];
    let seen: Vec<(usize, f64, f64)> = view
        .workers
        .iter()
        .filter_map(|&worker| {
            let times = view.statistics.of(worker)?;
            let chance = (deviation / mean).powi(2) * block / times.count() as f64;
            Some((worker, times.mean() / mean - 1.0, chance))
        })
        .collect();
    let (mut differ, mut by_chance) = (0.0, 0.0);
    for (_, off, chance) in &seen {
        differ += off * off;
        by_chance += chance;
    }
    // Chance alone makes as many workers differ by little more than this; it is taken twice, since blocks that are
    // longer than chunks are not seen whole.
    let real = (differ - by_chance) / seen.len().max(1) as f64;
    if seen.len() < 2 || differ <= 2.0 * by_chance * (1.0 + 2.0 * (2.0 / seen.len() as f64).sqrt()) {
        return slowness;
    }
    for (worker, off, chance) in seen {
        slowness[worker] = (1.0 + off * real / (real + chance)).max(0.01);
    }
    slowness
}
