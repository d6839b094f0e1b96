//! The choice among the policies.
//!
//! The first chunks are probes. As long as the time of a task is not known, a probe is a single task; from then on it takes some
//! milliseconds, and has at most a quarter of its worker's even share, divided among the chunks that the worker may hold. Where
//! messages are so expensive that a round of single tasks would delay the farm, the first probes have all of that.
//!
//! When as many tasks as in the probes of a quarter of the workers have come back, the rest of the iteration is simulated with
//! each of the published policies ([`trial`]), from the present state of the farm, on samples of task times like those measured:
//! mean, deviation, and blocks of neighbours that are alike ([`estimate`]). The fastest policy is taken. The choice is repeated
//! when as many tasks as in the probes of all workers have come back, whenever half of what was left has been handed out, and at
//! the beginning of each further iteration.
//!
//! What this may cost is a small part of the time that lies ahead.

mod choice;
mod estimate;
mod sample;
mod trial;

pub use choice::Choice;

use super::chunking::Chunking;
use super::knowledge::ChunkDone;
use super::policy::{AT_FIRST, Policy, View, policy};
use crate::range;
use estimate::{Estimate, Out};
use sample::Sample;
use trial::Trial;

/// What is chosen from. Single tasks are left out: to simulate them takes a chunk for each task.
const POLICIES: [Chunking; 11] = [
    Chunking::Dpf,
    Chunking::Static,
    Chunking::Gss,
    Chunking::Tss,
    Chunking::Fsc,
    Chunking::Daf,
    Chunking::Fac2,
    Chunking::Fac,
    Chunking::AwfB,
    Chunking::Af,
    Chunking::KruskalWeiss,
];
/// Seconds that the simulation of a chunk takes, by the experiment `farm-policies`: with a larger number there would be fewer
/// choices, with a smaller one the master would be late where tasks are tiny.
const CHUNK_COST: f64 = 0.25e-6;
/// Part of the time ahead that choices may cost: less than what a wrong policy loses.
const OVERHEAD: f64 = 0.01;
/// Chunks for each worker that it takes to simulate an iteration with every policy once, by the same experiment; a choice that is
/// due in any case may take as many.
const ONCE: f64 = 250.0;
/// Chunks that are simulated for a choice, at most: the master answers nobody meanwhile, for some 25 ms.
const MOST_CHUNKS: f64 = 100_000.0;
/// Samples of tasks on which policies are compared. Their mean is known to a quarter of what single
/// ones differ by; four times as many gain no more than half a per cent where times wander, and cost the same again three times.
const SAMPLES: u64 = 16;

/// Seconds that a probe takes at most once the time of a task is known, where messages are fast: short for a user who waits for the
/// first result.
const PROBE: f64 = 10e-3;
/// With slow messages a probe takes at most this many times what those of a round of probes take, which then cost a small part of
/// it.
const PROBE_ROUNDS: f64 = 10.0;
/// Seconds of a round of messages up to which the first probes are single tasks. With ten times as much, simulated farms that last
/// for some milliseconds lose two per cent in the mean.
const CHEAP_ROUND: f64 = 1e-4;

/// The policy behind [`Chunking::Auto`](super::Chunking::Auto).
#[derive(Debug)]
pub(super) struct Auto {
    policy: Box<dyn Policy>,
    in_force: Chunking,
    /// A whole probe has been measured, so that the policy counts; else chunks are probes.
    informed: bool,
    choice: Option<Choice>,
    out: Vec<Out>,
    /// When the master's port is free (s, by the caller's clock).
    port: f64,
    /// The port before the newest chunk, which may still be given back.
    port_before: Option<f64>,
    /// Measured tasks, in probes, and tasks left, at which the next choice is due.
    choose_at_probes: u64,
    choose_at_left: u64,
    /// Chunks that were simulated so far.
    simulated: u64,
}

impl Default for Auto {
    fn default() -> Self {
        Auto {
            policy: published(Chunking::Dpf),
            in_force: Chunking::Dpf,
            informed: false,
            choice: None,
            out: Vec::new(),
            port: 0.0,
            port_before: None,
            choose_at_probes: 0,
            choose_at_left: 0,
            simulated: 0,
        }
    }
}

/// A published policy at its beginning.
fn published(chunking: Chunking) -> Box<dyn Policy> {
    policy(chunking).unwrap_or_else(|| unreachable!("Auto is not among the policies that it chooses from"))
}

/// The same for policies that learn in a first iteration: they need not.
fn experienced<'a>(view: &View<'a>) -> View<'a> {
    View { iteration: view.iteration.max(2), ..*view }
}

/// Tasks of a chunk while the policy does not count yet.
fn probe(view: &View<'_>) -> u64 {
    // What FSC and DPF begin with, in all the chunks that a worker may hold: with more, one that got long tasks would be
    // waited for in the end.
    let chunks = view.n() as f64 * (1.0 + f64::from(view.knowledge.ahead));
    let share = (AT_FIRST * view.total as f64 / chunks).ceil().max(1.0) as u64;
    let round = chunks * view.knowledge.send_time(1) + 2.0 * view.knowledge.latency;
    let all = view.statistics.all();
    if all.count() > 0 {
        // Infinite, and as a number saturated, where tasks take no time.
        share.min((PROBE.max(PROBE_ROUNDS * round) / all.mean()) as u64).max(1)
    } else if round > CHEAP_ROUND {
        share
    } else {
        1
    }
}

/// Tasks whose times are known, in probes.
fn measured_probes(view: &View<'_>) -> u64 {
    view.statistics.all().count() / probe(view)
}

