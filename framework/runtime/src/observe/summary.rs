//! What summaries of all skeletons tell in the same words, and how they show it.

use std::fmt;
use std::time::Duration;

use armature_text::shown;

use super::words::{count, per_second, percent, seconds, short};

/// What one rank did in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankWork {
    /// Items, tasks or units that it did: in a pipeline those of all its stages, of units that were done in parts the parts.
    pub done: f64,
    /// Time that it spent in user code.
    pub busy: Duration,
    /// The part of that in which other processes had its core, as far as that was measured.
    pub off_core: Duration,
}

/// What the summary of any skeleton tells, in the same words. Its `Display` is the table that people read.
///
/// ```
/// use armature::{RunSummary, Session, farm::Farm, loops::ParallelFor, pipeline::Pipeline};
///
/// fn check(summary: &impl RunSummary, name: &str, work: (u64, &str)) {
///     assert_eq!((summary.name(), summary.work()), (name, work));
///     assert_eq!(summary.ranks().iter().map(|rank| rank.done).sum::<f64>(), work.0 as f64);
///     assert!(summary.efficiency() <= 1.0 && summary.to_string().contains(name));
/// }
///
/// armature::run(&armature::Config::new(), |session| {
///     let same = |n: u64| n;
///     if let Some((_, summary)) = Farm::new("tasks", same).collect(session, 0..9)? {
///         check(&summary, "tasks", (9, "task"));
///     }
///     if let Some((_, summary)) = Pipeline::source("items", || 0..9).map("same", same).collect().run(session)? {
///         check(&summary, "items", (9, "item"));
///     }
///     if let Some((_, summary)) = ParallelFor::new("units", 0..9).collect(session, same)? {
///         check(&summary, "units", (9, "unit"));
///     }
///     Ok(())
/// })?;
/// # Ok::<(), armature::Error>(())
/// ```
pub trait RunSummary: fmt::Display {
    /// What was run.
    fn name(&self) -> &str;

    /// How much was done, and what one is called: `item`, `task`, or `unit`, which counts for each pass.
    fn work(&self) -> (u64, &'static str);

    /// From the start of the run to its last result.
    fn elapsed(&self) -> Duration;

    /// What each rank did.
    fn ranks(&self) -> Vec<RankWork>;

    /// Why it was changed last while it ran what runs where, in one sentence; `None` if it was not.
    fn last_change(&self) -> Option<&str>;

    /// Time that all ranks spent in user code.
    fn busy(&self) -> Duration {
        self.ranks().iter().map(|rank| rank.busy).sum()
    }

    /// Items, tasks or units a second, all in all.
    fn throughput(&self) -> f64 {
        per_second(self.work().0 as f64, self.elapsed())
    }

    /// Productive time over available time, by (1) of Siegell and Steenkiste (1997): the time in which ranks had their core and
    /// were in user code, over the time of the run on all ranks that did anything, without that in which other processes had the
    /// core of a rank that would have computed. 1 is the best; 0 if there was nothing to do.
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

/// Writes the first line of a summary: what was run, how much was done in which time, and `more`.
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

/// Writes the table of a summary: columns under their heads, as wide as they have to be.
pub(crate) fn write_table(f: &mut fmt::Formatter<'_>, heads: &[&str], rows: &[Vec<String>]) -> fmt::Result {
    let heads: Vec<String> = heads.iter().map(ToString::to_string).collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&heads).chain(rows).collect();
    let length = |cell: &String| cell.chars().count();
    let width =
        |column: usize| lines.iter().filter_map(|line| line.get(column)).map(length).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    for line in lines {
        // A name may be longer than the widths that formats have.
        let cells = line.iter().zip(&widths).map(|(cell, width)| " ".repeat(width - length(cell)) + cell);
        write!(f, "\n{}", cells.collect::<Vec<_>>().join("  "))?;
    }
    Ok(())
}

/// A time in a table.
pub(crate) fn cell(time: Duration) -> String {
    seconds(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Told(Vec<RankWork>);

    impl fmt::Display for Told {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write_headline(f, "farm", self, "in chunks")?;
            write_table(
                f,
                &["rank", "busy"],
                &[vec!["0".into(), cell(Duration::from_millis(2))], vec!["11".into()]],
            )
        }
    }

    impl RunSummary for Told {
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
    fn efficiency_counts_the_ranks_that_worked_and_the_cores_that_they_had() {
        let rank = |done, busy, off_core| RankWork {
            done,
            busy: Duration::from_secs(busy),
            off_core: Duration::from_secs(off_core),
        };
        let told = Told(vec![rank(0.0, 0, 0), rank(6.0, 9, 0), rank(6.0, 7, 0)]);
        assert_eq!((told.efficiency(), told.throughput(), told.busy()), (0.8, 1.2, Duration::from_secs(16)));
        // 20 s were available, 4 of which others had.
        assert_eq!(Told(vec![rank(6.0, 9, 0), rank(6.0, 10, 4)]).efficiency(), 15.0 / 16.0);
        assert_eq!(Told(vec![]).efficiency(), 0.0);
    }

    #[test]
    fn columns_line_up() {
        let told = Told(vec![RankWork { done: 12.0, busy: Duration::from_secs(8), ..RankWork::default() }]);
        let text = "farm square: 12 tasks in 10.000 s, 1.20 tasks/s, efficiency 80.0 %; in chunks\n\
                    rank      busy\n   0  2.000 ms\n  11";
        assert_eq!(told.to_string(), text);
    }
}
