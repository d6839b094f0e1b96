//! Experiment on farms on simulated hosts that start with too many or too few workers: the number of workers to which they converge.
//!
//! The hosts are equal and connected by one switch; rank 0 only distributes tasks. The planner's model (Cesar et al. 2006) computes, from the
//! parameters of the network and the sum of all task lengths, the number of workers with the smallest performance index. The farm does not know these
//! parameters: it measures messages and tasks, and changes the number of workers between iterations. It starts with all hosts, and with a few hosts.
//! After ten iterations the number of workers must be within 15 % of the model's.

use std::path::Path;

use armature_planner::farm::Chunking;

use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue,
    farm::{
        simulated::{Network, Simulated},
        tasks::TaskShape,
    },
    table::digits,
    verdict::Interval,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "farm-workers",
    about: "farms that start with too many or too few workers on simulated networks: number of workers after ten iterations",
    needs: "SimGrid, armature-bench-simulated built for it (ci/bench.sh builds it)",
    run,
};

const FOLDER: &str = "target/bench/farm-workers";
const HOSTS: usize = 64;
const FEW_HOSTS: usize = 4;
const ITERATIONS: usize = 10;
const SEED: u64 = 5;

/// Cases: a name, a network, the number of tasks, and their mean length in seconds.
///
/// With fast links, the start-up times of messages dominate (equation (7) of Cesar et al.), with slow links the transfer of their bytes (equation
/// (8)).
const CASES: [(&str, Network, usize, f64); 13] = [
    ("slow to send", Network { bandwidth: 125e6, start_up: 200e-6 }, 2_000, 100e-6),
    ("slow to send, longer tasks", Network { bandwidth: 125e6, start_up: 200e-6 }, 2_000, 400e-6),
    ("quick to send", Network { bandwidth: 125e6, start_up: 50e-6 }, 2_000, 100e-6),
    ("narrow links", Network { bandwidth: 1e6, start_up: 50e-6 }, 2_000, 200e-6),
    ("narrow links, longer tasks", Network { bandwidth: 1e6, start_up: 50e-6 }, 2_000, 400e-6),
    // The following farms were not used in the development of the rules for the number of workers.
    ("in between", Network { bandwidth: 12.5e6, start_up: 100e-6 }, 1_000, 300e-6),
    ("more tasks, narrow links", Network { bandwidth: 2e6, start_up: 20e-6 }, 5_000, 100e-6),
    // The following farms were added after the rules for the number of workers were final.
    ("40 MB/s, 80 µs", Network { bandwidth: 40e6, start_up: 80e-6 }, 3_000, 150e-6),
    ("5 MB/s, 150 µs", Network { bandwidth: 5e6, start_up: 150e-6 }, 800, 700e-6),
    ("125 MB/s, 20 µs", Network { bandwidth: 125e6, start_up: 20e-6 }, 400, 250e-6),
    ("500 kB/s, 100 µs", Network { bandwidth: 0.5e6, start_up: 100e-6 }, 1_500, 1e-3),
    ("60 MB/s, 300 µs", Network { bandwidth: 60e6, start_up: 300e-6 }, 4_000, 250e-6),
    ("10 MB/s, 30 µs", Network { bandwidth: 10e6, start_up: 30e-6 }, 700, 120e-6),
];
const POLICIES: [Chunking; 2] = [Chunking::Auto, Chunking::Static];

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let cases = if smoke { &CASES[..1] } else { &CASES[..] };
    let (hosts, iterations) = if smoke { (24, 4) } else { (HOSTS, ITERATIONS) };
    let columns =
        ["network", "task [ms]", "chunks by", "the model's number", "begun with", "ended with", "off"];
    let mut table = Table::new(&columns);
    let mut worst: f64 = 0.0;
    for &(name, network, tasks, mean) in cases {
        for chunking in POLICIES {
            let shape = TaskShape { tasks, mean, spread: 0.8, block: 1 };
            let case = Simulated {
                network,
                shape,
                seed: SEED,
                iterations,
                workers: hosts,
                sub_masters: 0,
                chunking,
            };
            let model = case.model()?;
            let best = model.best(1..=model.most_workers(1..=hosts));
            for start in [hosts, FEW_HOSTS] {
                let end = case.final_workers(Path::new(FOLDER), start)?;
                let off = (end as f64 / best as f64 - 1.0).abs();
                worst = worst.max(off);
                table.row([
                    name.into(),
                    (1e3 * mean).into(),
                    chunking.to_string().into(),
                    best.into(),
                    start.into(),
                    end.into(),
                    digits(off, 3),
                ]);
            }
        }
    }
    report.table("", &table)?;
    let what = format!("the number after {iterations} iterations against the model's, at worst");
    report.mark(TargetedValue::new(&what, Interval::exact(worst), "off", Target::AtMost(0.15)));
    Ok(())
}
