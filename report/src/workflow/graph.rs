//! Task graph of a workflow, with tasks coloured and numbered by rank; for many tasks, the graph of the ranks.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use super::layers::{Layout, layout};
use super::ranks_graph::ranks_graph;
use super::tasks::attempt_text;
use crate::run::Run;
use crate::svg::{WIDTH, escaped, open, short_name};
use crate::tables::shown_of;
use crate::units::time;

/// Maximum number of tasks that are drawn individually; more tasks could not be distinguished.
const TASKS: usize = 500;
/// Maximum number of edges that are drawn in the task graph.
const EDGES: usize = 3000;
/// Number of distinguishable colours of ranks. The ranks after the first group of this size have squares instead of circles, the next group has
/// circles, and so on.
pub(super) const COLOURS: usize = 8;
/// Radius of the circle of a task.
const NODE: f64 = 9.0;
/// Distance between the rows of tasks.
const ROW: f64 = 23.0;
/// Minimum and maximum distance between the columns of tasks.
const COLUMN: (f64, f64) = (34.0, 150.0);
/// The names of tasks are drawn if the distance between columns is at least the first number, and
/// the number of tasks at most the second.
const NAMED_LIMITS: (f64, usize) = (80.0, 80);
const EDGE: f64 = 24.0;

/// Picture of the task graph with a caption.
pub(crate) struct Graph {
    pub(crate) svg: String,
    pub(crate) caption: String,
}

/// Task of the workflow, with its last attempt.
struct Node<'r> {
    name: &'r str,
    /// Last attempt, as an index into [`Run::tasks`]; `None` if the task was completed before the run.
    last_try: Option<usize>,
}

