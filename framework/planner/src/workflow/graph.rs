//! Workflow: a graph of tasks and the files between them.

mod measured;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use armature_text::quoted;

use super::memory::TaskMemory;
use crate::error::{Error, ErrorKind, Result};
use crate::range::{self, AMOUNT};

/// Maximum of the sum of the memories of all tasks plus twice the sizes of all edges. Larger sums overflow the signed arithmetic of the planners.
const LARGEST_TOTAL: u64 = i64::MAX as u64;

/// Edge of a workflow: a file, or several files, that one task writes and another reads. A file with two readers is two edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    /// Task that writes the file of this edge.
    pub from: usize,
    /// Task that reads the file of this edge.
    pub to: usize,
    /// Size of the file in the unit of the processors' memory. An edge of size 0 only determines the order of the tasks.
    pub size: u64,
}

/// Directed acyclic graph of tasks and the files between them.
///
/// Tasks are numbered from 0 in the order in which they were added. Edges are numbered by the task that writes the file, then by the task that reads
/// it.
///
/// ```
/// use armature_planner::workflow::{TaskMemory, Workflow};
///
/// let mut builder = Workflow::builder();
/// let split = builder.task("split", 10.0, 4);
/// let left = builder.task("left", 50.0, 16);
/// let right = builder.task("right", 60.0, 16);
/// let join = builder.task("join", 5.0, 2);
/// for (from, to, size) in [(split, left, 3), (split, right, 5), (left, join, 1), (right, join, 1)] {
///     builder.edge(from, to, size);
/// }
/// let workflow = builder.build()?;
///
/// assert_eq!(workflow.topological_order(), [split, left, right, join]);
/// assert_eq!(workflow.requirement(split, TaskMemory::Additive), 4 + 3 + 5);
/// assert_eq!(workflow.requirement(split, TaskMemory::IncludesIo), 8);
/// # Ok::<(), armature_planner::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Workflow {
    names: Vec<String>,
    works: Vec<f64>,
    memories: Vec<u64>,
    edges: Vec<Edge>,
    /// For each task, the index in `edges` of its first output, followed by the end of the outputs of the last task.
    first_output: Vec<usize>,
    /// Numbers of the edges, sorted by the task that reads the file, then by the task that writes it.
    inputs: Vec<usize>,
    /// For each task, the index in the field `inputs` of its first input, followed by the end of the inputs of the last task.
    first_input: Vec<usize>,
    sizes: Vec<(u64, u64)>,
    order: Vec<usize>,
    has_one_value_a_task: bool,
}

/// Builder of a [`Workflow`]. Errors in tasks and edges are reported by [`build`](WorkflowBuilder::build).
#[derive(Clone, Debug, Default)]
pub struct WorkflowBuilder {
    names: Vec<String>,
    works: Vec<f64>,
    memories: Vec<u64>,
    edges: Vec<Edge>,
}

impl WorkflowBuilder {
    /// Adds a task with the given work (in work units; the speed of a processor is in work units per second) and memory. [`TaskMemory`] defines the
    /// meaning of the memory. Returns the number of the task.
    pub fn task(&mut self, name: impl Into<String>, work: f64, memory: u64) -> usize {
        self.names.push(name.into());
        self.works.push(work);
        self.memories.push(memory);
        self.names.len() - 1
    }

    /// Adds an edge: task `to` reads `size` size units of the output of task `from`. The tasks may be added later.
    pub fn edge(&mut self, from: usize, to: usize, size: u64) {
        self.edges.push(Edge { from, to, size });
    }

    /// Builds the workflow from the tasks and edges added so far.
    ///
    /// # Errors
    /// [`ErrorKind::Workflow`] if there is no task; a name is empty, duplicate, or contains control characters; a work is neither 0 nor from 1e-60
    /// to 1e60; an edge names a task that does not exist, or is duplicate; the edges form a cycle; or the sum of all memories and twice all sizes
    /// exceeds 2⁶³−1.
    pub fn build(self) -> Result<Workflow> {
        let WorkflowBuilder { names, works, memories, mut edges } = self;
        check_tasks(&names, &works)?;
        check_total(&memories, &edges)?;
        check_edges(&mut edges, &names)?;
        edges.shrink_to_fit();
        let count = names.len();
        let first_output = starts(count, edges.iter().map(|edge| edge.from));
        let first_input = starts(count, edges.iter().map(|edge| edge.to));
        let mut inputs = vec![0; edges.len()];
        let mut next = first_input.clone();
        for (number, edge) in edges.iter().enumerate() {
            inputs[next[edge.to]] = number;
            next[edge.to] += 1;
        }
        let mut workflow = Workflow {
            names,
            works,
            memories,
            sizes: sizes_of(count, &edges),
            edges,
            first_output,
            inputs,
            first_input,
            order: Vec::new(),
            has_one_value_a_task: false,
        };
        workflow.order = sorted(&workflow)?;
        Ok(workflow)
    }
}

