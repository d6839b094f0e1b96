//! The chunking policies in the simulator: sizes and order against values that were computed independently, and the
//! automatic choice against the best fixed policy.
//!
//! The automatic choice is judged on the rows of the table and on configurations that were drawn at random from seeds
//! of their own: other means, deviations, block lengths, networks, numbers of workers.

use armature_planner::farm::{Chunker, Chunking, IterationModel, Knowledge, MessageCosts, Protocol};
use armature_planner::simulate::farm::{Dispatch, Farm, Tasks};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::farm::tasks::TaskShape;
use crate::plot::Series;
use crate::table::digits;
use crate::verdict::Interval;
use crate::{Experiment, Lines, Mark, Outcome, Report, Table, Target};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "farm-policies",
    about: "chunking policies in simulation, and the automatic choice against the best of them",
    needs: "nothing",
    run,
};

const REFERENCE: &str = include_str!("farm_reference.txt");
/// The fixed policies, in the order of the reference.
const FIXED: [Chunking; 10] = [
    Chunking::Static,
    Chunking::Fsc,
    Chunking::Dpf,
    Chunking::Daf,
    Chunking::Gss,
    Chunking::Tss,
    Chunking::Fac2,
    Chunking::Fac,
    Chunking::AwfB,
    Chunking::Af,
];
const ITERATIONS: usize = 15;
/// Seed of the rows' task times.
const SEED: u64 = 1;
/// The automatic choice reaches this part of the best fixed policy's efficiency.
const MARK: f64 = 0.98;

/// One farm with its tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Setting {
    workers: usize,
    messages: MessageCosts,
    /// Bytes of an iteration, half of them in each direction.
    volume: f64,
    shape: TaskShape,
}

impl Setting {
    fn knowledge(&self) -> Knowledge {
        let each = 0.5 * self.volume / self.shape.tasks as f64;
        Knowledge { messages: self.messages, task_bytes: each, result_bytes: each, ..Knowledge::default() }
    }

    /// Efficiency (%) over some iterations, and the last choice that was made.
    fn efficiency(&self, chunking: Chunking, iterations: usize, seed: u64) -> Outcome<(f64, Option<String>)> {
        let workers: Vec<usize> = (0..self.workers).collect();
        let mut knowledge = self.knowledge();
        let farm = Farm::new(knowledge);
        let mut chunker = Chunker::new(chunking);
        let (mut busy, mut time, mut choice) = (0.0, 0.0, None);
        for times in self.shape.iterations(seed)?.take(iterations) {
            let run = Dispatch::new(&mut chunker, &Tasks::new(&times), knowledge).iteration(&farm, &workers);
            busy += run.busy;
            time += run.time;
            knowledge.now += run.time;
            choice = chunker.take_choice().or(choice);
        }
        Ok((100.0 * busy / (self.workers as f64 * time), choice.map(|choice| choice.candidate.to_string())))
    }
}

/// A line of the reference.
struct Row {
    name: String,
    setting: Setting,
    expected: Vec<f64>,
}

impl Row {
    fn parse(line: &str) -> Outcome<Row> {
        let words: Vec<&str> = line.split(' ').collect();
        let [network, block, workers, mean, kib, spread, expected @ ..] = &words[..] else {
            return Err(format!("a row of the reference has too few columns: {line}").into());
        };
        let messages = match *network {
            "fast" => MessageCosts::new(1e-4, 1e-7),
            "slow" => MessageCosts::new(1e-3, 1e-6),
            other => return Err(format!("there is no network {other}").into()),
        };
        let shape = TaskShape {
            tasks: 10_000,
            mean: 1e-3 * mean.parse::<f64>()?,
            spread: 0.01 * spread.parse::<f64>()?,
            block: block.parse()?,
        };
        let setting =
            Setting { workers: workers.parse()?, messages, volume: 1024.0 * kib.parse::<f64>()?, shape };
        let name = format!("{network}, blocks of {block}, n={workers}, {mean} ms, {kib} KiB, {spread} %");
        Ok(Row {
            name,
            setting,
            expected: expected.iter().map(|word| word.parse()).collect::<Result<_, _>>()?,
        })
    }

