//! Settings that nobody has looked at while the automatic choice was written.

use armature_planner::farm::{Chunking, MessageCosts};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{ITERATIONS, MARK, Setting, best, mark_worst};
use crate::farm::tasks::TaskShape;
use crate::stats::mean;
use crate::table::digits;
use crate::verdict::Interval;
use crate::{Mark, Outcome, Report, Table, Target};

/// Seed of the settings and their tasks.
const SEED: u64 = 733_019;
const SETTINGS: usize = 150;

/// Random settings, workers that the master cannot serve among them.
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

/// Iterations in which what was learned pays. Returns the efficiencies by those of the best fixed policy.
pub(super) fn many_iterations(report: &mut Report, chunk_cost: f64, smoke: bool) -> Outcome<Vec<f64>> {
    let settings = settings(if smoke { 3 } else { SETTINGS }, SEED);
    let ratios = contests(report, "unseen", &settings, ITERATIONS, chunk_cost)?;
    mark_worst(report, "unseen, worst", &ratios);
    Ok(ratios)
}

/// A single iteration, in which everything has to be learned.
pub(super) fn one_iteration(report: &mut Report, chunk_cost: f64, smoke: bool) -> Outcome<Vec<f64>> {
    let settings = settings(if smoke { 3 } else { SETTINGS }, SEED + 1);
    let ratios = contests(report, "single", &settings, 1, chunk_cost)?;
    let mean = mean(&ratios);
    report.mark(Mark::new(
        "one iteration, mean",
        Interval::exact(mean),
        "of the best",
        Target::AtLeast(MARK),
    ));
    Ok(ratios)
}

fn contests(
    report: &mut Report,
    part: &str,
    settings: &[Setting],
    iterations: usize,
    chunk_cost: f64,
) -> Outcome<Vec<f64>> {
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
        "with its cost",
        "simulated",
        "last choice",
    ]);
    let (mut ratios, mut charged) = (Vec::new(), Vec::new());
    for (seed, setting) in (SEED..).zip(settings) {
        let rows = setting.tasks(iterations, seed)?;
        let fixed = setting.fixed(&rows);
        let auto = setting.run(Chunking::Auto, &rows);
        let best = best(&fixed);
        let ratio = auto.efficiency() / best.1;
        let with_cost = auto.efficiency_with(chunk_cost) / best.1;
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
            best.0.to_string().into(),
            digits(best.1, 4),
            digits(fixed.iter().copied().fold(f64::INFINITY, f64::min), 4),
            digits(auto.efficiency(), 4),
            digits(ratio, 4),
            digits(with_cost, 4),
            (auto.simulated as usize).into(),
            auto.choice.unwrap_or_default().into(),
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
