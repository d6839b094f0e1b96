//! Summary of a pipeline's run.

use std::fmt;
use std::time::Duration;

use armature_text::shown;
use serde::{Deserialize, Serialize};

use super::remaps::Remap;
use super::snapshots::SnapshotCosts;
use super::stats::RankReport;
pub(crate) use crate::observe::number_format::seconds;
use crate::observe::summary::{RankWork, RunSummary, cell, write_headline, write_table};

/// Summary of a pipeline's run on rank 0: the mapping, and where the time was spent. Its `Display` is a table for users.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// Name of the pipeline.
    pub name: String,
    /// Names of the stages, in the order of the pipeline.
    pub stages: Vec<String>,
    /// Mapping of stages to ranks at the end of the run.
    pub mapping: armature_planner::pipeline::Mapping,
    /// Text form of the mapping at the end of the run.
    pub mapping_text: String,
    /// Number of items drawn from the source.
    pub items: u64,
    /// Number of items that the sink received.
    pub delivered: u64,
    /// Time from the start of the run until the sink has finished, after the last item.
    pub elapsed: Duration,
    /// Time from the start of the run until the calibration, which measures the stages, ended and the mapping was planned; zero if the mapping was
    /// given.
    pub calibration: Duration,
    /// Number of items drawn from the source before the end of the calibration.
    pub calibration_items: u64,
    /// Production time (seconds per item of the source) that the planner predicted for the mapping planned after the calibration.
    pub predicted: Option<f64>,
    /// Number of source items that the job had processed before it was restarted and continued from a snapshot.
    pub items_before: u64,
    /// Number and cost of the snapshots, if the pipeline has snapshots.
    pub snapshots: Option<SnapshotCosts>,
    /// Mappings that took effect, including the first one, with the reason and the cost of each change.
    pub remaps: Vec<Remap>,
    /// Statistics of each rank: service times of its stages, idle times, and traffic.
    pub ranks: Vec<RankReport>,
}

impl Summary {
    /// Returns the number of items that stage number `stage` dropped, on all ranks.
    pub fn dropped(&self, stage: usize) -> u64 {
        self.ranks.iter().filter_map(|r| r.stages.get(stage)).map(|s| s.dropped).sum()
    }

    fn outcome(&self) -> String {
        let dropped: u64 = (0..self.stages.len()).map(|stage| self.dropped(stage)).sum();
        match self.items.checked_sub(dropped) {
            Some(left) if left == self.delivered => format!("{dropped} dropped"),
            _ => format!("{} came out", self.delivered),
        }
    }

    /// Returns the measured production time (seconds per item of the source) since the calibration, in which the stages are measured.
    pub fn production_time(&self) -> Option<f64> {
        let items = self.items - self.calibration_items.min(self.items);
        let time = self.elapsed.saturating_sub(self.calibration);
        (items > 0).then(|| time.as_secs_f64() / items as f64)
    }
}

impl Summary {
    fn write_mappings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes = match self.remaps.split_first() {
            Some((first, changes)) if !changes.is_empty() => {
                write!(f, "\nbegan with {}", first.to)?;
                changes
            }
            _ => return write!(f, "\nmapping {}", self.mapping_text),
        };
        // Maximum number of changes of the mapping that the summary lists. Earlier changes are only counted.
        const LISTED: usize = 8;
        if changes.len() > LISTED {
            write!(f, "\n… {} changes of mapping before the last {LISTED}", changes.len() - LISTED)?;
        }
        for remap in &changes[changes.len().saturating_sub(LISTED)..] {
            write!(
                f,
                "\nat {:.3} s, after {} items: {}\n  because {}",
                remap.at.as_secs_f64(),
                remap.items,
                remap.to,
                remap.reason
            )?;
            if let (Some(before), Some(after)) = (remap.before, remap.after) {
                write!(
                    f,
                    "\n  it took {} an item before and {} after: {:.2} times as fast",
                    seconds(before),
                    seconds(after),
                    before / after
                )?;
            }
            if let Some(cost) = remap.cost {
                let window = match remap.in_flight {
                    1 => "1 batch".to_string(),
                    n => format!("{n} batches"),
                };
                match remap.cost_windows {
                    // The measured cost of a change of the mapping may be slightly below zero because of measurement errors. It is then
                    // shown as no cost.
                    _ if cost <= 0.0 => {
                        write!(f, "\n  the change cost the stream nothing, with {window} in flight")?
                    }
                    Some(windows) => write!(
                        f,
                        "\n  the change cost the stream {}, {windows:.2} times what the {window} in flight took",
                        seconds(cost)
                    )?,
                    None => write!(f, "\n  the change cost the stream {}", seconds(cost))?,
                }
            }
        }
        Ok(())
    }
}

