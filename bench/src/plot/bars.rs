//! Bar charts that compare alternatives in several categories; whiskers show confidence intervals.

use plotters::{coord::ranged1d::ValueFormatter, prelude::*};

use super::{chart, colour, failed, legend, mesh, page, range, tick};
use crate::{RunResult, verdict::Interval};

/// Plot with one bar for each category and series.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    title: String,
    y_label: String,
    log_y: bool,
    categories: Vec<String>,
    series: Vec<(String, Vec<Option<Interval>>)>,
}

impl Bars {
    /// Creates a plot without bars. The unit is part of the label: `items [1/s]`.
    pub fn new<'a>(title: &str, y_label: &str, categories: impl IntoIterator<Item = &'a str>) -> Self {
        let categories = categories.into_iter().map(str::to_string).collect();
        Bars { title: title.into(), y_label: y_label.into(), log_y: false, categories, series: Vec::new() }
    }

    /// Makes the y axis logarithmic.
    pub fn log_y(mut self) -> Self {
        self.log_y = true;
        self
    }

    /// Adds a series: one bar for each category, or `None` where nothing was measured.
    ///
    /// # Panics
    /// If the number of values differs from the number of categories.
    pub fn add(&mut self, name: impl Into<String>, values: Vec<Option<Interval>>) {
        assert_eq!(
            values.len(),
            self.categories.len(),
            "bars need one value for each of {:?}",
            self.categories
        );
        self.series.push((name.into(), values));
    }

    /// Returns the plot as SVG text.
    ///
    /// # Errors
    /// If there is nothing to draw.
    pub fn to_svg(&self) -> RunResult<String> {
        let values = self.series.iter().flat_map(|(_, values)| values).flatten();
        let ends = values.flat_map(|interval| [interval.value, interval.low, interval.high]);
        let Some((low, high)) = range(ends, self.log_y) else {
            return Err(format!("the bars {:?} have no values", self.title).into());
        };
        let groups = -0.5..self.categories.len() as f64 - 0.5;
        page(|area| {
            let mut chart = chart(area, &self.title);
            if self.log_y {
                // The value axis starts at a power of ten, so that the lengths of bars are comparable between plots,
                // and has space for the legend at its top.
                let base = 10_f64.powf((low.log10() - 0.2).floor());
                let top = high * (high / base).powf(0.2);
                let chart = chart.build_cartesian_2d(groups, (base..top).log_scale()).map_err(failed)?;
                self.draw(chart, base)
            } else {
                let chart =
                    chart.build_cartesian_2d(groups, low.min(0.0)..1.2 * high.max(0.0)).map_err(failed)?;
                self.draw(chart, 0.0)
            }
        })
    }

    fn draw<'a, X, Y>(
        &self,
        mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
        base: f64,
    ) -> RunResult
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64> + 'a,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64> + 'a,
    {
        let name = |place: &f64| {
            let index = place.round();
            let near = (place - index).abs() < 1e-6 && index >= 0.0;
            near.then(|| self.categories.get(index as usize)).flatten().cloned().unwrap_or_default()
        };
        mesh(&mut chart, ("", &self.y_label), &name, &tick, false)?;
        let width = 0.8 / self.series.len() as f64;
        for (index, (name, values)) in self.series.iter().enumerate() {
            let fill = colour(index).mix(0.85).filled();
            let left = |category: usize| category as f64 - 0.4 + index as f64 * width;
            let measured = || values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
            let bars = measured().map(|(at, interval)| {
                Rectangle::new(
                    [(left(at) + 0.04 * width, base), (left(at) + 0.96 * width, interval.value)],
                    fill,
                )
            });
            chart
                .draw_series(bars)
                .map_err(failed)?
                .label(name.clone())
                .legend(move |(x, y)| Rectangle::new([(x + 2, y - 6), (x + 16, y + 6)], fill));
            for (at, Interval { low, high, .. }) in measured() {
                if low.is_finite() && high.is_finite() && low < high {
                    let (middle, ends) = (left(at) + 0.5 * width, [low.max(base), high]);
                    let ink = super::INK.stroke_width(1);
                    let stem = PathElement::new(ends.map(|end| (middle, end)), ink);
                    chart.draw_series([stem]).map_err(failed)?;
                    let cap =
                        |end| EmptyElement::at((middle, end)) + PathElement::new([(-4, 0), (4, 0)], ink);
                    chart.draw_series(ends.map(cap)).map_err(failed)?;
                }
            }
        }
        legend(&mut chart, SeriesLabelPosition::UpperRight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_and_series_are_in_the_picture() {
        let mut plot = Bars::new("Who", "items [1/s]", ["8 B", "1 KiB", "1 MiB"]).log_y();
        plot.add(
            "we",
            vec![Some(Interval::exact(1e8)), Some(Interval { value: 3e6, low: 2e6, high: 4e6 }), None],
        );
        plot.add("they", vec![Some(Interval::exact(1e6)); 3]);
        let svg = plot.to_svg().unwrap();
        for text in ["Who", "items [1/s]", "8 B", "1 KiB", "1 MiB", "we", "they"] {
            assert!(svg.contains(text), "{text} is missing");
        }
        let infinite = Interval { value: 1.0, low: f64::NEG_INFINITY, high: f64::INFINITY };
        let mut linear = Bars::new("Linear", "s", ["one"]);
        linear.add("x", vec![Some(infinite)]);
        assert!(linear.to_svg().unwrap().contains("Linear"));
    }
}
