//! A program that goes through all phases of a job and leaves in files where each rank is, so that ranks can be killed in
//! every one of them, or end by themselves, or by a task; and [`kills`], which does that.
//!
//! ```text
//! mpirun -n 3 armature-phases DIR SKELETON [PHASE:RANK:ACT]…
//! ```
//!
//! A rank that comes to a phase writes its process number to `DIR/PHASE.RANK`. The job runs its skeleton twice, and rank 0
//! prints `run 1 is right`, `run 2 is right`, `all is right`.

mod dependent;
pub mod kills;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use armature::farm::Farm;
use armature::loops::{DoAcross, DoAcrossLoop, Grid, Shape, map};
use armature::pipeline::{MappingChoice, Pipeline};
use armature::{BoxError, Config, Session};

use crate::check::{noise, same, that};
use crate::say;

/// How long a rank holds at most: longer than a test waits for it to be killed.
const HOLD: Duration = Duration::from_secs(60);

/// Items, tasks, units or rows of a run. With a millisecond each, a run is long enough for every rank to get some.
const NUMBERS: u64 = 120;
const EACH: Duration = Duration::from_millis(1);

/// Words of a large message: MPI sends it only when its receiver is there.
const WORDS: usize = 12_500;

/// The task of a deadly skeleton that ends a process.
const DEADLY: u64 = 60;

/// Where a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// In `main`, before MPI is started.
    Launched,
    /// In the session, before the first skeleton.
    Started,
    /// In its second piece of user code of the first skeleton: the result of the first one is under way.
    Working,
    /// Between the two skeletons.
    Between,
    /// In the session, after the last skeleton.
    Ended,
    /// Behind the session.
    Left,
}

impl Phase {
    const NAMED: [(Phase, &str); 6] = [
        (Phase::Launched, "launched"),
        (Phase::Started, "started"),
        (Phase::Working, "working"),
        (Phase::Between, "between"),
        (Phase::Ended, "ended"),
        (Phase::Left, "left"),
    ];
}

/// What is run twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skeleton {
    /// A farm of closures.
    Farm,
    /// A farm one of whose tasks ends the process of whoever does it, in the first run.
    DeadlyFarm,
    /// A farm whose tasks make tasks.
    Explore,
    /// A search one of whose tasks ends the process of each rank that tries it, in the first run.
    DeadlyExplore,
    /// A workflow of closures.
    Workflow,
    /// A workflow one of whose tasks ends the process of each rank that tries it, in the first run.
    DeadlyWorkflow,
    /// One stage on all ranks.
    Pipeline,
    /// A loop over units.
    Units,
    /// A loop over rows in Gauss-Seidel order.
    Sweep,
}

impl Skeleton {
    const NAMED: [(Skeleton, &str); 9] = [
        (Skeleton::Farm, "farm"),
        (Skeleton::DeadlyFarm, "deadly-farm"),
        (Skeleton::Explore, "explore"),
        (Skeleton::DeadlyExplore, "deadly-explore"),
        (Skeleton::Workflow, "workflow"),
        (Skeleton::DeadlyWorkflow, "deadly-workflow"),
        (Skeleton::Pipeline, "pipeline"),
        (Skeleton::Units, "units"),
        (Skeleton::Sweep, "sweep"),
    ];
    /// Those that kill nobody.
    pub const ALL: [Skeleton; 6] = [
        Skeleton::Farm,
        Skeleton::Explore,
        Skeleton::Workflow,
        Skeleton::Pipeline,
        Skeleton::Units,
        Skeleton::Sweep,
    ];

    /// Returns true if other ranks take the place of one that dies in a task.
    pub fn survives_deaths(self) -> bool {
        !matches!(self, Skeleton::Pipeline | Skeleton::Units | Skeleton::Sweep)
    }

    /// The skeleton of the second run, in which no task ends a process.
    fn harmless(self) -> Self {
        match self {
            Skeleton::DeadlyFarm => Skeleton::Farm,
            Skeleton::DeadlyExplore => Skeleton::Explore,
            Skeleton::DeadlyWorkflow => Skeleton::Workflow,
            harmless => harmless,
        }
    }
}

/// What a rank does where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Stays until there is a file `DIR/go`.
    Hold,
    /// Ends by `exit(3)`.
    Exit,
    /// Ends by `exit(0)`.
    Quit,
    /// Ends by `abort`.
    Abort,
    /// Returns an error.
    Fail,
    /// Panics.
    Panic,
}

impl Act {
    const NAMED: [(Act, &str); 6] = [
        (Act::Hold, "hold"),
        (Act::Exit, "exit"),
        (Act::Quit, "quit"),
        (Act::Abort, "abort"),
        (Act::Fail, "fail"),
        (Act::Panic, "panic"),
    ];
}