    /// How far a value may be off because of the seed, in points.
    fn noise(&self) -> f64 {
        let shape = &self.setting.shape;
        if shape.block > 1 { 0.2 + 2.5 * shape.spread / 0.8 } else { 0.2 + 0.3 * shape.spread }
    }
}

/// Settings that nobody has looked at while the choice was written.
fn unseen(count: usize, seed: u64) -> Vec<Setting> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut log = move |low: f64, high: f64| low * (high / low).powf(random.random::<f64>());
    let mut settings = Vec::with_capacity(count);
    while settings.len() < count {
        let workers = log(2.0, 80.0).round() as usize;
        let tasks = log(1000.0, 30_000.0).round() as usize;
        let shape = TaskShape {
            tasks,
            mean: log(1e-4, 2e-2),
            spread: log(0.02, 1.2),
            block: log(0.3, 60.0).max(1.0).round() as usize,
        };
        let messages = MessageCosts::new(log(2e-5, 2e-3), log(1e-9, 2e-6));
        let volume = log(10.0, 1000.0) * tasks as f64;
        let setting = Setting { workers, messages, volume, shape };
        // More workers than the master can serve are parked: not a question of chunks.
        let model = IterationModel {
            messages,
            volume,
            out: 0.5,
            compute: tasks as f64 * shape.mean,
            master: 0.0,
            protocol: Protocol::Synchronous,
        };
        if workers <= model.capability(workers) {
            settings.push(setting);
        }
    }
    settings
}

/// What the automatic choice reached against the best fixed policy, in one setting.
struct Contest {
    best: (Chunking, f64),
    worst: f64,
    auto: f64,
    choice: Option<String>,
}

impl Contest {
    fn hold(setting: &Setting, iterations: usize, seed: u64, fixed: &[f64]) -> Outcome<Contest> {
        let (auto, choice) = setting.efficiency(Chunking::Auto, iterations, seed)?;
        let best = FIXED.into_iter().zip(fixed.iter().copied()).max_by(|a, b| a.1.total_cmp(&b.1));
        let best = best.ok_or("there is no fixed policy")?;
        Ok(Contest { best, worst: fixed.iter().copied().fold(f64::INFINITY, f64::min), auto, choice })
    }

    fn ratio(&self) -> f64 {
        self.auto / self.best.1
    }
}

fn run(report: &mut Report, smoke: bool) -> Outcome {
    let seen = rows(report, smoke)?;
    let new = others(report, smoke)?;
    let single = one_iteration(report, smoke)?;
    let sorted = |mut ratios: Vec<f64>| {
        ratios.sort_by(f64::total_cmp);
        let last = (ratios.len() - 1).max(1) as f64;
        ratios.into_iter().enumerate().map(|(i, ratio)| (100.0 * i as f64 / last, ratio)).collect::<Vec<_>>()
    };
    let mut plot = Lines::new(
        "The automatic choice against the best fixed policy",
        "settings, the worst first [%]",
        "efficiency / efficiency of the best",
    );
    plot.add(Series::new("rows of the table", sorted(seen)));
    plot.add(Series::new("unseen settings", sorted(new)));
    plot.add(Series::new("one long iteration", sorted(single)));
    report.lines("", &plot)
}

