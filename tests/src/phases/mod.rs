//! A program that runs through all phases of a job and records the phase of each rank in files. Tests can kill
//! ranks in every phase, make them end, or run a task that aborts its process. The module [`kills`] kills ranks.
//!
//! ```text
//! mpirun -n 3 armature-phases DIR SKELETON [PHASE:RANK:ACT]…
//! ```
//!
//! A rank that enters a phase writes its process ID to `DIR/PHASE.RANK`. The job runs its skeleton twice, and
//! rank 0 prints `run 1 is right`, `run 2 is right`, `all is right`.

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

use crate::check::{check_equal, ensure, noise};
use crate::print_line;

/// Longest time for which a rank is held in a phase: not shorter than the time for which a test waits before it kills a rank.
const HOLD_LIMIT: Duration = Duration::from_secs(60);

/// Number of items, tasks, indices or rows in a run. Each takes a millisecond, so that every rank gets some.
const NUMBERS: u64 = 120;
const CALL_TIME: Duration = Duration::from_millis(1);

/// Number of 8-byte words of a message that is large enough for MPI to send it only when the receive is posted.
const LARGE_MESSAGE_WORDS: usize = 12_500;

/// Number of the task that aborts the process of its rank.
const DEADLY: u64 = 60;

/// Phase of a job that a rank has entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// The rank is in `main`, before MPI is initialised.
    Launched,
    /// The rank is in the session, before the first of two skeletons (such as farms).
    Started,
    /// The rank is in its second call of user code, in the first skeleton, while the result of its first call is being
    /// sent.
    Working,
    /// The rank is in the session, between the two skeletons (such as farms).
    Between,
    /// The rank is in the session, after the last of two skeletons (such as farms).
    Ended,
    /// The rank has left the session.
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

/// Skeleton (pattern of parallel work) that the program runs twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skeleton {
    /// A farm of closures.
    Farm,
    /// A farm in whose first run one task aborts the process of the rank that runs it.
    DeadlyFarm,
    /// A search: a farm whose tasks generate tasks.
    Explore,
    /// A search (a farm whose tasks generate tasks). In its first run, one task aborts the process of each rank that tries it.
    DeadlyExplore,
    /// A workflow of closures.
    Workflow,
    /// A workflow in whose first run one task aborts the process of each rank that tries it.
    DeadlyWorkflow,
    /// A pipeline of one stage on all ranks.
    Pipeline,
    /// A loop over independent indices.
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
    /// Skeletons (such as a farm) in which no task aborts a process.
    pub const ALL: [Skeleton; 6] = [
        Skeleton::Farm,
        Skeleton::Explore,
        Skeleton::Workflow,
        Skeleton::Pipeline,
        Skeleton::Units,
        Skeleton::Sweep,
    ];

    /// Returns true if other ranks take over the work of a rank that dies in a task.
    pub fn survives_deaths(self) -> bool {
        !matches!(self, Skeleton::Pipeline | Skeleton::Units | Skeleton::Sweep)
    }

    /// Returns the skeleton (such as a farm) of the second run, in which no task aborts a process.
    fn harmless(self) -> Self {
        match self {
            Skeleton::DeadlyFarm => Skeleton::Farm,
            Skeleton::DeadlyExplore => Skeleton::Explore,
            Skeleton::DeadlyWorkflow => Skeleton::Workflow,
            harmless => harmless,
        }
    }
}

/// Action (such as an exit) of a rank that has entered a phase of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionKind {
    /// The rank waits until the file `DIR/go` exists, at most for 60 s.
    Hold,
    /// The rank exits with code 3.
    Exit,
    /// The rank exits with code 0, before the job is done.
    Quit,
    /// The rank aborts its process, which raises SIGABRT.
    Abort,
    /// The closure that the rank gives to `armature::run` returns an error.
    Fail,
    /// The closure that the rank gives to `armature::run` panics.
    Panic,
}

