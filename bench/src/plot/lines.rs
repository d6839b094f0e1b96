//! Plots of lines with markers, and with a band around each line whose values have a known spread.

use plotters::{coord::ranged1d::ValueFormatter, prelude::*};

use super::{chart, colour, failed, legend, mesh, page, range, tick};
use crate::RunResult;

/// Plot of one quantity over another, with a line for each series.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    title: String,
    x_label: String,
    y_label: String,
    log_x: bool,
    log_y: bool,
    series: Vec<Series>,
}

/// Line of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    band: Vec<(f64, f64)>,
}

impl Series {
    /// Creates a line through `points` (x, y), sorted by x.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Series { name: name.into(), points, band: Vec::new() }
    }

    /// Adds a band around the line (the spread of its values): the lower and the upper end for each point.
    ///
    /// # Panics
    /// If the number of ends differs from the number of points.
    pub fn band(mut self, ends: Vec<(f64, f64)>) -> Self {
        assert_eq!(ends.len(), self.points.len(), "a band needs both ends for each point");
        self.band = ends;
        self
    }
}

impl Lines {
    /// Creates a plot without lines. Units are part of the labels: `time [ms]`.
    pub fn new(title: &str, x_label: &str, y_label: &str) -> Self {
        let (title, x_label, y_label) = (title.into(), x_label.into(), y_label.into());
        Lines { title, x_label, y_label, log_x: false, log_y: false, series: Vec::new() }
    }

    /// Makes the x axis logarithmic; points at or below zero are left out.
    pub fn log_x(mut self) -> Self {
        self.log_x = true;
        self
    }

    /// Makes the y axis logarithmic; points at or below zero are left out.
    pub fn log_y(mut self) -> Self {
        self.log_y = true;
        self
    }

    /// Adds a line to the plot.
    pub fn add(&mut self, series: Series) {
        self.series.push(series);
    }

    /// Returns the plot as SVG.
    ///
    /// # Errors
    /// If there is nothing to draw.
    pub fn to_svg(&self) -> RunResult<String> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let ends = self.series.iter().flat_map(|series| &series.band).flat_map(|&(low, high)| [low, high]);
        let x = range(points().map(|point| point.0), self.log_x);
        let y = range(points().map(|point| point.1).chain(ends), self.log_y);
        let (Some((x0, x1)), Some((y0, y1))) = (x, y) else {
            return Err(format!("the plot {:?} has no points", self.title).into());
        };
        let y0 = if !self.log_y && y0 > 0.0 && y0 < 0.5 * y1 { 0.0 } else { y0 };
        page(|area| {
            let mut chart = chart(area, &self.title);
            match (self.log_x, self.log_y) {
                (false, false) => self.draw(chart.build_cartesian_2d(x0..x1, y0..y1).map_err(failed)?),
                (true, false) => {
                    self.draw(chart.build_cartesian_2d((x0..x1).log_scale(), y0..y1).map_err(failed)?)
                }
                (false, true) => {
                    self.draw(chart.build_cartesian_2d(x0..x1, (y0..y1).log_scale()).map_err(failed)?)
                }
                (true, true) => self.draw(
                    chart.build_cartesian_2d((x0..x1).log_scale(), (y0..y1).log_scale()).map_err(failed)?,
                ),
            }
        })
    }

    fn draw<'a, X, Y>(&self, mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>) -> RunResult
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64> + 'a,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64> + 'a,
    {
        mesh(&mut chart, (&self.x_label, &self.y_label), &tick, &tick, true)?;
        for (index, series) in self.series.iter().enumerate() {
            let colour = colour(index);
            let drawn = |&&(x, y): &&(f64, f64)| {
                x.is_finite() && y.is_finite() && (!self.log_x || x > 0.0) && (!self.log_y || y > 0.0)
            };
            let points: Vec<(f64, f64)> = series.points.iter().filter(drawn).copied().collect();
            if !series.band.is_empty() {
                let upper = series.points.iter().zip(&series.band).map(|(point, end)| (point.0, end.1));
                let lower = series.points.iter().zip(&series.band).rev().map(|(point, end)| (point.0, end.0));
                let outline: Vec<_> = upper.chain(lower).collect();
                if outline.iter().all(|point| drawn(&point)) {
                    chart.draw_series([Polygon::new(outline, colour.mix(0.15))]).map_err(failed)?;
                }
            }
            let style = colour.stroke_width(2);
            let line = LineSeries::new(points.iter().copied(), style);
            let line = chart.draw_series(line).map_err(failed)?.label(series.name.clone());
            // A line of more than 60 points is drawn without markers, which would hide the curve.
            let marked = if points.len() <= 60 { &points[..] } else { &[] };
            // Marker shapes have different types, so the shape of a series cannot be a function of its index.
            macro_rules! draw {
                ($shape:expr) => {{
                    line.legend(move |(x, y)| {
                        EmptyElement::at((x + 9, y)) + PathElement::new([(-9, 0), (9, 0)], style) + $shape
                    });
                    chart
                        .draw_series(marked.iter().map(|&at| EmptyElement::at(at) + $shape))
                        .map_err(failed)?;
                }};
            }
            let fill = colour.filled();
            match index % 4 {
                0 => draw!(Circle::new((0, 0), 4, fill)),
                1 => draw!(Rectangle::new([(-4, -4), (4, 4)], fill)),
                2 => draw!(Polygon::new([(0, -5), (5, 4), (-5, 4)], fill)),
                _ => draw!(Polygon::new([(0, -5), (5, 0), (0, 5), (-5, 0)], fill)),
            }
        }
        let corner = self.emptiest_corner(&chart);
        legend(&mut chart, corner)
    }

    fn emptiest_corner<X, Y>(
        &self,
        chart: &ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, Y>>,
    ) -> SeriesLabelPosition
    where
        X: Ranged<ValueType = f64>,
        Y: Ranged<ValueType = f64>,
    {
        let (width, height) = chart.plotting_area().dim_in_pixel();
        let (left, top) = chart.plotting_area().get_base_pixel();
        let mut counts = [[0_usize; 2]; 2];
        for point in self.series.iter().flat_map(|series| &series.points) {
            if point.0.is_finite() && point.1.is_finite() {
                let (x, y) = chart.backend_coord(point);
                let right = x - left > width as i32 / 2;
                let low = y - top > height as i32 / 2;
                counts[usize::from(low)][usize::from(right)] += 1;
            }
        }
        let corners = [
            (counts[0][1], SeriesLabelPosition::UpperRight),
            (counts[0][0], SeriesLabelPosition::UpperLeft),
            (counts[1][1], SeriesLabelPosition::LowerRight),
            (counts[1][0], SeriesLabelPosition::LowerLeft),
        ];
        let [first, rest @ ..] = corners;
        rest.into_iter().fold(first, |best, next| if next.0 < best.0 { next } else { best }).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_legend_are_in_the_picture() {
        let mut plot = Lines::new("Growth", "stages", "time [ms]").log_x().log_y();
        plot.add(Series::new("fast one", vec![(1.0, 0.1), (10.0, 1.0)]));
        plot.add(
            Series::new("slow one", vec![(1.0, 2.0), (10.0, 300.0)]).band(vec![(1.0, 3.0), (200.0, 400.0)]),
        );
        let svg = plot.to_svg().unwrap();
        for text in ["Growth", "stages", "time [ms]", "fast one", "slow one", "polyline"] {
            assert!(svg.contains(text), "{text} is missing");
        }
    }

    #[test]
    fn plot_without_points_is_an_error() {
        assert!(Lines::new("Empty", "x", "y").to_svg().unwrap_err().to_string().contains("no points"));
    }
}
