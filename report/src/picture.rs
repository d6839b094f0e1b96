//! Picture of a run: lanes above each other on one time axis, as data for the script of the page.
//!
//! The script draws the lanes, with a common zoom and a cursor that shows the values of all lanes at one time. This module chooses the lanes and
//! limits their size.

use serde::Serialize;

use crate::bins::{Bins, bin_count};
use crate::charts;
use crate::run::{Run, Skeleton};
use crate::svg::{BoxStyle, Chart, Strip, thinned};
use crate::tables::shown_of;
use crate::workflow;

mod ranks;

pub(crate) use ranks::{Group, groups};

/// Number of steps of the time axis. Times in the data are whole numbers of steps, which take fewer characters than fractions.
const STEPS: f64 = 1e7;
/// Maximum number of decisions and changes that are marked on the time axes of a page.
const MARKS: usize = 2000;
/// Maximum number of planned tasks, and also of attempts of tasks, that are drawn on a page. A task takes about 40 bytes.
const TASKS: usize = 30_000;

/// Picture of a run, or of two runs that are compared.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Picture {
    /// Length of the time axis in seconds.
    pub seconds: f64,
    /// Length in seconds of a step, the unit of times in boxes and curves.
    pub step: f64,
    pub marks: Vec<DecisionMark>,
    pub lanes: Vec<Lane>,
    /// Sentences on what is omitted.
    #[serde(skip)]
    pub about: Vec<String>,
}

