//! Pipeline of four stages on two ranks, written by hand with MPI.
//!
//! Rank 0 creates the items and runs stages 1 and 2, rank 1 runs stages 3 and 4, and rank 0 folds the results in order. Items travel in batches of a
//! fixed size, with a fixed number of batches in flight (the window); all buffers are reused. With a batch size of one, the program sends one message
//! per item.
//!
//! With another [`Work`], the program is a farm: a master sends chunks of tasks to one worker, some of them ahead of the worker's requests. Rank 0
//! creates the tasks, rank 1 runs them, and rank 0 folds the results.

use std::time::Instant;

use mpi::{topology::SimpleCommunicator, traits::Communicator};

use super::{slot::Slot, stages, task};
use crate::{RunResult, ranks::Values};

/// Parameters of one run of the hand-written pipeline or farm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Size of an item in bytes, a multiple of 8.
    pub size: usize,
    /// Number of items per message.
    pub batch: usize,
    /// Number of messages that may be in flight at once.
    pub window: usize,
    /// Number of items, which is rounded up to whole batches (messages).
    pub items: usize,
}

impl Chain {
    /// Returns the parameters as command-line arguments of the rank program.
    pub fn arguments(&self) -> Vec<String> {
        let Chain { size, batch, window, items } = self;
        [size, batch, window, items].map(ToString::to_string).to_vec()
    }

    pub(crate) fn parse(arguments: &[String]) -> RunResult<Self> {
        let numbers = arguments.iter().map(|word| word.parse()).collect::<Result<Vec<usize>, _>>();
        match numbers.as_deref() {
            Ok(&[size, batch, window, items]) if size >= 8 && size % 8 == 0 && window > 0 => {
                Ok(Chain { size, batch, window, items })
            }
            _ => Err(format!("expected SIZE BATCH WINDOW ITEMS, got {arguments:?}").into()),
        }
    }

    fn item_words(&self) -> usize {
        self.size / 8
    }

    fn batches(&self) -> usize {
        self.items.div_ceil(self.batch)
    }
}

/// Computation on the first 64-bit integer (`word`) of an item. Ranks 0 and 1 each execute one part.
pub trait Work {
    /// Name of the rank program that executes the computation.
    const PROGRAM: &str;
    /// Executes the first part of the computation, on rank 0 before it sends the item.
    fn work_on_first(word: u64) -> u64;
    /// Executes the second part of the computation, on rank 1 when it has received the item.
    fn work_on_second(word: u64) -> u64;
    /// Returns the expected checksum: the results for items that begin with the integers 0 to `items` - 1, folded in this order.
    fn expected(items: usize) -> u64;
}

/// Computation of the four stages: two on rank 0, two on rank 1.
#[derive(Debug)]
pub struct Stages;

impl Work for Stages {
    const PROGRAM: &str = "chain";

    fn work_on_first(word: u64) -> u64 {
        stages::second(stages::first(word))
    }

    fn work_on_second(word: u64) -> u64 {
        stages::fourth(stages::third(word))
    }

    fn expected(items: usize) -> u64 {
        stages::expected(items)
    }
}

/// Computation of independent trivial tasks, all of which rank 1 runs.
#[derive(Debug)]
pub struct Tasks;

impl Work for Tasks {
    const PROGRAM: &str = "tasks";

    fn work_on_first(word: u64) -> u64 {
        word
    }

    fn work_on_second(word: u64) -> u64 {
        task::work(word)
    }

    fn expected(items: usize) -> u64 {
        (0..items as u64).map(task::work).fold(0, stages::fold)
    }
}

const TAG: i32 = 7;

