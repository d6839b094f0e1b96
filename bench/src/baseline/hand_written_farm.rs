//! Farm of uneven tasks on two ranks that both compute, written by hand with MPI.
//!
//! Rank 0 sends one task per message, some of them ahead of the requests of rank 1, and polls for results between its own tasks. In another variant,
//! the tasks are split between the ranks in advance, and rank 1 sends only results.

use std::time::{Duration, Instant};

use mpi::{collective::CommunicatorCollectives, topology::SimpleCommunicator, traits::Communicator};

use super::slot::Slot;
use crate::{
    RunResult,
    burner::pin_rank,
    farm::{
        job::{Job, Way, print_result},
        task_set::work,
    },
    synthetic_work::fold,
};

const TAG: i32 = 11;
const END: u64 = u64::MAX;

/// Runs a rank of the hand-written farm; prints `result seconds S busy S` on rank 0.
///
/// # Errors
/// If the arguments are wrong, the number of ranks is not two, or a result is wrong.
pub fn main(arguments: &[String]) -> RunResult {
    let job = Job::parse(arguments)?;
    pin_rank(&job.cores)?;
    let universe = mpi::initialize().ok_or("MPI could not be started")?;
    let world = universe.world();
    if world.size() != 2 {
        return Err(format!("expected two ranks, got {}", world.size()).into());
    }
    let steps = job.task_set.steps()?;
    let mut side = Side { world: &world, steps: &steps, results: vec![0; steps.len()], busy: Duration::ZERO };
    // The barrier establishes the connections of MPI before the measurement.
    world.barrier();
    let start = Instant::now();
    match job.way {
        Way::Ahead(chunks) => match world.rank() {
            0 => side.run_master(chunks),
            _ => side.run_worker(chunks),
        },
        Way::Halves => side.split(steps.len() / 2),
        Way::Even => side.split(split_point(&steps)),
        Way::Farm(_) => return Err("this is the program by hand".into()),
    }
    let time = start.elapsed();
    if world.rank() == 0 {
        let sum = side.results.iter().copied().fold(0, fold);
        if sum != job.task_set.expected()? {
            return Err(format!("the results are wrong: checksum {sum:#x}").into());
        }
        print_result(time, side.busy);
    }
    Ok(())
}

/// Runs a farm of tasks with these numbers of steps on two ranks, with `ahead` tasks in flight to rank 1. Returns the results in the order of the tasks
/// on rank 0.
pub(super) fn results_of(world: &SimpleCommunicator, steps: &[u64], ahead: usize) -> Vec<u64> {
    let mut side = Side { world, steps, results: vec![0; steps.len()], busy: Duration::ZERO };
    match world.rank() {
        0 => side.run_master(ahead),
        _ => side.run_worker(ahead),
    }
    side.results
}

fn split_point(steps: &[u64]) -> usize {
    let half = steps.iter().sum::<u64>() / 2;
    let mut before = 0;
    let in_first = |steps: &&u64| {
        before += **steps;
        before <= half
    };
    steps.iter().take_while(in_first).count()
}

struct Side<'a> {
    world: &'a SimpleCommunicator,
    steps: &'a [u64],
    results: Vec<u64>,
    busy: Duration,
}

impl Side<'_> {
    fn compute(&self, number: usize) -> (u64, Duration) {
        let start = Instant::now();
        (work(number as u64, self.steps[number]), start.elapsed())
    }

    fn record_result(&mut self, number: usize, (result, took): (u64, Duration)) {
        self.results[number] = result;
        self.busy += took;
    }

    fn split(&mut self, first: usize) {
        let count = self.steps.len() - first;
        let mut messages = Slot::new(count + 1);
        if self.world.rank() == 0 {
            messages.receive(self.world, 1, TAG);
            for number in 0..first {
                let done = self.compute(number);
                self.record_result(number, done);
            }
            let words = messages.wait();
            self.results[first..].copy_from_slice(&words[..count]);
            self.busy += Duration::from_nanos(words[count]);
        } else {
            for number in first..self.steps.len() {
                let done = self.compute(number);
                self.record_result(number, done);
            }
            let words = messages.wait();
            words[..count].copy_from_slice(&self.results[first..]);
            words[count] = self.busy.as_nanos() as u64;
            messages.send(self.world, 0, TAG);
            messages.wait();
        }
    }

    /// Runs rank 0: keeps `ahead` tasks in flight to rank 1, one per message, and runs tasks itself at the same time.
    fn run_master(&mut self, ahead: usize) {
        let slots = || (0..ahead).map(|_| Slot::new(3)).collect::<Vec<_>>();
        let (mut tasks_out, mut results_in) = (slots(), slots());
        let (world, count) = (self.world, self.steps.len());
        let (mut next, mut sent, mut received) = (0, 0, 0);
        while sent < ahead && next < count {
            results_in[sent].receive(world, 1, TAG);
            send_task(world, &mut tasks_out[sent], next);
            (sent, next) = (sent + 1, next + 1);
        }
        loop {
            while received < sent && results_in[received % ahead].ready() {
                let at = received % ahead;
                let words = results_in[at].wait();
                let (number, done) = (words[0] as usize, (words[1], Duration::from_nanos(words[2])));
                self.record_result(number, done);
                received += 1;
                if next < count {
                    results_in[at].receive(world, 1, TAG);
                    send_task(world, &mut tasks_out[at], next);
                    (sent, next) = (sent + 1, next + 1);
                }
            }
            if next < count {
                let done = self.compute(next);
                self.record_result(next, done);
                next += 1;
            } else if received < sent {
                results_in[received % ahead].wait();
            } else {
                break;
            }
        }
        for slot in &mut tasks_out {
            slot.wait()[0] = END;
            slot.send(world, 1, TAG);
        }
    }

    fn run_worker(&mut self, ahead: usize) {
        let slots = || (0..ahead).map(|_| Slot::new(3)).collect::<Vec<_>>();
        let (mut tasks, mut results) = (slots(), slots());
        for slot in &mut tasks {
            slot.receive(self.world, 0, TAG);
        }
        let mut ends = 0;
        // The k-th message arrives in the k-th buffer of the ring, because MPI matches messages with receives in the order in which the receives were
        // posted.
        for at in (0..ahead).cycle() {
            let number = tasks[at].wait()[0];
            if number == END {
                ends += 1;
                if ends == ahead {
                    break;
                }
                continue;
            }
            tasks[at].receive(self.world, 0, TAG);
            let (result, took) = self.compute(number as usize);
            results[at].wait().copy_from_slice(&[number, result, took.as_nanos() as u64]);
            results[at].send(self.world, 0, TAG);
        }
    }
}

fn send_task(world: &SimpleCommunicator, slot: &mut Slot, number: usize) {
    slot.wait()[0] = number as u64;
    slot.send(world, 1, TAG);
}

#[cfg(test)]
mod tests {
    #[test]
    fn split_point_is_at_half_of_the_work() {
        assert_eq!(super::split_point(&[1, 1, 1, 1]), 2);
        assert_eq!(super::split_point(&[3, 1, 1, 1]), 1);
        assert_eq!(super::split_point(&[9, 1]), 0);
    }
}