/// Texts for the values of a list, and back.
macro_rules! named {
    ($($kind:ty),*) => {$(
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let name = Self::NAMED.iter().find(|(value, _)| value == self).map_or("?", |(_, name)| name);
                f.write_str(name)
            }
        }

        impl FromStr for $kind {
            type Err = BoxError;

            fn from_str(text: &str) -> Result<Self, BoxError> {
                let found = Self::NAMED.iter().find(|(_, name)| *name == text).map(|(value, _)| *value);
                let all = Self::NAMED.map(|(_, name)| name).join(", ");
                found.ok_or_else(|| format!("`{text}`: expected one of {all}").into())
            }
        }
    )*};
}
named!(Phase, Skeleton, Act);

/// Something that a rank does in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deed {
    /// Where.
    pub phase: Phase,
    /// Who.
    pub rank: usize,
    /// What.
    pub act: Act,
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.phase, self.rank, self.act)
    }
}

impl FromStr for Deed {
    type Err = BoxError;

    fn from_str(text: &str) -> Result<Self, BoxError> {
        match text.split(':').collect::<Vec<_>>()[..] {
            [phase, rank, act] => Ok(Deed { phase: phase.parse()?, rank: rank.parse()?, act: act.parse()? }),
            _ => Err(format!("`{text}`: expected PHASE:RANK:ACT").into()),
        }
    }
}

/// The program.
///
/// # Errors
/// Wrong arguments, wrong results, and what a deed asks for.
pub fn main(words: &[String]) -> Result<(), BoxError> {
    let [dir, skeleton, deeds @ ..] = words else {
        return Err("expected DIR SKELETON [PHASE:RANK:ACT]…".into());
    };
    let deeds = deeds.iter().map(|deed| deed.parse()).collect::<Result<_, _>>()?;
    let rank = launched_as().ok_or("no launcher says which rank this is")?;
    let me = Rank { dir: dir.into(), rank, deeds, pieces: AtomicUsize::new(0) };
    let skeleton = skeleton.parse()?;
    me.at(Phase::Launched)?;
    armature::run(&Config::from_env()?, |session| me.run(session, skeleton))?;
    me.at(Phase::Left)
}

/// This process's rank, as launchers say before MPI is started.
fn launched_as() -> Option<usize> {
    let names = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];
    names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// Where a rank says that it has come to a phase.
fn mark(dir: &Path, phase: Phase, rank: usize) -> PathBuf {
    dir.join(format!("{phase}.{rank}"))
}

/// Holds end when there is this file.
fn go(dir: &Path) -> PathBuf {
    dir.join("go")
}

/// One rank of the program.
struct Rank {
    dir: PathBuf,
    rank: usize,
    deeds: Vec<Deed>,
    /// Pieces of user code that this rank has begun.
    pieces: AtomicUsize,
}

impl Rank {
    /// Says that it has come to a phase, and does what it is to do there.
    fn at(&self, phase: Phase) -> Result<(), BoxError> {
        let mark = mark(&self.dir, phase, self.rank);
        // By another name first: who sees the file finds the number in it.
        let new = mark.with_extension(format!("{}.new", self.rank));
        std::fs::write(&new, std::process::id().to_string())?;
        std::fs::rename(&new, &mark)?;
        for deed in self.deeds.iter().filter(|deed| deed.phase == phase && deed.rank == self.rank) {
            match deed.act {
                Act::Hold => self.hold(),
                Act::Exit => std::process::exit(3),
                Act::Quit => std::process::exit(0),
                Act::Abort => std::process::abort(),
                Act::Fail => return Err(format!("rank {} fails: {phase}", self.rank).into()),
                Act::Panic => panic!("rank {} panics: {phase}", self.rank),
            }
        }
        Ok(())
    }

