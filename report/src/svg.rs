//! Charts over time, which the page draws as lanes of its picture, and their form as SVG for a README or a paper.
//!
//! Lines differ in their dashes and have labels at the right, and areas differ in their patterns, so that no information depends on colour alone.

use std::fmt::Write;

use crate::units::time;

/// Escapes text for XML and HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Control characters are replaced, because XML does not allow them.
            c if c.is_control() && !matches!(c, '\n' | '\t') => safe.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// Curve of a chart, with its label.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub name: String,
    /// Points (x, y) of the curve in order of x.
    pub points: Vec<(f64, f64)>,
    /// True if the curve is drawn as steps: a value remains constant until the next point.
    pub is_stepped: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Chart {
    pub title: String,
    /// Unit of the y axis.
    pub unit: String,
    /// Greatest x value of the chart; the x axis begins at 0.
    pub to: f64,
    pub x_name: String,
    pub lines: Vec<Line>,
    /// Vertical lines, each at an x value and with a name.
    pub marks: Vec<(f64, String)>,
}

/// Width of a chart in units of its view box; the page scales the chart.
pub(crate) const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 240.0;
/// Margins of a chart: for the numbers of the y axis at the left, for the names of curves at the right, and for the x axis at the bottom.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 34.0;
/// Values above this multiple of the 98th percentile are beyond the y axis.
const OUTLIER: f64 = 3.0;
/// Maximum number of points of a curve; more points than pixels would not be visible.
const POINTS: usize = 1200;
/// Maximum number of vertical lines in a chart.
pub(crate) const MARKS: usize = 40;

impl Chart {
    pub(crate) const HEIGHT: f64 = HEIGHT;

    /// Returns the greatest value of the y axis. Values far above nearly all others are beyond it, because otherwise they would flatten the rest.
    pub(crate) fn top(&self) -> f64 {
        let values = self.lines.iter().flat_map(|line| line.points.iter().map(|p| p.1));
        let mut values: Vec<f64> = values.filter(|y| y.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let most = values.last().copied().unwrap_or(0.0);
        let usual = OUTLIER * values[..].get(values.len() * 98 / 100).copied().unwrap_or(most);
        let top = if usual > 0.0 { most.min(usual) } else { most };
        if top <= 0.0 {
            return 1.0;
        }
        // The axis ends at a number with one or two digits.
        let power = 10f64.powf(top.log10().floor());
        let round = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0].map(|n| n * power);
        round.into_iter().find(|end| *end >= top).unwrap_or(top)
    }

    pub(crate) fn svg(&self) -> String {
        let (w, h) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
        let to = if self.to > 0.0 { self.to } else { 1.0 };
        let top = self.top();
        let x = |at: f64| LEFT + w * (at / to).clamp(0.0, 1.0);
        let y = |value: f64| TOP + h * (1.0 - (value / top).clamp(0.0, 1.0));
        let mut svg = open(WIDTH, HEIGHT, &self.title);
        for tick in ticks(top) {
            let at = y(tick);
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{LEFT}" x2="{:.1}" y1="{at:.1}" y2="{at:.1}"/><text class="num" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
                LEFT + w,
                LEFT - 6.0,
                at + 4.0,
                number(tick)
            );
        }
        for tick in ticks(to) {
            let at = x(tick);
            let _ = write!(
                svg,
                r#"<line class="tick" x1="{at:.1}" x2="{at:.1}" y1="{:.1}" y2="{:.1}"/><text class="num" x="{at:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
                TOP + h,
                TOP + h + 4.0,
                TOP + h + 17.0,
                number(tick)
            );
        }
        let _ = write!(
            svg,
            r#"<text class="num" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text><text class="num" x="4" y="10">{}</text>"#,
            LEFT + w / 2.0,
            HEIGHT - 4.0,
            escaped(&self.x_name),
            escaped(&self.unit)
        );
        for (at, name) in self.marks.iter().take(MARKS) {
            let at = x(*at);
            let _ = write!(
                svg,
                r#"<line class="mark" x1="{at:.1}" x2="{at:.1}" y1="{TOP}" y2="{:.1}"><title>{}</title></line>"#,
                TOP + h,
                escaped(name)
            );
        }
        let mut free = TOP;
        for (n, line) in self.lines.iter().enumerate() {
            let mut path = String::new();
            let points = thinned(&line.points);
            let mut last = None;
            for (at, value) in points {
                let (px, py) = (x(at), y(value));
                match last {
                    None => _ = write!(path, "M{px:.1},{py:.1}"),
                    Some(_) if line.is_stepped => _ = write!(path, "H{px:.1}V{py:.1}"),
                    Some(_) => _ = write!(path, "L{px:.1},{py:.1}"),
                }
                last = Some(py);
            }
            if line.is_stepped && last.is_some() {
                let _ = write!(path, "H{:.1}", LEFT + w);
            }
            let name = escaped(&line.name);
            // The labels of curves are placed one below another, so that they do not overlap.
            free = (free + 14.0).min(HEIGHT - 4.0);
            let _ = write!(
                svg,
                r#"<path class="line l{c}" d="{path}"><title>{name}</title></path><path class="line l{c}" d="M{:.1},{:.1}h18"/><text x="{:.1}" y="{free:.1}">{}</text>"#,
                WIDTH - RIGHT + 8.0,
                free - 4.0,
                WIDTH - RIGHT + 30.0,
                escaped(&short_name(&line.name, 14)),
                c = n % 8
            );
        }
        svg + "</svg>"
    }
}