impl Auto {
    pub(super) fn begin(&mut self, view: &View<'_>) {
        if self.out.is_empty() {
            self.port = view.knowledge.now;
        }
        let (view, probes) = (&experienced(view), measured_probes(view));
        self.policy = published(self.in_force);
        self.policy.begin(view);
        if view.statistics.chunks() > 0 {
            self.choose(view, true);
        }
        self.choose_at_left = view.left / 2;
        self.choose_at_probes = if probes < view.n() { probes + (view.n() / 4).max(1) } else { u64::MAX };
    }

    pub(super) fn next(&mut self, worker: usize, most: u64, view: &View<'_>) -> u64 {
        let probes = measured_probes(view);
        let view = &experienced(view);
        if !self.informed && probes > 0 {
            // The policy knows the mean, and with it the least chunk, from now on.
            self.informed = true;
            self.policy.begin(view);
        }
        let is_due = probes >= self.choose_at_probes;
        if is_due || (probes > 0 && view.left <= self.choose_at_left) {
            self.choose_at_left = view.left / 2;
            if is_due {
                self.choose_at_probes = if probes < view.n() { view.n() } else { u64::MAX };
            }
            if view.left > view.n() {
                self.choose(view, self.simulated == 0);
            }
        }
        let size = if self.informed { self.policy.next(worker, most, view) } else { probe(view) };
        let size = size.clamp(1, most.min(view.left));
        let now = view.knowledge.now;
        self.port_before = Some(self.port);
        let arrives = if view.knowledge.master == Some(worker) {
            now
        } else {
            self.port = self.port.max(now) + view.knowledge.send_time(size);
            self.port + view.knowledge.latency
        };
        self.out.push(Out { worker, tasks: size, given: now, arrives });
        size
    }

    /// Some of the tasks that were handed out have come back undone. Right after [`next`](Auto::next) these are the
    /// newest chunk's, which then had fewer tasks; else those of a worker that has left.
    pub(super) fn give_back(&mut self, tasks: u64) {
        let Some(port_before) = self.port_before.take() else { return };
        let Some(newest) = self.out.last_mut() else { return };
        newest.tasks = newest.tasks.saturating_sub(tasks);
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
    }

    /// The worker goes on with the rest of its oldest chunk.
    pub(super) fn done_in_part(&mut self, done: &ChunkDone) {
        self.port_before = None;
        let Some(out) = self.out.iter_mut().find(|out| out.worker == done.worker) else { return };
        out.tasks = out.tasks.saturating_sub(done.tasks);
        out.arrives = out.arrives.max(out.given + range::amount_or_nearest(done.elapsed));
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
        self.simulated
    }

    /// Simulates the rest of the iteration with every policy, and takes the fastest, if that costs little by the time ahead or
    /// is due in any case.
    fn choose(&mut self, view: &View<'_>, is_due: bool) {
        let all = view.statistics.all();
        if all.mean() <= 0.0 {
            return;
        }
        // A small part of the time that has passed and that lies ahead, on the whole.
        let time = (all.count() as f64 + view.left as f64) * all.mean() / view.n() as f64;
        let budget = OVERHEAD * time / CHUNK_COST - self.simulated as f64;
        let once = ONCE * view.n() as f64;
        if budget < once && !is_due {
            return;
        }
        let budget = budget.clamp(once.min(MOST_CHUNKS), MOST_CHUNKS) as u64;
        // What is in force goes on as it is; the others begin with what is left.
        let mut trials = vec![Trial::new(self.in_force, self.policy.copy())];
        for chunking in POLICIES.into_iter().filter(|&chunking| chunking != self.in_force) {
            let mut policy = published(chunking);
            policy.begin(view);
            trials.push(Trial::new(chunking, policy));
        }
        let compared = trials.len();
        let estimate = Estimate::new(view, &self.out);
        let (samples, simulated) = self.compare(&mut trials, view, &estimate, budget);

        let mean = |seconds: f64| seconds / samples as f64;
        let before = trials[0].seconds;
        let limit = before.unwrap_or(f64::INFINITY);
        let others = trials.into_iter().skip(1);
        let finished = others.filter_map(|trial| Some((trial.seconds?, trial)));
        let best = finished.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|(seconds, _)| *seconds < limit);
        let distribution = *estimate.distribution();
        self.simulated += simulated;
        let Some((seconds, trial)) = best else { return };
        self.choice = Some(Choice {
            now: view.knowledge.now,
            policy: trial.chunking,
            before: self.in_force,
            left: view.left,
            workers: view.workers.len(),
            mean: distribution.mean,
            deviation: distribution.deviation,
            block: distribution.block,
            message: view.knowledge.send_time(1),
            predicted: mean(seconds),
            predicted_before: before.map(mean),
            compared,
        });
        self.in_force = trial.chunking;
        self.policy = trial.policy;
        self.informed = true;
    }

    /// Simulates all on the same samples, with some `budget` chunks on the whole. Returns the numbers of samples and chunks.
    fn compare(
        &self,
        trials: &mut [Trial],
        view: &View<'_>,
        estimate: &Estimate<'_>,
        budget: u64,
    ) -> (u64, u64) {
        let distribution = estimate.distribution();
        let port = (self.port - view.knowledge.now).max(0.0);
        let tasks = view.left.saturating_add(estimate.out());
        let each = budget / trials.len() as u64;
        let (mut samples, mut simulated) = (0, 0);
        // Another sample takes no more than this one.
        while samples < SAMPLES && simulated * (samples + 1) <= budget * samples {
            let sample = Sample::draw(distribution, tasks, samples);
            simulated += trial::simulate(trials, view, estimate, &sample, port, each);
            samples += 1;
        }
        (samples, simulated)
    }
}

#[cfg(test)]
mod tests;
