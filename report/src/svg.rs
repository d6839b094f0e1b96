//! Charts as SVG without a script, for a page, a README or a paper.
//!
//! Lines differ in their dashes and have labels at the right, and areas differ in their patterns, so that no information depends on colour alone.

use std::fmt::Write;

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
    /// Label of the curve.
    pub name: String,
    /// Points (x, y) of the curve in order of x.
    pub points: Vec<(f64, f64)>,
    /// True if the curve is drawn as steps: a value remains constant until the next point.
    pub is_stepped: bool,
}

/// Chart with curves or points.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chart {
    /// Title of the chart.
    pub title: String,
    /// Unit of the y axis.
    pub unit: String,
    /// Greatest x value of the chart; the x axis begins at 0.
    pub to: f64,
    /// Label of the x axis.
    pub x_name: String,
    /// Curves of the chart.
    pub lines: Vec<Line>,
    /// Single points (x, y), each with a description for its tooltip.
    pub points: Vec<(f64, f64, String)>,
    /// Vertical lines, each at an x value and with a name.
    pub marks: Vec<(f64, String)>,
    /// True if the diagonal x = y is drawn.
    pub diagonal: bool,
}

/// Width of a chart in units of its view box; the page scales the chart.
pub(crate) const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 240.0;
/// Margins of a chart: for the numbers of the y axis at the left, for the names of curves at the right, and for the x axis at the bottom.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 34.0;
/// Maximum number of points of a curve; more points than pixels would not be visible.
const POINTS: usize = 1200;
/// Maximum number of vertical lines in a chart.
pub(crate) const MARKS: usize = 40;

impl Chart {
    pub(crate) const HEIGHT: f64 = HEIGHT;

    /// Renders the chart as an SVG element.
    pub(crate) fn svg(&self) -> String {
        let (w, h) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
        let to = if self.to > 0.0 { self.to } else { 1.0 };
        let values = self.lines.iter().flat_map(|l| l.points.iter().map(|p| p.1));
        let values = values.chain(self.points.iter().map(|p| p.1)).filter(|y| y.is_finite());
        let most = values.fold(0.0, f64::max);
        let top = if most > 0.0 { most * 1.05 } else { 1.0 };
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
        if self.diagonal {
            let end = to.min(top);
            let _ = write!(
                svg,
                r#"<line class="mark" x1="{LEFT}" y1="{:.1}" x2="{:.1}" y2="{:.1}"/>"#,
                TOP + h,
                x(end),
                y(end)
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
        for (at, value, name) in &self.points {
            let _ = write!(
                svg,
                r#"<circle class="point" cx="{:.1}" cy="{:.1}" r="4"><title>{}</title></circle>"#,
                x(*at),
                y(*value),
                escaped(name)
            );
        }
        svg + "</svg>"
    }
}

/// Row of a strip chart: name, and boxes with begin, end and text.
pub(crate) type Row = (String, Vec<(f64, f64, String)>);

/// Strip chart: rows of labelled boxes over time, such as the ranks of each stage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strip {
    /// Title of the strip chart.
    pub title: String,
    /// Greatest time of the time axis, which begins at 0.
    pub to: f64,
    /// Rows of the chart from top to bottom.
    pub rows: Vec<Row>,
}

impl Strip {
    /// Renders the strip chart as an SVG element.
    pub(crate) fn svg(&self) -> String {
        let (left, row) = (120.0, 22.0);
        let (w, to) = (WIDTH - left - 8.0, if self.to > 0.0 { self.to } else { 1.0 });
        let height = row * self.rows.len() as f64 + 22.0;
        let mut svg = open(WIDTH, height, &self.title);
        for (n, (name, boxes)) in self.rows.iter().enumerate() {
            let y = row * n as f64 + 2.0;
            let _ = write!(
                svg,
                r#"<text x="{:.1}" y="{:.1}" text-anchor="end"><title>{}</title>{}</text>"#,
                left - 6.0,
                y + 15.0,
                escaped(name),
                escaped(&short_name(name, 16))
            );
            for (m, (begin, end, text)) in boxes.iter().enumerate() {
                let (x, wide) = (left + w * begin / to, (w * (end - begin) / to).max(0.5));
                let room = (wide / 7.0) as usize;
                let shown = if room >= 2 { short_name(text, room) } else { String::new() };
                let _ = write!(
                    svg,
                    r#"<g><title>{}: {} from {} s to {} s</title><rect class="box b{}" x="{x:.1}" y="{y:.1}" width="{wide:.1}" height="{:.1}"/><text x="{:.1}" y="{:.1}">{}</text></g>"#,
                    escaped(name),
                    escaped(text),
                    number(*begin),
                    number(*end),
                    m % 2,
                    row - 3.0,
                    x + 4.0,
                    y + 15.0,
                    escaped(&shown)
                );
            }
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
        a if a > 0.0 && a < 1e-3 => return format!("{x:.1e}"),
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
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
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
            points: vec![(0.5, 0.5, evil.into())],
            marks: vec![(0.2, evil.into())],
            ..Chart::default()
        };
        let strip =
            Strip { title: evil.into(), to: 1.0, rows: vec![(evil.into(), vec![(0.0, 1.0, evil.into())])] };
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
        assert_eq!(shown, ["0", "0.25", "12.5", "20k", "3M", "2G", "2.0e-5"]);
    }

    #[test]
    fn thinned_curves_keep_their_extremes() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|n| (f64::from(n), 1.0)).collect();
        points[54_321].1 = 9.0;
        let thin = thinned(&points);
        assert!(thin.len() <= POINTS + 2 && thin.iter().any(|p| p.1 == 9.0), "{}", thin.len());
    }
}