impl ActionKind {
    const NAMED: [(ActionKind, &str); 6] = [
        (ActionKind::Hold, "hold"),
        (ActionKind::Exit, "exit"),
        (ActionKind::Quit, "quit"),
        (ActionKind::Abort, "abort"),
        (ActionKind::Fail, "fail"),
        (ActionKind::Panic, "panic"),
    ];
}

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
named!(Phase, Skeleton, ActionKind);

/// Action (such as an exit) that one rank performs in one phase of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankAction {
    /// Phase of the job in which the rank performs the action.
    pub phase: Phase,
    /// Rank that performs the action.
    pub rank: usize,
    /// Action (such as an exit) that the rank performs.
    pub kind: ActionKind,
}

impl fmt::Display for RankAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.phase, self.rank, self.kind)
    }
}

impl FromStr for RankAction {
    type Err = BoxError;

    fn from_str(text: &str) -> Result<Self, BoxError> {
        match text.split(':').collect::<Vec<_>>()[..] {
            [phase, rank, kind] => {
                Ok(RankAction { phase: phase.parse()?, rank: rank.parse()?, kind: kind.parse()? })
            }
            _ => Err(format!("`{text}`: expected PHASE:RANK:ACT").into()),
        }
    }
}

/// Runs a rank of the program `armature-phases`, whose arguments are `DIR SKELETON [PHASE:RANK:ACT]…`.
///
/// # Errors
/// Returns an error if the arguments or the results are wrong, or if the rank is requested to return an error in a
/// phase.
pub fn main(arguments: &[String]) -> Result<(), BoxError> {
    let [dir, skeleton, actions @ ..] = arguments else {
        return Err("expected DIR SKELETON [PHASE:RANK:ACT]…".into());
    };
    let actions = actions.iter().map(|action| action.parse()).collect::<Result<_, _>>()?;
    let rank = rank_from_launcher().ok_or("no launcher says which rank this is")?;
    let this_rank = Rank { dir: dir.into(), rank, actions, calls: AtomicUsize::new(0) };
    let skeleton = skeleton.parse()?;
    this_rank.enter_phase(Phase::Launched)?;
    armature::run(&Config::from_env()?, |session| this_rank.run(session, skeleton))?;
    this_rank.enter_phase(Phase::Left)
}

/// Returns this rank's number from variables of the launcher, because MPI is not initialised yet.
fn rank_from_launcher() -> Option<usize> {
    let names = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];
    names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

fn phase_file(dir: &Path, phase: Phase, rank: usize) -> PathBuf {
    dir.join(format!("{phase}.{rank}"))
}

/// Returns the file that a test creates to let waiting ranks continue.
fn release_file(dir: &Path) -> PathBuf {
    dir.join("go")
}

struct Rank {
    dir: PathBuf,
    rank: usize,
    actions: Vec<RankAction>,
    calls: AtomicUsize,
}

impl Rank {
    /// Records in a file that this rank has entered a phase, and performs the actions (such as an exit) requested for it.
    fn enter_phase(&self, phase: Phase) -> Result<(), BoxError> {
        let phase_file = phase_file(&self.dir, phase, self.rank);
        // The file is written under another name and renamed, so that a reader never finds the file without the process ID.
        let new = phase_file.with_extension(format!("{}.new", self.rank));
        std::fs::write(&new, std::process::id().to_string())?;
        std::fs::rename(&new, &phase_file)?;
        for action in self.actions.iter().filter(|action| action.phase == phase && action.rank == self.rank) {
            match action.kind {
                ActionKind::Hold => self.wait_for_release(),
                ActionKind::Exit => std::process::exit(3),
                ActionKind::Quit => std::process::exit(0),
                ActionKind::Abort => std::process::abort(),
                ActionKind::Fail => return Err(format!("rank {} fails: {phase}", self.rank).into()),
                ActionKind::Panic => panic!("rank {} panics: {phase}", self.rank),
            }
        }
        Ok(())
    }

