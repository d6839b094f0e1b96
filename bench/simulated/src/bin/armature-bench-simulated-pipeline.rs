//! Pipeline whose stages only declare their cost to the simulator, for experiments on simulated clusters.
//!
//! Arguments have the form NAME=VALUE: the number of `items`, and the cost of an item in each of four stages in operations (`cost`). Prints `result
//! seconds S items N`.

use std::process::ExitCode;

use armature::Session;
use armature::pipeline::Pipeline;
use armature_bench_simulated::{RunResult, run, settings};

fn main() -> ExitCode {
    run("armature-bench-simulated-pipeline", Simulated::parse, Simulated::rank)
}

struct Simulated {
    items: u64,
    cost: f64,
}

impl Simulated {
    fn parse(arguments: &[String]) -> RunResult<Self> {
        let mut simulated = Simulated { items: 0, cost: 1.0 };
        settings(arguments, |name, value| {
            match name {
                "items" => simulated.items = value.parse()?,
                "cost" => simulated.cost = value.parse()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(simulated)
    }

    fn rank(&self, session: &mut Session) -> RunResult {
        let (items, cost) = (self.items, self.cost);
        let stage =
            move |item: u64| armature::declare(cost, || item.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1);
        let clock = session.stopwatch();
        let mut sum = 0u64;
        Pipeline::source("items", move || 0..items)
            .map("first", stage)
            .map("second", stage)
            .map("third", stage)
            .map("fourth", stage)
            .for_each(session, "sum", |item| sum = sum.wrapping_add(item))?;
        if session.is_root() {
            let one = |item: u64| (0..4).fold(item, |item, _| item.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1);
            if sum != (0..items).map(one).fold(0, u64::wrapping_add) {
                return Err("the results are wrong".into());
            }
            println!("result seconds {} items {items}", clock.elapsed().as_secs_f64());
        }
        Ok(())
    }
}
