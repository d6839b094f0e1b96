//! Tasks that replay what was measured: they compute as long, hold as much memory, and give as many bytes.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Duration;

use armature::workflow::{Inputs, TaskMemory};
use armature::{BoxError, Context};
use armature_apps::random::Random;
use armature_apps::spin;
use armature_workflow_files::Description;

/// How tasks take their time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// By this number of operations a second.
    Spin(f64),
    /// They wait.
    Sleep,
    /// On a simulated host the work is declared, at this number of operations a second.
    Declare(f64),
}

/// What every task does.
#[derive(Debug)]
pub struct Toil<'a> {
    description: &'a Description,
    numbers: HashMap<&'a str, usize>,
    /// By task: bytes of what it gives.
    gives: Vec<usize>,
    task_memory: TaskMemory,
    pace: Pace,
}

impl<'a> Toil<'a> {
    /// The tasks of a description. What one gives is as large as the largest file that somebody reads of it.
    pub fn new(description: &'a Description, task_memory: TaskMemory, pace: Pace) -> Self {
        let mut gives = vec![0; description.tasks().len()];
        for edge in description.edges() {
            gives[edge.from] = edge.size.max(gives[edge.from] as u64) as usize;
        }
        let names = description.tasks().iter().map(|task| task.name.as_str());
        Toil { description, numbers: names.zip(0..).collect(), gives, task_memory, pace }
    }

    /// Does a task: checks what it reads, holds its memory, computes, and gives its bytes.
    ///
    /// # Errors
    /// What is read is not what its task gives.
    pub fn run(&self, inputs: &mut Inputs<'_>, cx: &Context) -> Result<Vec<u64>, BoxError> {
        let number = cx.number() as usize;
        let task = &self.description.tasks()[number];
        let names: Vec<usize> = inputs.names().map(|name| self.numbers[name]).collect();
        let read: Vec<Vec<u64>> = inputs.take_all()?;
        for (&parent, value) in names.iter().zip(&read) {
            if *value != self.value(parent) {
                let name = &self.description.tasks()[parent].name;
                return Err(format!("what came of {name:?} is not what it gives").into());
            }
        }
        let value = self.value(number);
        let mut memory = task.memory.unwrap_or(0) as usize;
        if self.task_memory == TaskMemory::IncludesIo {
            let words = read.iter().map(Vec::len).sum::<usize>() + value.len();
            memory = memory.saturating_sub(words * size_of::<u64>());
        }
        let held = hold(memory);
        let seconds = task.run_time.unwrap_or(0.0);
        match self.pace {
            Pace::Spin(speed) => spin::spin((seconds * speed) as u64),
            Pace::Sleep => std::thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default()),
            Pace::Declare(speed) => cx.declare(seconds * speed, || ()),
        }
        black_box(&held);
        Ok(value)
    }

    /// What a task gives: it depends on its number alone.
    fn value(&self, number: usize) -> Vec<u64> {
        let mut random = Random::new(number as u64);
        (0..self.gives[number].div_ceil(size_of::<u64>())).map(|_| random.next_u64()).collect()
    }
}

/// `bytes` of memory that is really there.
fn hold(bytes: usize) -> Vec<u8> {
    /// Smallest page of memory that systems have.
    const PAGE: usize = 4096;
    let mut held = vec![0; bytes];
    held.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    held
}
