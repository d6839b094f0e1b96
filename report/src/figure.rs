//! A single picture of a run as an SVG file that contains its own styles.

use crate::charts;
use crate::run::Run;
use crate::svg::Strip;
use crate::workflow;

/// Pictures of a run that can be drawn separately from the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Items per second that each rank completes, over time: as measured, and smoothed.
    Rates,
    /// Distribution of work over time: the ranks of each stage, the number of units (rows or
    /// indices) of each rank of a loop, or the number of workers.
    Mapping,
    /// Activities of the ranks over time; for a workflow, its tasks on each rank as planned and as they ran.
    Gantt,
    /// Peak memory by rank; for a workflow, the memory held by the ranks over time, with the plan and the limit.
    Memory,
    /// Task graph of a workflow, coloured by rank; if the tasks are too many, the graph of its ranks.
    Graph,
}

/// Maximum number of planned tasks, and also of attempts of tasks, in the picture of a workflow. A task takes about 300
/// bytes.
const DRAWN: usize = 1500;
/// Style sheet of a picture that is drawn separately from the page, on a white background.
const STYLE: &str = include_str!("../assets/figure.css");

/// Returns one picture of the run as SVG, or `None` if the log lacks the data for it.
pub fn figure(run: &Run, figure: Figure) -> Option<String> {
    let svg = match figure {
        Figure::Rates => charts::rates(run)?.svg(),
        Figure::Mapping => charts::arrangement(run)?.svg(),
        // For a workflow, the figure is the chart of its tasks, which shows more than the chart of activities.
        Figure::Gantt => {
            let path = workflow::critical_path(&run.tasks);
            let tasks = workflow::tasks(run, &path, DRAWN).map(|tasks| Strip {
                rows: std::iter::once(workflow::critical_row(run, &path)).chain(tasks.strip.rows).collect(),
                ..tasks.strip
            });
            tasks.or_else(|| charts::gantt(run))?.svg()
        }
        Figure::Memory => match workflow::memory(run) {
            Some(memory) => memory,
            None => charts::memory(run)?.svg(),
        },
        Figure::Graph => workflow::graph(run, &workflow::critical_path(&run.tasks))?.svg,
    };
    Some(svg.replacen('>', &format!("><style>{STYLE}</style>"), 1) + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Arrangement, Skeleton};
    use crate::situation::Situation;

    #[test]
    fn figures_exist_if_the_log_has_their_data() {
        let run = Situation::new(10.0).of(Skeleton::Loop).rank(8.0, 0.0).rank(4.0, 1.0);
        let run = run.with(|run| run.arrangements.push((0.0, Arrangement::Units(vec![3, 4])))).run();
        for (which, text) in
            [(Figure::Rates, "rank 1"), (Figure::Mapping, "Units"), (Figure::Gantt, "computes")]
        {
            let svg = figure(&run, which).unwrap();
            assert!(svg.starts_with("<svg ") && svg.contains("<style>") && svg.contains(text), "{svg}");
        }
        assert_eq!(figure(&run, Figure::Memory), None);
        assert_eq!(figure(&Run::default(), Figure::Gantt), None);
    }
}
