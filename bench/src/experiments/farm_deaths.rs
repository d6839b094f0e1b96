//! Experiment in which ranks of a farm are killed at random times. It checks that every result is delivered exactly once and that the job ends, and
//! measures its time.
//!
//! *Workers*: four ranks under `mpirun --enable-recovery`; 50 runs in which one worker receives SIGKILL and 20 in which two workers do, each at a
//! random time within the duration of an undisturbed run. The output on disk must contain every task once, in order, with its result. The bound on
//! the time of a run is the time of a whole run with only the surviving ranks, plus the time without messages after which a worker counts as dead,
//! plus the interval between two checks for silent workers.
//!
//! *Whole*: 50 runs in which all ranks are killed at a random time, and which are then restarted with the journal of the killed run. A task whose
//! result is intact in the journal at the kill must not be started again, every other task must be, and the output must be identical.
//!
//! *Phases*: one rank is killed in each phase of a job.
//!
//! Parts: `workers`, `whole`, `phases`.

mod phases;

use std::{path::Path, time::Duration};

use armature_planner::farm::Chunking;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    Experiment, Histogram, Report, RunResult, Table, Target, TargetedValue,
    deaths::{self, Victim},
    farm::{
        job::{Job, Way},
        kill_run::{Limits, RunFiles},
        task_set::{TaskSet, steps_in},
    },
    ranks::{Launch, STOPPED, Values, one},
    stats::{median, quantile},
    table::digits,
    verdict::Interval,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "farm-deaths",
    about: "ranks killed at random moments: results, hangs, exit codes, the time it costs, and restarts from the journal",
    needs: "mpirun of Open MPI, armature beside this binary (ci/bench.sh builds it)",
    run,
};

const RANKS: usize = 4;
const WORK: f64 = 5.0;
const TASKS: usize = 2500;
const LIMITS: Limits = Limits { silence: Duration::from_secs(1), join_limit: Duration::from_secs(3) };
/// Interval between the master's checks for silent workers, relative to the time without messages after which a worker counts as dead.
const CHECK_INTERVAL: f64 = 0.25;
const LIMIT: Duration = Duration::from_secs(60);
/// Latest time of a kill, as a fraction of the time of an undisturbed run.
const KILL_UNTIL: f64 = 0.9;
const SEED: u64 = 9;

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let (workers, whole) = (report.selects("workers"), report.selects("whole"));
    if workers || whole {
        run_farms(report, smoke, workers, whole)?;
    }
    if report.selects("phases") { phases::run(report, smoke) } else { Ok(()) }
}

fn run_farms(report: &mut Report, smoke: bool, workers: bool, whole: bool) -> RunResult {
    let part = if smoke { 0.1 } else { 1.0 };
    let tasks = (part * TASKS as f64) as usize;
    let task_set = TaskSet { tasks, mean: steps_in(WORK / TASKS as f64), deviation: 0.8, seed: SEED };
    let job = Job { task_set, way: Way::Farm(Chunking::Auto), cores: Vec::new() };
    let mut trials = Trials {
        run_files: RunFiles::create(Path::new("target/bench/farm-deaths"))?,
        job,
        random: StdRng::seed_from_u64(SEED),
        undisturbed: Vec::new(),
    };
    // Times of undisturbed runs with all ranks, with one rank fewer and with two ranks fewer bound the times of the runs in which workers are killed.
    for missing in 0..3 {
        let times = (0..if smoke { 1 } else { 5 }).map(|_| {
            trials.run_files.run_folder.clear()?;
            let (output, _) = trials.run_once(RANKS - missing, &[], false)?;
            Ok(one(&output?)?["seconds"])
        });
        let times = times.collect::<RunResult<Vec<f64>>>()?;
        trials.undisturbed.push(median(&times));
    }
    let [all, three, two] = trials.undisturbed[..] else {
        return Err("three numbers of ranks were run".into());
    };
    report.note(format!(
        "{tasks} tasks on {RANKS} ranks: {all:.2} s undisturbed, {three:.2} s with three ranks, {two:.2} s with two"
    ));
    if workers {
        trials.run_with_workers_killed(report, smoke)?;
    }
    if whole { trials.run_with_all_killed(report, smoke) } else { Ok(()) }
}

