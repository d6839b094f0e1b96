//! Experiment on the cost of snapshots (saved states) of a pipeline, and on the time that they save when the job is killed.
//!
//! *Cost*: items of 8 bytes through four stages on two ranks, one of the stages serial with state, with a snapshot every second and without; and the
//! image search Ferret on two ranks. The period between snapshots is fixed, because otherwise the framework would choose a period that limits the
//! cost.
//!
//! *Kills*: a job of some seconds is killed at a random time and started again. The lost time is the total time of both starts minus the time of an
//! undisturbed run. Without snapshots, the second start computes everything again. The result must equal that of the undisturbed run.

use std::path::Path;
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::ferret_runs::{Files, SERIAL};
use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue,
    deaths::{self, RunFolder},
    pairs::{Contestant, round_robin},
    ranks::{Launch, one},
    snapshot_run::Job,
    stats::{median, median_interval},
    verdict::Interval,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pipeline-snapshots",
    about: "cost of a snapshot per second in Ferret and in a stream of 8-byte items; time lost by a kill with snapshots and without",
    needs: "mpirun of Open MPI, ferret beside this binary (ci/bench.sh builds it)",
    run,
};

const EVERY: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(300);
const RANKS: usize = 2;
const PLAIN: &str = "8 B";
const PLAIN_SNAPSHOTS: &str = "8 B, snapshots";
const FERRET: &str = "Ferret";
const FERRET_SNAPSHOTS: &str = "Ferret, snapshots";

fn run(report: &mut Report, smoke: bool) -> RunResult {
    cost(report, smoke)?;
    kills(report, smoke)
}

fn folder(name: &str) -> RunResult<RunFolder> {
    RunFolder::create(&Path::new("target/bench/pipeline-snapshots").join(name))
}

fn cost(report: &mut Report, smoke: bool) -> RunResult {
    let items = if smoke { 20_000_000 } else { 400_000_000 };
    let run_folder = folder("cost")?;
    let job = |every| Job {
        items,
        batch: 65_536,
        work: Duration::ZERO,
        folder: run_folder.folder().to_path_buf(),
        every,
    };
    let stream = |every| {
        run_folder.clear()?;
        let values =
            Launch { limit: LIMIT, ..Launch::ranks(RANKS) }.run("snapshots", &job(every).arguments())?;
        if every.is_some() && values["snapshots"] < 1.0 {
            return Err("the run has no snapshot".into());
        }
        Ok(values["seconds"])
    };
    let files = Files::make("pipeline-snapshots-ferret", if smoke { 20 } else { 200 })?;
    files.query(SERIAL, 1, "serial")?;
    let snapshots = files.folder().join("kept");
    let with_snapshots = || {
        let _ = std::fs::remove_dir_all(&snapshots);
        let more =
            ["--snapshots", &snapshots.display().to_string(), "--snapshot-every", "1"].map(String::from);
        files.query_with("with.tsv", RANKS, "orderly", &more)
    };
    let contestants = vec![
        Contestant::new(PLAIN, || stream(None)),
        Contestant::new(PLAIN_SNAPSHOTS, || stream(Some(EVERY))),
        Contestant::new(FERRET, || files.query("without.tsv", RANKS, "orderly")),
        Contestant::new(FERRET_SNAPSHOTS, with_snapshots),
    ];
    let rounds = round_robin(report.rounds(20), contestants)?;
    let mut table = Table::new(&["what", "median [s]", "low", "high"]);
    for (name, samples) in rounds.iter() {
        let Interval { value, low, high } = median_interval(samples);
        table.row([name.into(), value.into(), low.into(), high.into()]);
    }
    report.table("cost", &table)?;
    for (with, without, most) in [(FERRET_SNAPSHOTS, FERRET, 1.0), (PLAIN_SNAPSHOTS, PLAIN, 3.0)] {
        if let Some(ratio) = rounds.ratio(with, without) {
            let percent = |ratio: f64| 100.0 * (ratio - 1.0);
            let (low, high) = (percent(ratio.low), percent(ratio.high));
            let cost = Interval { value: percent(ratio.value), low, high };
            report.mark(TargetedValue::new(
                without,
                cost,
                "% more time with a snapshot per second",
                Target::AtMost(most),
            ));
        }
    }
    Ok(())
}

fn killed(run_folder: &RunFolder, job: &Job, kill_at: Option<f64>) -> RunResult<(f64, String)> {
    let launch = Launch { limit: LIMIT, ..Launch::ranks(RANKS) };
    let (arguments, start) = (job.arguments(), Instant::now());
    if let Some(after) = kill_at {
        let victims = deaths::all_ranks(RANKS, after);
        let (output, killed) =
            deaths::run(&launch, ("snapshots", &arguments), run_folder, &victims, |_| true, &mut || ())?;
        if output.is_ok() || killed == 0 {
            return Err("the job ended before it was killed".into());
        }
        run_folder.remove_files_except(&["kept"])?;
    }
    let output = launch.output("snapshots", &arguments)?;
    let seconds = start.elapsed().as_secs_f64();
    one(&output)?;
    let checksum = output.lines().find(|line| line.starts_with("checksum "));
    Ok((seconds, checksum.ok_or("the run printed no checksum")?.to_string()))
}

fn kills(report: &mut Report, smoke: bool) -> RunResult {
    let (items, times) = if smoke { (1_000, 2) } else { (5_000, 20) };
    let run_folder = folder("kills")?;
    let job = |every| Job {
        items,
        batch: 1,
        work: Duration::from_millis(1),
        folder: run_folder.folder().to_path_buf(),
        every,
    };
    let mut random = StdRng::seed_from_u64(45);
    let (mut undisturbed, mut lost, mut lost_without) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..times {
        run_folder.clear()?;
        let (alone, expected) = killed(&run_folder, &job(None), None)?;
        let kill_at = items as f64 * 1e-3 * (0.3 + 0.5 * random.random::<f64>());
        for (every, losses) in [(Some(EVERY / 5), &mut lost), (None, &mut lost_without)] {
            run_folder.clear()?;
            let (seconds, checksum) = killed(&run_folder, &job(every), Some(kill_at))?;
            if checksum != expected {
                return Err(format!("killed after {kill_at} s: {checksum} instead of {expected}").into());
            }
            losses.push(seconds - alone);
        }
        undisturbed.push(alone);
    }
    let share = lost.iter().zip(&lost_without).map(|(with, without)| with / without).collect::<Vec<_>>();
    report.note(format!(
        "{times} kills of a job of {:.2} s: {:.2} s lost with a snapshot every {:?}, {:.2} s without",
        median(&undisturbed),
        median(&lost),
        EVERY / 5,
        median(&lost_without)
    ));
    let what = "of the time that a kill costs without snapshots";
    report.mark(TargetedValue::new("kills", median_interval(&share), what, Target::AtMost(0.5)));
    Ok(())
}
