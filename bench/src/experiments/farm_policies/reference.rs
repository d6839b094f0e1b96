//! Comparison with the efficiencies in `reference.txt`, which were computed independently: every fixed chunking policy must have its expected
//! efficiency, and the automatic policy must come close to the best fixed one. Each row of the file is a farm with the expected efficiency of each
//! fixed policy.

use armature_planner::farm::{Chunking, MessageCosts, Published};

use super::{FIXED, ITERATIONS, Setting, best, mark_worst};
use crate::farm::tasks::TaskShape;
use crate::stats::mean;
use crate::table::digits;
use crate::verdict::Interval;
use crate::{Report, RunResult, Table, Target, TargetedValue};

const REFERENCE: &str = include_str!("reference.txt");
const SEEDS: std::ops::Range<u64> = 1..11;
/// 99.5 % quantile of Student's t with 9 degrees of freedom, the number of seeds minus one.
const QUANTILE: f64 = 3.250;
/// Additional tolerance of an efficiency in percentage points, because the expected efficiencies are rounded to one decimal.
const ROUNDING: f64 = 0.051;

pub(super) struct Row {
    pub(super) name: String,
    pub(super) setting: Setting,
    fast: bool,
    /// Expected efficiencies of the fixed policies in percent. Their task times were drawn from one seed, which is not known.
    expected: Vec<f64>,
}

