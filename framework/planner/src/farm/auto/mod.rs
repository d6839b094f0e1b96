//! Automatic selection of a chunk policy (rule for the number of tasks per message) for a farm.
//!
//! The first chunks are probes, which measure the time of a task. While this time is unknown, a probe is a single task. Later a probe takes some
//! milliseconds. The probes that a worker may hold at the same time have at most a quarter of the tasks that each worker would get if the tasks were
//! divided evenly. If messages are expensive, the first probes have this maximum size, because probes of single tasks would delay the farm.
//!
//! When as many tasks as in the probes of a quarter of the workers have completed, the rest of the iteration is simulated with each of the published
//! policies ([`trial`]). The simulation starts from the current state of the farm, with samples of task times that have the measured mean, deviation
//! and length of blocks of similar tasks ([`estimate`]). The fastest policy is selected. The selection is repeated when as many tasks as in the
//! probes of all workers have completed, whenever half of the remaining tasks have been dispatched, and at the beginning of each further iteration.
//!
//! The cost of the selections is limited to a small fraction of the run time.

mod choice;
mod estimate;
mod outstanding;
mod sample;
mod trial;

pub use choice::Choice;

use super::chunking::{Chunking, Published};
use super::knowledge::ChunkDone;
use super::policy::{AT_FIRST, Policy, View, policy};
use crate::range;
use estimate::Estimate;
use outstanding::{Out, Outstanding};
use sample::Sample;
use trial::Trial;

/// Chunk policies (rules for the number of tasks per message) among which `Auto` selects. Self-scheduling with single
/// tasks is excluded, because its simulation takes one chunk for each task.
const POLICIES: [Chunking; 11] = [
    Chunking::Policy(Published::Dpf),
    Chunking::Static,
    Chunking::Policy(Published::Gss),
    Chunking::Policy(Published::Tss),
    Chunking::Policy(Published::Fsc),
    Chunking::Policy(Published::Daf),
    Chunking::Policy(Published::Fac2),
    Chunking::Policy(Published::Fac),
    Chunking::Policy(Published::AwfB),
    Chunking::Policy(Published::Af),
    Chunking::Policy(Published::KruskalWeiss),
];
/// Seconds to simulate one chunk of tasks, measured by the experiment `farm-policies`. With a larger value, chunk
/// policies would be selected less often; with a smaller value, the selections would delay the master if tasks are
/// tiny.
const CHUNK_COST: f64 = 0.25e-6;
/// Maximum fraction of the run time that selections of a chunk policy may take. The loss due to a wrong policy is
/// larger.
const OVERHEAD: f64 = 0.01;
/// Number of simulated chunks per worker that is enough to simulate an iteration once with every chunk policy,
/// measured by the experiment `farm-policies`. A selection that is due may simulate this number of chunks, even if it
/// exceeds the limit of the run time, but not more than [`MOST_CHUNKS`].
const ONCE: f64 = 250.0;
/// Maximum number of simulated chunks for a selection of a chunk policy. The simulation takes about 25 ms, in which
/// the master answers no messages. With more than 400 workers, which need more chunks ([`ONCE`]), the maximum does not
/// apply if the run is long.
const MOST_CHUNKS: f64 = 100_000.0;
/// Maximum number of random samples of task times on which chunk policies are compared. With 16 samples, the error of
/// the mean is a quarter of the deviation of single samples. Four times as many samples improve the selection by at
/// most half a per cent if times vary slowly, and take four times as long.
const SAMPLES: u64 = 16;

/// Maximum seconds of a probe (a chunk that measures the time of a task) once the time of a task is known, if
/// messages are fast; short enough for a user who waits for the first result.
const PROBE: f64 = 10e-3;
/// Maximum time of a probe (a chunk that measures the time of a task) if messages are slow. It is a multiple of the
/// time in which the master sends one probe to each worker, so messages take a small fraction of the time of the
/// probes.
const PROBE_ROUNDS: f64 = 10.0;
/// Maximum seconds in which the master sends one probe to each worker, for first probes that are single tasks. If the
/// master takes longer, the first probes are larger. With ten times this value, simulated farms that run for some
/// milliseconds lose two per cent on average.
const CHEAP_ROUND: f64 = 1e-4;

