//! Throughput of a pipeline of four trivial stages on two ranks, in two variants: the source emits all items, or the source emits fewer items and an
//! additional stage makes several items of each.

use std::time::Instant;

use armature::pipeline::{MappingChoice, Pipeline};
use armature::{Config, Progress, Session};

use crate::{
    RunResult,
    baseline::stages::{expected, first, fold, fourth, second, third},
    ranks::{Launch, Values},
};

/// Number of items in the warm-up run, which establishes connections before the measured run.
const WARM_UP: u64 = 100_000;

/// Parameters of the pipeline that is measured.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Number of items that pass through the stages.
    pub items: u64,
    /// Number of items that a stage makes of each item of the source; 0 if the source emits all items itself.
    pub of_each: u64,
}

/// Runs the pipeline on two ranks, and returns the number of items per second.
///
/// # Errors
/// If the ranks cannot be started; also errors of [`main`].
pub fn measure(setting: Setting) -> RunResult<f64> {
    let arguments = [setting.items, setting.of_each].map(|n| n.to_string());
    let values: Values = Launch::ranks(2).run("expanding", &arguments)?;
    values.get("items_per_s").copied().ok_or_else(|| "the pipeline printed no items_per_s".into())
}

/// Runs a rank of the measured pipeline; prints `result items_per_s R` on rank 0.
///
/// # Errors
/// If the arguments are wrong or the checksum is wrong.
pub fn main(arguments: &[String]) -> RunResult {
    let [items, of_each] = arguments else { return Err("expanding: ITEMS OF_EACH".into()) };
    let setting = Setting { items: items.parse()?, of_each: of_each.parse()? };
    let config = Config::from_env()?.progress(Progress::Off);
    Ok(armature::run(&config, |session| {
        run_once(session, Setting { items: WARM_UP.max(setting.of_each).min(setting.items), ..setting })?;
        let start = Instant::now();
        run_once(session, setting)?;
        if session.is_root() {
            println!("result items_per_s {}", setting.items as f64 / start.elapsed().as_secs_f64());
        }
        Ok(())
    })?)
}

fn run_once(session: &mut Session, Setting { items, of_each }: Setting) -> Result<(), armature::BoxError> {
    let mut sum = 0;
    let numbers = match of_each {
        0 => Pipeline::source("numbers", || 0..items).map("same", |n| n),
        _ => Pipeline::source("groups", || (0..items).step_by(of_each as usize))
            .flat_map("numbers", move |first| first..items.min(first + of_each)),
    };
    let mapping = match of_each {
        0 => "same+first+second@0 | third+fourth@1",
        _ => "numbers+first+second@0 | third+fourth@1",
    };
    numbers
        .map("first", first)
        .map("second", second)
        .map("third", third)
        .map("fourth", fourth)
        .mapping(MappingChoice::Text(mapping.into()))
        .for_each(session, "fold", |word| sum = fold(sum, word))?;
    if session.is_root() && sum != expected(items as usize) {
        return Err(format!("the results are wrong: checksum {sum:#x}").into());
    }
    Ok(())
}
