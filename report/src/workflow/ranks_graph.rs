//! Rank graph of a workflow with too many tasks to draw: its ranks, and the data sent between them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::f64::consts::TAU;
use std::fmt::Write;

use super::graph::{COLOURS, Graph};
use crate::run::Run;
use crate::svg::{WIDTH, escaped, open};
use crate::tables::shown_of;
use crate::units::{bytes_text, short_count};
use armature::observe::number_format::count;

/// Maximum number of ranks in the picture; more ranks could not be distinguished.
const RANKS: usize = 32;
/// Maximum number of arrows between ranks in the picture; more arrows could not be distinguished.
const ARROWS: usize = 200;
/// Half of the width and half of the height of the space for the label of an arrow.
const LABEL: (f64, f64) = (32.0, 9.0);
/// Height of the picture of the graph of ranks.
const HEIGHT: f64 = 560.0;
/// Radius of the large circle on which the circles of the ranks are placed.
const RADIUS: f64 = 215.0;
/// Largest radius of the circle of a rank.
const LARGEST: f64 = 28.0;
/// Smallest radius of the circle of a rank.
const SMALLEST: f64 = 11.0;

/// Number of bytes that the tasks of one rank read from another rank.
#[derive(Clone, Copy, Default)]
struct Arrow {
    edges: u64,
    values: u64,
    bytes: u64,
}

/// Draws the graph of a workflow with `tasks` tasks: ranks are vertices, and arrows are the data that they sent to each other.
pub(super) fn ranks_graph(run: &Run, tasks: usize) -> Graph {
    let mut by_rank: BTreeMap<usize, u64> = BTreeMap::new();
    // A task may have several attempts on different ranks. Its value is on the rank of the last attempt.
    let mut rank_of: HashMap<&str, usize> = HashMap::new();
    for task in &run.tasks {
        if rank_of.insert(&task.task, task.rank).is_none_or(|before| before != task.rank) {
            *by_rank.entry(task.rank).or_default() += 1;
        }
    }
    let arrows = arrows(run, &rank_of);
    let mut ranks: Vec<(usize, u64)> = by_rank.into_iter().collect();
    let all = ranks.len();
    ranks.sort_by_key(|rank| std::cmp::Reverse(rank.1));
    ranks.truncate(RANKS);
    ranks.sort_unstable();
    let drawn: HashSet<usize> = ranks.iter().map(|rank| rank.0).collect();
    let is_drawn =
        |pair: &(usize, usize)| pair.0 != pair.1 && drawn.contains(&pair.0) && drawn.contains(&pair.1);
    let mut between: Vec<((usize, usize), Arrow)> =
        arrows.iter().filter(|(pair, _)| is_drawn(pair)).map(|(pair, arrow)| (*pair, *arrow)).collect();
    between.sort_by_key(|(_, arrow)| std::cmp::Reverse((arrow.bytes, arrow.edges)));
    let pairs = between.len();
    between.truncate(ARROWS);

    let mut caption = format!(
        "With {tasks} tasks the graph shows the ranks: the size of a circle is the number of tasks that the rank ran, \
         the width of an arrow the bytes that one rank sent to another for them. Numbers next to arrows are bytes; if \
         there is no space, the tooltip shows them."
    );
    for shown in [
        shown_of(all, RANKS, "ranks, those that ran most tasks"),
        shown_of(pairs, ARROWS, "pairs of ranks, those with the most bytes"),
    ] {
        if !shown.is_empty() {
            caption = format!("{caption} {shown}");
        }
    }
    Graph { svg: circle_svg(&ranks, &between, &arrows), caption }
}

/// Returns the bytes that tasks of a rank read from another rank or from their own, by sender and receiver.
fn arrows(run: &Run, rank_of: &HashMap<&str, usize>) -> BTreeMap<(usize, usize), Arrow> {
    let mut arrows: BTreeMap<(usize, usize), Arrow> = BTreeMap::new();
    for task in &run.tasks {
        for from in task.reads.iter().filter_map(|name| rank_of.get(name.as_str())) {
            arrows.entry((*from, task.rank)).or_default().edges += 1;
        }
    }
    for (pair, (values, bytes)) in &run.values_sent {
        let arrow = arrows.entry(*pair).or_default();
        (arrow.values, arrow.bytes) = (*values, *bytes);
    }
    arrows
}

