//! Experiment in which ranks of a workflow of closures and commands are killed at random times. It checks that every task has its effect (a file)
//! exactly once, and that no task in the journal (list of completed tasks) runs again.
//!
//! *Workers*: 50 runs on four ranks under `mpirun --enable-recovery`; in each run one rank receives SIGKILL at a random time within the duration of
//! an undisturbed run. The run must finish with the right sum, each effect must exist, and a task that was in the journal at the time of the kill
//! must have been started only once.
//!
//! *Whole*: 20 runs in which all ranks are killed at a random time, and which are restarted on three ranks with the journal of the killed run. A task
//! with a complete record in the journal must not be started again, and every other task must be started once.
//!
//! *Values*: 60 runs of closures on five ranks, with values of 8 B, 1 kB, 100 kB and 10 MB, with and without a journal; in each run one to three
//! ranks are killed. Every result must exist exactly once, and the survivors must exit within seconds.
//!
//! A task whose rank died between the effect and its record in the journal is started twice, and finds the effect of its first execution: a task
//! creates its file by a link, which does not replace an existing file.

use std::{collections::BTreeSet, path::Path, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue,
    deaths::{self, RunFolder, Victim},
    ranks::{Launch, STOPPED, one},
    stats::{median, quantile},
    table::digits,
    verdict::Interval,
    workflows::kill_run::{KillRun, RunFiles},
    workflows::values::{Valued, joined_file_name},
};

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "workflow-deaths",
    about: "ranks of a workflow killed at random moments: effects, results, and restarts from the journal",
    needs: "mpirun of Open MPI",
    run,
};

const RANKS: usize = 4;
/// Number of ranks of a restarted job. It differs from that of the killed job, to test that the number may change.
const RANKS_AGAIN: usize = 3;
const TASKS: usize = 600;
const LIMIT: Duration = Duration::from_secs(60);
/// Latest time of a kill, as a fraction of the time of an undisturbed run.
const KILL_UNTIL: f64 = 0.9;
const SEED: u64 = 31;

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let (workers, whole) = (report.selects("workers"), report.selects("whole"));
    let kill_run = KillRun { tasks: if smoke { TASKS / 4 } else { TASKS }, seed: SEED };
    let run_folder = RunFolder::create(Path::new("target/bench/workflow-deaths"))?;
    // The path is absolute because the commands of tasks run in another working directory than the ranks.
    let run_folder = RunFolder::at(std::path::absolute(run_folder.folder())?);
    let mut trials = Trials {
        run_files: RunFiles { run_folder },
        kill_run,
        random: StdRng::seed_from_u64(SEED),
        undisturbed: 0.0,
    };
    let times = (0..if smoke { 1 } else { 5 }).map(|_| {
        trials.run_files.clear()?;
        Ok(one(&trials.run_once(RANKS, &[], &mut || ())?.0?)?["seconds"])
    });
    trials.undisturbed = median(&times.collect::<RunResult<Vec<f64>>>()?);
    let undisturbed = trials.undisturbed;
    report.note(format!(
        "{} tasks on {RANKS} ranks, every other one a command: {undisturbed:.2} s undisturbed; moments by seed {SEED}",
        kill_run.tasks
    ));
    if workers {
        trials.run_with_worker_killed(report, if smoke { 2 } else { 50 })?;
    }
    if whole {
        trials.run_with_all_killed(report, if smoke { 2 } else { 20 })?;
    }
    if report.selects("values") { values(report, if smoke { 4 } else { 60 }) } else { Ok(()) }
}

/// Number of ranks of a run of closures that pass values. Up to three ranks are killed, so that one worker survives: rank 0 does not run tasks that
/// may have killed other ranks.
const VALUED_RANKS: usize = 5;
/// Sizes in bytes of the value that a task returns, each with the number of tasks in a run of about a second.
const VALUES: [(usize, usize); 4] = [(8, 1500), (1_000, 1500), (100_000, 800), (10_000_000, 60)];

