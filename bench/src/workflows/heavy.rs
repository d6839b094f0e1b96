//! Rank program that measures the memory of its processes in workflows whose values are large relative to the memory
//! limit.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use armature::workflow::{Action, Description, Inputs, Summary, Task, Workflow};
use armature::{BoxError, Config, Progress, Session};
use armature_tests::process_memory::status;

use crate::{
    RunResult,
    ranks::{self, Launch},
};

/// Parameters of a workflow with large values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heavy {
    /// Number of tasks that create an array each.
    pub sources: usize,
    /// Bytes of an array, a multiple of 8.
    pub bytes: usize,
    /// Memory limit of a rank in bytes.
    pub memory: u64,
    /// Seed of a random graph in which each task adds up to three arrays, which sources or previous tasks created.
    /// With 0, one task per array adds up the numbers of the array, and a last task adds up these sums.
    pub seed: u64,
}

/// Results of a run of a workflow with large values.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Seconds of the run.
    pub took: f64,
    /// Peak growth of the memory of a rank's process in bytes, as the maximum over all ranks. The growth is relative
    /// to the memory after a run of the same graph with small arrays.
    pub peak: f64,
    /// Bytes of values that ranks wrote to disk.
    pub spilled: f64,
}

/// Runs the workflow on ranks.
///
/// # Errors
/// If the ranks cannot be started; also errors of [`main`].
pub fn measure(heavy: Heavy, ranks: usize) -> RunResult<Measured> {
    let Heavy { sources, bytes, memory, seed } = heavy;
    let arguments = [sources as u64, bytes as u64, memory, seed].map(|number| number.to_string());
    let launch = Launch { limit: Duration::from_secs(300), ..Launch::ranks(ranks) };
    let lines = ranks::results(&launch.output("heavy-workflow", &arguments)?);
    let of = |name: &str| -> RunResult<f64> {
        let found = lines.iter().filter_map(|line| line.get(name).copied()).reduce(f64::max);
        found.ok_or_else(|| format!("the workflow printed no {name}").into())
    };
    Ok(Measured { took: of("seconds")?, peak: of("peak")?, spilled: of("spilled")? })
}

/// Runs the rank program; prints `result peak BYTES` on each rank and `result seconds S spilled BYTES` on rank 0.
///
/// # Errors
/// If the arguments are wrong or a sum is wrong.
pub fn main(arguments: &[String]) -> RunResult {
    let numbers = arguments.iter().map(|word| word.parse()).collect::<Result<Vec<u64>, _>>()?;
    let [sources, bytes, memory, seed] = numbers[..] else {
        return Err(format!("expected SOURCES BYTES MEMORY SEED, got {arguments:?}").into());
    };
    let heavy = Heavy { sources: sources as usize, bytes: bytes as usize, memory, seed };
    let config = Config::from_env()?.progress(Progress::Off);
    Ok(armature::run(&config, |session| run_once(session, heavy).map(drop))?)
}

impl Heavy {
    /// Returns, for each task, the tasks whose arrays it adds up; source tasks come first and read no arrays.
    fn parents(self) -> Vec<Vec<usize>> {
        let mut all: Vec<Vec<usize>> = vec![Vec::new(); self.sources];
        if self.seed == 0 {
            all.extend((0..self.sources).map(|source| vec![source]));
            all.push((self.sources..2 * self.sources).collect());
            return all;
        }
        let mut random = armature_planner::random::Random::new(self.seed);
        for task in self.sources..2 * self.sources {
            let count = 1 + random.below(3);
            let mut parents: Vec<usize> = (0..count).map(|_| random.below(task)).collect();
            parents.sort_unstable();
            parents.dedup();
            all.push(parents);
        }
        all
    }

    fn words(self, task: usize) -> usize {
        let is_sum = self.seed == 0 && task >= self.sources;
        if is_sum { 1 } else { self.bytes / size_of::<u64>() }
    }