/// State of the automatic selection of a chunk policy, [`Chunking::Auto`](super::Chunking::Auto).
#[derive(Debug)]
pub(super) struct Auto {
    policy: Box<dyn Policy>,
    active_policy: Chunking,
    /// True once a probe (a chunk that measures the time of a task) has been measured. Until then all chunks are
    /// probes; afterwards the selected policy determines the chunks.
    informed: bool,
    choice: Option<Choice>,
    out: Outstanding,
    /// Time (s, by the caller's clock) from which on the master's network port is free to send.
    port: f64,
    /// Value of the field `port` before the latest chunk was dispatched. It is restored if the caller returns this
    /// chunk.
    port_before: Option<f64>,
    /// The next selection of a chunk policy is due when the number of measured tasks reaches this number times the
    /// tasks of a probe, or when only `choose_at_left` tasks remain.
    choose_at_probes: u64,
    choose_at_left: u64,
    simulated: u64,
}

impl Default for Auto {
    fn default() -> Self {
        Auto {
            policy: published(Chunking::Policy(Published::Dpf)),
            active_policy: Chunking::Policy(Published::Dpf),
            informed: false,
            choice: None,
            out: Outstanding::default(),
            port: 0.0,
            port_before: None,
            choose_at_probes: 0,
            choose_at_left: 0,
            simulated: 0,
        }
    }
}

fn published(chunking: Chunking) -> Box<dyn Policy> {
    policy(chunking).unwrap_or_else(|| unreachable!("Auto is not among the policies that it chooses from"))
}

/// Returns a view of the farm with an iteration number of at least 2. Chunk policies that only measure in the first
/// iteration then adapt at once.
fn experienced<'a>(view: &View<'a>) -> View<'a> {
    View { iteration: view.iteration.max(2), ..*view }
}

fn probe(view: &View<'_>) -> u64 {
    // `share` is the maximum size of a probe: the initial batch of the policies FSC and DPF, divided among all chunks
    // that the workers may hold. With larger probes, a worker with long tasks would delay the end of the farm.
    let chunks = view.n() as f64 * (1.0 + f64::from(view.knowledge.ahead));
    let share = (AT_FIRST * view.total as f64 / chunks).ceil().max(1.0) as u64;
    let round = chunks * view.knowledge.send_time(1) + 2.0 * view.knowledge.latency;
    let all = view.statistics.all();
    if all.count() > 0 {
        // If tasks take no time, infinitely many fit into a probe, and the conversion to an integer saturates.
        share.min((PROBE.max(PROBE_ROUNDS * round) / all.mean()) as u64).max(1)
    } else if round > CHEAP_ROUND {
        share
    } else {
        1
    }
}

/// Returns the number of measured tasks in multiples of a probe (a chunk that measures the time of a task), which
/// determines when a chunk policy is selected.
fn measured_probes(view: &View<'_>) -> u64 {
    view.statistics.all().count() / probe(view)
}