/// Runs a rank of the hand-written pipeline or farm; prints `result items_per_s R items N` on rank 0.
///
/// # Errors
/// If the arguments are wrong, the number of ranks is not two, or the checksum is wrong.
pub fn main<W: Work>(arguments: &[String]) -> RunResult {
    let chain = Chain::parse(arguments)?;
    let universe = mpi::initialize().ok_or("MPI could not be started")?;
    let world = universe.world();
    if chain.batch == 0 {
        return Err("the chain by hand has no batch of its own choice".into());
    }
    if world.size() != 2 {
        return Err(format!("expected two ranks, got {}", world.size()).into());
    }
    // A short run before the measurement establishes the connections and registers the buffers.
    let short = chain.batch * chain.window;
    if world.rank() == 1 {
        let mut second_rank = SecondRank::new(&world, chain);
        second_rank.run::<W>(Chain { items: short, ..chain }.batches());
        second_rank.run::<W>(chain.batches());
        return Ok(());
    }
    let mut first_rank = FirstRank::new(&world, chain);
    first_rank.run::<W>(Chain { items: short, ..chain }.batches());
    let start = Instant::now();
    let sum = first_rank.run::<W>(chain.batches());
    let seconds = start.elapsed().as_secs_f64();
    let items = chain.batches() * chain.batch;
    if sum != W::expected(items) {
        return Err(format!("the results are wrong: checksum {sum:#x}").into());
    }
    println!("result items_per_s {} items {items}", items as f64 / seconds);
    Ok(())
}

struct FirstRank<'a> {
    world: &'a SimpleCommunicator,
    item_words: usize,
    out: Vec<Slot>,
    back: Vec<Slot>,
}

impl<'a> FirstRank<'a> {
    fn new(world: &'a SimpleCommunicator, chain: Chain) -> Self {
        let slots = || (0..chain.window).map(|_| Slot::new(chain.item_words() * chain.batch)).collect();
        FirstRank { world, item_words: chain.item_words(), out: slots(), back: slots() }
    }

    fn run<W: Work>(&mut self, batches: usize) -> u64 {
        let (item_words, window) = (self.item_words, self.out.len());
        let (mut sum, mut next) = (0, 0);
        for step in 0..batches + window {
            let at = step % window;
            if step >= window {
                let results = self.back[at].wait();
                sum = results.iter().step_by(item_words).fold(sum, |sum, &word| stages::fold(sum, word));
            }
            if step < batches {
                self.back[at].receive(self.world, 1, TAG);
                for word in self.out[at].wait().iter_mut().step_by(item_words) {
                    *word = W::work_on_first(next);
                    next += 1;
                }
                self.out[at].send(self.world, 1, TAG);
            }
        }
        sum
    }
}

/// State of rank 1, which computes in the receive buffers and sends the results from these buffers.
struct SecondRank<'a> {
    world: &'a SimpleCommunicator,
    item_words: usize,
    /// Twice as many buffers as batches in flight: half of them receive batches while the other half send results.
    slots: Vec<Slot>,
}

impl<'a> SecondRank<'a> {
    fn new(world: &'a SimpleCommunicator, chain: Chain) -> Self {
        let slots = (0..2 * chain.window).map(|_| Slot::new(chain.item_words() * chain.batch)).collect();
        SecondRank { world, item_words: chain.item_words(), slots }
    }

    fn run<W: Work>(&mut self, batches: usize) {
        let (count, window) = (self.slots.len(), self.slots.len() / 2);
        for slot in self.slots.iter_mut().take(batches.min(window)) {
            slot.receive(self.world, 0, TAG);
        }
        for step in 0..batches {
            let slot = &mut self.slots[step % count];
            for word in slot.wait().iter_mut().step_by(self.item_words) {
                *word = W::work_on_second(*word);
            }
            slot.send(self.world, 0, TAG);
            if step + window < batches {
                self.slots[(step + window) % count].receive(self.world, 0, TAG);
            }
        }
    }
}

/// Runs the hand-written pipeline or farm on two ranks, and returns items per second.
///
/// # Errors
/// If the ranks cannot be started; also errors of [`main`].
pub fn measure<W: Work>(chain: Chain) -> RunResult<f64> {
    let values: Values = crate::ranks::Launch::ranks(2).run(W::PROGRAM, &chain.arguments())?;
    values.get("items_per_s").copied().ok_or_else(|| format!("{} printed no items_per_s", W::PROGRAM).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_arguments_round_trip() {
        let chain = Chain { size: 1024, batch: 64, window: 8, items: 100_000 };
        assert_eq!(Chain::parse(&chain.arguments()).unwrap(), chain);
        assert!(Chain::parse(&["8".into()]).is_err());
        assert!(Chain::parse(&["12", "1", "1", "1"].map(String::from)).is_err());
    }

    #[test]
    fn checksum_depends_on_order_and_number() {
        let swapped = stages::fold(stages::fold(0, 2), 1);
        assert_ne!(stages::fold(stages::fold(0, 1), 2), swapped);
        assert_ne!(stages::expected(10), stages::expected(11));
    }
}
