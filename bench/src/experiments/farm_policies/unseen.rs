//! Comparison of the automatic chunking policy with the best fixed policy on random farms that were not used in its development.

use armature_planner::farm::{Chunking, MessageCosts};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{FIXED, Finish, ITERATIONS, MARK, Setting, best, mark_worst};
use crate::farm::tasks::TaskShape;
use crate::stats::mean;
use crate::table::digits;
use crate::verdict::Interval;
use crate::{Report, RunResult, Table, Target, TargetedValue};

const SEED: u64 = 733_019;
const SETTINGS: usize = 150;
/// Number of times that the task times of a random farm are drawn; a policy is judged by its mean efficiency over all draws. If an iteration has few
/// blocks of equal tasks, the best of the ten policies in a single draw is a matter of chance.
const DRAWS: u64 = 5;

fn settings(count: usize, seed: u64) -> Vec<Setting> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut log = move |low: f64, high: f64| low * (high / low).powf(random.random::<f64>());
    let one = || {
        let workers = log(2.0, 80.0).round() as usize;
        let tasks = log(1000.0, 30_000.0).round() as usize;
        let shape = TaskShape {
            tasks,
            mean: log(1e-4, 2e-2),
            spread: log(0.02, 1.2),
            block: log(0.3, 60.0).max(1.0).round() as usize,
        };
        let messages = MessageCosts::new(log(2e-5, 2e-3), log(1e-9, 2e-6));
        Setting { workers, messages, volume: log(10.0, 1000.0) * tasks as f64, shape }
    };
    std::iter::repeat_with(one).take(count).collect()
}

/// Runs many iterations of each random farm, so that the automatic policy has measurements. Returns its efficiencies relative to the best fixed
/// policy, as means over all draws of the task times.
pub(super) fn many_iterations(report: &mut Report, chunk_cost: f64, smoke: bool) -> RunResult<Vec<f64>> {
    let settings = settings(if smoke { 3 } else { SETTINGS }, SEED);
    let draws = if smoke { 2 } else { DRAWS };
    let of_draws = contests(report, "unseen", &settings, ITERATIONS, draws, chunk_cost)?;
    let first = of_draws.iter().map(|draws| draws.first);
    report.note(format!(
        "unseen, the first draw alone: {:.4} of the best fixed policy of that draw at worst; {} of {} at {MARK} or more",
        first.clone().fold(f64::INFINITY, f64::min),
        first.filter(|&ratio| ratio >= MARK).count(),
        settings.len()
    ));
    let ratios: Vec<f64> = of_draws.iter().map(|draws| draws.mean).collect();
    mark_worst(report, &format!("unseen, means of {draws} draws, worst"), &ratios);
    Ok(ratios)
}

/// Runs a single iteration of each random farm, in which the automatic policy starts without measurements. Returns its efficiencies relative to the
/// best fixed policy.
pub(super) fn one_iteration(report: &mut Report, chunk_cost: f64, smoke: bool) -> RunResult<Vec<f64>> {
    let settings = settings(if smoke { 3 } else { SETTINGS }, SEED + 1);
    let of_draws = contests(report, "single", &settings, 1, 1, chunk_cost)?;
    let ratios: Vec<f64> = of_draws.iter().map(|draws| draws.mean).collect();
    let mean = mean(&ratios);
    report.mark(TargetedValue::new(
        "one iteration, mean",
        Interval::exact(mean),
        "of the best",
        Target::AtLeast(MARK),
    ));
    Ok(ratios)
}

/// Efficiency of the automatic policy on one farm, relative to the best fixed policy: for the first random draw of the task times, and as mean over
/// all draws.
struct Draws {
    first: f64,
    mean: f64,
}

fn contests(
    report: &mut Report,
    part: &str,
    settings: &[Setting],
    iterations: usize,
    draws: u64,
    chunk_cost: f64,
) -> RunResult<Vec<Draws>> {
    let mut table = Table::new(&[
        "workers",
        "tasks",
        "mean [ms]",
        "deviation [%]",
        "block",
        "start-up [ms]",
        "ns/byte",
        "bytes/task",
        "best fixed",
        "best [%]",
        "worst [%]",
        "auto [%]",
        "auto / best",
        "first draw",
        "with its cost",
        "simulated",
        "last choice",
    ]);
    let (mut ratios, mut charged) = (Vec::new(), Vec::new());
    for (seed, setting) in (SEED..).zip(settings) {
        // The farm's own seed is below a million. The seed of its draw k (from 0) is this seed plus k million, and all draws of all farms have
        // different seeds.
        let rows = (0..draws).map(|draw| setting.tasks(iterations, seed + draw * 1_000_000));
        let rows = rows.collect::<RunResult<Vec<_>>>()?;
        let fixed: Vec<Vec<f64>> = rows.iter().map(|rows| setting.fixed(rows)).collect();
        let auto: Vec<Finish> = rows.iter().map(|rows| setting.run(Chunking::Auto, rows)).collect();
        let of_all =
            |efficiency: &dyn Fn(usize) -> f64| mean(&(0..rows.len()).map(efficiency).collect::<Vec<_>>());
        let fixed_mean: Vec<f64> =
            (0..FIXED.len()).map(|policy| of_all(&|draw| fixed[draw][policy])).collect();
        let auto_mean = of_all(&|draw| auto[draw].efficiency());
        let found = best(&fixed_mean);
        let ratio = Draws { first: auto[0].efficiency() / best(&fixed[0]).1, mean: auto_mean / found.1 };
        let with_cost = of_all(&|draw| auto[draw].efficiency_with(chunk_cost)) / found.1;
        let simulated: u64 = auto.iter().map(|auto| auto.simulated).sum();
        let choice = auto.into_iter().rev().find_map(|auto| auto.choice);
        let TaskShape { tasks, mean, spread, block } = setting.shape;
        table.row([
            setting.workers.into(),
            tasks.into(),
            digits(1e3 * mean, 3),
            digits(100.0 * spread, 3),
            block.into(),
            digits(1e3 * setting.messages.start_up.small, 3),
            digits(1e9 * setting.messages.per_byte, 3),
            digits(setting.volume / tasks as f64, 3),
            found.0.to_string().into(),
            digits(found.1, 4),
            digits(fixed_mean.iter().copied().fold(f64::INFINITY, f64::min), 4),
            digits(auto_mean, 4),
            digits(ratio.mean, 4),
            digits(ratio.first, 4),
            digits(with_cost, 4),
            (simulated as usize).into(),
            choice.unwrap_or_default().into(),
        ]);
        ratios.push(ratio);
        charged.push(with_cost);
    }
    report.table(part, &table)?;
    report.note(format!(
        "{part}: with the time of its choices on the master, {:.4} of the best on average, {:.4} at worst",
        mean(&charged),
        charged.iter().copied().fold(f64::INFINITY, f64::min)
    ));
    Ok(ratios)
}