impl Auto {
    pub(super) fn begin(&mut self, view: &View<'_>) {
        if self.out.iter().next().is_none() {
            self.port = view.knowledge.now;
        }
        let (view, probes) = (&experienced(view), measured_probes(view));
        self.policy = published(self.active_policy);
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
            // The selected policy begins here and not before, because its minimum chunk size follows from the mean
            // task time, which is known from now on.
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
        let size = match self.informed {
            true => self.policy.next(worker, most, view),
            false => (probe(view) as f64 * view.expected_speed(worker)).round() as u64,
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
        self.out.push(worker, Out { tasks: size, dispatched_at: now, arrives });
        size
    }

    /// Records that dispatched tasks were returned without results. Tasks that are returned directly after
    /// [`next`](Auto::next) belong to the latest chunk, which then has fewer tasks; other returned tasks belong to a
    /// worker that has left.
    pub(super) fn return_tasks(&mut self, tasks: u64) {
        let Some(port_before) = self.port_before.take() else { return };
        let Some(newest) = self.out.newest_mut() else { return };
        newest.tasks = newest.tasks.saturating_sub(tasks);
        if newest.tasks == 0 {
            self.out.pop_newest();
            self.port = port_before;
        }
    }

    pub(super) fn done(&mut self, done: &ChunkDone) {
        self.port_before = None;
        let Some(out) = self.out.pop_oldest(done.worker) else { return };
        let back = out.dispatched_at + range::amount_or_nearest(done.elapsed);
        if let Some(next) = self.out.oldest_mut(done.worker) {
            next.arrives = next.arrives.max(back);
        }
    }

    /// Records the results of a part of a worker's oldest chunk; the worker continues with the rest of the chunk.
    pub(super) fn done_in_part(&mut self, done: &ChunkDone) {
        self.port_before = None;
        let Some(out) = self.out.oldest_mut(done.worker) else { return };
        out.tasks = out.tasks.saturating_sub(done.tasks);
        out.arrives = out.arrives.max(out.dispatched_at + range::amount_or_nearest(done.elapsed));
    }

    pub(super) fn leave(&mut self, worker: usize) {
        self.port_before = None;
        self.out.remove(worker);
    }

    pub(super) fn take_choice(&mut self) -> Option<Choice> {
        self.choice.take()
    }

    pub(super) fn simulated(&self) -> u64 {
        self.simulated
    }

    /// Simulates the rest of the farm's iteration with every chunk policy, and selects the policy with the shortest
    /// time. Without `is_due`, this is done only if the simulation costs little compared with the run time.
    fn choose(&mut self, view: &View<'_>, is_due: bool) {
        let all = view.statistics.all();
        if all.mean() <= 0.0 {
            return;
        }
        // The maximum number of simulated chunks is proportional to the total run time, past and remaining.
        let time = (all.count() as f64 + view.left as f64) * all.mean() / view.n() as f64;
        let affordable = OVERHEAD * time / CHUNK_COST - self.simulated as f64;
        let once = ONCE * view.n() as f64;
        if affordable < once && !is_due {
            return;
        }
        let most = if affordable < once { MOST_CHUNKS } else { MOST_CHUNKS.max(once) };
        let budget = affordable.clamp(once.min(most), most) as u64;
        // The current policy is simulated from its present state. All other policies are simulated as if they began
        // with the remaining tasks.
        let mut trials = vec![Trial::new(self.active_policy, self.policy.copy())];
        for chunking in POLICIES.into_iter().filter(|&chunking| chunking != self.active_policy) {
            let mut policy = published(chunking);
            policy.begin(view);
            trials.push(Trial::new(chunking, policy));
        }
        let estimate = Estimate::new(view, &self.out);
        let (samples, simulated) = self.compare(&mut trials, view, &estimate, budget);

        let mean = |seconds: f64| seconds / samples as f64;
        self.simulated += simulated;
        // If the simulation with the current policy has exceeded the budget, nothing is known about this policy, except that its chunks are small.
        // On many workers such policies are often the best.
        let Some(before) = trials[0].seconds else { return };
        let compared = trials.iter().filter(|trial| trial.seconds.is_some()).count();
        let others = trials.into_iter().skip(1);
        let finished = others.filter_map(|trial| Some((trial.seconds?, trial)));
        let best = finished.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|(seconds, _)| *seconds < before);
        let distribution = *estimate.distribution();
        let Some((seconds, trial)) = best else { return };
        self.choice = Some(Choice {
            now: view.knowledge.now,
            policy: trial.chunking,
            before: self.active_policy,
            left: view.left,
            workers: view.workers.len(),
            mean: distribution.mean,
            deviation: distribution.deviation,
            block: distribution.block,
            message: view.knowledge.send_time(1),
            predicted: mean(seconds),
            predicted_before: mean(before),
            compared,
        });
        self.active_policy = trial.chunking;
        self.policy = trial.policy;
        self.informed = true;
    }

    /// Simulates all chunk policies on the same samples of task times, until about `budget` chunks have been
    /// simulated in total. Returns the number of samples and the number of simulated chunks.
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
        // The next sample is expected to need as many simulated chunks as the average of the earlier samples.
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
