//! Workflows with the shapes that Kulagina, Meyerhenke and Benoit (2024) generate with WfCommons.

use std::fmt;
use std::str::FromStr;

use armature_planner::Result;
use armature_planner::random::Random;
use armature_planner::workflow::{Workflow, WorkflowBuilder};
use serde::{Deserialize, Serialize};

use super::whole;

/// Workflow families of the paper of 2024 (Kulagina, Meyerhenke and Benoit). A generated workflow has the tasks and files of its family in a regular
/// arrangement; real workflows vary around this arrangement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// 1000Genome: for each chromosome many tasks that read data, one task that merges the results, and two analyses of each population.
    Genome,
    /// BLAST: one task that splits the input, many searches, and two tasks that read all results.
    Blast,
    /// BWA: two source tasks, many alignments that read from both, and two tasks that read all results.
    Bwa,
    /// Epigenomics: several lanes, in each of which a task splits the data, long chains of tasks process the parts, and a task merges the results.
    Epigenomics,
    /// Montage: for each colour, tasks for the images and their overlaps, one fit of all overlaps, and a correction of each image.
    Montage,
    /// Seismology: many source tasks, and one task that reads from all of them.
    Seismology,
    /// SoyKB: a chain of tasks for each sample, many variant callers after each chain, and genotyping across all samples.
    Soykb,
}

impl Family {
    /// All workflow families of the paper of Kulagina et al.
    pub const ALL: [Family; 7] = [
        Family::Genome,
        Family::Blast,
        Family::Bwa,
        Family::Epigenomics,
        Family::Montage,
        Family::Seismology,
        Family::Soykb,
    ];

    fn name(self) -> &'static str {
        match self {
            Family::Genome => "genome",
            Family::Blast => "blast",
            Family::Bwa => "bwa",
            Family::Epigenomics => "epigenomics",
            Family::Montage => "montage",
            Family::Seismology => "seismology",
            Family::Soykb => "soykb",
        }
    }

    /// Builds a workflow of about `tasks` tasks, and not more unless the family needs more. The weights are uniformly
    /// distributed random numbers as in the papers of Kulagina et al.: work from 1 to 1000, memory from 1 to 192,
    /// files from 1 to 10.
    ///
    /// ```
    /// use armature_papers::workflow::generate::Family;
    ///
    /// let workflow = Family::Blast.build(200, 1)?;
    /// assert_eq!(workflow.len(), 200);
    /// assert_eq!(workflow.edges().len(), 3 * 197);
    /// # Ok::<(), armature_planner::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`WorkflowBuilder::build`].
    pub fn build(self, tasks: usize, seed: u64) -> Result<Workflow> {
        let mut drawing =
            Drawing { builder: Workflow::builder(), random: Random::new(seed), tasks: Vec::new() };
        match self {
            Family::Genome => genome(&mut drawing, tasks),
            Family::Blast => blast(&mut drawing, tasks),
            Family::Bwa => bwa(&mut drawing, tasks),
            Family::Epigenomics => epigenomics(&mut drawing, tasks),
            Family::Montage => montage(&mut drawing, tasks),
            Family::Seismology => seismology(&mut drawing, tasks),
            Family::Soykb => soykb(&mut drawing, tasks),
        }
        drawing.builder.build()
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Family::ALL.into_iter().find(|family| family.name() == name);
        found.ok_or_else(|| {
            let known = Family::ALL.map(Family::name).join(", ");
            format!("there is no family {name:?} of workflows: expected one of {known}")
        })
    }
}

struct Drawing {
    builder: WorkflowBuilder,
    random: Random,
    tasks: Vec<&'static str>,
}

impl Drawing {
    fn task(&mut self, kind: &'static str, parents: &[usize]) -> usize {
        let (work, memory) = (whole(&mut self.random, 1..=1000) as f64, whole(&mut self.random, 1..=192));
        let task = self.builder.task(format!("{kind}-{}", self.tasks.len()), work, memory);
        self.tasks.push(kind);
        for &parent in parents {
            let size = whole(&mut self.random, 1..=10);
            self.builder.edge(parent, task, size);
        }
        task
    }

    fn tasks(&mut self, count: usize, kind: &'static str, parents: &[usize]) -> Vec<usize> {
        (0..count).map(|_| self.task(kind, parents)).collect()
    }