    fn describe(self, parents: &[Vec<usize>]) -> RunResult<Description> {
        let bytes = |task: usize| (self.words(task) * size_of::<u64>()) as u64;
        let mut builder = Description::builder("heavy");
        let is_read: BTreeSet<usize> = parents.iter().flatten().copied().collect();
        for (number, parents) in parents.iter().enumerate() {
            let mut task = Task::new(number.to_string(), Action::Closure("add".into()));
            // In addition to its inputs and its output, a task holds two arrays: the sum so far, and the array that
            // it adds.
            let largest = parents.iter().map(|&parent| bytes(parent)).max().unwrap_or(0);
            // The memory of an array that no task reads is declared with its task, because no edge of the graph
            // declares its size.
            let unread = if is_read.contains(&number) { 0 } else { bytes(number) };
            task.memory = Some(largest * parents.len().min(2) as u64 + unread);
            builder.task(task);
            for &parent in parents {
                builder.edge(parent.to_string(), number.to_string(), bytes(parent));
            }
        }
        Ok(builder.build()?)
    }
}

/// Returns the number with which each task fills its array.
fn contents(parents: &[Vec<usize>]) -> Vec<u64> {
    let mut contents: Vec<u64> = Vec::new();
    for (number, parents) in (0..).zip(parents) {
        contents.push(parents.iter().fold(number, |sum: u64, &parent| sum.wrapping_add(contents[parent])));
    }
    contents
}

/// Divisor of the array sizes in an unmeasured first run, after which the process has allocated all memory that it
/// needs in addition to the arrays.
const WARM_UP_FACTOR: usize = 64;

fn run_once(session: &mut Session, heavy: Heavy) -> Result<(), BoxError> {
    let bytes = (heavy.bytes / WARM_UP_FACTOR).next_multiple_of(size_of::<u64>());
    run(session, Heavy { bytes, memory: heavy.memory / WARM_UP_FACTOR as u64, ..heavy })?;
    let before = status("VmRSS")?;
    let start = Instant::now();
    let summary = run(session, heavy)?;
    println!("result peak {}", status("VmHWM")?.saturating_sub(before));
    if let Some(summary) = summary {
        let spilled: u64 = summary.ranks.iter().map(|rank| rank.spilled).sum();
        println!("result seconds {} spilled {spilled}", start.elapsed().as_secs_f64());
    }
    Ok(())
}

fn run(session: &mut Session, heavy: Heavy) -> Result<Option<Summary>, BoxError> {
    let parents = heavy.parents();
    let expected = contents(&parents);
    let add = move |inputs: &mut Inputs<'_>, cx: &armature::Context| {
        let (names, task) = (inputs.names().map(str::to_string).collect::<Vec<_>>(), cx.number());
        let words = heavy.words(task as usize);
        let mut sum: Vec<u64> = match names.first() {
            Some(first) => inputs.take(first)?,
            None => vec![0; words],
        };
        for other in names.iter().skip(1) {
            let other: Vec<u64> = inputs.take(other)?;
            sum.iter_mut().zip(&other).for_each(|(sum, other)| *sum = sum.wrapping_add(*other));
        }
        sum.iter_mut().for_each(|sum| *sum = sum.wrapping_add(task));
        let right = expected[task as usize];
        if !sum.iter().all(|&sum| sum == right) || sum.len() < words {
            return Err(format!("what task {task} has added up is not {right}").into());
        }
        sum.truncate(words);
        sum.shrink_to_fit();
        Ok(sum)
    };
    let described = heavy.describe(&parents).map_err(|error| error.to_string())?;
    let mut workflow = Workflow::from_description(described).memory(heavy.memory).closure("add", add);
    Ok(workflow.run(session)?.into_summary())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_correct_with_little_memory() {
        for seed in [0, 1, 2] {
            let heavy = Heavy { sources: 12, bytes: 100_000, memory: 620_000, seed };
            let config = Config::new().ranks(2).progress(Progress::Off);
            armature::run(&config, |session| run_once(session, heavy)).unwrap();
        }
    }
}
