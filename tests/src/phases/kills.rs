//! Kills one rank of a [`phases`](super) job at a given moment. No job may hang, the exit code must be right, and a
//! job that finishes must have right results.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use armature_launch::Mpi;
use rustix::process::{Pid, Signal, kill_process};

use super::{ActionKind, Phase, RankAction, Skeleton, phase_file, release_file};
use crate::check::noise;
use crate::mpirun::{Job, JobResult, linked};

/// Number of ranks of a job.
pub const RANKS: usize = 3;

/// Time limit of a job, which takes some seconds with its restart if there is one.
const JOB_LIMIT: Duration = Duration::from_secs(60);

/// Longest time that a rank needs to begin its next wait for other ranks (in `MPI_Init` or at the end of the session) after it has recorded a phase.
const NEXT_CALL_DELAY: Duration = Duration::from_millis(300);

/// Moment in a job at which one rank is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Moment {
    /// The rank has not initialised MPI yet.
    Launched,
    /// The rank is in `MPI_Init`, where it waits for another rank.
    Starting,
    /// The rank is in the session, before the first of two skeletons (such as farms).
    Started,
    /// The rank runs user code of the first of two skeletons (such as farms).
    Working,
    /// The rank is in the session, between the two skeletons (such as farms).
    Between,
    /// The rank is in the session, after the last of two skeletons (such as farms).
    Ended,
    /// The rank has finished its part, and waits for the other ranks to leave the session.
    Leaving,
    /// The rank has left the session.
    Left,
    /// The rank runs a task that aborts its process.
    Task,
}

impl Moment {
    /// All moments in chronological order, followed by [`Moment::Task`].
    pub const ALL: [Moment; 9] = [
        Moment::Launched,
        Moment::Starting,
        Moment::Started,
        Moment::Working,
        Moment::Between,
        Moment::Ended,
        Moment::Leaving,
        Moment::Left,
        Moment::Task,
    ];

    /// Returns the last phase that the rank records before it is killed, or `None` if a task aborts the rank. The boolean is true if the rank is
    /// killed in its next wait for other ranks. The test then holds another rank in this phase.
    fn phase(self) -> Option<(Phase, bool)> {
        Some(match self {
            Moment::Launched => (Phase::Launched, false),
            Moment::Starting => (Phase::Launched, true),
            Moment::Started => (Phase::Started, false),
            Moment::Working => (Phase::Working, false),
            Moment::Between => (Phase::Between, false),
            Moment::Ended => (Phase::Ended, false),
            Moment::Leaving => (Phase::Ended, true),
            Moment::Left => (Phase::Left, false),
            Moment::Task => return None,
        })
    }
}

/// Kill of one rank, with the moment and the job.
#[derive(Clone, Copy, Debug)]
pub struct Kill {
    /// Moment at which the rank is killed.
    pub moment: Moment,
    /// Rank to kill.
    pub rank: usize,
    /// Skeleton (such as a farm) that the job runs.
    pub skeleton: Skeleton,
    /// True if the job runs under `armature run --recover`, which MPICH does not support.
    pub recover: bool,
    /// True if the job runs under `armature run --restarts 1`.
    pub restarts: bool,
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kill { moment, rank, skeleton, .. } = self;
        let with = if self.recover { " --recover" } else { "" };
        let more = if self.restarts { " --restarts 1" } else { "" };
        match moment {
            Moment::Task => write!(f, "armature run{with}{more}: a task kills a worker"),
            _ => write!(f, "armature run{with}{more}, {skeleton}: rank {rank} killed when {moment:?}"),
        }
    }
}

/// Programs that are needed to run a job and kill one of its ranks.
#[derive(Clone, Debug)]
pub struct TestedProgram {
    /// Path of the command `armature`.
    pub armature: PathBuf,
    /// Path of a program that calls [`main`](super::main).
    pub program: PathBuf,
    /// Arguments of the program before those of `main`.
    pub leading_arguments: Vec<String>,
}

