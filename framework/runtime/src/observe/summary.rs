//! Common parts of the summaries of farms, pipelines, loops and workflows, and their text form.

use std::fmt;
use std::time::Duration;

use armature_text::shown;

use super::number_format::{count, per_second, percent, seconds, short};

/// Amount of work that one rank did in a run, and the times that it took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RankWork {
    /// Number of completed items, tasks or units of a loop. In a pipeline, an item counts once for each stage; a unit that was computed in parts
    /// counts with its parts.
    pub done: f64,
    /// Time that the rank spent in user code.
    pub busy: Duration,
    /// Part of the time in user code in which other processes used the rank's core, as far as it was measured.
    pub off_core: Duration,
}

/// Summary of a run of a farm, pipeline, loop or workflow. Its `Display` is a table.
///
/// ```
/// use armature::{RunSummary, farm::Farm, loops::ParallelFor, pipeline::Pipeline};
///
/// fn check(summary: &impl RunSummary, name: &str, work: (u64, &str)) {
///     assert_eq!((summary.name(), summary.work()), (name, work));
///     assert_eq!(summary.ranks().iter().map(|rank| rank.done).sum::<f64>(), work.0 as f64);
///     assert!(summary.efficiency() <= 1.0 && summary.to_string().contains(name));
/// }
///
/// armature::run(&armature::Config::new(), |session| {
///     let same = |n: u64| n;
///     if let Some(summary) = Farm::new("tasks", same).collect(session, 0..9)?.into_summary() {
///         check(&summary, "tasks", (9, "task"));
///     }
///     if let Some(summary) = Pipeline::source("items", || 0..9).map("same", same).collect(session)?.into_summary() {
///         check(&summary, "items", (9, "item"));
///     }
///     if let Some(summary) = ParallelFor::new("units", 0..9).collect(session, same)?.into_summary() {
///         check(&summary, "units", (9, "unit"));
///     }
///     Ok(())
/// })?;
/// # Ok::<(), armature::Error>(())
/// ```
pub trait RunSummary: fmt::Display {
    /// Returns the name of the farm, pipeline, loop or workflow.
    fn name(&self) -> &str;

    /// Returns the amount of work and its unit: `item`, `task` or `unit`. A unit of a loop counts once for each pass.
    fn work(&self) -> (u64, &'static str);

    /// Returns the time from the start of the run to its last result.
    fn elapsed(&self) -> Duration;

    /// Returns the amount of work and the times of each rank.
    fn ranks(&self) -> Vec<RankWork>;

    /// Returns the reason, in one sentence, of the last change of the mapping, the number of workers or the distribution of a loop's units; `None` if
    /// nothing was changed.
    fn last_change(&self) -> Option<&str>;

    /// Returns the total time of all ranks in user code.
    fn busy(&self) -> Duration {
        self.ranks().iter().map(|rank| rank.busy).sum()
    }

    /// Returns the number of items, tasks or units of a loop per second over the whole run.
    fn throughput(&self) -> f64 {
        per_second(self.work().0 as f64, self.elapsed())
    }

    /// Returns the productive time over the available time, by equation (1) of Siegell and Steenkiste (1997). The productive time is the time in
    /// which ranks were in user code and had their core. The available time is the time of the run on all ranks that did any work, without the time
    /// in which other processes used the core of a rank in user code. The best value is 1; the value is 0 if there was no work.
    fn efficiency(&self) -> f64 {
        let ranks = self.ranks();
        let worked = ranks.iter().filter(|rank| rank.done > 0.0 || !rank.busy.is_zero()).count();
        let off: f64 = ranks.iter().map(|rank| rank.off_core.as_secs_f64()).sum();
        match worked as f64 * self.elapsed().as_secs_f64() - off {
            available if available > 0.0 => (self.busy().as_secs_f64() - off) / available,
            _ => 0.0,
        }
    }
}

pub(crate) fn write_headline(
    f: &mut fmt::Formatter<'_>,
    kind: &str,
    summary: &impl RunSummary,
    more: &str,
) -> fmt::Result {
    let (done, thing) = summary.work();
    write!(
        f,
        "{kind} {}: {} in {:.3} s, {} {thing}s/s, efficiency {}; {more}",
        shown(summary.name()),
        count(done, thing),
        summary.elapsed().as_secs_f64(),
        short(summary.throughput()),
        percent(summary.efficiency(), 1)
    )
}

pub(crate) fn write_table(f: &mut fmt::Formatter<'_>, heads: &[&str], rows: &[Vec<String>]) -> fmt::Result {
    let heads: Vec<String> = heads.iter().map(ToString::to_string).collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&heads).chain(rows).collect();
    let length = |cell: &String| cell.chars().count();
    let width =
        |column: usize| lines.iter().filter_map(|line| line.get(column)).map(length).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    for line in lines {
        // Cells are padded without Rust's format strings, because the width of a name may exceed their maximum width.
        let cells = line.iter().zip(&widths).map(|(cell, width)| " ".repeat(width - length(cell)) + cell);
        write!(f, "\n{}", cells.collect::<Vec<_>>().join("  "))?;
    }
    Ok(())
}

pub(crate) fn cell(time: Duration) -> String {
    seconds(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct RankTimes(Vec<RankWork>);

    impl fmt::Display for RankTimes {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write_headline(f, "farm", self, "in chunks")?;
            write_table(
                f,
                &["rank", "busy"],
                &[vec!["0".into(), cell(Duration::from_millis(2))], vec!["11".into()]],
            )
        }
    }

    impl RunSummary for RankTimes {
        fn name(&self) -> &str {
            "square"
        }

        fn work(&self) -> (u64, &'static str) {
            (12, "task")
        }

        fn elapsed(&self) -> Duration {
            Duration::from_secs(10)
        }

        fn ranks(&self) -> Vec<RankWork> {
            self.0.clone()
        }

        fn last_change(&self) -> Option<&str> {
            None
        }
    }

    #[test]
    fn efficiency_counts_working_ranks_and_available_core_time() {
        let rank = |done, busy, off_core| RankWork {
            done,
            busy: Duration::from_secs(busy),
            off_core: Duration::from_secs(off_core),
        };
        let summary = RankTimes(vec![rank(0.0, 0, 0), rank(6.0, 9, 0), rank(6.0, 7, 0)]);
        assert_eq!(
            (summary.efficiency(), summary.throughput(), summary.busy()),
            (0.8, 1.2, Duration::from_secs(16))
        );
        // The two ranks had 20 s of core time available, of which other processes used 4 s; 15 s were productive.
        assert_eq!(RankTimes(vec![rank(6.0, 9, 0), rank(6.0, 10, 4)]).efficiency(), 15.0 / 16.0);
        assert_eq!(RankTimes(vec![]).efficiency(), 0.0);
    }

    #[test]
    fn columns_are_aligned() {
        let summary =
            RankTimes(vec![RankWork { done: 12.0, busy: Duration::from_secs(8), ..RankWork::default() }]);
        let text = "farm square: 12 tasks in 10.000 s, 1.20 tasks/s, efficiency 80.0 %; in chunks\n\
                    rank      busy\n   0  2.000 ms\n  11";
        assert_eq!(summary.to_string(), text);
    }
}