/// Decision or change of the distribution of work.
#[derive(Debug, Serialize)]
pub(crate) struct DecisionMark {
    /// Time of the mark in seconds since the run began.
    pub at: f64,
    /// Decision as a sentence, or short description of the change.
    pub text: String,
    /// True if the distribution of work was changed.
    pub changed: bool,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Lane {
    /// Time lines of ranks and of groups of ranks.
    Activity {
        title: String,
        width: f64,
        bins: usize,
        names: Vec<String>,
        rows: Vec<ActivityRow>,
    },
    Boxes {
        title: String,
        texts: Vec<String>,
        legend: Vec<(String, u8)>,
        rows: Vec<BoxRow>,
    },
    /// Curves over time, to the end of the run at the step `end`.
    Curves {
        title: String,
        unit: String,
        top: f64,
        end: i64,
        curves: Vec<Curve>,
    },
}

/// Time line of a rank, or the mean of a group of ranks.
#[derive(Debug, Serialize)]
pub(crate) struct ActivityRow {
    pub name: String,
    pub about: String,
    /// Percentage of the time in which the ranks computed on a core.
    pub useful: u32,
    /// For a rank in a group of several ranks: number of the group's row. The row of the rank is hidden until the user opens the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<usize>,
    /// Number of ranks of the group; 1 for a rank.
    pub ranks: usize,
    /// Bins in base64, as [`Bins::encoded`] returns them.
    pub cells: String,
    /// Longest calls: for each one its bin, the index of its name and its seconds.
    pub calls: Vec<f64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct BoxRow {
    pub name: String,
    pub plan: bool,
    /// For each box: steps from the start of the previous box (or from 0) to its start, steps of its length, index of its label, index of its
    /// description or -1, and its style.
    pub boxes: Vec<i64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Curve {
    pub name: String,
    pub stepped: bool,
    /// For each point: steps since the previous point, and the value.
    pub points: Vec<f64>,
}

impl Picture {
    /// Returns the picture of some runs, one above another on one time axis. `shared` is the number of runs on the page, among which the maximum
    /// amount of data is divided. The titles of a run's lanes begin with its prefix.
    pub(crate) fn of(runs: &[(&str, &Run)], shared: usize) -> Self {
        let shared = shared.max(1);
        let with_tasks = runs.iter().map(|&(prefix, run)| {
            let path = workflow::critical_path(&run.tasks);
            let tasks = workflow::tasks(run, &path, TASKS / shared);
            (prefix, run, path, tasks)
        });
        let with_tasks: Vec<_> = with_tasks.collect();
        // The unit of times must be known before a lane is encoded, because all lanes have it in common.
        let ends = with_tasks
            .iter()
            .map(|(_, run, _, tasks)| tasks.as_ref().map_or(run.seconds, |tasks| tasks.strip.to));
        let seconds = ends.fold(0.0, f64::max);
        let step = if seconds > 0.0 { seconds / STEPS } else { 1.0 };
        let mut picture = Picture { seconds, step, ..Picture::default() };
        for (prefix, run, path, tasks) in with_tasks {
            picture.add(run, (&path, tasks), prefix, shared);
        }
        picture
    }

    fn add(
        &mut self,
        run: &Run,
        (path, tasks): (&[usize], Option<workflow::Tasks>),
        prefix: &str,
        shared: usize,
    ) {
        self.add_marks(run, prefix, MARKS / shared);
        let mut lanes = Vec::new();
        let mut charts = Vec::new();
        if run.has_activity() {
            let groups = groups(run);
            let (lane, omitted) = ranks::lane(run, &groups, shared);
            lanes.push(lane);
            self.about.extend(omitted);
            charts.push(charts::busy(run, &group_bins(run, &groups)));
            charts.extend(charts::progress(run));
        }
        lanes.extend(charts::arrangement(run).map(|strip| self.boxes(strip, Vec::new())));
        if let Some(tasks) = tasks {
            let row = workflow::critical_row(run, path);
            let strip = Strip { title: "Critical path".into(), to: run.seconds, rows: vec![row] };
            lanes.push(self.boxes(strip, Vec::new()));
            lanes.push(self.boxes(tasks.strip, tasks.kinds));
            self.about.push(tasks.about);
        }
        // A workflow's tasks differ too much for a number of tasks per second to be a speed.
        if run.ranks.len() > charts::CURVES {
            self.about.push(format!("Speeds of ranks are drawn for up to {} ranks.", charts::CURVES));
        } else if run.skeleton != Skeleton::Workflow {
            charts.extend(charts::rates(run));
        }
        if run.skeleton == Skeleton::Workflow {
            let (memory, omitted) = workflow::memories(run);
            let has_values =
                |chart: &Chart| chart.lines.iter().flat_map(|line| &line.points).any(|point| point.1 > 0.0);
            charts.extend(memory.into_iter().filter(has_values));
            self.about.push(omitted);
        }
        lanes.extend(charts.into_iter().map(|chart| self.curves(chart)));
        self.lanes.extend(lanes.into_iter().map(|lane| lane.prefixed(prefix)));
        self.about.retain(|text| !text.is_empty());
    }

    /// Adds the decisions and changes of a run. If they are too many, changes are preferred.
    fn add_marks(&mut self, run: &Run, prefix: &str, most: usize) {
        let changes = run.changes.iter().map(|(at, text)| (*at, text.clone(), true));
        let decisions =
            run.decisions.iter().map(|decision| (decision.at, decision.text.clone(), decision.acted));
        let mut marks: Vec<(f64, String, bool)> = changes.chain(decisions).collect();
        let of = marks.len();
        marks.sort_by_key(|(_, _, changed)| !changed);
        marks.truncate(most);
        marks.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.about.push(shown_of(of, most, "decisions and changes"));
        self.marks.extend(marks.into_iter().map(|(at, text, changed)| DecisionMark {
            at,
            text: format!("{prefix}{text}"),
            changed,
        }));
        self.marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    }

    fn steps(&self, seconds: f64) -> i64 {
        (seconds.clamp(0.0, self.seconds) / self.step).round() as i64
    }

    fn boxes(&self, strip: Strip, legend: Vec<(String, u8)>) -> Lane {
        let (mut texts, mut places) = (Vec::new(), std::collections::HashMap::new());
        let mut text_number = |text: String| {
            *places.entry(text).or_insert_with_key(|text| {
                texts.push(text.clone());
                texts.len() as i64 - 1
            })
        };
        let mut rows = Vec::new();
        for row in strip.rows {
            let (mut boxes, mut before) = (Vec::with_capacity(5 * row.boxes.len()), 0);
            for (n, one) in row.boxes.into_iter().enumerate() {
                let (begin, end) = (self.steps(one.begin), self.steps(one.end));
                let about = if one.about.is_empty() { -1 } else { text_number(one.about) };
                // Number of the box's appearance for the script. Colours have numbers from 0 on. For a task on the critical path, 10 is added to the
                // number of its colour.
                let style = match one.style {
                    BoxStyle::Plain => -1 - (n % 2) as i64,
                    BoxStyle::Colour(colour) => i64::from(colour),
                    BoxStyle::Critical(colour) => 10 + i64::from(colour),
                    BoxStyle::Failed => -3,
                    BoxStyle::Wait => -4,
                };
                boxes.extend([begin - before, end - begin, text_number(one.text), about, style]);
                before = begin;
            }
            rows.push(BoxRow { name: row.name, plan: row.is_plan, boxes });
        }
        Lane::Boxes { title: strip.title, texts, legend, rows }
    }

    fn curves(&self, chart: Chart) -> Lane {
        let top = chart.top();
        let curve = |line: &crate::svg::Line| {
            let (mut points, mut before) = (Vec::new(), 0);
            for (at, value) in
                thinned(&line.points).into_iter().filter(|(at, value)| at.is_finite() && value.is_finite())
            {
                let at = self.steps(at);
                points.extend([(at - before) as f64, rounded(value)]);
                before = at;
            }
            Curve { name: line.name.clone(), stepped: line.is_stepped, points }
        };
        let curves = chart.lines.iter().map(curve).collect();
        let end = self.steps(chart.to);
        Lane::Curves { title: chart.title, unit: chart.unit, top: rounded(top), end, curves }
    }
}

impl Lane {
    fn prefixed(mut self, prefix: &str) -> Self {
        let (Lane::Activity { title, .. } | Lane::Boxes { title, .. } | Lane::Curves { title, .. }) =
            &mut self;
        title.insert_str(0, prefix);
        self
    }
}

/// Returns the time line of each group of ranks, with the number of its ranks.
fn group_bins(run: &Run, groups: &[Group]) -> Vec<(usize, Bins)> {
    let count = bin_count(run, groups.len(), 1).min(1000);
    groups.iter().map(|group| (group.ranks.len(), Bins::of(run, &group.ranks, count))).collect()
}

/// Rounds a number to five significant digits.
fn rounded(x: f64) -> f64 {
    format!("{x:.4e}").parse().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::TaskRun;
    use armature::observe::{PlanInForce, PlannedTask};

    /// The plan of the second run is longer than both runs, so that it determines the unit of the times in the lanes of both.
    #[test]
    fn lanes_of_two_runs_have_one_time_axis() {
        let task = TaskRun { task: "a".into(), end: Some(1.0), ..TaskRun::default() };
        let ranks = vec![crate::run::Rank::default()];
        let a =
            Run { skeleton: Skeleton::Workflow, seconds: 1.0, tasks: vec![task], ranks, ..Run::default() };
        let planned = PlannedTask { task: "a".into(), rank: 0, begin_s: 0.0, end_s: 4.0 };
        let plan = PlanInForce { tasks: 1, longest: vec![planned], held: Vec::new() };
        let b = Run { schedules: vec![(0.0, plan)], ..a.clone() };
        let picture = Picture::of(&[("a: ", &a), ("b: ", &b)], 2);
        assert_eq!(picture.seconds, 4.0);
        let lengths = picture.lanes.iter().filter_map(|lane| match lane {
            Lane::Boxes { title, rows, .. } if title.ends_with("Critical path") => {
                Some(rows[0].boxes[1] as f64 * picture.step)
            }
            _ => None,
        });
        assert_eq!(lengths.collect::<Vec<_>>(), [1.0, 1.0]);
    }
}
