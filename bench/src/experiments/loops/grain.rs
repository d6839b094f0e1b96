//! Quality of the strip width that the framework chooses, against the best of several widths set by hand.
//!
//! The sweep runs on two undisturbed ranks. First, each width runs in a few rounds, and the best width is selected;
//! then the best width and the framework's own choice run in turn. The best of many samples looks better than it is.
//! This bias is against the framework, but affects only the first part, which decides nothing.

use crate::{
    Experiment, Lines, Mark, Outcome, Report, Table, Target,
    burner::two_cores,
    loops::job::{Job, Kernel},
    pairs::{Contestant, round_robin},
    plot::Series,
    stats::{median, median_interval},
};
use std::cell::RefCell;

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "loop-grain",
    about: "SOR on two undisturbed ranks: the strip width that the framework chooses against the best of a search",
    needs: "mpirun of Open MPI, two cores that nobody else uses",
    run,
};

const ROUNDS: usize = 24;
/// Number of rounds of the search. With fewer rounds, the search may select a width that is not the best, which then
/// loses to the chosen widths.
const SEARCH_ROUNDS: usize = 9;
/// Cases: name, rows, warm-up sweeps, and measured sweeps.
const CASES: [(&str, usize, usize, usize); 2] = [("SOR 2000", 2000, 200, 250), ("SOR 1000", 1000, 800, 1000)];
const WIDTHS: [usize; 11] = [4, 6, 8, 10, 12, 16, 24, 32, 64, 128, 500];

const BEST: &str = "best of the search";
const AUTO: &str = "chosen";

fn run(report: &mut Report, smoke: bool) -> Outcome {
    let cores = two_cores()?;
    let mut table = Table::new(&["loop", "strip width", "time [s]", "low", "high"]);
    let mut plot =
        Lines::new("Strips of a sweep on two ranks", "columns of a strip", "time of a sweep [ms]").log_x();
    for (name, size, settle, passes) in CASES {
        if !report.wants(name) {
            continue;
        }
        let job = Job { settle, cores: cores.to_vec(), live: true, ..Job::new(Kernel::Sor, size, passes) };
        let job = if smoke { Job { size: size / 10, settle: 3, passes: 4, ..job } } else { job };
        let set = |columns: usize| Job { columns, ..job.clone() };
        let widths = if smoke { &WIDTHS[..3] } else { &WIDTHS[..] };
        let search = widths.iter().map(|&width| {
            let job = set(width);
            Contestant::new(width.to_string(), move || Ok(job.with_framework(2)?.seconds))
        });
        let rounds = round_robin(if smoke { 1 } else { SEARCH_ROUNDS }, search.collect())?;
        let mut points = Vec::new();
        let (mut best, mut least) = (WIDTHS[0], f64::INFINITY);
        for (&width, (_, samples)) in widths.iter().zip(rounds.iter()) {
            let time = median(samples);
            table.row([name.into(), width.into(), time.into(), None::<f64>.into(), None::<f64>.into()]);
            points.push((width as f64, 1e3 * time / job.passes as f64));
            if time < least {
                (best, least) = (width, time);
            }
        }
        plot.add(Series::new(name, points));
        let choices = RefCell::new(Vec::new());
        let (best_job, auto_job) = (set(best), set(0));
        let contestants = vec![
            Contestant::new(BEST, || Ok(best_job.with_framework(2)?.seconds)),
            Contestant::new(AUTO, || {
                let run = auto_job.with_framework(2)?;
                choices.borrow_mut().push(run.block);
                Ok(run.seconds)
            }),
        ];
        let rounds = round_robin(report.rounds(ROUNDS), contestants)?;
        for (who, samples) in rounds.iter() {
            let time = median_interval(samples);
            table.row([name.into(), who.into(), time.value.into(), time.low.into(), time.high.into()]);
        }
        let chosen = choices.into_inner();
        let time = rounds.of(AUTO).map(median).unwrap_or(f64::NAN);
        plot.add(Series::new(
            format!("{name}, chosen"),
            vec![(median(&chosen), 1e3 * time / job.passes as f64)],
        ));
        report.note(format!("{name}: best {best}, chosen {chosen:?}"));
        if let Some(ratio) = rounds.ratio(AUTO, BEST) {
            report.mark(Mark::new(name, ratio, "times the time of the best width", Target::AtMost(1.05)));
        }
    }
    report.table("", &table)?;
    report.lines("", &plot)
}
