//! The choice among the policies.
//!
//! As long as nothing is known, each worker gets a quarter of its even share, in as many chunks as it may hold. When the
//! chunks of a quarter of the workers have come back, and again as more have, the rest of the iteration is simulated with
//! each [`Candidate`], from the state that the farm is in, on task times like those measured: mean, deviation, and blocks of
//! neighbours that are alike. The fastest is taken. That is done again at each new iteration, and whenever half of what was
//! left is gone.
//!
//! What was measured tells nothing of what lies ahead where the level of the times wanders along the tasks, as it does
//! from row to row of a picture. How far it may is told by the [`Course`] of the chunks so far; some rows wander as
//! much, and chunks are [bounded](Bound) accordingly.
//!
//! What this may cost is a small part of the time that lies ahead.

mod bound;
mod candidates;
mod choice;
mod course;
mod forecast;
mod outlook;
mod synthetic;

pub use candidates::Candidate;
pub use choice::Choice;

use super::knowledge::ChunkDone;
use super::policy::{Policy, View};
use bound::Bound;
use course::Course;
use forecast::Ahead;
use outlook::{Out, Outlook};
use synthetic::Synthetic;

use crate::simulate::farm::Standing;

/// Part of an even share that a worker gets while nothing is known, in all the chunks that it may hold.
const PROBE: f64 = 0.25;
/// The first choice waits for the chunks of one worker in so many: the first few of many say little of the others.
const FIRST_OF: u64 = 4;
/// Seconds that the simulation of a chunk takes, by order of magnitude.
const CHUNK_COST: f64 = 0.25e-6;
/// Part of the time ahead that a choice may cost.
const OVERHEAD: f64 = 0.01;
/// Chunks simulated for a choice, at most.
const MOST_CHUNKS: f64 = 100_000.0;
/// Chunks for each worker that it takes to simulate every candidate once.
const ROW_CHUNKS: f64 = 250.0;
/// The golden ratio, less one: multiples of it fill the unit interval evenly.
const GOLDEN: f64 = 0.618_033_988_749_894_9;
/// Rows of tasks that are drawn, at most.
const MOST_ROWS: u64 = 16;
/// What is in force is left only for something that is better by this part: at the beginning of an iteration, and in
/// the middle of one, where little is left to win and the state of the workers is known less well.
const BETTER_AT_FIRST: f64 = 0.003;
const BETTER_MIDWAY: f64 = 0.01;
/// A candidate is not simulated further when it is worse than the best by this part in one row.
const HOPELESS: f64 = 1.25;
/// After each row, candidates that are worse by this part of the best, divided by the number of rows, are dropped.
const WORSE: f64 = 0.08;

/// A candidate while it is compared; what is in force has no name here.
#[derive(Debug)]
struct Trial {
    candidate: Option<Candidate>,
    policy: Box<dyn Policy>,
    /// Seconds in all rows so far, and the same by the least that each could take.
    seconds: f64,
    total: f64,
    /// It could be simulated, and is not hopeless.
    stands: bool,
}

impl Trial {
    fn new(candidate: Option<Candidate>, policy: Box<dyn Policy>) -> Self {
        Trial { candidate, policy, seconds: 0.0, total: 0.0, stands: true }
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
    /// When the master's port is free (s, by the caller's clock).
    port: f64,
    /// The port before the newest chunk, which may still be given back.
    port_before: Option<f64>,
    /// Reported chunks, and tasks left, at which the next look is due.
    look_at_chunks: u64,
    look_at_left: u64,
    /// Reported chunks before which there is none.
    least: u64,
    /// As many chunks as there are workers have come back, and a look was due.
    all: bool,
    /// Chunks that were simulated so far.
    spent: f64,
    /// Tasks handed out in this iteration.
    given: u64,
    course: Course,
    bound: Bound,
}

impl Default for Auto {
    fn default() -> Self {
        Auto {
            policy: Candidate::SAFE.policy(1, 1),
            in_force: Candidate::SAFE,
            informed: false,
            choice: None,
            out: Vec::new(),
            port: 0.0,
            port_before: None,
            look_at_chunks: 0,
            look_at_left: 0,
            least: 0,
            all: false,
            spent: 0.0,
            given: 0,
            course: Course::default(),
            bound: Bound::default(),
        }
    }
}

impl Auto {
    pub(super) fn begin(&mut self, view: &View<'_>) {
        if self.out.is_empty() {
            self.port = view.knowledge.now;
        }
        let view = &self.informed_view(view);
        if view.statistics.chunks() > 0 {
            let outlook = Outlook::new(view, &self.out, &self.course);
            let outcomes = self.course.outcomes(view.statistics, outlook.likeness(), view.total);
            self.course.begin(&outcomes);
        }
        self.given = 0;
        self.policy = self.in_force.policy(view.left, view.n());
        self.policy.begin(view);
        self.look_at_left = view.left / 2;
        self.look_at_chunks = u64::MAX;
        if view.statistics.chunks() > 0 {
            self.look(view, true, BETTER_AT_FIRST);
        }
        self.least = 0;
        if view.statistics.chunks() < view.n() {
            self.least = view.statistics.chunks() + (view.n() / FIRST_OF).max(1);
            self.look_at_chunks = self.least;
        }
    }

