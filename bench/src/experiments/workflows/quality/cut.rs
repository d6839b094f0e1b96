//! Experiment on the cuts (total sizes of the files between blocks of tasks) of the framework's graph partitioner, compared with those of the
//! partitioner dagP.

use armature_papers::workflow::acyclic_partition;
use armature_papers::workflow::generate::Family;

use super::super::instances::generated;
use super::geometric;
use crate::table::digits;
use crate::{Report, RunResult, Table, Target, TargetedValue, stats};

const BLOCKS: usize = 36;
const SIZES: [usize; 3] = [1000, 4000, 8000];
/// Number of random draws of the weights of tasks and files. The published cuts of dagP are for one draw.
const SEEDS: u64 = 3;
/// Mean size of a file in the generated workflows (sizes are drawn from 1 to 10).
const MEAN_SIZE: f64 = 5.5;

/// Cuts of dagP for about 1000, 4000 and 8000 tasks, and number of edges per task. Both are for workflows of the family from the generator WfCommons.
/// The cuts have 36 blocks, the heaviest with at most 1.1 times the mean weight, and one random draw.
const DAGP: [(Family, [Option<f64>; 3], f64); 7] = [
    (Family::Genome, [Some(1202.0), Some(4745.0), Some(14523.0)], 1.30),
    (Family::Blast, [Some(15204.0), Some(61818.0), Some(124_332.0)], 2.99),
    (Family::Bwa, [None, Some(82794.0), Some(166_853.0)], 3.98),
    (Family::Epigenomics, [Some(1492.0), Some(4717.0), Some(13354.0)], 1.24),
    (Family::Montage, [Some(9546.0), Some(32801.0), Some(71951.0)], 2.99),
    (Family::Seismology, [None, Some(20348.0), Some(41448.0)], 1.00),
    (Family::Soykb, [Some(10188.0), Some(77944.0), Some(194_802.0)], 3.01),
];

pub(super) fn run(report: &mut Report, smoke: bool) -> RunResult {
    let (sizes, seeds) = if smoke { (&SIZES[..1], 1) } else { (&SIZES[..], SEEDS) };
    let mut table =
        Table::new(&["family", "tasks", "cut [%]", "heaviest by the mean", "dagP's cut, about [%]"]);
    let mut ratios = Vec::new();
    for (family, dagp, edges_per_task) in DAGP {
        for (number, &tasks) in sizes.iter().enumerate() {
            let (mut cuts, mut heaviest) = (Vec::new(), 0.0_f64);
            let mut count = 0;
            for seed in 1..=seeds {
                let workflow = generated(family, tasks, seed, Default::default())?.workflow;
                count = workflow.len();
                let blocks = acyclic_partition(&workflow, BLOCKS, seed);
                let mut block_of = vec![0; workflow.len()];
                for (block, tasks) in blocks.iter().enumerate() {
                    for &task in tasks {
                        block_of[task] = block;
                    }
                    let work: f64 = tasks.iter().map(|&task| workflow.work(task)).sum();
                    let all: f64 = (0..workflow.len()).map(|task| workflow.work(task)).sum();
                    heaviest = heaviest.max(work * BLOCKS as f64 / all);
                }
                let size = |edges: &mut dyn Iterator<Item = u64>| edges.map(|size| size as f64).sum::<f64>();
                let edges = workflow.edges();
                let between = edges.iter().filter(|edge| block_of[edge.from] != block_of[edge.to]);
                let cut = size(&mut between.map(|edge| edge.size));
                cuts.push(100.0 * cut / size(&mut edges.iter().map(|edge| edge.size)));
            }
            let cut = stats::mean(&cuts);
            let dagp = dagp[number].map(|cut| 100.0 * cut / (edges_per_task * MEAN_SIZE * tasks as f64));
            if number == 0 {
                ratios.extend(dagp.map(|dagp| cut / dagp));
            }
            table.row([
                format!("{family:?}").into(),
                count.into(),
                digits(cut, 1),
                digits(heaviest, 2),
                dagp.map(|cut| digits(cut, 1)).into(),
            ]);
        }
    }
    report.note(
        "dagP's cuts are of WfCommons' own workflows, which are shaped a little differently, with another draw of weights. Their totals          are estimated by the edges for each task at 1000 tasks; where the estimate is above 100 %, there are more edges",
    );
    report.table("cut", &table)?;
    let what = format!("cut at {} tasks, mean", SIZES[0]);
    report.mark(TargetedValue::new(&what, geometric(&ratios), "% of dagP's", Target::AtMost(100.0)));
    Ok(())
}