impl Kill {
    /// Returns kill number `number` of a series. Successive kills go through all moments; the other properties are pseudorandom.
    pub fn from_seed(seed: u64, number: usize, mpi: Mpi) -> Self {
        let draw = |what: u64, of: usize| (noise(seed ^ what, number as u64) % of as u64) as usize;
        let moment = Moment::ALL[number % Moment::ALL.len()];
        let skeleton = match moment {
            Moment::Task => Skeleton::DeadlyFarm,
            _ => Skeleton::ALL[draw(2, Skeleton::ALL.len())],
        };
        Kill {
            moment,
            rank: draw(1, RANKS),
            skeleton,
            recover: mpi == Mpi::OpenMpi && draw(3, 3) > 0,
            restarts: draw(4, 3) == 0,
        }
    }

    /// Returns true if the other ranks continue after the kill: a farm, search or workflow continues without a dead worker, and a rank that has left
    /// the session has done its part.
    fn is_survived(&self) -> bool {
        let is_worker = self.skeleton.survives_deaths() && self.rank > 0;
        let is_replaced = self.moment == Moment::Task || self.moment == Moment::Working && is_worker;
        self.recover && (self.moment == Moment::Left || is_replaced)
    }

    /// Returns true if the job is restarted: restarts are allowed, the other ranks do not continue after the kill, and the killed rank had not left
    /// the session.
    fn is_restarted(&self) -> bool {
        self.restarts && !self.is_survived() && self.moment != Moment::Left
    }

    /// Returns true if the job should succeed. A task that aborts its rank does so in each attempt, so that a restart of the job does not help.
    fn should_succeed(&self) -> bool {
        self.is_survived() || self.is_restarted() && self.moment != Moment::Task
    }

    /// Runs the job, and kills the rank at its moment.
    ///
    /// # Errors
    /// Returns an error with the complete output of the job if the job does not end as expected.
    pub fn run(&self, tested_program: &TestedProgram) -> Result<JobResult, String> {
        let dir = tempfile::tempdir().map_err(|e| format!("no directory: {e}"))?;
        let mut line: Vec<OsString> = vec![tested_program.armature.clone().into(), "run".into()];
        line.extend(self.recover.then(|| "--recover".into()));
        line.extend(self.restarts.then(|| "--restarts=1".into()));
        let mut job =
            Job::new(&tested_program.program, RANKS).through(line).limit(JOB_LIMIT).env("RUST_LOG", "warn");
        for word in &tested_program.leading_arguments {
            job = job.arg(word);
        }
        job = job.arg(dir.path()).arg(self.skeleton.to_string());
        let Some((phase, further)) = self.moment.phase() else {
            let outcome = job.run();
            return self.checked_outcome(outcome, tested_program);
        };
        let holder = if further { (self.rank + 1) % RANKS } else { self.rank };
        let action = RankAction { phase, rank: holder, kind: ActionKind::Hold };
        let running = job.arg(action.to_string()).start();
        let (phase_file, start) = (phase_file(dir.path(), phase, self.rank), Instant::now());
        while !phase_file.exists() && start.elapsed() < JOB_LIMIT {
            std::thread::sleep(Duration::from_millis(5));
        }
        if further {
            std::thread::sleep(NEXT_CALL_DELAY);
        }
        let killed = kill(&phase_file);
        std::fs::write(release_file(dir.path()), "").map_err(|e| format!("the others cannot go on: {e}"))?;
        let outcome = running.wait();
        killed.map_err(|e| format!("{self}: {e}\n{outcome}"))?;
        self.checked_outcome(outcome, tested_program)
    }

    fn checked_outcome(
        &self,
        outcome: JobResult,
        tested_program: &TestedProgram,
    ) -> Result<JobResult, String> {
        let checked = self.check(&outcome, linked(&tested_program.program));
        checked.map_err(|e| format!("{self}: {e}\n{outcome}"))?;
        Ok(outcome)
    }

