//! Workflow of commands in the input formats of several programs: each task is one shell line, which is identical for
//! all programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use armature_planner::workflow::Workflow;

use crate::RunResult;

/// Tasks in topological order: each after the tasks on which it depends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    steps: Vec<WorkflowTask>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct WorkflowTask {
    /// Name with letters, digits and `_`, beginning with a letter, so that every program accepts it.
    name: String,
    line: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    parents: Vec<usize>,
}

/// File name of the workflow for armature.
pub const DAG: &str = "steps.dag";
/// File name of the workflow for Makeflow.
pub const MAKEFLOW: &str = "steps.makeflow";
/// File name of the workflow for Snakemake.
pub const SNAKEMAKE: &str = "Snakefile";
/// File name of the workflow for the Dask script: one line per task with its name and the names of its parents.
pub const LIST: &str = "steps.list";
/// File name of the workflow for make.
pub const MAKE: &str = "steps.make";
const LINES: &str = "lines";

impl Steps {
    /// Creates tasks with the dependences of a workflow. Each task reads the files of its parents, counts to `count`
    /// times its work relative to the mean work, and writes a line.
    pub fn that_count(workflow: &Workflow, count: f64) -> Self {
        let order = workflow.topological_order();
        let mean = order.iter().map(|&task| workflow.work(task)).sum::<f64>() / order.len() as f64;
        let mut places = BTreeMap::new();
        let mut steps: Vec<WorkflowTask> = Vec::new();
        for (place, &task) in order.iter().enumerate() {
            places.insert(task, place);
            let parents: Vec<usize> = workflow.inputs(task).map(|edge| places[&edge.from]).collect();
            let inputs: Vec<String> =
                parents.iter().map(|&parent| steps[parent].outputs[0].clone()).collect();
            let (name, output) = (format!("t{place}"), format!("t{place}.out"));
            let count = (count * workflow.work(task) / mean).round();
            let line = format!(
                "cat /dev/null {} > {output} && awk 'BEGIN {{ for (i = 0; i < {count}; i++) x += i; print x }}' >> {output}",
                inputs.join(" ")
            );
            steps.push(WorkflowTask { name, line, inputs, outputs: vec![output], parents });
        }
        Steps { steps }
    }