/// Box of a strip chart: a part of the time axis with a label.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StripBox {
    /// Start of the box on the time axis, in seconds.
    pub begin: f64,
    /// End of the box on the time axis, in seconds.
    pub end: f64,
    pub text: String,
    /// Additional description for the tooltip of the box; may be empty.
    pub about: String,
    pub style: BoxStyle,
}

/// Appearance of a box of a strip chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BoxStyle {
    /// Filled with a neutral colour.
    #[default]
    Plain,
    /// Filled with the colour of this number, such as that of a kind of task.
    Colour(u8),
    /// Filled with the colour of this number, with a thick edge: a task on the critical path.
    Critical(u8),
    /// Failed attempt of a task.
    Failed,
    /// Waiting time between two tasks.
    Wait,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StripRow {
    /// Label of the row; empty if the row continues the previous one.
    pub name: String,
    /// Boxes of the row in order of time.
    pub boxes: Vec<StripBox>,
    /// True if the row shows a plan. Such a row has a smaller height, and the row with the actual times follows it.
    pub is_plan: bool,
}

/// Strip chart: rows of labelled boxes over time, such as the ranks of each stage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strip {
    pub title: String,
    /// Greatest time of the time axis, which begins at 0.
    pub to: f64,
    /// Rows of the chart from top to bottom.
    pub rows: Vec<StripRow>,
}

impl Strip {
    pub(crate) fn svg(&self) -> String {
        let left = 120.0;
        let high = |row: &StripRow| if row.is_plan { 9.0 } else { 22.0 };
        let (w, to) = (WIDTH - left - 8.0, if self.to > 0.0 { self.to } else { 1.0 });
        let height = self.rows.iter().map(high).sum::<f64>() + 22.0;
        let mut svg = open(WIDTH, height, &self.title);
        let mut y = 2.0;
        for row in &self.rows {
            if !row.is_plan {
                let _ = write!(
                    svg,
                    r#"<text x="{:.1}" y="{:.1}" text-anchor="end"><title>{}</title>{}</text>"#,
                    left - 6.0,
                    y + 15.0,
                    escaped(&row.name),
                    escaped(&short_name(&row.name, 16))
                );
            }
            for (m, one) in row.boxes.iter().enumerate() {
                let x = left + w * (one.begin / to).clamp(0.0, 1.0);
                let wide = (w * (one.end.min(to) - one.begin) / to).max(0.5);
                let room = if row.is_plan { 0 } else { (wide / 7.0) as usize };
                let shown = if room >= 2 { short_name(&one.text, room) } else { String::new() };
                let class = match one.style {
                    BoxStyle::Plain => format!("b{}", m % 2),
                    BoxStyle::Colour(colour) => format!("k{}", colour % 8),
                    BoxStyle::Critical(colour) => format!("k{} crit", colour % 8),
                    BoxStyle::Failed => "fail".to_string(),
                    BoxStyle::Wait => "wait".to_string(),
                };
                let planned = if row.is_plan { ", planned" } else { "" };
                let about = if one.about.is_empty() { String::new() } else { format!("; {}", one.about) };
                let _ = write!(
                    svg,
                    r#"<g><title>{}: {}{planned} from {} to {}{}</title><rect class="box {class}" x="{x:.1}" y="{y:.1}" width="{wide:.1}" height="{:.1}"/><text x="{:.1}" y="{:.1}">{}</text></g>"#,
                    escaped(&row.name),
                    escaped(&one.text),
                    time(one.begin),
                    time(one.end),
                    escaped(&about),
                    high(row) - 3.0,
                    x + 4.0,
                    y + 15.0,
                    escaped(&shown)
                );
            }
            y += high(row);
        }
        for tick in ticks(to) {
            let x = left + w * tick / to;
            let _ = write!(
                svg,
                r#"<text class="num" x="{x:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
                height - 6.0,
                number(tick)
            );
        }
        svg + "</svg>"
    }
}