    fn check(&self, outcome: &JobResult, mpi: Mpi) -> Result<(), String> {
        if outcome.hung || !outcome.left_behind.is_empty() {
            return Err("it hangs, or has left processes behind".into());
        }
        let codes: &[i32] = match (self.should_succeed(), self.recover, mpi) {
            (true, ..) => &[0],
            (false, true, _) => &[1],
            // A deadly task ends its process by SIGABRT; in other cases the test kills a rank by SIGKILL.
            (false, false, Mpi::OpenMpi) if self.moment == Moment::Task => &[134],
            (false, false, Mpi::OpenMpi) => &[137],
            // MPICH's launcher combines the exit statuses of all processes by a bitwise OR. The status of the dead rank is the bare signal or 128
            // plus the signal; in the first case, the result may also contain the signals 9 and 15, by which the launcher ends the other ranks.
            (false, false, Mpi::Mpich) if self.moment == Moment::Task => &[6, 15, 134, 143],
            (false, false, Mpi::Mpich) => &[9, 15, 137, 143],
        };
        let is_launchers_own = mpi == Mpi::Mpich && !self.should_succeed() && has_launcher_failed(outcome);
        if !is_launchers_own && outcome.status.code().is_none_or(|code| !codes.contains(&code)) {
            return Err(format!("expected exit code {codes:?}"));
        }
        if self.is_restarted() != outcome.stderr.contains("restart 1 of 1") {
            return Err("it was started again, or should have been".into());
        }
        let complete = outcome.stdout.lines().filter(|line| *line == "all is right").count();
        if codes == [0] && complete == 0 {
            return Err("not all results are right".into());
        }
        Ok(())
    }
}

/// Returns true if MPICH's launcher has failed itself, with exit code 255: if it ends the other ranks just when they exit, the connection to the
/// process that has started the ranks is closed.
fn has_launcher_failed(outcome: &JobResult) -> bool {
    outcome.status.code() == Some(255)
        && outcome.stderr.contains("process manager error waiting for completion")
}

fn kill(phase_file: &Path) -> Result<(), String> {
    let text =
        std::fs::read_to_string(phase_file).map_err(|e| format!("the victim has left no mark: {e}"))?;
    let process = text.parse().ok().and_then(Pid::from_raw).ok_or("the mark holds no process")?;
    kill_process(process, Signal::KILL).map_err(|e| format!("the victim cannot be killed: {e}"))?;
    // The other ranks must not leave their phase before the killed process has ended.
    let (stat, start) = (format!("/proc/{}/stat", process.as_raw_nonzero()), Instant::now());
    let lives = || {
        let stat = std::fs::read_to_string(&stat).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
    };
    while lives() && start.elapsed() < JOB_LIMIT {
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Returns a line for each moment with the number of kills at this moment.
pub fn histogram(kills: &[Kill]) -> String {
    let mut counts: BTreeMap<Moment, usize> = Moment::ALL.map(|moment| (moment, 0)).into();
    for kill in kills {
        *counts.entry(kill.moment).or_default() += 1;
    }
    let line = |(moment, count): (Moment, usize)| {
        format!("{:>9} {count:>3} {}\n", format!("{moment:?}"), "#".repeat(count))
    };
    counts.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_running_farm_survives_kills() {
        let kill = |moment, rank, skeleton| Kill { moment, rank, skeleton, recover: true, restarts: true };
        let survived: Vec<Moment> =
            Moment::ALL.into_iter().filter(|&m| kill(m, 1, Skeleton::Farm).is_survived()).collect();
        assert_eq!(survived, [Moment::Working, Moment::Left, Moment::Task]);
        assert!(!kill(Moment::Working, 0, Skeleton::Farm).is_survived());
        assert!(!kill(Moment::Working, 1, Skeleton::Pipeline).is_survived());
        let restarted = Moment::ALL.into_iter().filter(|&m| kill(m, 1, Skeleton::Units).is_restarted());
        assert_eq!(restarted.count(), 7);
        let deadly = |recover| Kill { recover, ..kill(Moment::Task, 1, Skeleton::DeadlyFarm) };
        assert_eq!((deadly(true).is_survived(), deadly(true).is_restarted()), (true, false));
        assert_eq!((deadly(false).is_restarted(), deadly(false).should_succeed()), (true, false));
    }

    #[test]
    fn kill_campaign_covers_every_moment() {
        let kills: Vec<Kill> = (0..50).map(|n| Kill::from_seed(7, n, Mpi::OpenMpi)).collect();
        let text = histogram(&kills);
        assert_eq!(text.lines().count(), 9, "{text}");
        assert!(text.contains(" Launched   6 ######\n") && text.contains("     Task   5 #####\n"), "{text}");
        assert!(kills.iter().any(|k| k.recover) && kills.iter().any(|k| !k.recover));
        assert!((0..50).all(|n| !Kill::from_seed(7, n, Mpi::Mpich).recover));
    }
}
