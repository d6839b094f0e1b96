//! Tasks by rank over time, with the critical path.

use std::collections::HashSet;
use std::fmt::Write;

use armature::observe::words::seconds;

use crate::run::{Run, TaskRun};
use crate::svg::{WIDTH, escaped, number, open, short_name, ticks};
use crate::tables::shown_of;

/// Tasks that are drawn: each takes some 300 bytes, and more could not be told apart.
const DRAWN: usize = 2500;
/// Ranks that have room.
const RANKS: usize = 64;
/// Tasks that a rank runs at once are drawn below each other, up to this number.
const LANES: usize = 4;
/// Room for names, and the height of a lane.
const LEFT: f64 = 70.0;
const LANE: f64 = 18.0;

/// The chart, and words on what is left out; `None` if there are no tasks.
pub(crate) fn gantt(run: &Run, path: &[usize]) -> Option<(String, String)> {
    if run.tasks.is_empty() {
        return None;
    }
    let on_path: HashSet<usize> = path.iter().copied().collect();
    let end = |task: &TaskRun| task.end.unwrap_or(run.seconds).max(task.begin);
    let mut drawn: Vec<usize> = (0..run.tasks.len()).filter(|&n| run.tasks[n].rank < RANKS).collect();
    // Those of the path first, and then the longest ones.
    let length = |n: &usize| end(&run.tasks[*n]) - run.tasks[*n].begin;
    drawn.sort_by(|a, b| on_path.contains(b).cmp(&on_path.contains(a)).then(length(b).total_cmp(&length(a))));
    drawn.truncate(DRAWN);
    drawn.sort_by(|&a, &b| run.tasks[a].begin.total_cmp(&run.tasks[b].begin));
    let shown =
        shown_of(run.tasks.len(), drawn.len(), "tries of tasks, those of the critical path and the longest");

    // By rank: when each of its lanes is free.
    let mut lanes: Vec<Vec<f64>> = vec![vec![0.0]; run.ranks.len().min(RANKS)];
    let placed: Vec<(usize, usize)> = drawn
        .iter()
        .filter_map(|&n| {
            let task = &run.tasks[n];
            let its = lanes.get_mut(task.rank)?;
            let lane = match its.iter().position(|free| *free <= task.begin) {
                Some(lane) => lane,
                None if its.len() < LANES => {
                    its.push(0.0);
                    its.len() - 1
                }
                None => LANES - 1,
            };
            its[lane] = end(task);
            Some((n, lane))
        })
        .collect();
    let tops: Vec<f64> = lanes
        .iter()
        .scan(2.0, |top, its| {
            let own = *top;
            *top += LANE * its.len() as f64 + 4.0;
            Some(own)
        })
        .collect();
    let height =
        tops.last().zip(lanes.last()).map_or(0.0, |(top, its)| top + LANE * its.len() as f64 + 4.0) + 22.0;
    let to = if run.seconds > 0.0 { run.seconds } else { 1.0 };
    let x = |at: f64| LEFT + (WIDTH - LEFT - 8.0) * (at / to).clamp(0.0, 1.0);

    let mut svg = open(WIDTH, height, "Tasks of each rank");
    for (rank, top) in tops.iter().enumerate() {
        let _ = write!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="end">rank {rank}</text>"#,
            LEFT - 6.0,
            top + 13.0
        );
    }
    let mut way = String::new();
    for (n, lane) in placed {
        let task = &run.tasks[n];
        let (left, right) = (x(task.begin), x(end(task)));
        let (wide, top) = ((right - left).max(0.5), tops[task.rank] + LANE * lane as f64);
        let class = match (on_path.contains(&n), task.failure.is_some()) {
            (_, true) => "fail",
            (true, false) => "crit",
            (false, false) => "b0",
        };
        if on_path.contains(&n) {
            let start = if way.is_empty() { 'M' } else { 'L' };
            let y = top + LANE / 2.0 - 1.0;
            let _ = write!(way, "{start}{left:.1},{y:.1}L{right:.1},{y:.1}");
        }
        let room = (wide / 7.0) as usize;
        let name = if room >= 2 { short_name(&task.task, room) } else { String::new() };
        let _ = write!(
            svg,
            r#"<g><title>{}</title><rect class="box {class}" x="{left:.1}" y="{top:.1}" width="{wide:.1}" height="{:.1}"/><text x="{:.1}" y="{:.1}">{}</text></g>"#,
            escaped(&told(task, end(task))),
            LANE - 2.0,
            left + 3.0,
            top + 12.0,
            escaped(&name)
        );
    }
    let _ = write!(svg, r#"<path class="way" d="{way}"/>"#);
    for tick in ticks(to) {
        let _ = write!(
            svg,
            r#"<text class="num" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            x(tick),
            height - 6.0,
            number(tick)
        );
    }
    Some((svg + "</svg>", shown))
}

/// A try of a task, for who points at it.
fn told(task: &TaskRun, end: f64) -> String {
    let mut text = format!("{} from {} to {}", task.task, seconds(task.begin), seconds(end));
    if task.attempt > 0 {
        let _ = write!(text, ", try {}", task.attempt + 1);
    }
    for (n, wait) in task.waits.iter().enumerate() {
        let _ = write!(text, "{} {wait}", if n == 0 { "; it waited" } else { "," });
    }
    if let Some(why) = &task.failure {
        let _ = write!(text, "; it failed: {why}");
    }
    text
}