impl Row {
    fn parse(line: &str) -> RunResult<Row> {
        let fields: Vec<&str> = line.split(' ').collect();
        let [network, block, workers, mean, kib, spread, expected @ ..] = &fields[..] else {
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
        let expected: Vec<f64> = expected.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
        if expected.len() != FIXED.len() {
            return Err(format!("a row of the reference has {} values: {line}", expected.len()).into());
        }
        Ok(Row { name, setting, fast: *network == "fast", expected })
    }
}

pub(super) fn rows(smoke: bool) -> RunResult<Vec<Row>> {
    let lines = REFERENCE.lines().filter(|line| !line.starts_with('#'));
    let rows = lines.step_by(if smoke { 24 } else { 1 });
    rows.map(Row::parse).collect()
}

fn efficiencies(row: &Row, seeds: std::ops::Range<u64>, iterations: usize) -> RunResult<Vec<Vec<f64>>> {
    seeds.map(|seed| Ok(row.setting.fixed(&row.setting.tasks(iterations, seed)?))).collect()
}

/// Returns the tolerance in percentage points. In 99 of 100 cases, the efficiency for another seed differs from the mean of `samples` by less than
/// this tolerance (Student's prediction interval).
fn tolerance(samples: &[f64]) -> f64 {
    let (middle, n) = (mean(samples), samples.len() as f64);
    let variance = samples.iter().map(|sample| (sample - middle).powi(2)).sum::<f64>() / (n - 1.0);
    QUANTILE * (variance * (1.0 + 1.0 / n)).sqrt() + ROUNDING
}

/// Returns the violated rules on the order of policies. Each rule states by how many percentage points the efficiency of DAF (dynamic adjusting
/// factoring) exceeds that of another policy. The rules hold on the fast network for every seed.
fn broken_orders(row: &Row, means: &[f64]) -> Vec<String> {
    let TaskShape { spread, block, .. } = row.setting.shape;
    let of = |chunking| means[FIXED.iter().position(|&other| other == chunking).unwrap_or(0)];
    let at = |percent: f64| row.fast && 100.0 * spread > percent - 0.5;
    let rules = [
        (Chunking::Policy(Published::Fsc), -0.2, at(20.0)),
        (Chunking::Policy(Published::Fsc), 1.0, at(40.0)),
        (Chunking::Static, 2.0, at(20.0) && block == 1),
        (Chunking::Static, 15.0, at(80.0) && block > 1),
    ];
    let broken = rules
        .into_iter()
        .filter(|&(other, by, holds)| holds && of(Chunking::Policy(Published::Daf)) < of(other) + by);
    broken
        .map(|(other, by, _)| {
            let (daf, other_value) = (of(Chunking::Policy(Published::Daf)), of(other));
            format!("{}: daf {daf:.2} %, {other} {other_value:.2} %, which is not {by} points less", row.name)
        })
        .collect()
}

/// Compares the efficiency of every fixed policy with its expected value. Returns the efficiencies of the automatic policy relative to the best fixed
/// policy.
pub(super) fn compare(report: &mut Report, rows: &[Row], smoke: bool) -> RunResult<Vec<f64>> {
    let seeds = if smoke { 1..3 } else { SEEDS };
    let mut columns = vec!["setting"];
    let names: Vec<String> = FIXED.iter().map(|chunking| format!("{chunking} [%]")).collect();
    columns.extend(names.iter().map(String::as_str));
    columns.extend(["auto [%]", "auto / best", "last choice"]);
    let mut table = Table::new(&columns);
    let (mut ratios, mut broken) = (Vec::new(), Vec::new());
    let mut differences = vec![Vec::new(); FIXED.len()];
    let mut off = vec![0; FIXED.len()];
    for row in rows {
        let found = efficiencies(row, seeds.clone(), ITERATIONS)?;
        let mut means = Vec::new();
        for (place, (expected, chunking)) in row.expected.iter().zip(FIXED).enumerate() {
            let samples: Vec<f64> = found.iter().map(|values| values[place]).collect();
            let value = mean(&samples);
            differences[place].push(expected - value);
            if (value - expected).abs() > tolerance(&samples) {
                off[place] += 1;
                report.note(format!(
                    "{}: {chunking} reaches {value:.2} % on average where {expected} % are expected, which is further \
                     off than {:.2}",
                    row.name,
                    tolerance(&samples)
                ));
            }
            means.push(value);
        }
        broken.extend(broken_orders(row, &means));
        let tasks = row.setting.tasks(ITERATIONS, seeds.start)?;
        let auto = row.setting.run(Chunking::Auto, &tasks);
        let ratio = auto.efficiency() / best(&found[0]).1;
        let mut cells = vec![row.name.clone().into()];
        cells.extend(means.iter().map(|&value| digits(value, 3)));
        cells.extend([digits(auto.efficiency(), 3), digits(ratio, 4)]);
        cells.push(auto.choice.unwrap_or_default().into());
        table.row(cells);
        ratios.push(ratio);
    }
    report.table("rows", &table)?;
    by_policy(report, &differences, &off)?;
    let (off, values) = (off.iter().sum::<usize>(), rows.len() * FIXED.len());
    report.note(format!(
        "{values} values, {off} of them outside of the 99 % interval of {} seeds",
        seeds.count()
    ));
    let share = off as f64 / values as f64;
    report.mark(TargetedValue::new("values off", Interval::exact(share), "of all", Target::AtMost(0.02)));
    broken.iter().for_each(|text| report.note(text));
    let count = Interval::exact(broken.len() as f64);
    report.mark(TargetedValue::new("orders broken", count, "rows", Target::AtMost(0.0)));
    mark_worst(report, "rows, worst", &ratios);
    Ok(ratios)
}

/// Prints the mean difference between the simulated and expected efficiencies of each policy over all farms. A mean far from 0 indicates an error in
/// the policy.
fn by_policy(report: &mut Report, differences: &[Vec<f64>], off: &[usize]) -> RunResult {
    let mut table = Table::new(&["policy", "outside", "mean difference [points]", "largest [points]"]);
    for ((chunking, differences), &off) in FIXED.into_iter().zip(differences).zip(off) {
        let largest = differences.iter().fold(0.0_f64, |largest, difference| largest.max(difference.abs()));
        table.row([
            chunking.to_string().into(),
            off.into(),
            digits(mean(differences), 3),
            digits(largest, 2),
        ]);
    }
    report.table("policies", &table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efficiencies_of_equal_tasks_match_the_reference() {
        let mut seen = 0;
        for row in rows(false).unwrap().iter().filter(|row| row.setting.shape.spread == 0.0) {
            let found = efficiencies(row, 1..2, ITERATIONS).unwrap();
            for ((found, expected), chunking) in found[0].iter().zip(&row.expected).zip(FIXED) {
                assert!(
                    (found - expected).abs() <= ROUNDING,
                    "{}: {chunking} {found} not {expected}",
                    row.name
                );
                seen += 1;
            }
        }
        assert_eq!(seen, 120);
    }

    /// To save time, the test simulates only two of the experiment's seeds.
    #[test]
    fn expected_policy_order_holds_on_the_fast_network() {
        let mut seen = 0;
        for row in rows(false).unwrap().iter().filter(|row| row.fast && row.setting.shape.spread > 0.1) {
            let tasks = [1, 2].map(|seed| row.setting.tasks(ITERATIONS, seed).unwrap());
            // Only these policies occur in the rules about the order of policies.
            let of = |chunking: Chunking| match chunking {
                Chunking::Static | Chunking::Policy(Published::Fsc) | Chunking::Policy(Published::Daf) => {
                    mean(&tasks.each_ref().map(|tasks| row.setting.run(chunking, tasks).efficiency()))
                }
                _ => f64::NAN,
            };
            let means = FIXED.map(of);
            assert_eq!(broken_orders(row, &means), Vec::<String>::new());
            seen += 1;
        }
        assert_eq!(seen, 24);
    }

    #[test]
    fn violated_policy_orders_are_listed() {
        let rows = rows(false).unwrap();
        let row = rows.iter().find(|row| row.fast && row.name.ends_with(" 80 %")).unwrap();
        assert_eq!(broken_orders(row, &row.expected), Vec::<String>::new());
        // With an efficiency of 80 % for DAF, three rules are violated: one about the static policy, and two about FSC (fixed-size chunking).
        let mut values = row.expected.clone();
        values[3] = 80.0;
        assert_eq!(broken_orders(row, &values).len(), 3);
    }

    #[test]
    fn tolerance_is_the_prediction_interval_of_the_next_value() {
        assert!((tolerance(&[5.0; 10]) - ROUNDING).abs() < 1e-12);
        let samples: Vec<f64> = (1..=10).map(f64::from).collect();
        // The values 1 to 10 have the standard deviation 3.0277, which is multiplied by √1.1 and by Student's t.
        assert!((tolerance(&samples) - (3.250 * 3.02765 * 1.048_81 + ROUNDING)).abs() < 1e-3);
    }
}