    pub(super) fn next(&mut self, worker: usize, most: u64, view: &View<'_>) -> u64 {
        let chunks = view.statistics.chunks();
        if !self.informed && chunks > 0 {
            // The policy knows the mean, and with it the least chunk, from now on.
            self.informed = true;
            let informed = self.informed_view(view);
            self.policy.begin(&informed);
        }
        if chunks >= self.least && (chunks >= self.look_at_chunks || view.left <= self.look_at_left) {
            self.look_at_left = view.left / 2;
            self.look_at_chunks =
                if chunks < 2 * view.n() { (4 * chunks).min(view.n().max(2 * chunks)) } else { u64::MAX };
            if view.left > view.n() && chunks > 0 {
                let first = self.choice.is_none() && self.spent == 0.0;
                let informed = self.informed_view(view);
                let all = !self.all && chunks >= view.n();
                self.all |= all;
                self.look(&informed, first || all, BETTER_MIDWAY);
            }
        }
        let most = most.min(self.bound.most(view.left, view.n()));
        let size = if self.informed {
            self.policy.next(worker, most, view)
        } else {
            let chunks = view.n() as f64 * (1.0 + f64::from(view.knowledge.ahead));
            (PROBE * view.total as f64 / chunks).ceil() as u64
        };
        let size = size.clamp(1, most.min(view.left));
        let now = view.knowledge.now;
        self.port_before = Some(self.port);
        let arrives = if view.knowledge.master == Some(worker) {
            now
        } else {
            self.port = self.port.max(now) + view.knowledge.send_time(size);
            self.port + view.knowledge.latency
        };
        self.out.push(Out { worker, first: self.given, tasks: size, given: now, arrives });
        self.given += size;
        size
    }

    /// Some of the tasks that were handed out have come back undone. Right after [`next`](Auto::next) these are the
    /// newest chunk's, which then had fewer tasks; else those of a worker that has left.
    pub(super) fn give_back(&mut self, tasks: u64) {
        let Some(port_before) = self.port_before.take() else { return };
        let Some(newest) = self.out.last_mut() else { return };
        newest.tasks = newest.tasks.saturating_sub(tasks);
        self.given = self.given.saturating_sub(tasks);
        if newest.tasks == 0 {
            self.out.pop();
            self.port = port_before;
        }
    }

    pub(super) fn done(&mut self, done: &ChunkDone) {
        self.port_before = None;
        let Some(place) = self.out.iter().position(|out| out.worker == done.worker) else { return };
        let out = self.out.remove(place);
        // The next one of this worker lay there until now.
        let back = out.given + done.elapsed;
        if let Some(next) = self.out.iter_mut().find(|next| next.worker == done.worker) {
            next.arrives = next.arrives.max(back);
        }
        self.course.add(out.first, done.tasks, done.sum);
    }

    pub(super) fn leave(&mut self, worker: usize) {
        self.port_before = None;
        self.out.retain(|out| out.worker != worker);
    }

    pub(super) fn take_choice(&mut self) -> Option<Choice> {
        self.choice.take()
    }