impl RunSummary for Summary {
    fn name(&self) -> &str {
        &self.name
    }

    fn work(&self) -> (u64, &'static str) {
        (self.items, "item")
    }

    fn elapsed(&self) -> Duration {
        self.elapsed
    }

    fn ranks(&self) -> Vec<RankWork> {
        let work = |rank: &RankReport| RankWork {
            done: rank.stages.iter().map(|stage| stage.items as f64).sum(),
            busy: rank.busy(),
            off_core: rank.stages.iter().map(|stage| stage.lost).sum(),
        };
        self.ranks.iter().map(work).collect()
    }

    fn last_change(&self) -> Option<&str> {
        self.remaps[1.min(self.remaps.len())..].last().map(|remap| remap.reason.as_str())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_headline(f, "pipeline", self, &self.outcome())?;
        self.write_mappings(f)?;
        if let (Some(predicted), Some(measured)) = (self.predicted, self.production_time()) {
            write!(
                f,
                "\nplanned after {} items and {:.3} s of calibration: predicted {} an item, measured {}",
                self.calibration_items,
                self.calibration.as_secs_f64(),
                seconds(predicted),
                seconds(measured)
            )?;
        }
        if self.items_before > 0 {
            write!(f, "\ncontinued after {} items of earlier jobs", self.items_before)?;
        }
        if let Some(SnapshotCosts { count, took, period }) = &self.snapshots
            && *count > 0
        {
            let part = 100.0 * took.as_secs_f64() / self.elapsed.as_secs_f64();
            let each = seconds(took.as_secs_f64() / *count as f64);
            let period = seconds(period.as_secs_f64());
            write!(f, "\n{count} snapshots, {each} each ({part:.2} % of the time), the next after {period}")?;
        }
        let mut rows = Vec::new();
        for (rank, report) in self.ranks.iter().enumerate() {
            let idle = cell(self.elapsed.saturating_sub(report.busy()));
            let traffic = [
                cell(report.waiting_input),
                cell(report.waiting_downstream),
                megabytes(report.sent_bytes),
                megabytes(report.received_bytes),
            ];
            let ran: Vec<_> = report.stages.iter().enumerate().filter(|(_, s)| s.items > 0).collect();
            if ran.is_empty() {
                let nothing = ["0", "0 s", &idle, "parked", "-", "-"].map(String::from);
                rows.push([vec![rank.to_string()], nothing.to_vec(), traffic.to_vec()].concat());
                continue;
            }
            for (place, (stage, s)) in ran.into_iter().enumerate() {
                let once = |text: String| if place == 0 { text } else { String::new() };
                let of_stage = [
                    once(rank.to_string()),
                    s.items.to_string(),
                    cell(s.busy()),
                    once(idle.clone()),
                    shown(&self.stages[stage]),
                    s.service().map_or("-".to_string(), cell),
                    s.longest_queue.to_string(),
                ];
                rows.push([of_stage.to_vec(), traffic.clone().map(once).to_vec()].concat());
            }
        }
        let heads = ["rank", "items", "busy", "idle", "stage", "an item", "queue", "no input", "no taker"];
        write_table(f, &[&heads[..], &["sent MB", "recvd MB"]].concat(), &rows)
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.3}", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::super::stats::StageStats;
    use super::*;

    #[test]
    fn table_shows_every_rank_including_parked_ranks() {
        let ran = StageStats {
            items: 10,
            dropped: 1,
            timed_items: 10,
            timed: Duration::from_millis(25),
            longest_queue: 2,
            ..StageStats::default()
        };
        let summary = Summary {
            name: "pictures".into(),
            stages: vec!["seg".into()],
            mapping: armature_planner::pipeline::Mapping::new(vec![]),
            mapping_text: "seg@0".into(),
            items: 10,
            delivered: 9,
            elapsed: Duration::from_millis(50),
            calibration: Duration::ZERO,
            calibration_items: 0,
            predicted: None,
            items_before: 0,
            snapshots: None,
            remaps: Vec::new(),
            ranks: vec![RankReport { stages: vec![ran], ..Default::default() }, RankReport::default()],
        };
        let text = summary.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "pipeline pictures: 10 items in 0.050 s, 200 items/s, efficiency 50.0 %; 1 dropped"
        );
        assert_eq!(lines[1], "mapping seg@0");
        assert!(lines[3].contains("seg") && lines[3].contains("2.500 ms"), "{text}");
        assert!(lines[4].contains("parked"), "{text}");
        assert!(lines[3..].iter().all(|l| l.len() == lines[2].len()), "columns line up:\n{text}");
    }
}