fn values(report: &mut Report, runs: usize) -> RunResult {
    let run_folder = RunFolder::create(Path::new("target/bench/workflow-values"))?;
    let run_folder = RunFolder::at(std::path::absolute(run_folder.folder())?);
    let mut random = StdRng::seed_from_u64(SEED);
    let run_once = |valued: Valued, victims: &[Victim]| -> RunResult<(RunResult<String>, usize)> {
        run_folder.clear()?;
        let launch = Launch { limit: LIMIT, ..Launch::ranks(VALUED_RANKS) };
        let has_joined = |rank| run_folder.path(&joined_file_name(rank)).is_file();
        deaths::run(
            &launch,
            ("valued-workflow", &valued.arguments(&run_folder)),
            &run_folder,
            victims,
            has_joined,
            &mut || (),
        )
    };
    let mut table =
        Table::new(&["bytes of a value", "runs", "killed", "begun again", "seconds undisturbed", "seconds"]);
    let mut wrong = 0;
    for (bytes, tasks) in VALUES {
        let valued = |journal| Valued { tasks, bytes, journal, seed: SEED };
        let undisturbed = one(&run_once(valued(false), &[])?.0?)?["seconds"];
        let (mut killed, mut again, mut seconds) = (0, Vec::new(), Vec::new());
        for run in 0..runs.div_ceil(VALUES.len()) {
            let victims = deaths::draw(&mut random, VALUED_RANKS, 1 + run % 3, KILL_UNTIL * undisturbed);
            let (output, dead) = run_once(valued(run % 2 == 1), &victims)?;
            killed += dead;
            match output.and_then(|output| one(&output)) {
                Ok(result) => {
                    again.push(result["again"]);
                    seconds.push(result["seconds"]);
                }
                Err(error) => {
                    report.note(format!("{bytes} bytes, with {victims:?}: {error}"));
                    wrong += 1;
                }
            }
        }
        table.row([
            bytes.to_string().into(),
            seconds.len().to_string().into(),
            killed.to_string().into(),
            digits(median(&again), 1),
            digits(undisturbed, 2),
            digits(median(&seconds), 2),
        ]);
    }
    report.table("values", &table)?;
    let wrong = Interval::exact(f64::from(wrong));
    report.mark(TargetedValue::new("values, hung, failed or wrong", wrong, "runs", Target::AtMost(0.0)));
    Ok(())
}

struct Trials {
    run_files: RunFiles,
    kill_run: KillRun,
    random: StdRng,
    undisturbed: f64,
}

impl Trials {
    /// Runs the workflow once and kills the victims, each after a call of `before_kill`. Returns the output or error, and the number of ranks killed
    /// before the end.
    fn run_once(
        &self,
        ranks: usize,
        victims: &[Victim],
        before_kill: &mut (dyn FnMut() + Send),
    ) -> RunResult<(RunResult<String>, usize)> {
        let launch = Launch { limit: LIMIT, ..Launch::ranks(ranks) };
        let (run_files, arguments) = (&self.run_files, self.kill_run.arguments(&self.run_files));
        let has_joined = |rank| run_files.has_joined(rank);
        deaths::run(
            &launch,
            ("kill-run-workflow", &arguments),
            &run_files.run_folder,
            victims,
            has_joined,
            before_kill,
        )
    }

    fn run_with_worker_killed(&mut self, report: &mut Report, runs: usize) -> RunResult {
        let mut series = Series::default();
        while series.runs() < runs {
            let victims = deaths::draw(&mut self.random, RANKS, 1, KILL_UNTIL * self.undisturbed);
            series.add(self.run_with_kills(&victims), report, || format!("with {victims:?}"));
            if series.ended_before_kill > runs {
                return Err("runs are over before a rank is killed".into());
            }
        }
        series.print_table(report, "one killed", ["journalled at the kill", "begun again", "seconds"])
    }

    /// Runs the workflow and kills ranks; returns `None` if the run ended before all victims were killed.
    fn run_with_kills(&self, victims: &[Victim]) -> RunResult<Option<Run>> {
        self.run_files.clear()?;
        let mut journalled = BTreeSet::new();
        let (output, killed) =
            self.run_once(RANKS, victims, &mut || journalled = self.run_files.journalled())?;
        if killed < victims.len() {
            return Ok(None);
        }
        let seconds = one(&output?)?["seconds"];
        self.run_files.check(self.kill_run)?;
        let starts = self.run_files.started_tasks()?;
        if let Some(task) = (0..self.kill_run.tasks).find(|task| !starts.contains_key(task)) {
            return Err(format!("task {task} was never begun").into());
        }
        let again = starts.values().map(|times| times - 1).sum::<usize>();
        let wrongly = journalled.iter().filter(|task| starts.get(task).is_some_and(|&times| times > 1));
        Ok(Some(Run {
            wrongly: wrongly.count(),
            measurements: [journalled.len() as f64, again as f64, seconds],
        }))
    }

