//! Experiment in which a competing load starts on one core in the middle of a pipeline run. It measures the benefit of changing the mapping
//! (assignment of stages to ranks).
//!
//! A pipeline of stages with a fixed amount of arithmetic runs on ranks that are pinned to two cores (`sched_setaffinity` in each rank before MPI
//! starts; mpirun binds nothing), with one or two ranks per core. When a third of the items has arrived, a permanent load starts on one core. Three
//! configurations of the pipeline are measured in turn, with the load and without it:
//!
//! - *as in the paper*: the mapping that HeDPM plans for the true amounts of work, with items dealt to replicas in turn;
//! - *on demand*: the refined plan for the same amounts of work, with items sent to replicas on request;
//! - *live*: the default behaviour of the framework, calibration included.
//!
//! The first two configurations know the work in advance and keep their mapping to the end. The load starts on the core on which the paper's mapping
//! has more work. On the other core, the load would disturb the paper's mapping little, because that mapping leaves part of the core's time idle.
//! On-demand dispatch may be better or worse there, depending on the core of the long serial stage, so the configuration *live* is compared with it
//! on both cores. The throughput is bounded by the capacity of the cores next to the load: after each run, the experiment measures the share of the
//! loaded core that a thread gets next to the load; n busy ranks get as much as n such threads.
//!
//! Parts: `alone` is without the load, `beside` has the load on the core with more work, `other` has the load on the other core, and `paper` adds the
//! paper's mapping to the parts `alone` and `beside`.

use std::{cell::RefCell, fs, path::Path, thread, time::Duration};

use armature::Balance;
use armature_planner::pipeline::{Algorithm, Mapping, PipelineSpec, PlanOptions, plan};
use armature_planner::{Link, Platform};

use crate::{
    Bars, Experiment, Report, RunResult, Table, Target, TargetedValue,
    burner::{Load, share, two_cores},
    pairs::{Contestant, round_robin},
    remap_run::{Job, Run},
    stats::{median, median_interval, paired_ratios, spread},
    synthetic_work::{UNEVEN, seconds_per_item, spec},
    table::digits,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "live-burner",
    about: "a load starts on one of two cores in mid-stream, two ranks: live balancing against fixed mappings",
    needs: "mpirun of Open MPI, two cores that nobody else uses",
    run: |report, smoke| run(report, smoke, 2),
};

pub(super) const ON_FOUR: Experiment = Experiment {
    name: "live-burner-4",
    about: "like live-burner, with four ranks, two per core",
    needs: "mpirun of Open MPI, two cores that nobody else uses",
    run: |report, smoke| run(report, smoke, 4),
};

/// Number of measured rounds. With six rounds the 95 % interval of a median reaches from the smallest to the largest sample; with fewer rounds there
/// is no such interval.
const ROUNDS: usize = 6;
/// Time in seconds of a pipeline run without competing load.
const SECONDS: f64 = 24.0;
const SMOKE_SECONDS: f64 = 0.4;
const WARM_UP: f64 = 10.0;
/// Time for measuring the fraction of a core that a thread gets next to the load. It covers many time slices of the scheduler.
const MEASURE_SHARE: Duration = Duration::from_millis(500);

const PAPER: &str = "as in the paper";
const ON_DEMAND: &str = "on demand";
const LIVE: &str = "live";
const WAYS: [&str; 3] = [PAPER, ON_DEMAND, LIVE];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadPlace {
    None,
    /// The core on which the mapping of the planner HeDPM has more work.
    Busier,
    /// The core on which the mapping of the planner HeDPM has less work.
    Other,
}

impl LoadPlace {
    const ALL: [LoadPlace; 3] = [LoadPlace::None, LoadPlace::Busier, LoadPlace::Other];