struct Trials {
    run_files: RunFiles,
    job: Job,
    random: StdRng,
    undisturbed: Vec<f64>,
}

impl Trials {
    /// Runs the farm once and kills the victims. Returns the output or error of the job, and the number of ranks killed before its end.
    fn run_once(
        &self,
        ranks: usize,
        victims: &[Victim],
        journal: bool,
    ) -> RunResult<(RunResult<String>, usize)> {
        let launch = Launch { limit: LIMIT, ..Launch::ranks(ranks) };
        let (run_files, arguments) = (&self.run_files, self.run_files.arguments(LIMITS, journal, &self.job));
        let has_joined = |rank| run_files.has_joined(rank);
        deaths::run(&launch, ("kill-run", &arguments), &run_files.run_folder, victims, has_joined, &mut || ())
    }

    fn run_with_workers_killed(&mut self, report: &mut Report, smoke: bool) -> RunResult {
        let columns = [
            "killed",
            "runs",
            "complete",
            "hung, failed or wrong",
            "median [s]",
            "longest [s]",
            "bound [s]",
            "begun again",
        ];
        let mut table = Table::new(&columns);
        let mut moments = Vec::new();
        for (dead, runs) in [(1, 50), (2, 20)] {
            let runs = if smoke { 2 } else { runs };
            let mut series = Series::default();
            while series.runs() < runs {
                let victims = deaths::draw(&mut self.random, RANKS, dead, KILL_UNTIL * self.undisturbed[0]);
                match self.run_with_kills(&victims) {
                    Ok(None) => series.ended_before_kill += 1,
                    Ok(Some(run)) => {
                        moments.extend(victims.iter().map(|victim| victim.after));
                        series.add(&run);
                    }
                    Err(error) => {
                        report.note(format!("with {victims:?}: {error}"));
                        series.wrong += 1;
                    }
                }
                if series.ended_before_kill > runs {
                    return Err("runs are over before workers are killed".into());
                }
            }
            table.row([
                dead.into(),
                runs.into(),
                series.times.len().into(),
                series.wrong.into(),
                median(&series.times).into(),
                quantile(&series.times, 1.0).into(),
                digits(self.bound(dead), 3),
                digits(median(&series.again), 1),
            ]);
            let mut mark = |what: &str, value, unit: &str, target| {
                let what = format!("{dead} killed, {what}");
                report.mark(TargetedValue::new(&what, Interval::exact(value), unit, target));
            };
            mark("hung, failed or wrong", series.wrong as f64, "runs", Target::AtMost(0.0));
            mark(
                "the longest run against the survivors' and the detection",
                quantile(&series.parts, 1.0),
                "times the time",
                Target::AtMost(1.0),
            );
        }
        report.table("workers", &table)?;
        let mut plot = Histogram::new("When workers were killed", "time since the start of the farm [s]", 20);
        plot.add("kills", moments);
        report.histogram("", &plot)
    }

    fn bound(&self, dead: usize) -> f64 {
        self.undisturbed[dead] + (1.0 + CHECK_INTERVAL) * LIMITS.silence.as_secs_f64()
    }

    /// Runs the farm and kills the victims; returns `None` if the run ended before all victims were killed.
    fn run_with_kills(&self, victims: &[Victim]) -> RunResult<Option<Run>> {
        self.run_files.run_folder.clear()?;
        let (output, killed) = self.run_once(RANKS, victims, false)?;
        if killed < victims.len() {
            return Ok(None);
        }
        let values: Values = one(&output?)?;
        self.run_files.check(&self.job)?;
        let (seconds, started) =
            (values["seconds"], (0..RANKS).map(|rank| self.run_files.started_tasks(rank).len()));
        let part = seconds / self.bound(victims.len());
        Ok(Some(Run { seconds, part, again: started.sum::<usize>() as f64 - self.job.task_set.tasks as f64 }))
    }