fn circle_svg(
    ranks: &[(usize, u64)],
    between: &[((usize, usize), Arrow)],
    arrows: &BTreeMap<(usize, usize), Arrow>,
) -> String {
    let most = ranks.iter().map(|rank| rank.1).max().unwrap_or(1).max(1) as f64;
    // The radius of a rank's circle is limited, because neighbouring circles must not touch.
    let room = (TAU * RADIUS / ranks.len().max(1) as f64 * 0.42).min(LARGEST);
    let places: HashMap<usize, (f64, f64, f64)> = ranks
        .iter()
        .enumerate()
        .map(|(n, (rank, tasks))| {
            let turn = TAU * n as f64 / ranks.len() as f64 - TAU / 4.0;
            let size = (room * (*tasks as f64 / most).sqrt()).max(SMALLEST.min(room));
            let distance = if ranks.len() > 1 { RADIUS } else { 0.0 };
            (*rank, (WIDTH / 2.0 + distance * turn.cos(), HEIGHT / 2.0 + distance * turn.sin(), size))
        })
        .collect();
    let mut svg = open(WIDTH, HEIGHT, "Ranks and the data sent between them");
    let widest = between.first().map_or(0, |(_, arrow)| arrow.bytes) as f64;
    let mut labels = String::new();
    // Areas of the picture in which no label may be placed: centre, half of the width and half of the height.
    let mut occupied: Vec<(f64, f64, f64, f64)> =
        places.values().map(|&(x, y, size)| (x, y, size, size)).collect();
    for ((from, to), arrow) in between {
        let (Some(&a), Some(&b)) = (places.get(from), places.get(to)) else { continue };
        let wide = if widest > 0.0 { 1.0 + 5.0 * (arrow.bytes as f64 / widest).sqrt() } else { 1.0 };
        let text = format!(
            "from rank {from} to rank {to}: {}, {} with {}",
            count(arrow.edges, "edge"),
            count(arrow.values, "value"),
            bytes_text(arrow.bytes)
        );
        let Some(Shape { path, head, middle }) = shape(a, b, wide) else { continue };
        let _ = write!(
            svg,
            r#"<g><title>{}</title><path class="edge" style="stroke-width:{wide:.1}" d="{path}"/><path class="arrow" d="{head}"/></g>"#,
            escaped(&text)
        );
        // Wide arrows get their labels first. An arrow without space for a label shows its number of bytes only in the tooltip.
        let (x, y) = middle;
        let is_free = |occupied: &(f64, f64, f64, f64)| {
            (occupied.0 - x).abs() >= occupied.2 + LABEL.0 || (occupied.1 - y).abs() >= occupied.3 + LABEL.1
        };
        if occupied.iter().all(is_free) {
            occupied.push((x, y, LABEL.0, LABEL.1));
            let label = if arrow.bytes > 0 { bytes_text(arrow.bytes) } else { count(arrow.edges, "edge") };
            let _ = write!(
                labels,
                r#"<text class="name" text-anchor="middle" x="{:.1}" y="{:.1}">{label}</text>"#,
                x,
                y + 4.0
            );
        }
    }
    for (rank, tasks) in ranks {
        let Some(&(x, y, size)) = places.get(rank) else { continue };
        let own = arrows.get(&(*rank, *rank)).map_or(0, |arrow| arrow.edges);
        let text = format!("rank {rank}: {}, {} within", count(*tasks, "task"), count(own, "edge"));
        let class = rank % COLOURS;
        let shape = match rank / COLOURS % 2 {
            0 => format!(r#"<circle class="node r{class}" cx="{x:.1}" cy="{y:.1}" r="{size:.1}"/>"#),
            _ => format!(
                r#"<rect class="node r{class}" x="{:.1}" y="{:.1}" width="{d:.1}" height="{d:.1}"/>"#,
                x - size,
                y - size,
                d = 2.0 * size
            ),
        };
        // The label of a rank is at the side of its circle that faces away from the centre of the picture.
        let side = if x < WIDTH / 2.0 - 1.0 { ("end", -1.0) } else { ("start", 1.0) };
        let _ = write!(
            svg,
            r#"<g><title>{}</title>{shape}<text class="in" x="{x:.1}" y="{:.1}">{rank}</text></g><text class="name" text-anchor="{}" x="{:.1}" y="{:.1}">rank {rank}, {} tasks</text>"#,
            escaped(&text),
            y + 3.5,
            side.0,
            x + side.1 * (size + 6.0),
            y + 4.0,
            short_count(*tasks)
        );
    }
    svg + &labels + "</svg>"
}

/// Picture of an arrow between two ranks: its line, its head, and the position of its label.
struct Shape {
    path: String,
    head: String,
    middle: (f64, f64),
}

/// Returns the arrow from the circle of one rank to that of another. It is bent to one side, so that the arrow in the opposite direction does not
/// coincide with it.
fn shape(a: (f64, f64, f64), b: (f64, f64, f64), wide: f64) -> Option<Shape> {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let length = dx.hypot(dy);
    if length <= a.2 + b.2 {
        return None;
    }
    let bend = 0.16 * length;
    let (nx, ny) = (-dy / length, dx / length);
    let control = ((a.0 + b.0) / 2.0 + bend * nx, (a.1 + b.1) / 2.0 + bend * ny);
    let towards = |from: (f64, f64), to: (f64, f64), by: f64| {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy).max(1e-9);
        (from.0 + by * dx / length, from.1 + by * dy / length)
    };
    let head = 6.0 + 1.5 * wide;
    let (begin, tip) = (towards((a.0, a.1), control, a.2), towards((b.0, b.1), control, b.2 + 1.0));
    let end = towards(tip, control, head);
    let (hx, hy) = ((tip.0 - end.0) / head, (tip.1 - end.1) / head);
    let half = 0.45 * head;
    Some(Shape {
        path: format!(
            "M{:.1},{:.1}Q{:.1},{:.1} {:.1},{:.1}",
            begin.0, begin.1, control.0, control.1, end.0, end.1
        ),
        head: format!(
            "M{:.1},{:.1}L{:.1},{:.1}L{:.1},{:.1}Z",
            tip.0,
            tip.1,
            end.0 - half * hy,
            end.1 + half * hx,
            end.0 + half * hy,
            end.1 - half * hx
        ),
        middle: (
            0.25 * begin.0 + 0.5 * control.0 + 0.25 * end.0,
            0.25 * begin.1 + 0.5 * control.1 + 0.25 * end.1,
        ),
    })
}
