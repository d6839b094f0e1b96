//! Charts of the memory that ranks held for tasks over time, compared with the plan and the limit.

use std::fmt::Write;

use crate::run::{HeldAt, Run};
use crate::svg::{Chart, Line, WIDTH, open};
use crate::tables::shown_of;

/// Maximum number of ranks whose memory chart is drawn.
const MEMORIES: usize = 8;

/// Returns the memory charts of the ranks as one figure, one chart below another; `None` if no rank reported its memory.
pub(crate) fn memory(run: &Run) -> Option<String> {
    let (charts, _) = memories(run);
    if charts.is_empty() {
        return None;
    }
    let high = Chart::HEIGHT;
    let mut svg = open(WIDTH, high * charts.len() as f64, "Memory for tasks");
    for (n, mut chart) in charts.into_iter().enumerate() {
        if let Some(rank) = chart.title.strip_prefix("Memory for tasks on ") {
            chart.unit = format!("MiB on {rank}");
        }
        let top = high * n as f64;
        let place = format!(r#"<svg y="{top}" width="{WIDTH}" height="{high}" "#);
        let _ = write!(svg, "{}", chart.svg().replacen("<svg ", &place, 1));
    }
    Some(svg + "</svg>")
}

/// Returns the memory charts of the ranks that came nearest to their limit or held the most memory, and a sentence on the number of omitted
/// ranks.
pub(crate) fn memories(run: &Run) -> (Vec<Chart>, String) {
    let most = |rank: usize| run.ranks[rank].held.iter().map(|held| held.most).max().unwrap_or(0);
    let mut order: Vec<usize> =
        (0..run.ranks.len()).filter(|&rank| !run.ranks[rank].held.is_empty()).collect();
    let all = order.len();
    let part = |rank: usize| match run.ranks[rank].budget {
        Some(budget) if budget > 0 => most(rank) as f64 / budget as f64,
        _ => 0.0,
    };
    order.sort_by(|&a, &b| part(b).total_cmp(&part(a)).then(most(b).cmp(&most(a))));
    order.truncate(MEMORIES);
    order.sort_unstable();
    let shown = shown_of(all, MEMORIES, "ranks, those closest to their limit");
    (order.into_iter().map(|rank| chart(run, rank)).collect(), shown)
}

fn chart(run: &Run, rank: usize) -> Chart {
    let its = &run.ranks[rank];
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let held = |of: fn(&HeldAt) -> u64| its.held.iter().map(move |held| (held.at, mib(of(held))));
    let mut lines = vec![
        Line { name: "most".into(), points: held(|held| held.most).collect(), is_stepped: true },
        Line { name: "held".into(), points: held(|held| held.bytes).collect(), is_stepped: true },
    ];
    let plan = run.schedules.first().and_then(|(at, plan)| Some((at, plan.held.get(rank)?)));
    if let Some((at, steps)) = plan.filter(|(_, steps)| !steps.is_empty()) {
        let steps = steps.iter().filter(|step| step.0.is_finite());
        let points = steps.map(|&(after, bytes)| (at + after, mib(bytes))).collect();
        lines.push(Line { name: "planned".into(), points, is_stepped: true });
    }
    if let Some(budget) = its.budget {
        let points = vec![(0.0, mib(budget)), (run.seconds, mib(budget))];
        lines.push(Line { name: "limit".into(), points, is_stepped: false });
    }
    let ends = lines.iter().filter_map(|line| Some(line.points.last()?.0));
    Chart {
        title: format!("Memory for tasks on rank {rank}"),
        unit: "MiB".into(),
        to: ends.fold(run.seconds, f64::max),
        x_name: "seconds since the run began".into(),
        lines,
        ..Chart::default()
    }
}