pub(crate) fn open(width: f64, height: f64, title: &str) -> String {
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}"><title>{}</title>"#,
        escaped(title)
    )
}

/// Returns about five round numbers from 0 to `top`, at which an axis has marks.
pub(crate) fn ticks(top: f64) -> Vec<f64> {
    if !(top.is_finite() && top > 0.0) {
        return vec![0.0];
    }
    let rough = top / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    (0..=(top / step) as usize).map(|n| n as f64 * step).collect()
}

/// Formats a number for an axis.
pub(crate) fn number(x: f64) -> String {
    let (value, unit) = match x.abs() {
        a if a >= 1e9 => (x / 1e9, "G"),
        a if a >= 1e6 => (x / 1e6, "M"),
        a if a >= 1e4 => (x / 1e3, "k"),
        a if a > 0.0 && a < 1e-6 => (x * 1e9, "n"),
        a if a > 0.0 && a < 1e-3 => (x * 1e6, "µ"),
        a if a > 0.0 && a < 0.1 => (x * 1e3, "m"),
        _ => (x, ""),
    };
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}

/// Shortens a name to at most `most` characters.
pub(crate) fn short_name(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_string();
    }
    name.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Reduces a curve to about [`POINTS`] points: the smallest and the largest value of each group of neighbours.
pub(crate) fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let size = points.len().div_ceil(POINTS / 2).max(1);
    if size <= 2 {
        return points.to_vec();
    }
    let mut thin = Vec::with_capacity(POINTS + 2);
    for group in points.chunks(size) {
        let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let (Some(&least), Some(&most)) = (group.iter().min_by(by), group.iter().max_by(by)) else {
            continue;
        };
        let mut both = [least, most];
        both.sort_by(|a, b| a.0.total_cmp(&b.0));
        thin.extend(both);
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_in_svg() {
        let evil = "</title><script>alert(1)</script>'\"&\u{0}";
        let line = Line { name: evil.into(), points: vec![(0.0, 1.0), (1.0, 2.0)], is_stepped: false };
        let chart = Chart {
            title: evil.into(),
            unit: evil.into(),
            x_name: evil.into(),
            to: 1.0,
            lines: vec![line],
            marks: vec![(0.2, evil.into())],
        };
        let one = StripBox { end: 1.0, text: evil.into(), about: evil.into(), ..StripBox::default() };
        let row = StripRow { name: evil.into(), boxes: vec![one], is_plan: false };
        let strip = Strip { title: evil.into(), to: 1.0, rows: vec![row] };
        for svg in [chart.svg(), strip.svg()] {
            assert!(!svg.contains("<script") && !svg.contains('\u{0}'), "{svg}");
        }
    }

    #[test]
    fn axis_ticks_are_round_and_within_the_range() {
        assert_eq!(ticks(10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(0.0), [0.0]);
        assert_eq!(ticks(f64::NAN), [0.0]);
        for top in [0.003, 0.7, 1.0, 33.0, 1e7] {
            let ticks = ticks(top);
            assert!(
                ticks.len() >= 3 && ticks.len() <= 7 && ticks.iter().all(|t| *t <= top * 1.0001),
                "{top}: {ticks:?}"
            );
        }
    }

    #[test]
    fn numbers_are_formatted_with_si_suffixes() {
        let shown = [0.0, 0.25, 12.5, 20_000.0, 3e6, 2e9, 2e-5].map(number);
        assert_eq!(shown, ["0", "0.25", "12.5", "20k", "3M", "2G", "20µ"]);
    }

    #[test]
    fn thinned_curves_keep_their_extremes() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|n| (f64::from(n), 1.0)).collect();
        points[54_321].1 = 9.0;
        let thin = thinned(&points);
        assert!(thin.len() <= POINTS + 2 && thin.iter().any(|p| p.1 == 9.0), "{}", thin.len());
    }
}
