//! Frequencies of values, for one sample or several samples side by side.

use plotters::prelude::*;

use super::{chart, colour, failed, legend, mesh, page, range, tick};
use crate::RunResult;

/// Histogram of one or several samples over the same bins.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    title: String,
    x_label: String,
    bins: usize,
    samples: Vec<(String, Vec<f64>)>,
}

impl Histogram {
    /// Creates a histogram with `bins` bins. The unit is part of the label: `above the optimum [%]`.
    pub fn new(title: &str, x_label: &str, bins: usize) -> Self {
        Histogram { title: title.into(), x_label: x_label.into(), bins: bins.max(1), samples: Vec::new() }
    }

    /// Adds a sample of values under a name.
    pub fn add(&mut self, name: impl Into<String>, values: Vec<f64>) {
        self.samples.push((name.into(), values));
    }

    /// Returns the plot as SVG. The y axis shows the number of values in each bin.
    ///
    /// # Errors
    /// If there is nothing to draw.
    pub fn to_svg(&self) -> RunResult<String> {
        let all = self.samples.iter().flat_map(|(_, values)| values.iter().copied());
        let Some((low, high)) = range(all, false) else {
            return Err(format!("the histogram {:?} has no values", self.title).into());
        };
        let width = (high - low) / self.bins as f64;
        let counts: Vec<Vec<usize>> =
            self.samples.iter().map(|(_, values)| self.count(values, low, width)).collect();
        let most = counts.iter().flatten().copied().max().unwrap_or(0) as f64;
        page(|area| {
            let mut chart = chart(area, &self.title)
                .build_cartesian_2d(low..high, 0.0..(1.1 * most).max(1.0))
                .map_err(failed)?;
            mesh(&mut chart, (&self.x_label, "number of samples"), &tick, &tick, false)?;
            let bar = width * 0.9 / self.samples.len() as f64;
            for (index, ((name, _), counts)) in self.samples.iter().zip(&counts).enumerate() {
                let fill = colour(index).mix(0.85).filled();
                let bars = counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(bin, &count)| {
                    let left = low + bin as f64 * width + 0.05 * width + index as f64 * bar;
                    Rectangle::new([(left, 0.0), (left + bar, count as f64)], fill)
                });
                chart
                    .draw_series(bars)
                    .map_err(failed)?
                    .label(name.clone())
                    .legend(move |(x, y)| Rectangle::new([(x + 2, y - 6), (x + 16, y + 6)], fill));
            }
            legend(&mut chart, SeriesLabelPosition::UpperRight)
        })
    }

    fn count(&self, values: &[f64], low: f64, width: f64) -> Vec<usize> {
        let mut counts = vec![0; self.bins];
        for value in values.iter().filter(|value| value.is_finite()) {
            counts[(((value - low) / width) as usize).min(self.bins - 1)] += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_counted_once() {
        let plot = Histogram::new("h", "x", 4);
        assert_eq!(plot.count(&[0.0, 0.9, 1.0, 2.5, 4.0, f64::NAN], 0.0, 1.0), [2, 1, 1, 1]);
    }

    #[test]
    fn histogram_shows_title_axis_and_series_names() {
        let mut plot = Histogram::new("Gaps", "above the optimum [%]", 10);
        plot.add("paper", vec![1.0, 2.0, 2.0]);
        plot.add("refined", vec![0.0, 0.0]);
        let svg = plot.to_svg().unwrap();
        assert!(["Gaps", "above the optimum [%]", "paper", "refined"].iter().all(|text| svg.contains(text)));
        assert!(Histogram::new("h", "x", 4).to_svg().is_err());
    }
}