    fn part(self) -> &'static str {
        match self {
            LoadPlace::None => "alone",
            LoadPlace::Busier => "beside",
            LoadPlace::Other => "other",
        }
    }

    fn contestant(self, way: &str) -> String {
        match self {
            LoadPlace::None => way.into(),
            LoadPlace::Busier => format!("{way}, loaded"),
            LoadPlace::Other => format!("{way}, other core loaded"),
        }
    }

    fn label(self) -> &'static str {
        match self {
            LoadPlace::None => "none",
            LoadPlace::Busier => "from a third on",
            LoadPlace::Other => "the same, other core",
        }
    }
}

struct Measured {
    run: Run,
    core_shares: Option<CoreShares>,
}

struct CoreShares {
    /// Fraction of the core that the competing load used, from its start to the end of the run.
    load: f64,
    /// Fraction of the core that a thread got next to the competing load, measured after the run.
    thread_share: f64,
}

fn run(report: &mut Report, smoke: bool, ranks: usize) -> RunResult {
    let cores = two_cores()?;
    let (jobs, [busier, other]) = jobs(report, cores, ranks)?;
    let seconds = if smoke { SMOKE_SECONDS } else { SECONDS };
    let item = seconds_per_item(UNEVEN);
    let items = |seconds: f64| ((2.0 * seconds / item) as u64).max(60);
    report.note(format!(
        "{} items of {:.2} ms, ranks pinned to cores {cores:?}, the load comes to core {busier}, or {other} where it says so",
        items(seconds),
        1e3 * item
    ));
    let signal = std::env::temp_dir().join(format!("armature-live-burner-{}", std::process::id()));

    let places: Vec<LoadPlace> =
        LoadPlace::ALL.into_iter().filter(|place| report.selects(place.part())).collect();
    let has_paper = report.selects("paper");
    let in_places = |way: usize| places.iter().map(move |&place| (way, place));
    let kinds: Vec<(usize, LoadPlace)> = (0..WAYS.len())
        .flat_map(in_places)
        .filter(|&(way, place)| way > 0 || (has_paper && place != LoadPlace::Other))
        .collect();
    if kinds.is_empty() {
        return Err(
            "the part `paper` is a mapping in the parts `alone` and `beside`: ask for one of them, too"
                .into(),
        );
    }
    let all: Vec<RefCell<Vec<Measured>>> = kinds.iter().map(|_| RefCell::default()).collect();
    let mut contestants = Vec::new();
    for (&(way, place), measured) in kinds.iter().zip(&all) {
        let (job, signal) = (&jobs[way], &signal);
        let name = place.contestant(WAYS[way]);
        contestants.push(Contestant::new(name, move || {
            let warm_up = measured.borrow().is_empty();
            let seconds = if warm_up && !smoke { seconds / WARM_UP } else { seconds };
            let job = Job { items: items(seconds), ..job.clone() };
            let one = match place {
                LoadPlace::None => run_alone(job, ranks)?,
                LoadPlace::Busier => run_with_load(job, ranks, busier, signal)?,
                LoadPlace::Other => run_with_load(job, ranks, other, signal)?,
            };
            let total = one.run.total;
            measured.borrow_mut().push(one);
            Ok(total)
        }));
    }
    let totals = round_robin(report.rounds(ROUNDS), contestants)?;
    let all: Vec<Vec<Measured>> =
        all.into_iter().map(|runs| runs.into_inner().into_iter().skip(1).collect()).collect();
    let of = |way: usize, place: LoadPlace| -> &[Measured] {
        let at = kinds.iter().position(|kind| *kind == (way, place));
        at.map_or(&[], |at| &all[at])
    };
    let tails =
        |way: usize, place: LoadPlace| of(way, place).iter().map(|one| one.run.tail).collect::<Vec<f64>>();

    for place in [LoadPlace::Busier, LoadPlace::Other] {
        let Some(last) = of(2, place).last() else { continue };
        report.note(format!("mappings of the last live run, load {}:", place.label()));
        last.run.mapping_lines.iter().for_each(|line| report.note(format!("  {line}")));
    }
    let columns = [
        "ranks",
        "way",
        "load",
        "median [s]",
        "last two thirds [s]",
        "low",
        "high",
        "changes",
        "the load's part of its core",
    ];
    let mut table = Table::new(&columns);
    for (&(way, place), (_, samples)) in kinds.iter().zip(totals.iter()) {
        let tail = median_interval(&tails(way, place));
        let changes: Vec<f64> = of(way, place).iter().map(|one| one.run.changes).collect();
        table.row([
            ranks.into(),
            WAYS[way].into(),
            place.label().into(),
            median(samples).into(),
            tail.value.into(),
            tail.low.into(),
            tail.high.into(),
            digits(median(&changes), 1),
            load_share_range(of(way, place)).into(),
        ]);
    }
    report.table("", &table)?;
    if [LoadPlace::None, LoadPlace::Busier].iter().all(|place| places.contains(place)) {
        note_bound(report, ranks, &tails(1, LoadPlace::None), &tails(2, LoadPlace::Busier), &all);
    }
    plot(report, ranks, |way, place| {
        let tails = tails(way, place);
        (!tails.is_empty()).then(|| median_interval(&tails))
    })?;

    let mut mark = |what: &str, ratios: Vec<f64>, unit: &str, target| {
        if ratios.is_empty() {
            return;
        }
        report.mark(TargetedValue::new(
            &format!("{ranks} ranks, {what}"),
            median_interval(&ratios),
            unit,
            target,
        ));
    };
    let tail_ratios = |way: usize, place: LoadPlace| match &tails(way, place)[..] {
        [] => Vec::new(),
        tails_of_way => paired_ratios(tails_of_way, &tails(2, place)),
    };
    let (paper, on_demand) = (tail_ratios(0, LoadPlace::Busier), tail_ratios(1, LoadPlace::Busier));
    mark("beside the load against the paper's mapping", paper, "times as fast", Target::AtLeast(1.2));
    mark("beside the load against on demand", on_demand, "times as fast", Target::AtLeast(1.0));
    let on_demand = tail_ratios(1, LoadPlace::Other);
    mark("load on the other core against on demand", on_demand, "times as fast", Target::AtLeast(1.0));
    let quiet = |way: usize| {
        let pair = totals.of(LIVE).zip(totals.of(WAYS[way]));
        pair.map_or_else(Vec::new, |(live, other)| paired_ratios(live, other))
    };
    mark("alone against the paper's mapping", quiet(0), "times the time", Target::AtMost(1.03));
    mark("alone against on demand", quiet(1), "times the time", Target::AtMost(1.03));
    Ok(())
}

