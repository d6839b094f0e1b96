//! Command line of the `mandelbrot` program.

use crate::farm::{self, Options};
use crate::palette::Palette;
use crate::png;
use crate::rows;
use crate::scene::Scene;
use crate::view::{MAX_PIXELS, View};
use armature::{BoxError, RunSummary, Session};
use armature_apps::farm::FarmArgs;
use armature_apps::names;
use armature_apps::terminal::eprint_line;
use armature_files::output::Output;
use clap::Parser;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Draw the Mandelbrot set, with the rows of the picture distributed over the ranks.
///
///   mandelbrot -o set.png
///   mpirun -n 4 mandelbrot -o seahorses.png --center=-0.743643887,0.131825904 --zoom 2000 --iterations 3000
///
/// The work of rows differs by orders of magnitude. Each free rank gets the next rows.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
struct Cli {
    /// PNG file to write. An existing file is replaced when the new one is complete; a device or FIFO is written directly
    #[arg(short, long, default_value = "mandelbrot.png", value_name = "FILE")]
    output: PathBuf,
    /// Width and height in pixels
    #[arg(long, default_value = "1200x800", value_name = "WxH", value_parser = parse_size)]
    size: (u32, u32),
    /// Centre of the picture: real and imaginary part
    #[arg(long, default_value = "-0.7,0", value_name = "RE,IM", value_parser = parse_center, allow_hyphen_values = true)]
    center: (f64, f64),
    /// Magnification; 1 shows the whole set
    #[arg(long, default_value_t = 1.0, value_name = "NUMBER", allow_negative_numbers = true)]
    zoom: f64,
    /// Maximum number of steps of a point; a point that takes more counts as inside, and deep zooms need more
    #[arg(long, default_value_t = 1000, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Number of points along each side of a pixel; with 2, the colour of a pixel is the average of four points
    #[arg(long, default_value_t = 2, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=16))]
    samples: u32,
    /// Palette of the picture
    #[arg(long, value_enum, default_value = "ocean")]
    palette: Palette,
    /// Compute the picture on rank 0 alone as well, and fail unless both are byte-identical
    #[arg(long)]
    check: bool,
    /// Accept rows in the order of their completion; the picture does not change
    #[arg(long)]
    unordered: bool,
    /// Use a loop instead of a farm: each rank begins with a part of the rows, and rows move to faster ranks during the computation; the picture does
    /// not change
    #[arg(long = "loop", conflicts_with_all = FARM_ONLY)]
    as_loop: bool,
    /// Record completed rows in this file on the host of rank 0. A job that is started again with it computes only the missing rows
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    #[command(flatten)]
    farm: FarmArgs,
}

/// Command-line options that conflict with `--loop`, because only a farm has them.
const FARM_ONLY: [&str; 7] =
    ["unordered", "journal", "chunking", "dedicated_master", "request_ahead", "task_limit", "retries"];

fn parse_size(text: &str) -> Result<(u32, u32), String> {
    let sides = text.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    let good = |side: &u32| (1..=MAX_PIXELS).contains(side);
    sides
        .filter(|(w, h)| good(w) && good(h))
        .ok_or_else(|| format!("expected WxH with sides from 1 to {MAX_PIXELS}, for example 1200x800"))
}

fn parse_center(text: &str) -> Result<(f64, f64), String> {
    let parts =
        text.split_once(',').and_then(|(re, im)| Some((re.trim().parse().ok()?, im.trim().parse().ok()?)));
    parts.ok_or_else(|| "expected two numbers with a comma between, for example -0.7,0".into())
}

/// Runs the `mandelbrot` program with the arguments of the process.
pub fn main() -> ExitCode {
    armature::exit_code(run(&armature_apps::version::parse()))
}

impl Cli {
    fn scene(&self) -> Result<Scene, String> {
        let (width, height) = self.size;
        let view = View { width, height, center: self.center, zoom: self.zoom };
        view.check(self.samples)?;
        Ok(Scene { view, limit: self.iterations, samples: self.samples, palette: self.palette })
    }
}