    /// Chunks that were simulated so far.
    pub(super) fn simulated(&self) -> u64 {
        self.spent as u64
    }

    /// The same for policies that learn in a first iteration: they need not. The mean time of a task takes account of
    /// the chunks that are out.
    fn informed_view<'a>(&self, view: &View<'a>) -> View<'a> {
        let mean = outlook::mean(view, &self.out, &self.course);
        View { iteration: view.iteration.max(2), mean: (mean > 0.0).then_some(mean), ..*view }
    }

    /// Simulates the rest of the iteration with every candidate, and takes the fastest if it is better than what is in
    /// force by the part `margin`.
    fn look(&mut self, view: &View<'_>, due: bool, margin: f64) {
        let all = view.statistics.all();
        if all.mean() <= 0.0 {
            return;
        }
        let outlook = Outlook::new(view, &self.out, &self.course);
        let likeness = *outlook.likeness();
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
        let port = (self.port - view.knowledge.now).max(0.0);

        // What is in force goes on as it is; the others begin with what is left.
        let mut tried = vec![Trial::new(None, self.policy.copy())];
        for candidate in Candidate::all(outlook.unequal()) {
            let mut policy = candidate.policy(view.left, view.n());
            policy.begin(view);
            tried.push(Trial::new(Some(candidate), policy));
        }
        let rows = if likeness.deviation > 1e-3 * likeness.mean { MOST_ROWS } else { 1 };
        let mut rounds = 0;
        let outcomes = self.course.outcomes(view.statistics, &likeness, view.total);
        self.bound =
            Bound::new(view, likeness.mean, outcomes.risk(view.left as f64 / view.total.max(1) as f64));
        for seed in 0..rows {
            let place = (0.5 + seed as f64 * GOLDEN).fract();
            let (likeness, walk) = outcomes.at(place, &likeness);
            let row = Synthetic::draw(&likeness, walk.as_ref(), view.left + outlook.out(), seed);
            // What it would take if nothing were lost.
            let even = row.until(view.left + outlook.out()) / view.n() as f64;
            let (asks, free) = outlook.asks(&row);
            let standing = Standing { asks: &asks, port, free: &free };
            let ahead = Ahead {
                view: *view,
                standing,
                slowness: outlook.slowness(),
                out: outlook.out(),
                bound: self.bound,
            };
            let before = budget;
            let mut best = f64::INFINITY;
            for trial in tried.iter_mut().filter(|trial| trial.stands) {
                let (time, chunks) = ahead.simulate(trial.policy.copy(), &row, budget, HOPELESS * best);
                budget -= chunks;
                match time {
                    Some(time) if time <= HOPELESS * best => {
                        trial.seconds += time;
                        trial.total += time / even;
                        best = best.min(time);
                    }
                    _ => trial.stands = false,
                }
            }
            rounds += 1;
            let standing = tried.iter_mut().filter(|trial| trial.stands);
            let least = standing.map(|trial| trial.total).fold(f64::INFINITY, f64::min);
            let limit = least * (1.0 + WORSE / f64::from(rounds));
            // What is in force stays, to be compared with the best in the end.
            tried.iter_mut().skip(1).for_each(|trial| trial.stands &= trial.total <= limit);
            // Another round takes no more than this one.
            if before - budget > budget {
                break;
            }
        }
        self.spent += (allowed - budget) as f64;
        let compared = tried.len();
        let mean = |seconds: f64| seconds / f64::from(rounds);
        let before = tried[0].stands.then(|| (mean(tried[0].seconds), tried[0].total));
        let standing = tried.into_iter().filter(|trial| trial.stands && trial.candidate.is_some());
        let best = standing.min_by(|a, b| a.total.total_cmp(&b.total));
        if let Some(Trial { candidate: Some(candidate), policy, seconds, total, .. }) = best {
            let predicted = mean(seconds);
            if before.is_some_and(|before| total >= before.1 * (1.0 - margin)) {
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
                predicted_before: before.map(|before| before.0),
                compared,
            });
            self.in_force = candidate;
            self.policy = policy;
            self.informed = true;
        }
    }
}

#[cfg(test)]
mod tests;