/// Returns the picture of a workflow's task graph, as far as the log contains the tasks; `None` if there are none.
pub(crate) fn graph(run: &Run, path: &[usize]) -> Option<Graph> {
    let (mut nodes, mut number): (Vec<Node<'_>>, HashMap<&str, usize>) = (Vec::new(), HashMap::new());
    for (n, task) in run.tasks.iter().enumerate() {
        let place = *number.entry(&task.task).or_insert_with(|| {
            nodes.push(Node { name: &task.task, last_try: None });
            nodes.len() - 1
        });
        nodes[place].last_try = Some(n);
    }
    if nodes.is_empty() {
        return None;
    }
    if nodes.len() > TASKS {
        return Some(ranks_graph(run, nodes.len()));
    }
    let (mut edges, mut seen) = (Vec::new(), HashSet::new());
    for task in &run.tasks {
        let to = number[task.task.as_str()];
        for read in &task.reads {
            let from = match number.get(read.as_str()) {
                Some(&from) => from,
                None if nodes.len() >= TASKS => continue,
                None => {
                    nodes.push(Node { name: read, last_try: None });
                    number.insert(read, nodes.len() - 1);
                    nodes.len() - 1
                }
            };
            if seen.insert((from, to)) {
                edges.push((from, to));
            }
        }
    }
    let all = edges.len();
    edges.truncate(EDGES);
    let on_path: Vec<usize> = path.iter().map(|&n| number[run.tasks[n].task.as_str()]).collect();
    let svg = graph_svg(run, &nodes, &edges, &on_path);
    let mut caption = "Each task stands to the right of those whose values it reads. Its number and its colour are its rank. The critical path is thick, and \
                    dashed where a task only had to wait for its rank."
        .to_string();
    if nodes.iter().any(|node| node.last_try.is_none()) {
        caption += " Tasks without a number were done before this run.";
    }
    let shown = shown_of(all, EDGES, "edges");
    if !shown.is_empty() {
        caption = format!("{caption} {shown}");
    }
    Some(Graph { svg, caption })
}

fn graph_svg(run: &Run, nodes: &[Node<'_>], edges: &[(usize, usize)], on_path: &[usize]) -> String {
    let Layout { places, ways, columns, rows } = layout(nodes.len(), edges);
    let gaps = columns.saturating_sub(1).max(1) as f64;
    // Names are drawn to the right of the tasks, so the last column needs space at its right side.
    let wide = ((WIDTH - 2.0 * EDGE) / (gaps + 0.7)).clamp(COLUMN.0, COLUMN.1);
    let is_named = wide >= NAMED_LIMITS.0 && nodes.len() <= NAMED_LIMITS.1;
    let width = (2.0 * EDGE + wide * gaps).max(WIDTH);
    let height = 2.0 * EDGE + ROW * rows.saturating_sub(1) as f64;
    let at = |place: (f64, f64)| (EDGE + wide * place.0, height / 2.0 + ROW * place.1);

    let mut svg = open(width, height, "Tasks by rank, each to the right of those that it needs");
    if width > WIDTH {
        svg = svg.replacen("<svg ", &format!(r#"<svg style="min-width:{width:.0}px" "#), 1);
    }
    let steps: HashSet<(usize, usize)> = on_path.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let mut ordered: Vec<usize> = (0..edges.len()).collect();
    // The edges of the critical path are drawn last, so that they are on top.
    ordered.sort_by_key(|&edge| steps.contains(&edges[edge]));
    for edge in ordered {
        let (from, to) = edges[edge];
        let class = if steps.contains(&edges[edge]) { "edge on-path" } else { "edge" };
        let ends = [places[from]].into_iter().chain(ways[edge].iter().copied()).chain([places[to]]);
        let _ = write!(svg, r#"<path class="{class}" d="{}"/>"#, curve(ends.map(at)));
    }
    let known: HashSet<(usize, usize)> = edges.iter().copied().collect();
    let in_order = on_path.windows(2).map(|pair| (pair[0], pair[1]));
    for (from, to) in in_order.filter(|step| !known.contains(step)) {
        let ends = [places[from], places[to]].into_iter();
        let _ = write!(svg, r#"<path class="edge on-path same-rank" d="{}"/>"#, curve(ends.map(at)));
    }
    let on_path: HashSet<usize> = on_path.iter().copied().collect();
    for (n, node) in nodes.iter().enumerate() {
        let (x, y) = at(places[n]);
        let task = node.last_try.map(|n| &run.tasks[n]);
        let mut class = "node".to_string();
        let (mut label, mut is_square) = (String::new(), false);
        let mut text = format!("{}, done before this run", node.name);
        if let Some(task) = task {
            let _ = write!(class, " r{}", task.rank % COLOURS);
            (label, is_square) = (task.rank.to_string(), task.rank / COLOURS % 2 == 1);
            let about = attempt_text(task);
            text = format!(
                "{} from {} to {}{}{about}; rank {}{}",
                task.task,
                time(task.begin),
                time(task.end.unwrap_or(run.seconds)),
                if about.is_empty() { "" } else { "; " },
                task.rank,
                if on_path.contains(&n) { "; on the critical path" } else { "" }
            );
        }
        if on_path.contains(&n) {
            class += " on-path";
        }
        if task.is_some_and(|task| task.failure.is_some()) {
            class += " failed";
        }
        let shape = match is_square {
            false => format!(r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{NODE}"/>"#),
            true => format!(
                r#"<rect class="{class}" x="{:.1}" y="{:.1}" width="{d}" height="{d}"/>"#,
                x - NODE,
                y - NODE,
                d = 2.0 * NODE
            ),
        };
        let _ = write!(
            svg,
            r#"<g><title>{}</title>{shape}<text class="in" x="{x:.1}" y="{:.1}">{label}</text></g>"#,
            escaped(&text),
            y + 3.5
        );
        if is_named {
            let room = ((wide - 2.0 * NODE - 8.0) / 6.0) as usize;
            let _ = write!(
                svg,
                r#"<text class="name" x="{:.1}" y="{:.1}">{}</text>"#,
                x + NODE + 4.0,
                y + 3.5,
                escaped(&short_name(node.name, room))
            );
        }
    }
    svg + "</svg>"
}

/// Returns a curve through the points that is horizontal at each point.
fn curve(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    let mut last: Option<(f64, f64)> = None;
    for (x, y) in points {
        match last {
            None => _ = write!(path, "M{x:.1},{y:.1}"),
            Some((_, py)) if (py - y).abs() < 0.1 => _ = write!(path, "H{x:.1}"),
            Some((px, py)) => {
                let middle = (px + x) / 2.0;
                let _ = write!(path, "C{middle:.1},{py:.1} {middle:.1},{y:.1} {x:.1},{y:.1}");
            }
        }
        last = Some((x, y));
    }
    path
}
