//! Cost of the automatic chunking policy, which simulates farms to choose a policy: measured time per simulated chunk.

use armature_planner::farm::{Chunking, Published};
use rustix::time::{ClockId, clock_gettime};

use super::reference::Row;
use super::{ITERATIONS, Setting};
use crate::stats::median_interval;
use crate::table::digits;
use crate::{Report, RunResult, Table, Target, TargetedValue};

/// Seconds per simulated chunk that the automatic chunking policy assumes; also the target (maximum) of the measured time.
const ASSUMED_SECONDS: f64 = 0.25e-6;

/// Returns the measured seconds per simulated chunk: the additional time with the automatic policy compared with a policy that simulates nothing,
/// divided by the number of simulated chunks.
pub(super) fn measure(report: &mut Report, rows: &[Row], smoke: bool) -> RunResult<f64> {
    let rounds = if smoke { 2 } else { 11 };
    let mut table = Table::new(&["setting", "simulated chunks", "per iteration", "ns/chunk"]);
    let mut medians = Vec::new();
    for row in rows.iter().step_by(5) {
        let (simulated, cost) = of(&row.setting, rounds)?;
        let each = simulated as f64 / ITERATIONS as f64;
        table.row([
            row.name.clone().into(),
            (simulated as usize).into(),
            digits(each, 0),
            digits(1e9 * cost, 1),
        ]);
        medians.push(cost);
    }
    report.table("cost", &table)?;
    let interval = median_interval(&medians);
    let nanoseconds = |value: f64| 1e9 * value;
    let shown = crate::verdict::Interval {
        value: nanoseconds(interval.value),
        low: nanoseconds(interval.low),
        high: nanoseconds(interval.high),
    };
    report.mark(TargetedValue::new(
        "a simulated chunk",
        shown,
        "ns",
        Target::AtMost(nanoseconds(ASSUMED_SECONDS)),
    ));
    Ok(interval.value)
}

/// Returns the CPU time of this thread in seconds. It does not include the time of other processes.
fn computed() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

fn of(setting: &Setting, rounds: usize) -> RunResult<(u64, f64)> {
    let iterations = setting.tasks(ITERATIONS, 1)?;
    let timed = |chunking| {
        let start = computed();
        let finish = setting.run(chunking, &iterations);
        (computed() - start, finish.simulated)
    };
    let mut simulated = 0;
    let mut costs = Vec::new();
    for _ in 0..rounds {
        let (auto, chunks) = timed(Chunking::Auto);
        let (plain, _) = timed(Chunking::Policy(Published::Dpf));
        simulated = chunks;
        costs.push((auto - plain).max(0.0) / chunks.max(1) as f64);
    }
    Ok((simulated, crate::stats::median(&costs)))
}
