//! Planner DagHetMem: an order of tasks with small peak memory is cut where the memory of a processor is full.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use armature_planner::workflow::{Cluster, Crossing, MemoryModel, Plan, Traversal, Workflow};
use armature_planner::{Error, ErrorKind, Result};

use super::placement::{Placed, plan};
use crate::workflow::least_memory;

/// Plans with DagHetMem, the baseline of the paper of Kulagina et al. Tasks run in an order with small peak memory. The processor with the most
/// memory runs as many of the first tasks as fit, then the processor with the next largest memory, and so on.
///
/// ```
/// use armature_papers::workflow::dag_het_mem;
/// use armature_planner::workflow::{Cluster, MemoryModel, Processor, Workflow};
///
/// let mut builder = Workflow::builder();
/// let tasks = ["a", "b", "c"].map(|name| builder.task(name, 6.0, 4));
/// builder.edge(tasks[0], tasks[1], 2);
/// builder.edge(tasks[0], tasks[2], 3);
/// let workflow = builder.build()?;
/// let cluster = Cluster::new(vec![Processor::new("small", 2.0, 8), Processor::new("large", 1.0, 9)], 1.0)?;
///
/// // No task needs more than 9, including files that wait for later tasks: all tasks fit the larger processor.
/// let plan = dag_het_mem(&workflow, &cluster, MemoryModel::default())?;
/// assert_eq!(plan.orders[1].len(), 3);
/// assert_eq!(plan.makespan, 18.0);
/// # Ok::<(), armature_planner::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Infeasible`] if tasks remain when all processors are full.
pub fn dag_het_mem(graph: &Workflow, cluster: &Cluster, model: MemoryModel) -> Result<Plan> {
    Ok(plan(graph, cluster, model, &blocks(graph, cluster, model)?))
}

/// Returns the processors by decreasing memory. Of processors with equal memory the faster one comes first.
pub(super) fn by_memory(cluster: &Cluster) -> Vec<usize> {
    let mut processors: Vec<usize> = (0..cluster.len()).collect();
    processors.sort_by(|&a, &b| {
        let [a, b] = [a, b].map(|p| &cluster.processors()[p]);
        Reverse(a.memory).cmp(&Reverse(b.memory)).then(b.speed.total_cmp(&a.speed))
    });
    processors
}

pub(super) fn blocks(graph: &Workflow, cluster: &Cluster, model: MemoryModel) -> Result<Vec<Placed>> {
    let all: Vec<usize> = (0..graph.len()).collect();
    let order = least_memory(graph, &all, model).order;
    let mut place = vec![0; graph.len()];
    for (number, &task) in order.iter().enumerate() {
        place[task] = number;
    }
    let mut blocks = Vec::new();
    let mut begin = 0;
    for processor in by_memory(cluster) {
        let memory = cluster.processors()[processor].memory;
        let mut range = Range { begin, ..Range::default() };
        let mut fits = 0;
        let mut end = begin;
        while let Some(&task) = order.get(end) {
            range.extend(graph, model, &place, task);
            if range.peak() > memory {
                break;
            }
            fits = range.peak();
            end += 1;
        }
        if end == begin {
            return Err(full(graph, cluster, order[begin], blocks.len()));
        }
        blocks.push(Placed {
            processor,
            traversal: Traversal { order: order[begin..end].to_vec(), peak: fits },
        });
        if end == order.len() {
            return Ok(blocks);
        }
        begin = end;
    }
    Err(full(graph, cluster, order[begin], blocks.len()))
}

fn full(graph: &Workflow, cluster: &Cluster, task: usize, blocks: usize) -> Error {
    let message = format!(
        "task {:?}, which has {}, is left when {blocks} of {} processors are full, the largest of which has {}",
        graph.name(task),
        graph.needs(task),
        cluster.len(),
        cluster.largest_memory(),
    );
    Error::new(ErrorKind::Infeasible, message)
}

/// Peak memory of consecutive tasks of an order on one processor. Tasks are added at the end.
#[derive(Default)]
struct Range {
    begin: usize,
    adjacent: Profile,
    /// Size, and largest size so far, of the files that stay in memory until the end of the range of tasks.
    resident: (u64, u64),
}

impl Range {
    fn extend(&mut self, graph: &Workflow, model: MemoryModel, place: &[usize], task: usize) {
        let need = graph.requirement(task, model.task_memory);
        let mut inside = 0;
        for edge in graph.inputs(task).filter(|edge| place[edge.from] >= self.begin) {
            inside += edge.size;
            // A file that a task of the block writes for another task of the block occupies memory while the tasks
            // between the two run.
            self.adjacent.add_from(place[edge.from] + 1, edge.size);
        }
        match model.crossing {
            Crossing::Transit => self.adjacent.push(place[task], need),
            Crossing::Resident => {
                // Files from other blocks of tasks occupy memory from the beginning of the block, while all previous
                // tasks run.
                let (kept, peak) = &mut self.resident;
                *peak += graph.input_size(task) - inside;
                *kept -= inside;
                *peak = (*peak).max(*kept + need);
                *kept += graph.output_size(task);
            }
        }
    }

    fn peak(&self) -> u64 {
        self.adjacent.most.max(self.resident.1)
    }
}

/// Memory at each position in an order of tasks, with a fast maximum over all positions. An amount can be added to
/// all positions from a given one on. Only values greater than all later ones are stored, because the others can
/// never become the maximum again.
#[derive(Default)]
struct Profile {
    /// Difference between the previous stored value and each stored value of memory, by position in the order of
    /// tasks; 0 for the first stored value.
    drops: BTreeMap<usize, u64>,
    most: u64,
    last: u64,
}

impl Profile {
    fn push(&mut self, place: usize, value: u64) {
        while self.last <= value
            && let Some((_, drop)) = self.drops.pop_last()
        {
            self.last += drop;
        }
        if self.drops.is_empty() {
            (self.most, self.last) = (value, value);
        }
        self.drops.insert(place, self.last - value);
        self.last = value;
    }

    fn add_from(&mut self, place: usize, mut value: u64) {
        let Some((&first, &(mut drop))) = self.drops.range(place..).next() else { return };
        self.last += value;
        while let Some((&before, &next)) = self.drops.range(..first).next_back() {
            if drop > value {
                self.drops.insert(first, drop - value);
                return;
            }
            value -= drop;
            drop = next;
            self.drops.remove(&before);
        }
        self.drops.insert(first, 0);
        self.most += value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armature_planner::random::Random;

    #[test]
    fn profile_maximum_is_correct() {
        let mut random = Random::new(1);
        let mut below = |limit: usize| (random.uniform() * limit as f64) as usize;
        for _ in 0..200 {
            let (mut profile, mut values) = (Profile::default(), Vec::new());
            for place in 0..60 {
                for _ in 0..below(3) {
                    let (from, value) = (below(place + 1), below(9) as u64);
                    profile.add_from(from, value);
                    values.iter_mut().skip(from).for_each(|other| *other += value);
                }
                let value = below(40) as u64;
                profile.push(place, value);
                values.push(value);
                assert_eq!(Some(&profile.most), values.iter().max());
                assert_eq!(Some(&profile.last), values.last());
            }
        }
    }
}
