//! One picture of a run as a file of its own, with its colours in it.

use crate::charts;
use crate::run::Run;
use crate::workflow;

/// The pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Rates of the ranks over time, as measured and filtered.
    Rates,
    /// What ran where over time.
    Mapping,
    /// What ranks did over time; of a workflow its tasks, as planned and as they ran.
    Gantt,
    /// Peak memory by rank; of a workflow what ranks held over time, and were to hold.
    Memory,
    /// Of a workflow: its tasks by rank, or with many tasks its ranks.
    Graph,
}

/// The rules of a picture that stands alone, on white.
const STYLE: &str = include_str!("../assets/figure.css");

/// One picture of a run as SVG; `None` if the log does not have what it shows.
pub fn figure(run: &Run, figure: Figure) -> Option<String> {
    let svg = match figure {
        Figure::Rates => charts::rates(run)?.svg(),
        Figure::Mapping => charts::arrangement(run)?.svg(),
        // Tasks say more than what ranks did.
        Figure::Gantt => match workflow::gantt(run, &workflow::critical_path(&run.tasks), 1) {
            Some(gantt) => gantt.svg,
            None => charts::gantt(run)?.svg(),
        },
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
    fn figures_are_there_where_the_log_has_what_they_show() {
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
