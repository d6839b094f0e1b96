//! The choice among the policies.
//!
//! As long as nothing is known, each worker gets a quarter of its even share, in as many chunks as it may hold. When the
//! chunks of a quarter of the workers have come back, and again as more have, the rest of the iteration is simulated with
//! each [`Candidate`], from the state that the farm is in, on task times like those measured: mean, deviation, and blocks of
//! neighbours that are alike. The fastest is taken. That is done again at each new iteration, and whenever half of what was
//! left is gone. At the beginning of an iteration, what candidates came to at the beginnings of earlier ones counts, too, as long as
//! tasks are alike ([`Record`]).
//!
//! What was measured tells nothing of what lies ahead where the level of the times wanders along the tasks, as it does
//! from row to row of a picture. How far it may is told by the [`Course`] of the chunks so far; some rows wander as
//! much, and chunks are [bounded](Bound) accordingly.
//!
//! What this may cost is a small part of the time that lies ahead.

mod bound;
mod candidates;
mod choice;
mod contest;
mod course;
mod forecast;
mod outlook;
mod record;
mod synthetic;

pub use candidates::Candidate;
pub use choice::Choice;

use super::knowledge::ChunkDone;
use super::policy::{Policy, View};
use crate::range;
use bound::Bound;
use contest::{Contest, Trial};
use course::Course;
use outlook::{Out, Outlook};
use record::Record;

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
/// What is in force is left only for something that is better by this part: at the beginning of an iteration, and in
/// the middle of one, where little is left to win and the state of the workers is known less well.
const BETTER_AT_FIRST: f64 = 0.003;
const BETTER_MIDWAY: f64 = 0.01;
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
    record: Record,
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
            record: Record::default(),
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
        self.given = self.given.saturating_add(size);
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
        let back = out.given + range::amount_or_nearest(done.elapsed);
        if let Some(next) = self.out.iter_mut().find(|next| next.worker == done.worker) {
            next.arrives = next.arrives.max(back);
        }
        if let Some(done) = done.usable() {
            self.course.add(out.first, done.tasks.min(out.tasks), done.sum);
        }
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
        let time = (all.count() as f64 + view.left as f64) * likeness.mean / view.n() as f64;
        let budget = OVERHEAD * time / CHUNK_COST - self.spent;
        // The first choice and one for each iteration are made whatever they cost; others wait until it is little.
        let row = ROW_CHUNKS * view.n() as f64;
        if budget < row && !due {
            return;
        }
        let budget = budget.clamp(row.min(MOST_CHUNKS), MOST_CHUNKS) as u64;

        // A whole iteration is like the last one, and what came of rows drawn then counts, too.
        let whole = view.left == view.total && outlook.out() == 0;
        if whole {
            self.record.begin(&likeness, view.total, view.n());
        }
        // What is in force goes on as it is; the others begin with what is left.
        let mut tried = vec![Trial::new(None, self.policy.copy())];
        let in_force = whole.then_some(self.in_force);
        let others = Candidate::all(outlook.unequal());
        for candidate in others.into_iter().filter(|&candidate| Some(candidate) != in_force) {
            let mut policy = candidate.policy(view.left, view.n());
            policy.begin(view);
            tried.push(Trial::new(Some(candidate), policy));
        }
        let outcomes = self.course.outcomes(view.statistics, &likeness, view.total);
        self.bound =
            Bound::new(view, likeness.mean, outcomes.risk(view.left as f64 / view.total.max(1) as f64));
        let port = (self.port - view.knowledge.now).max(0.0);
        let contest = Contest { view, outlook: &outlook, outcomes: &outcomes, bound: self.bound, port };
        let record = &mut self.record;
        let left = contest.hold(&mut tried, |row| if whole { record.next_row() } else { row }, budget);
        self.spent += (budget - left) as f64;
        if whole {
            // Those that were dropped after a bad row, too: else the bad rows of what scatters much would not count.
            for trial in tried.iter().filter(|trial| trial.rows > 0) {
                self.record.add(trial.candidate.unwrap_or(self.in_force), trial.total, trial.rows.into());
            }
        }
        // What a row takes with it, by the least that it could.
        let score = |trial: &Trial| {
            let all = whole.then(|| self.record.mean(trial.candidate.unwrap_or(self.in_force))).flatten();
            all.unwrap_or(trial.total / f64::from(trial.rows))
        };
        let compared = tried.len();
        let before = tried[0].stands.then(|| (tried[0].mean(), score(&tried[0])));
        let standing = tried.into_iter().filter(|trial| trial.stands && trial.candidate.is_some());
        let best = standing.map(|trial| (score(&trial), trial)).min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((least, trial)) = best
            && let Some(candidate) = trial.candidate
        {
            if before.is_some_and(|(_, score)| least >= score * (1.0 - margin)) {
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
                predicted: trial.mean(),
                predicted_before: before.map(|(seconds, _)| seconds),
                compared,
            });
            self.in_force = candidate;
            self.policy = trial.policy;
            self.informed = true;
        }
    }
}

#[cfg(test)]
mod tests;