impl Workflow {
    /// Creates a builder for a workflow.
    pub fn builder() -> WorkflowBuilder {
        WorkflowBuilder::default()
    }

    /// Declares that each task writes one value for all tasks that read from it. The value is as large as the largest of the task's output files. It
    /// is sent once to a processor, however many tasks read it there. While the value waits in memory, it counts once for each reader, so that the
    /// memory suffices on whichever processors the readers run.
    ///
    /// ```
    /// use armature_planner::workflow::{Cluster, Level, Processor, TaskMemory, Workflow, heftm};
    ///
    /// let mut builder = Workflow::builder();
    /// for (name, memory) in [("split", 1), ("left", 50), ("right", 50)] {
    ///     builder.task(name, 1.0, memory);
    /// }
    /// builder.edge(0, 1, 4);
    /// builder.edge(0, 2, 8);
    /// let files = builder.build()?;
    /// // The first processor has too little memory for the readers, the second is slow.
    /// let cluster = Cluster::new(vec![Processor::new("a", 9.0, 40), Processor::new("b", 1.0, 99)], 1.0)?;
    /// let makespan = |workflow: &Workflow| Ok(heftm(workflow, &cluster, Level::Bottom, TaskMemory::Additive)?.makespan);
    /// let values = files.clone().with_one_value_a_task()?;
    /// assert_eq!(makespan(&files)?, 1.0 / 9.0 + 8.0 + 4.0 + 1.0);
    /// assert_eq!(makespan(&values)?, 1.0 / 9.0 + 8.0 + 1.0 + 1.0);
    /// # Ok::<(), armature_planner::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Workflow`] if the sizes exceed the limits of [`build`](WorkflowBuilder::build).
    pub fn with_one_value_a_task(mut self) -> Result<Self> {
        for task in 0..self.len() {
            let files = self.output_numbers(task);
            let largest = self.edges[files.clone()].iter().map(|edge| edge.size).max().unwrap_or(0);
            self.edges[files].iter_mut().for_each(|edge| edge.size = largest);
        }
        check_total(&self.memories, &self.edges)?;
        self.sizes = sizes_of(self.len(), &self.edges);
        self.has_one_value_a_task = true;
        Ok(self)
    }

    /// Returns true if each task writes [one value](Workflow::with_one_value_a_task) for all tasks that read from it.
    pub fn has_one_value_a_task(&self) -> bool {
        self.has_one_value_a_task
    }

    /// Returns the number of tasks.
    #[allow(clippy::len_without_is_empty, reason = "there is always a task")]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the name of a task.
    ///
    /// # Panics
    /// Panics if the task does not exist. All methods of `Workflow` with a task as argument do.
    pub fn name(&self, task: usize) -> &str {
        &self.names[task]
    }

    /// Returns the work of a task, in work units.
    pub fn work(&self, task: usize) -> f64 {
        self.works[task]
    }

    /// Returns the memory of a task as it was given to the builder.
    pub fn memory(&self, task: usize) -> u64 {
        self.memories[task]
    }

    /// Returns all edges, sorted by the task that writes the file, then by the task that reads it.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Returns the edges from a task to the tasks that read its files, sorted by reader.
    pub fn outputs(&self, task: usize) -> &[Edge] {
        &self.edges[self.output_numbers(task)]
    }

    /// Returns the numbers of the edges from a task to the tasks that read its files.
    pub fn output_numbers(&self, task: usize) -> Range<usize> {
        self.first_output[task]..self.first_output[task + 1]
    }

    /// Returns the edges to a task from the tasks whose files it reads, sorted by writer.
    pub fn inputs(&self, task: usize) -> impl ExactSizeIterator<Item = &Edge> + DoubleEndedIterator {
        self.input_numbers(task).iter().map(|&number| &self.edges[number])
    }

    /// Returns the numbers of the edges to a task from the tasks whose files it reads.
    pub fn input_numbers(&self, task: usize) -> &[usize] {
        &self.inputs[self.first_input[task]..self.first_input[task + 1]]
    }

    /// Returns the total size of the files that a task reads.
    pub fn input_size(&self, task: usize) -> u64 {
        self.sizes[task].0
    }

    /// Returns the total size of the files that a task writes for other tasks.
    pub fn output_size(&self, task: usize) -> u64 {
        self.sizes[task].1
    }

    /// Describes the memory needs of a task, as the end of a sentence of a message after the word "has".
    pub fn needs(&self, task: usize) -> String {
        let (reads, writes) = self.sizes[task];
        format!("a memory of {}, reads {reads} and writes {writes}", self.memory(task))
    }

    /// Returns the memory that a task needs while it runs, including its files.
    pub fn requirement(&self, task: usize, task_memory: TaskMemory) -> u64 {
        task_memory.requirement(self.memory(task), self.input_size(task), self.output_size(task))
    }

    /// Returns all tasks in topological order: each task comes after the tasks from which it reads. The order is breadth first, smaller numbers
    /// first.
    pub fn topological_order(&self) -> &[usize] {
        &self.order
    }
}

