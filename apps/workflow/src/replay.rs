//! Tasks that replay recorded measurements: they compute for the recorded time, hold the recorded memory, and return values of the recorded size.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Duration;

use armature::workflow::{Inputs, TaskMemory};
use armature::{BoxError, Context};
use armature_apps::random::Random;
use armature_apps::spin;
use armature_workflow_files::Description;

/// Method by which replayed tasks spend their time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WorkMethod {
    /// Tasks compute: this number of operations for each second of their replayed time.
    Spin(f64),
    /// Tasks sleep for their replayed time.
    Sleep,
    /// Tasks declare work to the simulator: this number of operations for each second of their replayed time.
    Declare(f64),
}

/// Code that the replayed tasks of a workflow run.
#[derive(Debug)]
pub struct Replay<'a> {
    description: &'a Description,
    numbers: HashMap<&'a str, usize>,
    value_bytes: Vec<usize>,
    task_memory: TaskMemory,
    work_method: WorkMethod,
}

impl<'a> Replay<'a> {
    /// Creates the code for the tasks of the workflow `description`. The value of a task is as large as the largest file that another task reads from
    /// it.
    pub fn new(description: &'a Description, task_memory: TaskMemory, work_method: WorkMethod) -> Self {
        let mut value_bytes = vec![0; description.tasks().len()];
        for edge in description.edges() {
            value_bytes[edge.from] = edge.size.max(value_bytes[edge.from] as u64) as usize;
        }
        let names = description.tasks().iter().map(|task| task.name.as_str());
        Replay { description, numbers: names.zip(0..).collect(), value_bytes, task_memory, work_method }
    }

    /// Executes a task: checks the values of the tasks on which it depends, holds its memory, spends its time, and returns its value.
    ///
    /// # Errors
    /// A received value differs from the value that its task returns.
    pub fn run(&self, inputs: &mut Inputs<'_>, cx: &Context) -> Result<Vec<u64>, BoxError> {
        let number = cx.number() as usize;
        let task = &self.description.tasks()[number];
        let names: Vec<usize> = inputs.names().map(|name| self.numbers[name]).collect();
        let read: Vec<Vec<u64>> = inputs.take_all()?;
        for (&parent, value) in names.iter().zip(&read) {
            if *value != self.value(parent) {
                let name = &self.description.tasks()[parent].name;
                return Err(
                    format!("the value of {name:?} differs from the value that the task returned").into()
                );
            }
        }
        let value = self.value(number);
        let mut memory = task.memory.unwrap_or(0) as usize;
        if self.task_memory == TaskMemory::IncludesIo {
            let values = read.iter().map(Vec::len).sum::<usize>() + value.len();
            memory = memory.saturating_sub(values * size_of::<u64>());
        }
        let held = allocate_resident(memory);
        let seconds = task.run_time.unwrap_or(0.0);
        match self.work_method {
            WorkMethod::Spin(speed) => spin::spin((seconds * speed) as u64),
            WorkMethod::Sleep => std::thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default()),
            WorkMethod::Declare(speed) => cx.declare(seconds * speed, || ()),
        }
        black_box(&held);
        Ok(value)
    }

    /// Returns the value of a task. The content depends only on the number of the task, so that readers can check it.
    fn value(&self, number: usize) -> Vec<u64> {
        let mut random = Random::new(number as u64);
        (0..self.value_bytes[number].div_ceil(size_of::<u64>())).map(|_| random.next_u64()).collect()
    }
}

fn allocate_resident(bytes: usize) -> Vec<u8> {
    /// Writing one byte in each 4096 bytes, the smallest page size of common systems, makes the kernel allocate all pages.
    const PAGE: usize = 4096;
    let mut held = vec![0; bytes];
    held.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    held
}