/// The rows of the reference: every policy against its value, and the automatic choice against the best.
fn rows(report: &mut Report, smoke: bool) -> Outcome<Vec<f64>> {
    let lines = REFERENCE.lines().filter(|line| !line.starts_with('#'));
    let mut rows = lines.map(Row::parse).collect::<Outcome<Vec<Row>>>()?;
    if smoke {
        rows = rows.into_iter().step_by(24).collect();
    }
    let mut columns = vec!["setting"];
    let names: Vec<String> = FIXED.iter().map(|chunking| format!("{chunking} [%]")).collect();
    columns.extend(names.iter().map(String::as_str));
    columns.extend(["auto [%]", "auto / best", "last choice"]);
    let mut table = Table::new(&columns);
    let (mut ratios, mut off, mut values) = (Vec::new(), 0, 0);
    for row in &rows {
        let fixed: Vec<f64> = FIXED
            .iter()
            .map(|&chunking| Ok(row.setting.efficiency(chunking, ITERATIONS, SEED)?.0))
            .collect::<Outcome<_>>()?;
        for ((found, expected), chunking) in fixed.iter().zip(&row.expected).zip(FIXED) {
            values += 1;
            if (found - expected).abs() > row.noise() {
                off += 1;
                report.note(format!(
                    "{}: {chunking} reaches {found:.1} % where {expected} % are expected",
                    row.name
                ));
            }
        }
        let contest = Contest::hold(&row.setting, ITERATIONS, SEED, &fixed)?;
        let mut cells = vec![row.name.clone().into()];
        cells.extend(fixed.iter().map(|&value| digits(value, 3)));
        cells.push(digits(contest.auto, 3));
        cells.push(digits(contest.ratio(), 4));
        cells.push(contest.choice.clone().unwrap_or_default().into());
        table.row(cells);
        ratios.push(contest.ratio());
    }
    report.table("rows", &table)?;
    report.note(format!("{values} values, {off} of them further off than the noise of a seed"));
    let share = off as f64 / values as f64;
    report.mark(Mark::new("values off", Interval::exact(share), "of all", Target::AtMost(0.02)));
    mark_worst(report, "rows, worst", &ratios);
    Ok(ratios)
}

/// Settings drawn at random.
fn others(report: &mut Report, smoke: bool) -> Outcome<Vec<f64>> {
    let settings = unseen(if smoke { 3 } else { 150 }, UNSEEN_SEED);
    let ratios = contests(report, "unseen", &settings, ITERATIONS)?;
    mark_worst(report, "unseen, worst", &ratios);
    Ok(ratios)
}

/// The same for a single iteration, in which everything has to be learned.
fn one_iteration(report: &mut Report, smoke: bool) -> Outcome<Vec<f64>> {
    let settings = unseen(if smoke { 3 } else { 150 }, UNSEEN_SEED + 1);
    let ratios = contests(report, "single", &settings, 1)?;
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    report.mark(Mark::new(
        "one iteration, mean",
        Interval::exact(mean),
        "of the best",
        Target::AtLeast(MARK),
    ));
    Ok(ratios)
}

/// Seeds of the settings and their tasks.
const UNSEEN_SEED: u64 = 905_117;

fn contests(report: &mut Report, part: &str, settings: &[Setting], iterations: usize) -> Outcome<Vec<f64>> {
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
        "last choice",
    ]);
    let mut ratios = Vec::new();
    for (seed, setting) in (UNSEEN_SEED..).zip(settings) {
        let fixed: Vec<f64> = FIXED
            .iter()
            .map(|&chunking| Ok(setting.efficiency(chunking, iterations, seed)?.0))
            .collect::<Outcome<_>>()?;
        let contest = Contest::hold(setting, iterations, seed, &fixed)?;
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
            contest.best.0.to_string().into(),
            digits(contest.best.1, 4),
            digits(contest.worst, 4),
            digits(contest.auto, 4),
            digits(contest.ratio(), 4),
            contest.choice.clone().unwrap_or_default().into(),
        ]);
        ratios.push(contest.ratio());
    }
    report.table(part, &table)?;
    Ok(ratios)
}

fn mark_worst(report: &mut Report, what: &str, ratios: &[f64]) {
    let worst = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let reached = ratios.iter().filter(|&&ratio| ratio >= MARK).count();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    report.note(format!(
        "{what}: {worst:.4} of the best fixed policy; mean {mean:.4}; {reached} of {} at {MARK} or more",
        ratios.len()
    ));
    report.mark(Mark::new(what, Interval::exact(worst), "of the best", Target::AtLeast(MARK)));
}