fn sizes_of(tasks: usize, edges: &[Edge]) -> Vec<(u64, u64)> {
    let mut sizes = vec![(0, 0); tasks];
    for edge in edges {
        sizes[edge.to].0 += edge.size;
        sizes[edge.from].1 += edge.size;
    }
    sizes
}

fn check_tasks(names: &[String], works: &[f64]) -> Result<()> {
    if names.is_empty() {
        return Err(invalid("there must be at least one task".into()));
    }
    let mut seen = HashMap::new();
    for (task, (name, &work)) in names.iter().zip(works).enumerate() {
        if name.is_empty() || name.contains(char::is_control) {
            return Err(invalid(format!(
                "task {task} is called {}: a name must have at least one character, and none that controls",
                quoted(name)
            )));
        }
        if let Some(first) = seen.insert(name, task) {
            return Err(invalid(format!("tasks {first} and {task} are both called {}", quoted(name))));
        }
        if !range::is_amount(work) {
            return Err(invalid(format!(
                "the work of task {task} ({}) must be {AMOUNT}, but is {work}",
                quoted(name)
            )));
        }
    }
    Ok(())
}

fn check_total(memories: &[u64], edges: &[Edge]) -> Result<()> {
    let total: u128 = memories.iter().map(|&memory| u128::from(memory)).sum::<u128>()
        + edges.iter().map(|edge| 2 * u128::from(edge.size)).sum::<u128>();
    if total > u128::from(LARGEST_TOTAL) {
        return Err(invalid(format!(
            "the memories of all tasks and twice the sizes of all edges are {total} together, but must not be more than \
             {LARGEST_TOTAL}: use a larger unit"
        )));
    }
    Ok(())
}

fn check_edges(edges: &mut [Edge], names: &[String]) -> Result<()> {
    for edge in &*edges {
        if let Some(unknown) = [edge.from, edge.to].into_iter().find(|&task| task >= names.len()) {
            return Err(invalid(format!(
                "the edge {}→{} names task {unknown}, but there are {}, numbered from 0",
                edge.from,
                edge.to,
                names.len()
            )));
        }
    }
    edges.sort_unstable_by_key(|edge| (edge.from, edge.to, edge.size));
    for pair in edges.windows(2) {
        let Edge { from, to, .. } = pair[0];
        if (from, to) == (pair[1].from, pair[1].to) {
            return Err(invalid(format!(
                "the edge from {:?} to {:?} is there twice: add the sizes of its files",
                names[from], names[to]
            )));
        }
    }
    Ok(())
}

/// Returns, for items sorted by group, the first index of each of `count` groups, followed by the end of the last group.
fn starts(count: usize, groups: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut starts = vec![0; count + 1];
    for group in groups {
        starts[group + 1] += 1;
    }
    for group in 0..count {
        starts[group + 1] += starts[group];
    }
    starts
}

fn sorted(workflow: &Workflow) -> Result<Vec<usize>> {
    let mut missing: Vec<usize> = (0..workflow.len()).map(|task| workflow.inputs(task).len()).collect();
    let mut ready: VecDeque<usize> = (0..workflow.len()).filter(|&task| missing[task] == 0).collect();
    let mut order = Vec::with_capacity(workflow.len());
    while let Some(task) = ready.pop_front() {
        order.push(task);
        for edge in workflow.outputs(task) {
            missing[edge.to] -= 1;
            if missing[edge.to] == 0 {
                ready.push_back(edge.to);
            }
        }
    }
    if order.len() == workflow.len() { Ok(order) } else { Err(invalid(cycle(workflow, &missing))) }
}

/// Describes a cycle among the tasks `missing`, whose input files can never all be written.
fn cycle(workflow: &Workflow, missing: &[usize]) -> String {
    const MOST_NAMES: usize = 8;
    let mut place = vec![None; workflow.len()];
    let mut path = Vec::new();
    let mut at = missing.iter().position(|&inputs| inputs > 0);
    while let Some(task) = at.filter(|&task| place[task].is_none()) {
        place[task] = Some(path.len());
        path.push(task);
        at = workflow.inputs(task).map(|edge| edge.from).find(|&parent| missing[parent] > 0);
    }
    // The path leads from each task to one from which it reads, so the end of the path in reverse order is a cycle.
    let mut tasks: Vec<usize> = path.split_off(at.and_then(|task| place[task]).unwrap_or(0));
    tasks.reverse();
    let least = (0..tasks.len()).min_by_key(|&place| tasks[place]).unwrap_or(0);
    tasks.rotate_left(least);
    let mut names: Vec<String> =
        tasks.iter().take(MOST_NAMES).map(|&task| format!("{:?}", workflow.name(task))).collect();
    names.push(if tasks.len() > MOST_NAMES { "…".into() } else { names[0].clone() });
    format!("{} tasks depend on one another in a cycle: {}", tasks.len(), names.join(" → "))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Workflow, message)
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