    fn hold(&self) {
        let (go, start) = (go(&self.dir), Instant::now());
        while !go.exists() && start.elapsed() < HOLD {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// To be called in user code of a skeleton.
    fn work(&self) -> Result<(), BoxError> {
        std::thread::sleep(EACH);
        if self.pieces.fetch_add(1, Ordering::Relaxed) == 1 { self.at(Phase::Working) } else { Ok(()) }
    }

    fn run(&self, session: &mut Session, skeleton: Skeleton) -> Result<(), BoxError> {
        let is_root = session.is_root();
        let say = |text: &str| {
            if is_root {
                say(text);
            }
        };
        self.at(Phase::Started)?;
        self.once(session, skeleton)?;
        say("run 1 is right");
        self.at(Phase::Between)?;
        self.once(session, skeleton.harmless())?;
        say("run 2 is right");
        self.at(Phase::Ended)?;
        say("all is right");
        Ok(())
    }

    fn once(&self, session: &mut Session, skeleton: Skeleton) -> Result<(), BoxError> {
        let work = |n: u64| self.work().map(|()| noise(3, n));
        let expected = || (0..NUMBERS).map(|n| noise(3, n)).collect::<Vec<u64>>();
        match skeleton {
            Skeleton::Farm => {
                let farm = Farm::try_new("numbers", |n: Vec<u64>| Ok(vec![work(n[0])?; WORDS]));
                let out = farm.retries(1).collect(session, (0..NUMBERS).map(|n| vec![n; WORDS]))?;
                let Some(out) = out.on_root() else { return Ok(()) };
                let large: Vec<_> = expected().into_iter().map(|x| vec![x; WORDS]).collect();
                same(session, "results", &out, &large)
            }
            Skeleton::Explore => self.explore(session, false),
            Skeleton::DeadlyExplore => self.explore(session, true),
            Skeleton::Workflow => self.workflow(session, false),
            Skeleton::DeadlyWorkflow => self.workflow(session, true),
            Skeleton::DeadlyFarm => {
                let (mut out, mut failed) = (Vec::new(), Vec::new());
                let deadly = |n: u64| if n == DEADLY { std::process::abort() } else { work(n) };
                // Rank 0 must not be the first to have it.
                let mut farm = Farm::try_new("numbers", deadly).dedicated_master();
                farm.for_each_result(session, 0..NUMBERS, |n, result| match result {
                    Ok(x) => out.push(x),
                    Err(task) => failed.push((n, task.tries())),
                })?;
                let (mut expected, mut deaths) = (expected(), vec![(DEADLY, 1)]);
                expected.remove(DEADLY as usize);
                if !session.is_root() {
                    (expected, deaths) = Default::default();
                }
                same(session, "results", &out, &expected)?;
                same(session, "failed tasks", &failed, &deaths)
            }
            Skeleton::Pipeline => {
                let mut out = Vec::new();
                let all: Vec<String> = (0..session.size()).map(|rank| rank.to_string()).collect();
                Pipeline::source("numbers", || 0..NUMBERS)
                    .try_map("wide", work)
                    .mapping(MappingChoice::Text(format!("wide@{}", all.join(","))))
                    .for_each(session, "collect", |item| out.push(item))?;
                let expected = if session.is_root() { expected() } else { Vec::new() };
                same(session, "items", &out, &expected)
            }
            Skeleton::Units => {
                let out = map(session, "numbers", 0..NUMBERS, |n| work(n).map_err(|e| e.to_string()))?;
                let out = out.into_iter().collect::<Result<Vec<u64>, String>>()?;
                that(out == expected(), || format!("rank {}: wrong values", session.rank()))
            }
            Skeleton::Sweep => {
                let shape = Shape { rows: NUMBERS, columns: 4 };
                let mut rows = DoAcrossLoop::new("rows", shape, Count(self));
                rows.run(session, 4)?;
                let grid = rows.collect(session)?.unwrap_or_default();
                let inner = |row: &[f64]| (row[1], row[2]);
                let counts: Vec<_> =
                    grid.chunks_exact(4).map(inner).skip(1).take(NUMBERS as usize - 2).collect();
                let expected = if session.is_root() { NUMBERS as usize - 2 } else { 0 };
                same(session, "rows", &counts, &vec![(4.0, 4.0); expected])
            }
        }
    }
}

/// Counts how often each value was computed.
struct Count<'a>(&'a Rank);

impl DoAcross for Count<'_> {
    type Value = f64;

    fn row(&mut self, _: u64, values: &mut [f64]) -> Result<(), BoxError> {
        values.fill(0.0);
        Ok(())
    }

    fn sweep(&mut self, grid: Grid<'_, f64>, columns: Range<usize>) -> Result<(), BoxError> {
        self.0.work()?;
        let inner = grid.rows() - 2;
        for row in grid.values.chunks_exact_mut(grid.width).skip(1).take(inner) {
            row[columns.clone()].iter_mut().for_each(|value| *value += 1.0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeds_are_read_as_they_are_written() {
        for (phase, _) in Phase::NAMED {
            for (act, _) in Act::NAMED {
                let deed = Deed { phase, rank: 2, act };
                assert_eq!(deed.to_string().parse::<Deed>().unwrap(), deed);
            }
        }
        for wrong in ["left:1", "left:one:hold", "never:1:hold", "left:1:wait"] {
            assert!(wrong.parse::<Deed>().is_err(), "{wrong}");
        }
    }
}
