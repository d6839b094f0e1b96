//! Search for the best batch and window of the hand-written chain, so that the comparison with the framework is fair.

use crate::{
    Experiment, Lines, Outcome, Report, Table,
    baseline::chain::{self, Chain, Stages},
    pairs::{Contestant, round_robin},
    plot::Series,
    stats::median,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "chain-tuning",
    about: "batch and window of the MPI chain written by hand, the opponent in pipeline-throughput",
    needs: "mpirun of Open MPI",
    run,
};

/// Size of the items, batch sizes to try, and bytes to send in one run.
const CASES: [(&str, usize, &[usize], usize); 3] = [
    ("8 B", 8, &[1, 64, 512, 2048, 8192, 32_768, 65_536, 131_072], 400 << 20),
    ("1 KiB", 1 << 10, &[1, 4, 16, 64, 256, 1024], 1 << 30),
    ("1 MiB", 1 << 20, &[1, 4], 3 << 30),
];
const WINDOWS: [usize; 4] = [2, 4, 8, 32];

fn run(report: &mut Report, smoke: bool) -> Outcome {
    let mut table = Table::new(&["items", "batch", "window", "median [items/s]"]);
    for (name, size, batches, bytes) in CASES {
        let rounds = report.rounds(5);
        let windows = if smoke { &WINDOWS[2..3] } else { &WINDOWS[..] };
        let batches = if smoke { &batches[..1] } else { batches };
        let chains: Vec<Chain> = windows
            .iter()
            .flat_map(|&window| batches.iter().map(move |&batch| (batch, window)))
            .map(|(batch, window)| {
                // Every message has a fixed cost, so runs with small batches of small items send fewer items.
                let items = (bytes / size).min(2_000_000 * batch);
                Chain { size, batch, window, items: if smoke { items.div_ceil(1000) } else { items } }
            })
            .collect();
        let contestants = chains.iter().map(|&chain| {
            Contestant::new(format!("{name} × {}, {} under way", chain.batch, chain.window), move || {
                chain::measure::<Stages>(chain)
            })
        });
        let rounds = round_robin(rounds, contestants.collect())?;
        let medians: Vec<(Chain, f64)> =
            chains.iter().copied().zip(rounds.iter().map(|(_, samples)| median(samples))).collect();
        let mut plot = Lines::new(
            &format!("MPI chain by hand, items of {name}"),
            "items in a message",
            "throughput [items/s]",
        )
        .log_x()
        .log_y();
        for &window in windows {
            let of_window = medians.iter().filter(|(chain, _)| chain.window == window);
            let points: Vec<_> = of_window.map(|(chain, rate)| (chain.batch as f64, *rate)).collect();
            plot.add(Series::new(format!("{window} messages under way"), points));
        }
        for (chain, rate) in medians {
            table.row([name.into(), chain.batch.into(), chain.window.into(), rate.into()]);
        }
        report.lines(&name.to_lowercase().replace(' ', ""), &plot)?;
    }
    report.table("", &table)
}