    /// Returns the number of tasks.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns true if there are no tasks.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Writes the workflow for all programs into a folder.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, folder: &Path) -> RunResult {
        fs::create_dir_all(folder.join(LINES))?;
        for step in &self.steps {
            fs::write(folder.join(LINES).join(&step.name), &step.line)?;
        }
        for (name, text) in [
            (DAG, self.dag()),
            (MAKEFLOW, self.makeflow()),
            (MAKE, self.make()),
            (SNAKEMAKE, self.snakemake()),
            (LIST, self.list()),
        ] {
            fs::write(folder.join(name), text)?;
        }
        Ok(())
    }

    /// Removes the outputs of the tasks, and the logs and state of the programs that ran them.
    pub fn remove_run_files(&self, folder: &Path) {
        // Before the first run there are no outputs and logs to remove, and the removal fails.
        for output in self.outputs(folder) {
            let _ = fs::remove_file(output);
        }
        for log in [format!("{MAKEFLOW}.makeflowlog"), format!("{DAG}.rescue")] {
            let _ = fs::remove_file(folder.join(log));
        }
        for notes in [format!("{DAG}.outputs"), ".snakemake".into()] {
            let _ = fs::remove_dir_all(folder.join(notes));
        }
    }

    /// Checks that all outputs of the tasks exist.
    ///
    /// # Errors
    /// If an output is missing; the error names the first one.
    pub fn check(&self, folder: &Path) -> RunResult {
        match self.outputs(folder).find(|output| !output.is_file()) {
            None => Ok(()),
            Some(output) => Err(format!("{} was not written", output.display()).into()),
        }
    }

    fn outputs(&self, folder: &Path) -> impl Iterator<Item = PathBuf> {
        self.steps.iter().flat_map(|step| &step.outputs).map(|output| folder.join(output))
    }

    fn name(&self, place: usize) -> &str {
        &self.steps[place].name
    }

    fn dag(&self) -> String {
        let mut text = String::new();
        for WorkflowTask { name, .. } in &self.steps {
            let _ = writeln!(text, "TASK {name} sh {LINES}/{name}");
        }
        for step in &self.steps {
            for &parent in &step.parents {
                let _ = writeln!(text, "EDGE {} {}", self.name(parent), step.name);
            }
        }
        text
    }

    fn makeflow(&self) -> String {
        let mut text = String::new();
        for WorkflowTask { name, inputs, outputs, .. } in &self.steps {
            let _ = writeln!(text, "{}: {}\n\tsh {LINES}/{name}\n", outputs.join(" "), inputs.join(" "));
        }
        text
    }

    fn make(&self) -> String {
        let mut text = format!("all: {}\n", self.all().join(" "));
        for WorkflowTask { name, inputs, outputs, .. } in &self.steps {
            // With `&:`, make runs the rule once for all of its outputs, not once for each output.
            let colon = if outputs.len() > 1 { " &:" } else { ":" };
            let (inputs, outputs) = (inputs.join(" "), outputs.join(" "));
            let _ = writeln!(text, "{outputs}{colon} {inputs}\n\t@sh {LINES}/{name}");
        }
        text
    }

    fn all(&self) -> Vec<String> {
        self.steps.iter().flat_map(|step| step.outputs.clone()).collect()
    }

    fn snakemake(&self) -> String {
        let quoted = |files: &[String]| format!("{files:?}").trim_matches(['[', ']']).to_string();
        let all = self.all();
        let mut text = format!("rule all:\n    input: {}\n", quoted(&all));
        for WorkflowTask { name, inputs, outputs, .. } in &self.steps {
            let (inputs, outputs) = (quoted(inputs), quoted(outputs));
            let _ = write!(text, "rule {name}:\n    input: {inputs}\n    output: {outputs}\n");
            let _ = writeln!(text, "    shell: \"sh {LINES}/{name}\"");
        }
        text
    }

    fn list(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            let parents = step.parents.iter().map(|&parent| self.name(parent));
            let words: Vec<&str> = std::iter::once(step.name.as_str()).chain(parents).collect();
            let _ = writeln!(text, "{}", words.join(" "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use armature_papers::workflow::generate::Family;
    use armature_workflow_files::read;

    use super::*;

    #[test]
    fn every_compared_program_gets_the_same_graph() {
        let mut builder = Workflow::builder();
        // Task `b` depends on `c`, so `b` must follow `c` in the output.
        for (name, work) in [("a", 1.0), ("b", 3.0), ("c", 2.0)] {
            builder.task(name, work, 0);
        }
        for (from, to) in [(0, 2), (2, 1), (0, 1)] {
            builder.edge(from, to, 0);
        }
        let steps = Steps::that_count(&builder.build().unwrap(), 10.0);
        assert_eq!(steps.list(), "t0\nt1 t0\nt2 t0 t1\n");
        let dag = read("a.dag", steps.dag().as_bytes()).unwrap();
        let edges: Vec<(usize, usize)> = dag.edges().iter().map(|edge| (edge.from, edge.to)).collect();
        assert_eq!(edges, [(0, 1), (0, 2), (1, 2)]);
        assert!(steps.makeflow().contains("t2.out: t0.out t1.out\n\tsh lines/t2\n"));
        assert!(steps.snakemake().contains(
            "rule t2:\n    input: \"t0.out\", \"t1.out\"\n    output: \"t2.out\"\n    shell: \"sh lines/t2\"\n"
        ));
        assert!(steps.make().ends_with("t2.out: t0.out t1.out\n\t@sh lines/t2\n"));
        assert!(steps.steps[2].line.contains("i < 15;"));
    }

    #[test]
    fn counting_tasks_write_their_output_files() {
        let folder = tempfile::tempdir().unwrap();
        let steps = Steps::that_count(&Family::Blast.build(20, 1).unwrap(), 3.0);
        steps.write(folder.path()).unwrap();
        assert!(steps.check(folder.path()).is_err());
        for WorkflowTask { name, .. } in &steps.steps {
            let mut shell = Command::new("sh");
            let status = shell.arg(format!("{LINES}/{name}")).current_dir(folder.path()).status();
            assert!(status.unwrap().success(), "{name}");
        }
        steps.check(folder.path()).unwrap();
        steps.remove_run_files(folder.path());
        assert!(steps.check(folder.path()).is_err());
    }
}
