//! Loop whose units (rows of a grid, or indices) only declare their cost to the simulator, for experiments on simulated clusters.
//!
//! Arguments have the form NAME=VALUE: the `kind` of loop (`all`, `sweep`), the number of `units`, the cost of a unit in operations (`unit`), the
//! `bytes` of a unit, the number of measured `passes` and of warm-up passes before them (`settle`), the number (`block`) of units or columns that are
//! computed between two polls for messages (0: chosen by the framework), `live` (true if load is balanced at run time), the initial `shares` of the
//! ranks, the `quantum` (time slice of the operating system's scheduler) in seconds, and the relative `noise` of each rank's speed with its `seed`; a
//! new random factor applies in every half second. Prints `result seconds S total S movements N interactions N interacting S computing-R S units-R N
//! …`: the time of the measured passes, the time of all passes, the number of moves and of balancing steps, the seconds that rank 0 spends in
//! balancing, and for each rank R its seconds of computing and its number of computed units.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use armature::loops::{DoAcross, DoAcrossLoop, DoAll, DoAllLoop, Grid, Rows, Settings, Shape, Summary};
use armature::{Balance, Session, Stopwatch};
use armature_bench_simulated::{RunResult, run, settings};
use rand::{SeedableRng, rngs::StdRng};
use rand_distr::{Distribution, Normal};

fn main() -> ExitCode {
    run("armature-bench-simulated-loop", Simulated::parse, Simulated::rank)
}

#[derive(Default)]
struct Simulated {
    kind: String,
    units: u64,
    unit: f64,
    bytes: usize,
    passes: u64,
    settle: u64,
    block: u64,
    live: bool,
    shares: Vec<f64>,
    quantum: f64,
    noise: f64,
    seed: u64,
}

impl Simulated {
    fn parse(arguments: &[String]) -> RunResult<Self> {
        let mut simulated = Simulated::default();
        settings(arguments, |name, value| {
            match name {
                "kind" => simulated.kind = value.into(),
                "units" => simulated.units = value.parse()?,
                "unit" => simulated.unit = value.parse()?,
                "bytes" => simulated.bytes = value.parse()?,
                "passes" => simulated.passes = value.parse()?,
                "settle" => simulated.settle = value.parse()?,
                "block" => simulated.block = value.parse()?,
                "live" => simulated.live = value.parse()?,
                "shares" => simulated.shares = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
                "quantum" => simulated.quantum = value.parse()?,
                "noise" => simulated.noise = value.parse()?,
                "seed" => simulated.seed = value.parse()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(simulated)
    }

    fn settings(&self) -> RunResult<Settings> {
        let mut settings = Settings::new().balance(if self.live { Balance::Live } else { Balance::Off });
        if self.block > 0 {
            settings = match self.kind.as_str() {
                "sweep" => settings.strip_width(self.block),
                _ => settings.block_size(self.block),
            };
        }
        if !self.shares.is_empty() {
            settings = settings.shares(self.shares.clone());
        }
        if self.quantum > 0.0 {
            settings = settings.quantum(Duration::try_from_secs_f64(self.quantum)?);
        }
        Ok(settings)
    }

    fn rank(&self, session: &mut Session) -> RunResult {
        let (settings, work) = (
            self.settings()?,
            Declares { what: self, rank: session.rank() as u64, clock: session.stopwatch() },
        );
        // In a sweep, only the rows between the two edge rows are computed and can move.
        let shape = Shape { rows: self.units + 2, columns: self.bytes };
        match self.kind.as_str() {
            "all" => {
                let mut all = DoAllLoop::new("all", self.units, work).settings(settings);
                self.run(session, |session, passes| all.run(session, passes))
            }
            "sweep" => {
                let mut sweep = DoAcrossLoop::new("sweep", shape, work).settings(settings);
                self.run(session, |session, sweeps| sweep.run(session, sweeps))
            }
            kind => Err(format!("there is no kind of loop `{kind}`").into()),
        }
    }

    fn run(
        &self,
        session: &mut Session,
        mut run: impl FnMut(&mut Session, u64) -> armature::Result<armature::Outcome<(), Summary>>,
    ) -> RunResult {
        let clock = session.stopwatch();
        let before = if self.settle > 0 { run(session, self.settle)?.into_summary() } else { None };
        let settled = clock.elapsed();
        let run = run(session, self.passes)?;
        let total = clock.elapsed();
        let Some(summary) = run.into_summary() else { return Ok(()) };
        let movements = summary.movements + before.map_or(0, |before| before.movements);
        print!(
            "result seconds {} total {} movements {movements} interactions {}",
            (total - settled).as_secs_f64(),
            total.as_secs_f64(),
            summary.interactions
        );
        if let Some(root) = summary.ranks.first() {
            print!(" interacting {}", root.interacting.as_secs_f64());
        }
        for (rank, report) in summary.ranks.iter().enumerate() {
            print!(" computing-{rank} {} units-{rank} {}", report.busy.as_secs_f64(), report.units);
        }
        println!();
        Ok(())
    }
}

struct Declares<'a> {
    what: &'a Simulated,
    rank: u64,
    clock: Stopwatch,
}

impl Declares<'_> {
    /// Declares the operations of `units` units (rows or indices) to the simulator, multiplied by the current random factor of this rank's speed.
    fn work(&self, units: f64) {
        let mut operations = self.what.unit * units;
        if self.what.noise > 0.0 {
            let half = (2.0 * self.clock.elapsed().as_secs_f64()) as u64;
            let seed = self.what.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (self.rank << 40) ^ half;
            let normal =
                Normal::new(1.0, self.what.noise).map(|n| n.sample(&mut StdRng::seed_from_u64(seed)));
            operations *= normal.unwrap_or(1.0).max(0.1);
        }
        armature::declare(operations, || ());
    }
}

impl DoAll for Declares<'_> {
    type Units = Rows<u8>;

    fn create(&mut self, range: Range<u64>) -> RunResult<Rows<u8>> {
        Ok(Rows::zeroed(range, self.what.bytes))
    }

    fn compute(&mut self, range: Range<u64>, _: &mut [u8]) -> RunResult {
        self.work((range.end - range.start) as f64);
        Ok(())
    }
}

impl DoAcross for Declares<'_> {
    type Value = u8;

    fn row(&mut self, _: u64, values: &mut [u8]) -> RunResult {
        values.fill(0);
        Ok(())
    }

    fn sweep(&mut self, grid: Grid<'_, u8>, columns: Range<usize>) -> RunResult {
        self.work((grid.rows() - 2) as f64 * columns.len() as f64 / (grid.width - 2) as f64);
        Ok(())
    }
}