fn run(args: &Cli) -> Result<(), armature::BoxError> {
    let scene = args.scene()?;
    if let Some(drawn) = armature::run(&args.farm.config()?, |session| draw(session, args, &scene))? {
        if args.farm.summary() {
            eprint_line(drawn.summary);
        }
        let (w, h) = args.size;
        let (seconds, efficiency) = (drawn.elapsed.as_secs_f64(), 100.0 * drawn.efficiency);
        eprint_line(format_args!(
            "{w}x{h} pixels in {seconds:.2} s, efficiency {efficiency:.1} %: {}",
            names::path(&args.output)
        ));
        if args.check {
            eprint_line("the same bytes as the picture of one rank");
        }
    }
    Ok(())
}

struct Drawn {
    elapsed: Duration,
    efficiency: f64,
    summary: String,
}

impl Drawn {
    fn new(elapsed: Duration, efficiency: f64, summary: &impl ToString) -> Self {
        Drawn { elapsed, efficiency, summary: summary.to_string() }
    }
}

/// Draws the picture on this rank together with the other ranks. Rank 0 opens the output file before the computation, so that a file that cannot be
/// written is reported early.
fn draw(session: &mut Session, args: &Cli, scene: &Scene) -> Result<Option<Drawn>, BoxError> {
    let refuse = |e: io::Error| format!("cannot write {}: {e}", names::path(&args.output));
    let file = if session.is_root() { Some(Output::create(&args.output).map_err(refuse)?) } else { None };
    let drawn = if args.as_loop {
        rows::render(session, scene)?.map(|(picture, s)| (picture, Drawn::new(s.elapsed, s.efficiency(), &s)))
    } else {
        let journal = args.journal.as_deref();
        farm::render(session, scene, &Options { farm: &args.farm, unordered: args.unordered, journal })?
            .map(|(picture, s)| (picture, Drawn::new(s.elapsed, s.efficiency(), &s)))
    };
    let (Some((picture, drawn)), Some(file)) = (drawn, file) else { return Ok(None) };
    if args.check {
        compare(scene, &picture)?;
    }
    png::save(file, &picture, scene.view.width, scene.view.height).map_err(refuse)?;
    Ok(Some(drawn))
}

fn compare(scene: &Scene, picture: &[u8]) -> Result<(), String> {
    let differs = |(y, row): &(u32, &[u8])| scene.row(*y).rgb != *row;
    match (0..).zip(picture.chunks(scene.row_bytes())).find(differs) {
        Some((y, _)) => Err(format!("row {y} differs from the one that rank 0 computes alone")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(arguments: &str) -> Result<Cli, String> {
        Cli::try_parse_from(["mandelbrot"].into_iter().chain(arguments.split_whitespace()))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn command_is_well_formed_and_its_defaults_can_be_drawn() {
        Cli::command().debug_assert();
        assert!(parse("").unwrap().scene().is_ok());
        let cli = parse("--center -0.5,1e-2 --zoom 1e3 --size 20x10").unwrap();
        assert_eq!((cli.center, cli.zoom, cli.size), ((-0.5, 0.01), 1000.0, (20, 10)));
    }

    #[test]
    fn unusable_options_are_refused() {
        for (arguments, expected) in [
            ("--size 12", "expected WxH"),
            ("--size 0x5", "expected WxH"),
            ("--size 20000x5", "from 1 to 16384"),
            ("--center 1", "expected two numbers"),
            ("--samples 17", "1..=16"),
            ("--iterations 0", "1.."),
            ("--palette pink", "ocean"),
            ("--loop --unordered", "cannot be used with"),
            ("--loop --chunking ss", "cannot be used with"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(expected), "{arguments}: {error}");
        }
        assert!(parse("--zoom 1e14").unwrap().scene().unwrap_err().contains("beyond double precision"));
    }

    #[test]
    fn comparison_finds_a_wrong_byte() {
        let scene = parse("--size 8x6 --iterations 50").unwrap().scene().unwrap();
        let mut picture = scene.serial();
        assert_eq!(compare(&scene, &picture), Ok(()));
        picture[4 * scene.row_bytes() + 7] ^= 1;
        assert_eq!(
            compare(&scene, &picture).unwrap_err(),
            "row 4 differs from the one that rank 0 computes alone"
        );
    }
}