/// Formats the smallest and the largest fraction of its core that the competing load used in these runs. Runs with different fractions are not
/// comparable.
fn load_share_range(runs: &[Measured]) -> String {
    let parts: Vec<f64> = runs.iter().filter_map(|one| Some(one.core_shares.as_ref()?.load)).collect();
    spread(&parts)
}

/// Returns a job for each compared configuration, and both cores, first the core on which the mapping of the planner HeDPM has more work. The
/// planners assume equal ranks and the links of a single machine.
fn jobs(report: &mut Report, cores: [usize; 2], ranks: usize) -> RunResult<([Job; 3], [usize; 2])> {
    let spec = spec(UNEVEN);
    let platform = Platform::uniform(ranks, 1e9, Link { bandwidth: 1e9, setup: 2e-5 })?.with_ext_on(0)?;
    let mut planned = |way: &str, options: PlanOptions| -> RunResult<(Job, Mapping)> {
        let mapping = plan(&platform, &spec, &options)?.mapping;
        let text = mapping.display(&spec).to_string();
        report.note(format!("{way}: {text}"));
        let dispatch = options.dispatch;
        Ok((Job { dispatch, cores: cores.to_vec(), ..Job::fixed("uneven", 0, &text) }, mapping))
    };
    // HeDPM places at most one block of stages on a processor. `share_processors` lifts this rule, because stages 1 and 6 must both run on rank 0.
    let paper = PlanOptions { share_processors: true, ..PlanOptions::paper(Algorithm::Hedpm) };
    let live = Job { balance: Balance::Live, cores: cores.to_vec(), ..Job::fixed("uneven", 0, "auto") };
    let (paper, mapping) = planned(PAPER, paper)?;
    let (on_demand, _) = planned(ON_DEMAND, PlanOptions::default())?;
    let [first, second] = work_by_core(&mapping, &spec, ranks);
    let by_load = if first > second { cores } else { [cores[1], cores[0]] };
    Ok(([paper, on_demand, live], by_load))
}