    fn run_with_all_killed(&mut self, report: &mut Report, runs: usize) -> RunResult {
        let mut series = Series::default();
        while series.runs() < runs {
            let after = KILL_UNTIL * self.undisturbed * self.random.random::<f64>();
            series.add(self.killed_and_restarted(after), report, || format!("all killed after {after:.3} s"));
            if series.ended_before_kill > runs {
                return Err("runs are over before their ranks are killed".into());
            }
        }
        series.print_table(
            report,
            "all killed",
            ["journalled", "with an effect, not journalled", "seconds of the rest"],
        )
    }

    /// Kills all ranks of a run `after` seconds after its start and restarts the run from its journal; returns `None` if the run ended before the
    /// kill.
    fn killed_and_restarted(&self, after: f64) -> RunResult<Option<Run>> {
        self.run_files.clear()?;
        let (output, killed) = self.run_once(RANKS, &deaths::all_ranks(RANKS, after), &mut || ())?;
        match output {
            Ok(_) => return Ok(None),
            Err(error) if killed == 0 || error.to_string().contains(STOPPED) => return Err(error),
            Err(_) => {}
        }
        let (journalled, effects) = (self.run_files.journalled(), self.run_files.effects()?);
        self.run_files.remove_run_files()?;
        let seconds = one(&self.run_once(RANKS_AGAIN, &[], &mut || ())?.0?)?["seconds"];
        self.run_files.check(self.kill_run)?;
        let (replayed, starts) = (self.run_files.replayed_tasks()?, self.run_files.started_tasks()?);
        if replayed != journalled {
            let (replayed, journalled) = (replayed.len(), journalled.len());
            return Err(format!("the journal had {journalled} tasks, the run knew {replayed}").into());
        }
        let missing = (0..self.kill_run.tasks).filter(|task| !journalled.contains(task));
        for task in missing {
            let times = starts.get(&task).copied().unwrap_or(0);
            if times != 1 {
                return Err(format!("task {task} was not in the journal and was begun {times} times").into());
            }
        }
        let wrongly = journalled.iter().filter(|task| starts.contains_key(task)).count();
        let journalled_count = journalled.len();
        Ok(Some(Run {
            wrongly,
            measurements: [journalled_count as f64, effects.saturating_sub(journalled_count) as f64, seconds],
        }))
    }
}

struct Run {
    wrongly: usize,
    /// Three numbers: tasks in the journal at the kill; tasks that were started again (if one rank was killed) or whose effect existed although they
    /// were not in the journal (if all ranks were killed); seconds of the run.
    measurements: [f64; 3],
}

#[derive(Default)]
struct Series {
    complete: Vec<Run>,
    /// Number of runs that hung, failed, or in which the files of tasks were wrong.
    wrong: usize,
    ended_before_kill: usize,
}

impl Series {
    fn runs(&self) -> usize {
        self.complete.len() + self.wrong
    }

    fn add(&mut self, run: RunResult<Option<Run>>, report: &mut Report, what: impl Fn() -> String) {
        match run {
            Ok(None) => self.ended_before_kill += 1,
            Ok(Some(run)) => self.complete.push(run),
            Err(error) => {
                report.note(format!("{}: {error}", what()));
                self.wrong += 1;
            }
        }
    }

    fn print_table(&self, report: &mut Report, what: &str, names: [&str; 3]) -> RunResult {
        let mut table = Table::new(&["", "median", "least", "most"]);
        for (at, name) in names.into_iter().enumerate() {
            let of: Vec<f64> = self.complete.iter().map(|run| run.measurements[at]).collect();
            let digits_of = if name.starts_with("seconds") { 2 } else { 1 };
            table.row([
                name.into(),
                digits(median(&of), digits_of),
                digits(quantile(&of, 0.0), digits_of),
                digits(quantile(&of, 1.0), digits_of),
            ]);
        }
        report.table(if what.starts_with("one") { "workers" } else { "whole" }, &table)?;
        report.note(format!("{what}: {} runs, {} complete", self.runs(), self.complete.len()));
        let wrongly = self.complete.iter().map(|run| run.wrongly).sum::<usize>();
        let mut mark = |name: &str, value: usize, unit: &str| {
            let name = format!("{what}, {name}");
            report.mark(TargetedValue::new(&name, Interval::exact(value as f64), unit, Target::AtMost(0.0)));
        };
        mark("hung, failed or wrong", self.wrong, "runs");
        mark("journalled and begun again", wrongly, "tasks");
        Ok(())
    }
}
