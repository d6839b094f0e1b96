//! Items through four stages on two ranks, by hand.
//!
//! Rank 0 makes the items and does stages 1 and 2, rank 1 does stages 3 and 4, rank 0 folds the results in order.
//! Items travel in batches of a fixed number, with a fixed number of batches under way (the window); every buffer
//! is used again and again. With a batch of one this is the chain that sends one message per item.

use std::time::Instant;

use mpi::{topology::SimpleCommunicator, traits::Communicator};

use super::{slot::Slot, stages};
use crate::{Outcome, ranks::Values};

/// What one run of the chain does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Bytes of an item: a multiple of 8.
    pub size: usize,
    /// Items in a message.
    pub batch: usize,
    /// Messages under way.
    pub window: usize,
    /// Number of items; rounded up to whole batches.
    pub items: usize,
}

impl Chain {
    /// As arguments of the rank program.
    pub fn arguments(&self) -> Vec<String> {
        let Chain { size, batch, window, items } = self;
        [size, batch, window, items].map(ToString::to_string).to_vec()
    }

    pub(crate) fn parse(arguments: &[String]) -> Outcome<Self> {
        let numbers = arguments.iter().map(|word| word.parse()).collect::<Result<Vec<usize>, _>>();
        match numbers.as_deref() {
            Ok(&[size, batch, window, items]) if size >= 8 && size % 8 == 0 && window > 0 => {
                Ok(Chain { size, batch, window, items })
            }
            _ => Err(format!("expected SIZE BATCH WINDOW ITEMS, got {arguments:?}").into()),
        }
    }

    fn words(&self) -> usize {
        self.size / 8
    }

    fn batches(&self) -> usize {
        self.items.div_ceil(self.batch)
    }
}

const TAG: i32 = 7;

/// The rank program: prints `result items_per_s R items N` on rank 0.
///
/// # Errors
/// If the arguments are wrong, there are not two ranks, or the checksum is not what it should be.
pub fn main(arguments: &[String]) -> Outcome {
    let chain = Chain::parse(arguments)?;
    let universe = mpi::initialize().ok_or("MPI could not be started")?;
    let world = universe.world();
    if chain.batch == 0 {
        return Err("the chain by hand has no batch of its own choice".into());
    }
    if world.size() != 2 {
        return Err(format!("expected two ranks, got {}", world.size()).into());
    }
    // A short run first: connections are made, buffers are registered.
    let short = chain.batch * chain.window;
    if world.rank() == 1 {
        let mut far = Far::new(&world, chain);
        far.run(Chain { items: short, ..chain }.batches());
        far.run(chain.batches());
        return Ok(());
    }
    let mut near = Near::new(&world, chain);
    near.run(Chain { items: short, ..chain }.batches());
    let start = Instant::now();
    let sum = near.run(chain.batches());
    let seconds = start.elapsed().as_secs_f64();
    let items = chain.batches() * chain.batch;
    if sum != stages::expected(items) {
        return Err(format!("the results are wrong: checksum {sum:#x}").into());
    }
    println!("result items_per_s {} items {items}", items as f64 / seconds);
    Ok(())
}

/// Rank 0: source, stages 1 and 2, sink.
struct Near<'a> {
    world: &'a SimpleCommunicator,
    words: usize,
    out: Vec<Slot>,
    back: Vec<Slot>,
}

impl<'a> Near<'a> {
    fn new(world: &'a SimpleCommunicator, chain: Chain) -> Self {
        let slots = || (0..chain.window).map(|_| Slot::new(chain.words() * chain.batch)).collect();
        Near { world, words: chain.words(), out: slots(), back: slots() }
    }

    /// Sends so many batches through the chain and returns the checksum of the results.
    fn run(&mut self, batches: usize) -> u64 {
        let (words, window) = (self.words, self.out.len());
        let (mut sum, mut next) = (0, 0);
        // In step `step` batch `step` leaves, and batch `step - window` is taken in.
        for step in 0..batches + window {
            let at = step % window;
            if step >= window {
                let results = self.back[at].wait();
                sum = results.iter().step_by(words).fold(sum, |sum, &word| stages::fold(sum, word));
            }
            if step < batches {
                self.back[at].receive(self.world, 1, TAG);
                for word in self.out[at].wait().iter_mut().step_by(words) {
                    *word = stages::second(stages::first(next));
                    next += 1;
                }
                self.out[at].send(self.world, 1, TAG);
            }
        }
        sum
    }
}

/// Rank 1: stages 3 and 4, in place.
struct Far<'a> {
    world: &'a SimpleCommunicator,
    words: usize,
    /// Twice the window: half are being filled, half are on their way back.
    slots: Vec<Slot>,
}

impl<'a> Far<'a> {
    fn new(world: &'a SimpleCommunicator, chain: Chain) -> Self {
        let slots = (0..2 * chain.window).map(|_| Slot::new(chain.words() * chain.batch)).collect();
        Far { world, words: chain.words(), slots }
    }

    fn run(&mut self, batches: usize) {
        let (count, window) = (self.slots.len(), self.slots.len() / 2);
        for slot in self.slots.iter_mut().take(batches.min(window)) {
            slot.receive(self.world, 0, TAG);
        }
        for step in 0..batches {
            let slot = &mut self.slots[step % count];
            for word in slot.wait().iter_mut().step_by(self.words) {
                *word = stages::fourth(stages::third(*word));
            }
            slot.send(self.world, 0, TAG);
            if step + window < batches {
                self.slots[(step + window) % count].receive(self.world, 0, TAG);
            }
        }
    }
}

/// Runs the chain on two ranks and returns items per second.
///
/// # Errors
/// Those of starting ranks, and of [`main`].
pub fn measure(chain: Chain) -> Outcome<f64> {
    let values: Values = crate::ranks::Launch::ranks(2).run("chain", &chain.arguments())?;
    values.get("items_per_s").copied().ok_or_else(|| "the chain printed no items_per_s".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_back() {
        let chain = Chain { size: 1024, batch: 64, window: 8, items: 100_000 };
        assert_eq!(Chain::parse(&chain.arguments()).unwrap(), chain);
        assert!(Chain::parse(&["8".into()]).is_err());
        assert!(Chain::parse(&["12", "1", "1", "1"].map(String::from)).is_err());
    }

    #[test]
    fn the_checksum_depends_on_order_and_number() {
        let swapped = stages::fold(stages::fold(0, 2), 1);
        assert_ne!(stages::fold(stages::fold(0, 1), 2), swapped);
        assert_ne!(stages::expected(10), stages::expected(11));
    }
}
