//! Throughput of the frameworks renoir and timely on two processes, for comparison with armature: a pipeline of four trivial stages, and a farm of
//! trivial tasks.
//!
//! `armature-bench-peers renoir|timely SIZE BATCH ITEMS` creates items in the first process, runs stages 1 and 2 there, sends the items by TCP to a
//! second process on this host for stages 3 and 4, and receives and folds the results in order. With `renoir-farm` both processes run the tasks of a
//! farm; with `renoir-farm-far` only the second process runs tasks. In both farms the first process sums the results. The program prints `result
//! items_per_s R items N`. The second process runs this same binary.
//!
//! Three parameters can be tuned from outside of the frameworks: the batch size, the serialization of items (serde serializes a block as a whole, not
//! byte by byte), and, with timely, the number of batches in flight.

mod item;
mod meter;
mod renoir_pipeline;
#[path = "../../src/baseline/stages.rs"]
mod stages;
#[path = "../../src/baseline/task.rs"]
mod task;
mod timely_pipeline;

use std::{
    env,
    process::{Child, Command, ExitCode},
};

use item::{ByteBlock, Item};

#[derive(Clone, Debug)]
pub(crate) struct PeerRun {
    size: usize,
    batch: usize,
    items: usize,
    process: usize,
    port: u16,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("armature-bench-peers: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let [peer, numbers @ ..] = arguments else { return Err("expected PEER SIZE BATCH ITEMS".into()) };
    let numbers: Vec<usize> = numbers.iter().filter_map(|word| word.parse().ok()).collect();
    let (peer_run, second) = match numbers[..] {
        // The base port of the TCP connections depends on the process id so that concurrent runs do not collide, and lies below the range of
        // ephemeral ports.
        [size, batch, items] => {
            let port = 12_000 + (std::process::id() % 100) as u16 * 200;
            (PeerRun { size, batch, items, process: 0, port }, Some(start_second(arguments, port)?))
        }
        [size, batch, items, port] => (PeerRun { size, batch, items, process: 1, port: port as u16 }, None),
        _ => return Err("expected PEER SIZE BATCH ITEMS".into()),
    };
    match peer_run.size {
        8 => run_with::<u64>(peer, peer_run)?,
        _ => run_with::<ByteBlock>(peer, peer_run)?,
    }
    match second.map(|mut second| second.wait()) {
        Some(Ok(status)) if !status.success() => Err(format!("the second process failed: {status}")),
        Some(Err(error)) => Err(format!("the second process was lost: {error}")),
        _ => Ok(()),
    }
}

fn start_second(arguments: &[String], port: u16) -> Result<Child, String> {
    let this = env::current_exe().map_err(|e| e.to_string())?;
    let second = Command::new(this).args(arguments).arg(port.to_string()).spawn();
    second.map_err(|e| format!("cannot start the second process: {e}"))
}

fn run_with<I: Item>(peer: &str, peer_run: PeerRun) -> Result<(), String> {
    let (process, items) = (peer_run.process, peer_run.items);
    match peer {
        "renoir" => renoir_pipeline::run::<I>(peer_run)?,
        "renoir-farm" => renoir_pipeline::farm::<I>(peer_run, true)?,
        "renoir-farm-far" => renoir_pipeline::farm::<I>(peer_run, false)?,
        "timely" => timely_pipeline::run::<I>(peer_run)?,
        other => return Err(format!("expected renoir, renoir-farm, renoir-farm-far or timely, got {other}")),
    }
    // If all items stayed in one process, communication would not be measured. Therefore the number of items that this process handled is checked. A
    // farm on both processes distributes tasks by hash, which gives only roughly equal shares.
    let far = match peer {
        "renoir-farm" => (3 * items / 10, 7 * items / 10),
        _ => (items, items),
    };
    let (low, high) = if process == 1 { far } else { (items - far.1, items - far.0) };
    let done = meter::far_items();
    if !(low..=high).contains(&done) {
        return Err(format!("expected {low} to {high} items to be handled in process {process}, got {done}"));
    }
    let expected = if peer.starts_with("renoir-farm") { task::in_any_order } else { stages::expected };
    match process {
        0 => meter::report(items, expected(items)),
        _ => Ok(()),
    }
}
