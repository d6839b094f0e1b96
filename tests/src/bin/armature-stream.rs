//! Pipeline with snapshots that survives its own crash:
//!
//! ```text
//! mpirun -n 3 armature-stream DIR ITEMS MICROSECONDS
//! ```
//!
//! Each item takes `MICROSECONDS` in a replicated stage, and passes a serial stage with state. `DIR/out` receives a line for each item. `DIR/log`
//! receives a line `first N` at each start, where N is the number of items that earlier starts have done, and a line `item N` for each item that
//! the replicated stage processes.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use armature::pipeline::{Checkpoint, Context, MappingChoice, Pipeline, Stage, StageResult};
use armature::{BatchMode, BoxError, Config, Session};

/// Time between two snapshots, short enough that a job that is killed after some tenths of a second has one.
const EVERY: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    armature::exit_code(stream())
}

fn stream() -> Result<(), BoxError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, items, microseconds] = &args[..] else { return Err("expected DIR ITEMS MICROSECONDS".into()) };
    let (dir, items) = (PathBuf::from(dir), items.parse()?);
    let time = Duration::from_micros(microseconds.parse()?);
    armature::run(&Config::from_env()?, |session| run(session, &dir, items, time))?;
    Ok(())
}

#[derive(Default)]
struct Sum(u64);

impl Stage for Sum {
    type In = u64;
    type Out = (u64, u64);

    fn process(&mut self, item: u64, _: &mut Context) -> StageResult<(u64, u64)> {
        self.0 += item;
        Ok(Some((item, self.0)))
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(self.0.to_le_bytes().to_vec())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
        self.0 = u64::from_le_bytes(state.try_into()?);
        Ok(())
    }
}

fn run(session: &mut Session, dir: &Path, items: u64, time: Duration) -> Result<(), BoxError> {
    let hosts: Vec<String> = (0..session.size()).map(|rank| rank.to_string()).collect();
    let mapping = format!("work@{} | sum@{}", hosts.join(","), session.size() - 1);
    let numbers = Pipeline::source_at("numbers", move |first| {
        append_to_log(dir, "first", first).expect("the log can be written");
        first..items
    });
    numbers
        .try_map("work", |item| {
            std::thread::sleep(time);
            append_to_log(dir, "item", item)?;
            Ok(item)
        })
        .stage("sum", || Ok(Sum::default()))
        .serial()
        .batch(BatchMode::Fixed(1))
        // A snapshot is complete only when all items that were in flight at its start have reached the sink. Fewer items in flight
        // therefore make snapshots faster.
        .window(16)
        .mapping(MappingChoice::Text(mapping))
        .snapshots(Checkpoint::new(dir.join("kept"), &items).every(EVERY))
        .write_to(session, &dir.join("out"), |(item, sum), file| Ok(writeln!(file, "{item} {sum}")?))?;
    Ok(())
}

/// Appends a line by one write, because several ranks append to the file at the same time.
fn append_to_log(dir: &Path, what: &str, item: u64) -> Result<(), BoxError> {
    let mut log = OpenOptions::new().create(true).append(true).open(dir.join("log"))?;
    log.write_all(format!("{what} {item}\n").as_bytes())?;
    Ok(())
}
