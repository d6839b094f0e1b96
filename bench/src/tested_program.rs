//! Rank programs that run pipelines with the framework, as a user would write them, for comparisons with other
//! programs.

use std::time::{Duration, Instant};

use armature::pipeline::{MappingChoice, Pipeline};
use armature::{Config, Plain, Progress, Session};
use bytes::BytesMut;

use crate::{
    RunResult,
    baseline::{
        chain::Chain,
        stages::{expected, first, fold, fourth, second, third},
    },
    ranks::{Launch, Values},
};

/// Maximum number of batches in the unmeasured first run, which establishes the connections.
const WARM_UP_BATCHES: usize = 64;

/// Runs four trivial stages on two ranks and returns items per second. With a batch size of 0 the framework chooses
/// the number of items in a batch and the number of items in flight.
///
/// # Errors
/// If the ranks cannot be started; also errors of [`main`].
pub fn measure(chain: Chain) -> RunResult<f64> {
    let values: Values = Launch::ranks(2).run("pipeline", &chain.arguments())?;
    values.get("items_per_s").copied().ok_or_else(|| "the pipeline printed no items_per_s".into())
}

/// Runs the rank program; prints `result items_per_s R items N` on rank 0.
///
/// # Errors
/// If the arguments are wrong or the checksum is wrong.
pub fn main(arguments: &[String]) -> RunResult {
    let chain = Chain::parse(arguments)?;
    let mut config = Config::from_env()?.progress(Progress::Off);
    if chain.batch > 0 {
        config = config.set("ARMATURE_BATCH", &chain.batch.to_string())?;
        config = config.set("ARMATURE_WINDOW", &chain.window.to_string())?;
    }
    Ok(armature::run(&config, |session| {
        let few = chain.items.min(WARM_UP_BATCHES * chain.batch.max(64));
        run_once(session, Chain { items: few, ..chain })?;
        let took = run_once(session, chain)?;
        if session.is_root() {
            println!("result items_per_s {} items {}", chain.items as f64 / took.as_secs_f64(), chain.items);
        }
        Ok(())
    })?)
}

fn run_once(session: &mut Session, chain: Chain) -> Result<Duration, armature::BoxError> {
    let start = Instant::now();
    let sum = match chain.size {
        8 => numbers(session, chain.items)?,
        1024 => arrays(session, chain.items)?,
        size => blocks(session, chain.items, size)?,
    };
    let took = start.elapsed();
    if session.is_root() && sum != expected(chain.items) {
        return Err(format!("the results are wrong: checksum {sum:#x}").into());
    }
    Ok(took)
}

/// Returns the mapping of the hand-written program that is compared: stages 1 and 2 on rank 0, stages 3 and 4 on rank
/// 1.
fn mapping() -> MappingChoice {
    MappingChoice::Text("first+second@0 | third+fourth@1".into())
}

fn numbers(session: &mut Session, items: usize) -> armature::Result<u64> {
    let mut sum = 0;
    Pipeline::source("numbers", || 0..items as u64)
        .map("first", first)
        .map("second", second)
        .map("third", third)
        .map("fourth", fourth)
        .mapping(mapping())
        .for_each(session, "fold", |word| sum = fold(sum, word))?;
    Ok(sum)
}

type Array = Plain<[u64; 128]>;

/// Runs the stages on items of 1 KiB, of which the stages change the first word. The items are arrays, the type that a
/// user would choose for a known size: all items of a batch lie in one vector, which is sent and received without
/// conversion. The items of [`blocks`] are buffers, each with its own handle. With batches of 64 items, arrays take two
/// thirds of the processor time of buffers; with large batches both take the same time.
fn arrays(session: &mut Session, items: usize) -> armature::Result<u64> {
    let on_word = |f: fn(u64) -> u64| move |array: &mut Array| array[0] = f(array[0]);
    let mut sum = 0;
    let make = move || {
        (0..items as u64).map(|n| {
            let mut array = [0; 128];
            array[0] = n;
            Plain(array)
        })
    };
    Pipeline::source("arrays", make)
        .plain()
        .update("first", on_word(first))
        .update("second", on_word(second))
        .update("third", on_word(third))
        .update("fourth", on_word(fourth))
        .mapping(mapping())
        .for_each(session, "fold", |array| sum = fold(sum, array[0]))?;
    Ok(sum)
}

fn blocks(session: &mut Session, items: usize, size: usize) -> armature::Result<u64> {
    let mut sum = 0;
    Pipeline::source("blocks", || Blocks::new(items, size))
        .map("first", |block| on_word(block, first))
        .map("second", |block| on_word(block, second))
        .map("third", |block| on_word(block, third))
        .map("fourth", |block| on_word(block, fourth))
        .mapping(mapping())
        .for_each(session, "fold", |block: BytesMut| sum = fold(sum, word_of(&block)))?;
    Ok(sum)
}

/// Iterator over buffers, many of which share one allocation.
struct Blocks {
    next: u64,
    end: u64,
    size: usize,
    rest: BytesMut,
}

impl Blocks {
    fn new(items: usize, size: usize) -> Self {
        Blocks { next: 0, end: items as u64, size, rest: BytesMut::new() }
    }
}

/// Minimum bytes of an allocation that several buffers share.
const CHUNK: usize = 64 << 10;

impl Iterator for Blocks {
    type Item = BytesMut;

    fn next(&mut self) -> Option<BytesMut> {
        if self.next == self.end {
            return None;
        }
        if self.rest.is_empty() {
            self.rest = BytesMut::zeroed(CHUNK.next_multiple_of(self.size));
        }
        let mut block = self.rest.split_to(self.size);
        block[..8].copy_from_slice(&self.next.to_ne_bytes());
        self.next += 1;
        Some(block)
    }
}

fn word_of(block: &[u8]) -> u64 {
    block.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))
}

fn on_word(mut block: BytesMut, f: impl Fn(u64) -> u64) -> BytesMut {
    let word = f(word_of(&block));
    block[..8].copy_from_slice(&word.to_ne_bytes());
    block
}
