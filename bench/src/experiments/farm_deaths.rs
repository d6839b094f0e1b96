//! Ranks of a farm are killed at random moments: is every result delivered once, does the job end, and when?
//!
//! *Workers*: four ranks under `mpirun --enable-recovery`; 50 runs in which one worker is sent SIGKILL and 20 in which two
//! are, each at a moment drawn from the time that an undisturbed run takes. The output on disk must have every task
//! once, in order, with its result. The run may take as long as one with the survivors alone from its start, and the
//! time after which a silent worker counts as dead, with what passes until somebody looks.
//!
//! *All*: 50 runs whose ranks are all killed at such a moment, and which are started again with the journal that the first
//! one left. No task whose result is intact in the journal at the kill may be begun again, every other one must be, and
//! the output must be the same.
//!
//! *Phases*: see `phases.rs`.
//!
//! Parts: `workers`, `whole`, `phases`.

mod phases;

use std::{path::Path, time::Duration};

use armature_planner::farm::Chunking;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    Experiment, Histogram, Mark, Outcome, Report, Table, Target,
    deaths::{self, Victim},
    farm::{
        chores::{Chores, steps_in},
        job::{Job, Way},
        mortal::{Limits, Traces},
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
/// Seconds of computing in all.
const WORK: f64 = 5.0;
const TASKS: usize = 2500;
const LIMITS: Limits = Limits { silence: Duration::from_secs(1), coming: Duration::from_secs(3) };
/// How often the farm looks at who is silent, as a part of the time after which one is.
const LOOK: f64 = 0.25;
/// How long a run may take before it counts as hung.
const LIMIT: Duration = Duration::from_secs(60);
/// The part of an undisturbed run in which ranks are killed.
const KILL_UNTIL: f64 = 0.9;
const SEED: u64 = 9;

fn run(report: &mut Report, smoke: bool) -> Outcome {
    let (workers, whole) = (report.wants("workers"), report.wants("whole"));
    if workers || whole {
        farms(report, smoke, workers, whole)?;
    }
    if report.wants("phases") { phases::run(report, smoke) } else { Ok(()) }
}

/// Farms whose workers, or all of whose ranks, are killed.
fn farms(report: &mut Report, smoke: bool, workers: bool, whole: bool) -> Outcome {
    let part = if smoke { 0.1 } else { 1.0 };
    let tasks = (part * TASKS as f64) as usize;
    let chores = Chores { tasks, mean: steps_in(WORK / TASKS as f64), deviation: 0.8, seed: SEED };
    let job = Job { chores, way: Way::Farm(Chunking::Auto), cores: Vec::new() };
    let mut tried = Tried {
        traces: Traces::create(Path::new("target/bench/farm-deaths"))?,
        job,
        random: StdRng::seed_from_u64(SEED),
        undisturbed: Vec::new(),
    };
    // How long the farm takes with all ranks, without one, and without two, from its start.
    for missing in 0..3 {
        let times = (0..if smoke { 1 } else { 5 }).map(|_| {
            tried.traces.scene.clear()?;
            let (output, _) = tried.once(RANKS - missing, &[], false)?;
            Ok(one(&output?)?["seconds"])
        });
        let times = times.collect::<Outcome<Vec<f64>>>()?;
        tried.undisturbed.push(median(&times));
    }
    let [all, three, two] = tried.undisturbed[..] else {
        return Err("three numbers of ranks were run".into());
    };
    report.note(format!(
        "{tasks} tasks on {RANKS} ranks: {all:.2} s undisturbed, {three:.2} s with three ranks, {two:.2} s with two"
    ));
    if workers {
        tried.workers(report, smoke)?;
    }
    if whole { tried.whole(report, smoke) } else { Ok(()) }
}

/// What is run again and again.
struct Tried {
    traces: Traces,
    job: Job,
    random: StdRng,
    /// Seconds with all ranks, without one, and without two.
    undisturbed: Vec<f64>,
}

impl Tried {
    /// One run: what it printed, unless it failed, and how many were killed before it ended.
    fn once(&self, ranks: usize, victims: &[Victim], journal: bool) -> Outcome<(Outcome<String>, usize)> {
        let launch = Launch { limit: LIMIT, ..Launch::ranks(ranks) };
        let (traces, words) = (&self.traces, self.traces.words(LIMITS, journal, &self.job));
        let has_come = |rank| traces.has_come(rank);
        deaths::run(&launch, ("mortal", &words), &traces.scene, victims, has_come, &mut || ())
    }

    /// Runs in which workers are killed.
    fn workers(&mut self, report: &mut Report, smoke: bool) -> Outcome {
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
                match self.with_dead(&victims) {
                    // The run was over before: that is no sample.
                    Ok(None) => series.late += 1,
                    Ok(Some(run)) => {
                        moments.extend(victims.iter().map(|victim| victim.after));
                        series.add(&run);
                    }
                    Err(error) => {
                        report.note(format!("with {victims:?}: {error}"));
                        series.wrong += 1;
                    }
                }
                if series.late > runs {
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
                report.mark(Mark::new(&what, Interval::exact(value), unit, target));
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
        self.undisturbed[dead] + (1.0 + LOOK) * LIMITS.silence.as_secs_f64()
    }

    /// A run in which these are killed; `None` if it was over before.
    fn with_dead(&self, victims: &[Victim]) -> Outcome<Option<Run>> {
        self.traces.scene.clear()?;
        let (output, killed) = self.once(RANKS, victims, false)?;
        if killed < victims.len() {
            return Ok(None);
        }
        let values: Values = one(&output?)?;
        self.traces.check(&self.job)?;
        let (seconds, begun) = (values["seconds"], (0..RANKS).map(|rank| self.traces.begun(rank).len()));
        let part = seconds / self.bound(victims.len());
        Ok(Some(Run { seconds, part, again: begun.sum::<usize>() as f64 - self.job.chores.tasks as f64 }))
    }

    /// Runs in which all ranks are killed, and the ones that go on from there.
    fn whole(&mut self, report: &mut Report, smoke: bool) -> Outcome {
        let runs = if smoke { 2 } else { 50 };
        let tasks = self.job.chores.tasks;
        let (mut kept, mut lost, mut again, mut wrong, mut late) = (Vec::new(), Vec::new(), 0, 0, 0);
        while kept.len() + wrong < runs {
            let after = KILL_UNTIL * self.undisturbed[0] * self.random.random::<f64>();
            match self.killed_and_restarted(after) {
                Ok(None) => late += 1,
                Ok(Some(restart)) => {
                    kept.push(restart.kept as f64);
                    lost.push(restart.lost as f64);
                    again += restart.again;
                }
                Err(error) => {
                    report.note(format!("all killed after {after:.3} s: {error}"));
                    wrong += 1;
                }
            }
            if late > runs {
                return Err("runs are over before their ranks are killed".into());
            }
        }
        let columns =
            ["runs", "complete", "hung, failed or wrong", "tasks", "of these kept", "done, not kept", "most"];
        let mut table = Table::new(&columns);
        table.row([
            runs.into(),
            kept.len().into(),
            wrong.into(),
            tasks.into(),
            digits(median(&kept), 1),
            digits(median(&lost), 1),
            quantile(&lost, 1.0).into(),
        ]);
        report.table("whole", &table)?;
        let mut mark = |what: &str, value: usize, unit: &str| {
            let what = format!("all killed, {what}");
            report.mark(Mark::new(&what, Interval::exact(value as f64), unit, Target::AtMost(0.0)));
        };
        mark("hung, failed or wrong", wrong, "runs");
        mark("journalled and begun again", again, "tasks");
        Ok(())
    }

    /// A run whose ranks are all killed so many seconds after its start, and the one that goes on from its journal;
    /// `None` if it was over before.
    fn killed_and_restarted(&self, after: f64) -> Outcome<Option<Restart>> {
        self.traces.scene.clear()?;
        let (output, killed) = self.once(RANKS, &deaths::everybody(RANKS, after), true)?;
        match output {
            Ok(_) => return Ok(None),
            Err(error) if killed == 0 || error.to_string().contains(STOPPED) => return Err(error),
            Err(_) => {}
        }
        let journalled = self.traces.journalled(&self.job)?;
        let first: usize = (0..RANKS).map(|rank| self.traces.begun(rank).len()).sum();
        self.traces.forget()?;
        let (output, _) = self.once(RANKS, &[], true)?;
        let known = one(&output?)?["known"];
        self.traces.check(&self.job)?;
        let begun: Vec<u64> = (0..RANKS).flat_map(|rank| self.traces.begun(rank)).collect();
        if known != journalled.len() as f64 || begun.len() as f64 + known != self.job.chores.tasks as f64 {
            let (kept, begun) = (journalled.len(), begun.len());
            return Err(
                format!("the journal had {kept} results, the farm knew {known} and began {begun}").into()
            );
        }
        let again = begun.iter().filter(|task| journalled.contains(task)).count();
        Ok(Some(Restart { kept: journalled.len(), lost: first - journalled.len(), again }))
    }
}

/// A run in which workers were killed.
struct Run {
    seconds: f64,
    /// The same as a part of what it may take.
    part: f64,
    /// Tasks that were begun twice.
    again: f64,
}

/// A run that went on from a journal, in tasks.
struct Restart {
    /// Intact in the journal.
    kept: usize,
    /// Begun by the run that was killed, and not in the journal.
    lost: usize,
    /// In the journal, and begun all the same.
    again: usize,
}

/// What came of some runs.
#[derive(Default)]
struct Series {
    times: Vec<f64>,
    parts: Vec<f64>,
    again: Vec<f64>,
    /// Hung, failed, or with an output that is not what it should be.
    wrong: usize,
    late: usize,
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
