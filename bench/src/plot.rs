//! Plots as SVG in a common style: lines, histograms, bars.
//!
//! Every axis has a label with its unit. The colours are those of Okabe and Ito, which colour-blind people can
//! distinguish, too; lines also differ in their markers.

mod bars;
mod histogram;
mod lines;

use plotters::{
    chart::{ChartBuilder, ChartContext},
    coord::{Shift, ranged1d::ValueFormatter},
    prelude::*,
};

pub use bars::Bars;
pub use histogram::Histogram;
pub use lines::{Lines, Series};

use crate::{RunResult, table::significant};

const SIZE: (u32, u32) = (860, 520);
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(50, 50, 50);
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn page(draw: impl FnOnce(&Area<'_>) -> RunResult) -> RunResult<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        draw(&area)?;
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

/// Gives the drawing library's error the lifetime `'static` by keeping only its text.
fn failed(error: impl std::fmt::Display) -> Box<dyn std::error::Error + Send + Sync> {
    format!("cannot draw the plot: {error}").into()
}

fn chart<'a, 'b>(area: &'a Area<'b>, title: &str) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(title, (FONT, 20, &INK))
        .margin(16)
        .margin_right(28)
        .x_label_area_size(52)
        .y_label_area_size(78);
    builder
}

fn mesh<X, Y>(
    chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, Y>>,
    (x_label, y_label): (&str, &str),
    x_names: &dyn Fn(&X::ValueType) -> String,
    y_names: &dyn Fn(&Y::ValueType) -> String,
    vertical_lines: bool,
) -> RunResult
where
    X: Ranged + ValueFormatter<X::ValueType>,
    Y: Ranged + ValueFormatter<Y::ValueType>,
{
    let mut mesh = chart.configure_mesh();
    if !vertical_lines {
        mesh.disable_x_mesh();
    }
    mesh.bold_line_style(RGBColor(222, 222, 222))
        .light_line_style(RGBColor(244, 244, 244))
        .axis_style(INK.stroke_width(1))
        .label_style((FONT, 14, &INK))
        .axis_desc_style((FONT, 16, &INK))
        .x_desc(x_label)
        .y_desc(y_label)
        .x_label_formatter(x_names)
        .y_label_formatter(y_names)
        .x_labels(10)
        .y_labels(8)
        .max_light_lines(4)
        .draw()
        .map_err(failed)
}

fn legend<'a, DB: DrawingBackend + 'a, X: Ranged, Y: Ranged>(
    chart: &mut ChartContext<'a, DB, Cartesian2d<X, Y>>,
    corner: SeriesLabelPosition,
) -> RunResult {
    chart
        .configure_series_labels()
        .position(corner)
        .background_style(WHITE.mix(0.88))
        .border_style(RGBColor(200, 200, 200))
        .label_font((FONT, 14, &INK))
        .margin(10)
        .draw()
        .map_err(failed)
}

/// Formats a number at an axis: `1000`, `0.25`, `2M`, `1.5e-6`.
fn tick(value: &f64) -> String {
    let value = *value;
    let (scaled, suffix) = match value.abs() {
        v if v >= 1e12 || (v > 0.0 && v < 1e-3) => {
            let text = format!("{value:e}");
            return if text.len() <= 7 { text } else { format!("{value:.1e}") };
        }
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = significant(scaled);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{suffix}")
}

fn range(values: impl Iterator<Item = f64>, log: bool) -> Option<(f64, f64)> {
    let (low, high) = values
        .filter(|value| value.is_finite() && (!log || *value > 0.0))
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return None;
    }
    Some(match log {
        true if low == high => (low / 2.0, high * 2.0),
        true => {
            let room = (high / low).powf(0.04);
            (low / room, high * room)
        }
        false if low == high => (low - 0.5, high + 0.5),
        false => (low - 0.02 * (high - low), high + 0.05 * (high - low)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_tick_labels_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (1000.0, "1000"),
            (2e6, "2M"),
            (12_500.0, "12.5k"),
            (1e-6, "1e-6"),
            (-3.0, "-3"),
        ] {
            assert_eq!(tick(&value), text);
        }
    }

    #[test]
    fn axis_range_ignores_non_finite_values() {
        assert_eq!(range([f64::NAN, f64::INFINITY].into_iter(), false), None);
        assert_eq!(range([3.0].into_iter(), false), Some((2.5, 3.5)));
        let (low, high) = range([0.0, 1.0, 100.0].into_iter(), true).unwrap();
        assert!(low > 0.8 && low < 1.0 && high > 100.0 && high < 125.0);
    }
}