    fn chain(&mut self, kinds: &[&'static str], parents: &[usize]) -> usize {
        let first = self.task(kinds[0], parents);
        kinds[1..].iter().fold(first, |parent, kind| self.task(kind, &[parent]))
    }
}

fn genome(drawing: &mut Drawing, tasks: usize) {
    const READERS: usize = 12;
    const POPULATIONS: usize = 7;
    for _ in 0..(tasks / (READERS + 2 * POPULATIONS + 2)).max(1) {
        let readers = drawing.tasks(READERS, "individuals", &[]);
        let merged = drawing.task("individuals_merge", &readers);
        let sifted = drawing.task("sifting", &[]);
        for _ in 0..POPULATIONS {
            drawing.task("mutation_overlap", &[merged, sifted]);
            drawing.task("frequency", &[merged, sifted]);
        }
    }
}

fn blast(drawing: &mut Drawing, tasks: usize) {
    let split = drawing.task("split_fasta", &[]);
    let searches = drawing.tasks(tasks.saturating_sub(2 + 1).max(1), "blastall", &[split]);
    drawing.task("cat_blast", &searches);
    drawing.task("cat", &searches);
}

fn bwa(drawing: &mut Drawing, tasks: usize) {
    let sources = [drawing.task("fastq_reduce", &[]), drawing.task("bwa_index", &[])];
    let aligned = drawing.tasks(tasks.saturating_sub(2 + 2).max(1), "bwa", &sources);
    drawing.task("cat_bwa", &aligned);
    drawing.task("cat", &aligned);
}

fn epigenomics(drawing: &mut Drawing, tasks: usize) {
    const CHAIN: [&str; 4] = ["filterContams", "sol2sanger", "fast2bfq", "map"];
    // An Epigenomics workflow has three lanes (parallel bundles of chains) for 200 tasks, and seven for 1000.
    let lanes = ((tasks / CHAIN.len()).isqrt() / 2).max(1);
    let chains = (tasks.saturating_sub(2 * lanes + 1 + 2) / CHAIN.len()).max(lanes);
    let mut merged = Vec::new();
    for lane in 0..lanes {
        let split = drawing.task("fastqSplit", &[]);
        let count = (lane + 1) * chains / lanes - lane * chains / lanes;
        let mapped: Vec<usize> = (0..count).map(|_| drawing.chain(&CHAIN, &[split])).collect();
        merged.push(drawing.task("mapMerge", &mapped));
    }
    drawing.chain(&["mapMerge", "chr21", "pileup"], &merged);
}

fn montage(drawing: &mut Drawing, tasks: usize) {
    const COLOURS: usize = 5;
    // Each image of a Montage workflow overlaps the images that follow it, up to half the number of all images.
    let overlaps = |images: usize| images / 2;
    let pairs = |images: usize| overlaps(images) * images - overlaps(images) * (overlaps(images) + 1) / 2;
    let of_colour = |images: usize| 2 * images + pairs(images) + 2 * 2 + 1;
    let least = (2..).take_while(|&images| COLOURS * of_colour(images) < tasks).last().unwrap_or(2);
    let step = of_colour(least + 1) - of_colour(least);
    let larger = tasks.saturating_sub(1 + COLOURS * of_colour(least)) / step;
    let mut added = Vec::new();
    for colour in 0..COLOURS {
        let images = least + usize::from(colour < larger);
        let projected = drawing.tasks(images, "mProject", &[]);
        let mut fits = Vec::new();
        for first in 0..images {
            for second in (first + 1..images).take(overlaps(images)) {
                fits.push(drawing.task("mDiffFit", &[projected[first], projected[second]]));
            }
        }
        let model = drawing.chain(&["mConcatFit", "mBgModel"], &fits);
        let corrected: Vec<usize> =
            projected.iter().map(|&image| drawing.task("mBackground", &[image, model])).collect();
        let table = drawing.task("mImgtbl", &corrected);
        let sum = drawing.task("mAdd", &[&corrected[..], &[table]].concat());
        drawing.task("mViewer", &[sum]);
        added.push(sum);
    }
    drawing.task("mViewer", &added);
}

fn seismology(drawing: &mut Drawing, tasks: usize) {
    let sources = drawing.tasks(tasks.saturating_sub(1).max(1), "sG1IterDecon", &[]);
    drawing.task("wrapper_siftSTFByMisfit", &sources);
}

fn soykb(drawing: &mut Drawing, tasks: usize) {
    const CHAIN: [&str; 4] = ["alignment_to_reference", "sort_sam", "dedup", "add_replace"];
    const REGIONS: usize = 20;
    let samples = (tasks.saturating_sub(REGIONS + 2 * 2 + 2) / (CHAIN.len() + 2 + REGIONS)).max(1);
    let mut called = vec![Vec::new(); REGIONS];
    for _ in 0..samples {
        let replaced = drawing.chain(&CHAIN, &[]);
        let targets = drawing.task("realign_target_creator", &[replaced]);
        let realigned = drawing.task("indel_realign", &[replaced, targets]);
        for region in &mut called {
            region.push(drawing.task("haplotype_caller", &[realigned]));
        }
    }
    drawing.task("merge_gcvf", &called.concat());
    let genotypes: Vec<usize> = called.iter().map(|region| drawing.task("genotype_gvcfs", region)).collect();
    let combined = drawing.task("combine_variants", &genotypes);
    drawing.chain(&["select_variants_snp", "filtering_snp"], &[combined]);
    drawing.chain(&["select_variants_indel", "filtering_indel"], &[combined]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_workflows_have_about_the_requested_task_count() {
        for family in Family::ALL {
            for tasks in [200, 1000, 4000] {
                let workflow = family.build(tasks, 1).unwrap();
                assert!(
                    workflow.len() <= tasks && 100 * workflow.len() >= 85 * tasks,
                    "{family:?}: {} of {tasks}",
                    workflow.len()
                );
            }
            assert!(family.build(0, 1).is_ok(), "{family:?}");
            assert_eq!(family.to_string().parse(), Ok(family));
        }
    }

    #[test]
    fn only_source_tasks_of_a_family_have_no_inputs() {
        let sources = |family: Family| {
            let workflow = family.build(200, 1).unwrap();
            (0..workflow.len()).filter(|&task| workflow.inputs(task).len() == 0).count()
        };
        assert_eq!(Family::ALL.map(sources), [7 * 13, 1, 2, 3, 38, 199, 6]);
    }
}
