//! Runs the experiments: `armature-bench [NAME…] [--smoke] [--rounds N] [--only PART]…`, or lists them: `--list`.

use std::{path::PathBuf, process::ExitCode};

use armature_bench::{Experiment, Extent, RunResult, burner, experiments, ranks};
use clap::Parser;

/// Runs the experiments behind armature's claims; without names, all of them.
#[derive(Parser, Debug)]
#[command(name = "armature-bench", version)]
struct Arguments {
    /// Names of the experiments to run.
    names: Vec<String>,
    /// List the experiments instead of running them.
    #[arg(long)]
    list: bool,
    /// Run the shortest form of each experiment, which tests the experiment but measures nothing.
    #[arg(long)]
    smoke: bool,
    /// Number of rounds of alternating measurements; fewer rounds are faster and less precise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Run only this part of an experiment. Can be repeated. The error for an unknown part lists the valid parts.
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// Folder for tables (CSV) and plots (SVG).
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

fn main() -> ExitCode {
    // This binary is also started as the ranks of an experiment and as competing load; users do not call these
    // commands.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &arguments[..] {
        [first, name, rest @ ..] if first == "rank" => match ranks::program(name, rest) {
            Some(outcome) => outcome,
            None => Err(format!("there is no program {name} for ranks").into()),
        },
        [first, rest @ ..] if first == "burn" => burner::main(rest),
        _ => people(Arguments::parse()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("armature-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn people(arguments: Arguments) -> RunResult {
    let Arguments { names, list, smoke, rounds, only, out } = arguments;
    let chosen = chosen(&names)?;
    if list {
        let width = chosen.iter().map(|experiment| experiment.name.len()).max().unwrap_or(0);
        for Experiment { name, about, needs, .. } in chosen {
            println!("{name:<width$}  {about} (needs {needs})");
        }
        return Ok(());
    }
    let extent = Extent { smoke, rounds: rounds.map(usize::from), only };
    // A failed experiment does not prevent the others from running, but the command fails.
    let mut failed = Vec::new();
    for experiment in chosen {
        if let Err(error) = experiment.run(&out, &extent) {
            println!("{}: could not be run: {error}\n", experiment.name);
            failed.push(format!("{}: {error}", experiment.name));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("could not be run: {}", failed.join("; ")).into()) }
}

fn chosen(names: &[String]) -> RunResult<Vec<&'static Experiment>> {
    if names.is_empty() {
        return Ok(experiments::ALL.iter().collect());
    }
    let find = |name: &String| {
        let found = experiments::ALL.iter().find(|experiment| experiment.name == name);
        found.ok_or_else(|| format!("there is no experiment {name}; --list shows all").into())
    };
    names.iter().map(find).collect()
}