    fn wait_for_release(&self) {
        let (release_file, start) = (release_file(&self.dir), Instant::now());
        while !release_file.exists() && start.elapsed() < HOLD_LIMIT {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// User code of one task, item or index. The second call on a rank enters [`Phase::Working`].
    fn work(&self) -> Result<(), BoxError> {
        std::thread::sleep(CALL_TIME);
        if self.calls.fetch_add(1, Ordering::Relaxed) == 1 {
            self.enter_phase(Phase::Working)
        } else {
            Ok(())
        }
    }

    fn run(&self, session: &mut Session, skeleton: Skeleton) -> Result<(), BoxError> {
        let is_root = session.is_root();
        let print_line = |text: &str| {
            if is_root {
                print_line(text);
            }
        };
        self.enter_phase(Phase::Started)?;
        self.run_once(session, skeleton)?;
        print_line("run 1 is right");
        self.enter_phase(Phase::Between)?;
        self.run_once(session, skeleton.harmless())?;
        print_line("run 2 is right");
        self.enter_phase(Phase::Ended)?;
        print_line("all is right");
        Ok(())
    }

    fn run_once(&self, session: &mut Session, skeleton: Skeleton) -> Result<(), BoxError> {
        let work = |n: u64| self.work().map(|()| noise(3, n));
        let expected = || (0..NUMBERS).map(|n| noise(3, n)).collect::<Vec<u64>>();
        match skeleton {
            Skeleton::Farm => {
                let farm = Farm::try_new("numbers", |n: Vec<u64>| Ok(vec![work(n[0])?; LARGE_MESSAGE_WORDS]));
                let out =
                    farm.retries(1).collect(session, (0..NUMBERS).map(|n| vec![n; LARGE_MESSAGE_WORDS]))?;
                let Some(out) = out.on_root() else { return Ok(()) };
                let large: Vec<_> = expected().into_iter().map(|x| vec![x; LARGE_MESSAGE_WORDS]).collect();
                check_equal(session, "results", &out, &large)
            }
            Skeleton::Explore => self.explore(session, false),
            Skeleton::DeadlyExplore => self.explore(session, true),
            Skeleton::Workflow => self.workflow(session, false),
            Skeleton::DeadlyWorkflow => self.workflow(session, true),
            Skeleton::DeadlyFarm => {
                let (mut out, mut failed) = (Vec::new(), Vec::new());
                let deadly = |n: u64| if n == DEADLY { std::process::abort() } else { work(n) };
                // Rank 0 must not get the deadly task, because the job ends if rank 0 dies.
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
                check_equal(session, "results", &out, &expected)?;
                check_equal(session, "failed tasks", &failed, &deaths)
            }
            Skeleton::Pipeline => {
                let mut out = Vec::new();
                let all: Vec<String> = (0..session.size()).map(|rank| rank.to_string()).collect();
                Pipeline::source("numbers", || 0..NUMBERS)
                    .try_map("wide", work)
                    .mapping(MappingChoice::Text(format!("wide@{}", all.join(","))))
                    .for_each(session, "collect", |item| out.push(item))?;
                let expected = if session.is_root() { expected() } else { Vec::new() };
                check_equal(session, "items", &out, &expected)
            }
            Skeleton::Units => {
                let out = map(session, "numbers", 0..NUMBERS, |n| work(n).map_err(|e| e.to_string()))?;
                let out = out.into_iter().collect::<Result<Vec<u64>, String>>()?;
                ensure(out == expected(), || format!("rank {}: wrong values", session.rank()))
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
                check_equal(session, "rows", &counts, &vec![(4.0, 4.0); expected])
            }
        }
    }
}

/// Loop over rows that adds one to each value in each sweep, so that a value is the number of its computations.
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
    fn actions_round_trip_through_text() {
        for (phase, _) in Phase::NAMED {
            for (kind, _) in ActionKind::NAMED {
                let action = RankAction { phase, rank: 2, kind };
                assert_eq!(action.to_string().parse::<RankAction>().unwrap(), action);
            }
        }
        for wrong in ["left:1", "left:one:hold", "never:1:hold", "left:1:wait"] {
            assert!(wrong.parse::<RankAction>().is_err(), "{wrong}");
        }
    }
}
