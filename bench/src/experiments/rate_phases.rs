//! Experiment on a text search that suddenly needs much more time in the stage `verify`: live balancing against a fixed mapping (assignment of stages
//! to ranks), and against the best mapping for each half of the text.
//!
//! The pattern consists of 512 letters a. The first half of the text contains the pattern once per kilobyte, so that hashing is all of the work. The
//! second half of the text consists only of this letter: a match begins at each byte and takes 512 comparisons. The best mapping for a half is found
//! in advance, by searching only this half with several mappings.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::stream_runs::{folder, mapping, real, seconds, simulated};
use crate::pairs::{Contestant, round_robin};
use crate::stats::{median_interval, paired_ratios};
use crate::verdict::Interval;
use crate::{Experiment, Report, RunResult, Table, Target, TargetedValue};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rate-phases",
    about: "a search that changes in the middle: live balancing against mappings known beforehand",
    needs: "mpirun of Open MPI, two cores, SimGrid, rabin-karp built for both (ci/bench.sh builds it)",
    run,
};

const PATTERN: usize = 512;
const SEGMENT: u64 = 64 << 10;
const STATIC: &str = "static";
const LIVE: &str = "live";
const KNOWN_BEFOREHAND: &str = "known beforehand";

/// Kind of ranks (real or simulated) on which the search runs, and the parameters of the search on these ranks.
struct Environment {
    name: &'static str,
    ranks: usize,
    /// Function that runs a program, given its name, the number of ranks and the arguments, and returns its output.
    start: fn(&str, usize, &[String]) -> RunResult<String>,
    /// True if a repeated run takes exactly the same time, as on simulated ranks. In this case one run suffices.
    repeats: bool,
    /// Number of segments in each half of the searched text.
    halves: [u64; 2],
    fixed: &'static str,
    /// Further mappings (assignments of stages to ranks), one of which may be the fastest for a half of the text.
    others: &'static [&'static str],
}

impl Environment {
    fn interval(&self, samples: &[f64]) -> Interval {
        match samples {
            [value] if self.repeats => Interval::exact(*value),
            _ => median_interval(samples),
        }
    }
}

const REAL: Environment = Environment {
    name: "two real ranks",
    ranks: 2,
    start: real,
    repeats: false,
    halves: [24_000, 2_000],
    fixed: "hash@0 | verify@1",
    others: &["hash+verify@0,1", "hash@0,1 | verify@0,1", "hash@0,1 | verify@1", "hash@0 | verify@0,1"],
};

const SIMULATED: Environment = Environment {
    name: "six simulated ranks",
    ranks: 6,
    start: simulated,
    repeats: true,
    halves: [12_000, 1_000],
    fixed: "hash@0,1,2,3 | verify@4,5",
    others: &[
        "hash+verify@0,1,2,3,4,5",
        "hash@0,1,2,3,4 | verify@5",
        "hash@0 | verify@1,2,3,4,5",
        "hash@0,1,2,3,4,5 | verify@0,1,2,3,4,5",
    ],
};

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let folder = folder("rate-phases")?;
    for (part, mut environment) in [("real", REAL), ("simulated", SIMULATED)] {
        if !report.selects(part) {
            continue;
        }
        if smoke {
            environment.halves = environment.halves.map(|segments| segments / 50);
        }
        let rounds = if environment.repeats { 1 } else { report.rounds(15) };
        compare(report, part, &environment, &folder, rounds, smoke)?;
    }
    Ok(())
}

fn compare(
    report: &mut Report,
    part: &str,
    environment: &Environment,
    folder: &Path,
    rounds: usize,
    smoke: bool,
) -> RunResult {
    let [first, second] = environment.halves;
    let mut best = Vec::new();
    for half in [[first, 0], [0, second]] {
        let mut fastest = (f64::INFINITY, environment.fixed);
        for candidate in std::iter::once(&environment.fixed).chain(environment.others) {
            let took = measure_once(environment, folder, half, candidate, &[])?;
            if took < fastest.0 {
                fastest = (took, candidate);
            }
        }
        report.note(format!("{}: the best for a half alone is `{}`", environment.name, fastest.1));
        best.push(fastest.1);
    }
    let later = format!("{first}:{}", mapping(folder, best[1])?);
    let both = [first, second];
    let events: RefCell<PathBuf> = RefCell::new(folder.join(format!("events-{part}")));
    let live = || {
        let arguments = ["--balance".into(), "live".into(), "--events".into()];
        let events = events.borrow().display().to_string();
        measure_once(environment, folder, both, environment.fixed, &[&arguments[..], &[events]].concat())
    };
    let contestants = vec![
        Contestant::new(STATIC, || measure_once(environment, folder, both, environment.fixed, &[])),
        Contestant::new(LIVE, live),
        Contestant::new(KNOWN_BEFOREHAND, || {
            measure_once(environment, folder, both, best[0], &["--remap".into(), later.clone()])
        }),
    ];
    let rounds = round_robin(rounds, contestants)?;
    let mut table = Table::new(&["mapping", "median [s]", "low", "high"]);
    for (name, samples) in rounds.iter() {
        let time = environment.interval(samples);
        table.row([name.into(), time.value.into(), time.low.into(), time.high.into()]);
    }
    report.table(part, &table)?;
    let ratio = |other| -> Option<Interval> {
        Some(environment.interval(&paired_ratios(rounds.of(other)?, rounds.of(LIVE)?)))
    };
    if let (Some(known), Some(fixed)) = (ratio(KNOWN_BEFOREHAND), ratio(STATIC)) {
        let what = |other: &str| format!("{}: live against {other}", environment.name);
        report.mark(TargetedValue::new(
            &what("the best mapping of each half"),
            known,
            "times as fast",
            Target::AtLeast(0.85),
        ));
        report.mark(TargetedValue::new(
            &what("a mapping that stays"),
            fixed,
            "times as fast",
            Target::AtLeast(1.0),
        ));
    }
    if !smoke {
        report.note(format!("what was decided: armature explain {}", events.borrow().display()));
    }
    Ok(())
}

/// Returns the seconds of a search in a text whose halves have the given numbers of segments.
fn measure_once(
    environment: &Environment,
    folder: &Path,
    halves: [u64; 2],
    first: &str,
    more: &[String],
) -> RunResult<f64> {
    let pattern = "a".repeat(PATTERN);
    let quiet = format!("{pattern}{}", "b".repeat(PATTERN));
    let mut arguments = vec![pattern, "--count".into(), "--segment".into(), SEGMENT.to_string()];
    for (text, segments) in [(quiet.as_str(), halves[0]), ("a", halves[1])] {
        if segments > 0 {
            arguments.extend(["--generate".into(), format!("{text}:{}", segments * SEGMENT)]);
        }
    }
    arguments.extend(["--mapping".into(), mapping(folder, first)?]);
    arguments.extend(more.iter().cloned());
    seconds(&(environment.start)("rabin-karp", environment.ranks, &arguments)?)
}