/// Returns the work that a mapping assigns to each of two cores. The first half of the ranks is on the first core.
fn work_by_core(mapping: &Mapping, spec: &PipelineSpec, ranks: usize) -> [f64; 2] {
    let mut work = [0.0; 2];
    for block in &mapping.blocks {
        let all: f64 = spec.stages[block.stages.clone()].iter().map(|stage| stage.work).sum();
        for &host in &block.hosts {
            work[2 * host / ranks] += all / block.hosts.len() as f64;
        }
    }
    work
}

fn run_alone(job: Job, ranks: usize) -> RunResult<Measured> {
    Ok(Measured { run: job.on_mpi(ranks)?, core_shares: None })
}

/// Runs the job, which creates the file `signal` when a third of the items has arrived, and then starts the competing load on `core`.
fn run_with_load(job: Job, ranks: usize, core: usize, signal: &Path) -> RunResult<Measured> {
    let _ = fs::remove_file(signal);
    let (ended, has_ended) = std::sync::mpsc::channel::<()>();
    thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            while !signal.exists() {
                match has_ended.recv_timeout(Duration::from_millis(5)) {
                    Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                    _ => return Err("the run was over before a third was reported".into()),
                }
            }
            Load::on_core(core).start()
        });
        let run = Job { third: Some(signal.into()), ..job }.on_mpi(ranks);
        drop(ended);
        let burner = waiter.join().map_err(|_| "the thread that starts the load failed")?;
        let (run, burner) = (run?, burner?);
        let load = burner.part()?;
        let core_shares = CoreShares { load, thread_share: share(core, MEASURE_SHARE)? };
        drop(burner);
        let _ = fs::remove_file(signal);
        Ok(Measured { run, core_shares: Some(core_shares) })
    })
}

fn note_bound(report: &mut Report, ranks: usize, quiet: &[f64], live: &[f64], all: &[Vec<Measured>]) {
    let thread_shares: Vec<f64> =
        all.iter().flatten().filter_map(|one| Some(one.core_shares.as_ref()?.thread_share)).collect();
    let one = median(&thread_shares);
    let on_core = (ranks / 2) as f64;
    let many = on_core * one / (on_core * one + 1.0 - one);
    let factor = 2.0 / (1.0 + many);
    let (bound, took) = (median(quiet) * factor, median(live));
    report.note(format!(
        "beside the load a thread keeps {one:.3} of the loaded core, {} busy rank(s) keep {many:.3} of it: at best the \
         last two thirds take {factor:.3} times what they take alone on demand, {bound:.2} s; live took {took:.2} s",
        ranks / 2
    ));
}

fn plot(
    report: &mut Report,
    ranks: usize,
    tail: impl Fn(usize, LoadPlace) -> Option<crate::verdict::Interval>,
) -> RunResult {
    let title = format!("Last two thirds of a stream, {ranks} ranks on two cores (median, 95 % interval)");
    let mut bars = Bars::new(&title, "time [s]", WAYS);
    let names = ["nothing else runs", "a load on one core", "a load on the other core"];
    for (name, place) in names.into_iter().zip(LoadPlace::ALL) {
        bars.add(name, (0..WAYS.len()).map(|way| tail(way, place)).collect());
    }
    report.bars("", &bars)
}