    fn run_with_all_killed(&mut self, report: &mut Report, smoke: bool) -> RunResult {
        let runs = if smoke { 2 } else { 50 };
        let tasks = self.job.task_set.tasks;
        let (mut journalled_results, mut lost, mut again, mut wrong, mut ended_before_kill) =
            (Vec::new(), Vec::new(), 0, 0, 0);
        while journalled_results.len() + wrong < runs {
            let after = KILL_UNTIL * self.undisturbed[0] * self.random.random::<f64>();
            match self.killed_and_restarted(after) {
                Ok(None) => ended_before_kill += 1,
                Ok(Some(restart)) => {
                    journalled_results.push(restart.journalled_results as f64);
                    lost.push(restart.lost as f64);
                    again += restart.again;
                }
                Err(error) => {
                    report.note(format!("all killed after {after:.3} s: {error}"));
                    wrong += 1;
                }
            }
            if ended_before_kill > runs {
                return Err("runs are over before their ranks are killed".into());
            }
        }
        let columns =
            ["runs", "complete", "hung, failed or wrong", "tasks", "of these kept", "done, not kept", "most"];
        let mut table = Table::new(&columns);
        table.row([
            runs.into(),
            journalled_results.len().into(),
            wrong.into(),
            tasks.into(),
            digits(median(&journalled_results), 1),
            digits(median(&lost), 1),
            quantile(&lost, 1.0).into(),
        ]);
        report.table("whole", &table)?;
        let mut mark = |what: &str, value: usize, unit: &str| {
            let what = format!("all killed, {what}");
            report.mark(TargetedValue::new(&what, Interval::exact(value as f64), unit, Target::AtMost(0.0)));
        };
        mark("hung, failed or wrong", wrong, "runs");
        mark("journalled and begun again", again, "tasks");
        Ok(())
    }

    /// Kills all ranks of a run `after` seconds after its start and restarts the run from its journal; returns `None` if the run ended before the
    /// kill.
    fn killed_and_restarted(&self, after: f64) -> RunResult<Option<Restart>> {
        self.run_files.run_folder.clear()?;
        let (output, killed) = self.run_once(RANKS, &deaths::all_ranks(RANKS, after), true)?;
        match output {
            Ok(_) => return Ok(None),
            Err(error) if killed == 0 || error.to_string().contains(STOPPED) => return Err(error),
            Err(_) => {}
        }
        let journalled = self.run_files.journalled(&self.job)?;
        let first: usize = (0..RANKS).map(|rank| self.run_files.started_tasks(rank).len()).sum();
        self.run_files.remove_run_files()?;
        let (output, _) = self.run_once(RANKS, &[], true)?;
        let known = one(&output?)?["known"];
        self.run_files.check(&self.job)?;
        let started: Vec<u64> = (0..RANKS).flat_map(|rank| self.run_files.started_tasks(rank)).collect();
        if known != journalled.len() as f64 || started.len() as f64 + known != self.job.task_set.tasks as f64
        {
            let (journalled_results, started) = (journalled.len(), started.len());
            return Err(format!(
                "the journal had {journalled_results} results, the farm knew {known} and began {started}"
            )
            .into());
        }
        let again = started.iter().filter(|task| journalled.contains(task)).count();
        Ok(Some(Restart { journalled_results: journalled.len(), lost: first - journalled.len(), again }))
    }
}

struct Run {
    seconds: f64,
    /// Time of the run, divided by its bound: the time of an undisturbed run on the surviving ranks, plus the time to detect the deaths.
    part: f64,
    /// Number of starts of tasks that another worker had started before.
    again: f64,
}

struct Restart {
    /// Number of tasks whose results were intact in the journal (file of completed results) at the kill.
    journalled_results: usize,
    lost: usize,
    again: usize,
}

#[derive(Default)]
struct Series {
    times: Vec<f64>,
    parts: Vec<f64>,
    again: Vec<f64>,
    wrong: usize,
    ended_before_kill: usize,
}

impl Series {
    fn runs(&self) -> usize {
        self.times.len() + self.wrong
    }

    fn add(&mut self, run: &Run) {
        self.times.push(run.seconds);
        self.parts.push(run.part);
        self.again.push(run.again);
    }
}
