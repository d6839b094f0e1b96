//! Panel of a Gantt chart: the bars of each rank, one rank below another, above a time axis.

use std::fmt::Write;

use crate::svg::{WIDTH, escaped, number, short_name, ticks};

/// Maximum number of ranks that a panel shows.
pub(super) const RANKS: usize = 64;
/// Maximum number of lanes (rows for concurrent tasks) of a rank.
const LANES: usize = 4;
/// Width of the margin for the names of ranks.
const LEFT: f64 = 70.0;
/// Height of a lane (row for concurrent tasks of a rank).
const LANE: f64 = 18.0;
/// Height of the time axis below the ranks.
const AXIS: f64 = 22.0;
/// Maximum width of a letter of a task's name.
const LETTER: f64 = 7.2;

/// Bar of a task in a panel of a Gantt chart.
pub(super) struct Bar<'r> {
    pub(super) name: &'r str,
    pub(super) rank: usize,
    pub(super) begin: f64,
    pub(super) end: f64,
    pub(super) class: &'static str,
    /// Text of the bar's tooltip.
    pub(super) title: String,
    /// True if the task is on the critical path; a line connects the bars on the path.
    pub(super) is_on_path: bool,
}

/// Scale that all panels of a Gantt chart have in common.
pub(super) struct Scale {
    /// Greatest time of the time axis; greater than 0.
    pub(super) to: f64,
    /// Number of ranks that each panel shows.
    pub(super) ranks: usize,
}

/// SVG elements of a panel, and its height; the top of the panel is at 0.
pub(super) struct Panel {
    pub(super) elements: String,
    pub(super) height: f64,
}

/// Draws the panel with these bars, which must be sorted by their begin.
pub(super) fn panel(bars: &[Bar<'_>], scale: &Scale) -> Panel {
    // For each lane of each rank, the end of the last bar in it. From this time on, the lane is free.
    let mut lanes: Vec<Vec<f64>> = vec![vec![f64::NEG_INFINITY]; scale.ranks];
    let placed: Vec<(&Bar<'_>, usize)> = bars
        .iter()
        .filter_map(|bar| {
            let its = lanes.get_mut(bar.rank)?;
            let lane = match its.iter().position(|free| *free <= bar.begin) {
                Some(lane) => lane,
                None if its.len() < LANES => {
                    its.push(0.0);
                    its.len() - 1
                }
                None => LANES - 1,
            };
            its[lane] = bar.end;
            Some((bar, lane))
        })
        .collect();
    let mut below = 2.0;
    let mut tops = Vec::new();
    for its in &lanes {
        tops.push(below);
        below += LANE * its.len() as f64 + 4.0;
    }
    let height = below + AXIS;
    let x = |at: f64| LEFT + (WIDTH - LEFT - 8.0) * (at / scale.to).clamp(0.0, 1.0);

    let mut svg = String::new();
    for tick in ticks(scale.to) {
        let at = x(tick);
        // The label of the last mark on the time axis ends at the mark, because a centred label would exceed the right edge.
        let anchor = if at > WIDTH - 24.0 { "end" } else { "middle" };
        let _ = write!(
            svg,
            r#"<line class="grid" x1="{at:.1}" x2="{at:.1}" y1="0" y2="{below:.1}"/><text class="num" x="{at:.1}" y="{:.1}" text-anchor="{anchor}">{}</text>"#,
            below + 14.0,
            number(tick)
        );
    }
    let _ = write!(
        svg,
        r#"<text class="num" x="{:.1}" y="{:.1}" text-anchor="end">seconds</text>"#,
        LEFT - 12.0,
        below + 14.0
    );
    for (rank, top) in tops.iter().enumerate() {
        let _ = write!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="end">rank {rank}</text>"#,
            LEFT - 6.0,
            top + 13.0
        );
    }
    let mut way = String::new();
    for (bar, lane) in placed {
        let (left, right) = (x(bar.begin), x(bar.end));
        let (wide, top) = ((right - left).max(0.5), tops[bar.rank] + LANE * lane as f64);
        if bar.is_on_path {
            let start = if way.is_empty() { 'M' } else { 'L' };
            let y = top + LANE / 2.0 - 1.0;
            let _ = write!(way, "{start}{left:.1},{y:.1}L{right:.1},{y:.1}");
        }
        let room = ((wide - 6.0).max(0.0) / LETTER) as usize;
        let name = if room >= 2 { short_name(bar.name, room) } else { String::new() };
        let _ = write!(
            svg,
            r#"<g><title>{}</title><rect class="box {}" x="{left:.1}" y="{top:.1}" width="{wide:.1}" height="{:.1}"/><text x="{:.1}" y="{:.1}">{}</text></g>"#,
            escaped(&bar.title),
            bar.class,
            LANE - 2.0,
            left + 3.0,
            top + 12.0,
            escaped(&name)
        );
    }
    if !way.is_empty() {
        let _ = write!(svg, r#"<path class="way" d="{way}"/>"#);
    }
    Panel { elements: svg, height }
}
