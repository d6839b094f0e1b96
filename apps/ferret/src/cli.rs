//! Command line of the `ferret` program.

mod replay;

use crate::build::build;
use crate::database::Database;
use crate::eval::{PLACES, evaluate, synthetic};
use crate::files::{Listing, Skipped};
use crate::lsh::Settings;
use crate::pairs::{Key, prepare_evaluation};
use crate::pipeline::{Found, Root, Search, search};
use crate::queries::Variants;
use crate::record::CostRecorder;
use crate::synth::Plan;
use crate::timing;
use armature::{BoxError, Session};
use armature_apps::names;
use armature_apps::output::{Destination, SnapshotArgs};
use armature_apps::pipeline::PipelineArgs;
use armature_apps::terminal::{eprint_line, print};
use armature_files::{output::Output, regular};
use clap::{Args, Parser, Subcommand};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Find images that look similar to a given image.
///
///   ferret index photos -o photos.ferret
///   ferret query new-photos --db photos.ferret -k 5
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a database of the PNG and JPEG images below a directory
    Index(IndexArgs),
    /// List the most similar images of a database for each image below a directory
    Query(QueryArgs),
    /// Replay a recorded profile without images, to test other machines, including simulated ones
    Replay(replay::ReplayArgs),
    /// Create a collection of synthetic scenes, with queries whose right answers are known
    ///
    /// Writes DIR/database (one image per scene), DIR/queries (cropped, noisy, brighter or darker, and resized copies) and DIR/truth.tsv (the right
    /// answer of each query).
    Synth(SynthArgs),
    /// Create changed copies of your images, as queries whose right answers are known
    ///
    /// Writes DIR/queries (cropped, noisy, brighter or darker, and resized copies, as JPEG files) and DIR/truth.tsv (the right answer of each query).
    Vary(VaryArgs),
    /// Measure the quality of the search
    #[command(subcommand)]
    Eval(EvalCommand),
}

#[derive(Debug, Args)]
struct IndexArgs {
    /// Directory with the images, or a single image
    #[arg(value_name = "DIR")]
    images: PathBuf,
    /// Database file to write. An existing file is replaced when the new one is complete; a device or FIFO is written directly
    #[arg(short, long, value_name = "DB")]
    output: PathBuf,
    /// Fail at the first image that cannot be read, instead of skipping it
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, Args)]
struct QueryArgs {
    /// Directory with the query images, or a single image
    #[arg(value_name = "DIR")]
    queries: PathBuf,
    /// Database created by `ferret index`
    #[arg(long, value_name = "DB")]
    db: PathBuf,
    /// Number of answers for each query
    #[arg(short, default_value_t = 10, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    k: u32,
    /// File for the answers: lines of query, place, image and distance, separated by tabs [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Fail at the first image that cannot be read, instead of skipping it
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    snapshots: SnapshotArgs,
    #[command(flatten)]
    run: PipelineArgs,
    /// Also write the costs of every query at every stage to FILE, for `ferret replay`; requires a single rank
    #[arg(long, value_name = "FILE", conflicts_with = "snapshots")]
    record_profile: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct SceneArgs {
    /// Number of scenes
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    scenes: u32,
    /// Seed of the scenes; equal seeds give equal scenes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Width and height of a scene in pixels, each from 8 to 4096
    #[arg(long, default_value = "192x128", value_name = "WxH", value_parser = parse_size)]
    size: (u32, u32),
    /// Create all four variants of every scene instead of one of each
    #[arg(long)]
    all_variants: bool,
}

impl SceneArgs {
    fn plan(&self) -> Plan {
        let (width, height) = self.size;
        Plan { scenes: self.scenes, seed: self.seed, width, height, all_variants: self.all_variants }
    }
}

#[derive(Debug, Args)]
struct SynthArgs {
    /// Directory to write to
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    scenes: SceneArgs,
}

#[derive(Debug, Args)]
struct VaryArgs {
    /// Directory with the images, or a single image
    #[arg(value_name = "IMAGES")]
    images: PathBuf,
    /// Directory to write to
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Number of copies of each of the four kinds for every image
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1000))]
    copies: u32,
    /// Enlarge copies until their longer side has this number of pixels, as in a camera's picture
    #[arg(long, default_value_t = 1, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(1..=4096))]
    side: u32,
    /// Seed of the copies; equal seeds give equal copies
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Subcommand)]
enum EvalCommand {
    /// Search for changed copies of synthetic scenes, which are created in memory
    Synth {
        #[command(flatten)]
        scenes: SceneArgs,
        /// Also measure the time of every stage on one core
        #[arg(long)]
        times: bool,
    },
    /// Search for your own images, with given right answers
    Pairs {
        /// Directory to index
        #[arg(long, value_name = "DIR")]
        database: PathBuf,
        /// Directory with the queries
        #[arg(long, value_name = "DIR")]
        queries: PathBuf,
        /// File with lines of a query, a tab and the right image [default: the image with the same relative name, with any extension, is right]
        #[arg(long, value_name = "FILE")]
        truth: Option<PathBuf>,
    },
}

fn parse_size(text: &str) -> Result<(u32, u32), String> {
    let sides = text.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    match sides {
        Some((w, h)) if (8..=4096).contains(&w) && (8..=4096).contains(&h) => Ok((w, h)),
        _ => Err("expected WxH with sides from 8 to 4096, for example 192x128".into()),
    }
}

/// Runs the `ferret` program with the arguments of the process.
pub fn main() -> ExitCode {
    armature::exit_code(run(armature_apps::version::parse::<Cli>().command))
}

fn run(command: Command) -> Result<(), armature::BoxError> {
    match command {
        Command::Index(args) => index(&args),
        Command::Query(args) => query(&args),
        Command::Replay(args) => replay::main(&args),
        Command::Synth(args) => synth(&args),
        Command::Vary(args) => vary(&args),
        Command::Eval(EvalCommand::Synth { scenes, times }) => eval_synth(&scenes.plan(), times),
        Command::Eval(EvalCommand::Pairs { database, queries, truth }) => {
            eval_pairs(&database, &queries, truth.as_deref())
        }
    }
}

fn index(args: &IndexArgs) -> Result<(), armature::BoxError> {
    let listing = Listing::of(&args.images)?;
    // The output is created before the computation, so that a file that cannot be written is reported before the long computation.
    let refuse = |e: io::Error| format!("cannot write the database {}: {e}", args.output.display());
    let output = Output::create(&args.output).map_err(refuse)?;
    let (database, skipped) = build(&listing, Settings::default())?;
    if let (true, Some(first)) = (args.strict, skipped.first()) {
        return Err(format!("cannot use {}: {}", first.name, first.reason).into());
    }
    report_skipped(&skipped);
    if database.is_empty() {
        return Err(format!("no usable PNG or JPEG image below {}", names::path(&args.images)).into());
    }
    database.save(output).map_err(refuse)?;
    let regions: usize = database.entries().iter().map(|entry| entry.regions.len()).sum();
    let path = names::path(&args.output);
    eprint_line(format_args!("{} images with {regions} regions in {path}", database.len()));
    Ok(())
}

fn query(args: &QueryArgs) -> Result<(), armature::BoxError> {
    let config = args.run.config()?;
    let wanted = Search {
        db: args.db.clone(),
        k: args.k as usize,
        strict: args.strict,
        mapping: args.run.mapping(),
        snapshots: args.snapshots.clone(),
        recorder: args.record_profile.as_ref().map(|_| CostRecorder::default()),
    };
    let found = armature::run(&config, |session| answer(session, args, &wanted))?;
    if let (Some(path), Some(recorder), Some(_)) = (&args.record_profile, &wanted.recorder, &found) {
        write_profile(path, recorder, args)?;
    }
    if let Some(Found { answered, skipped, run }) = found {
        args.run.print_summary(&run);
        eprint_line(format_args!("{answered} queries answered, {skipped} images skipped"));
    }
    Ok(())
}

fn write_profile(path: &Path, recorder: &CostRecorder, args: &QueryArgs) -> Result<(), armature::BoxError> {
    let images = Database::open(&args.db)?.len();
    let profile = recorder.profile(vec![format!("{images} images in the database, k {}", args.k)]);
    if profile.items.is_empty() {
        return Err("no query could be answered, so no profile was written".into());
    }
    let refuse = |e: io::Error| format!("cannot write {}: {e}", names::path(path));
    let mut file = Output::create(path).map_err(refuse)?;
    write!(file, "{profile}").and_then(|()| file.commit()).map_err(refuse)?;
    Ok(())
}

/// Answers the queries on this rank together with the other ranks. Only rank 0 has the query images and the output file.
fn answer(session: &mut Session, args: &QueryArgs, wanted: &Search) -> Result<Option<Found>, BoxError> {
    if !session.is_root() {
        return search(session, None, wanted);
    }
    let listing = Listing::of(&args.queries)?;
    let mut output = Destination::open(args.output.as_deref(), &args.snapshots)?;
    let found = search(session, Some(Root { listing: &listing, output: &mut output }), wanted)?;
    output.finish()?;
    Ok(found)
}

fn synth(args: &SynthArgs) -> Result<(), armature::BoxError> {
    let queries = args.scenes.plan().write(&args.directory)?;
    let (scenes, path) = (args.scenes.scenes, names::path(&args.directory));
    eprint_line(format_args!("{scenes} scenes and {queries} queries in {path}"));
    Ok(())
}

fn vary(args: &VaryArgs) -> Result<(), armature::BoxError> {
    let listing = Listing::of(&args.images)?;
    let variants = Variants { copies: args.copies, side: args.side, seed: args.seed };
    let (queries, skipped) = variants.write(&listing, &args.output)?;
    report_skipped(&skipped);
    if queries == 0 {
        return Err(format!("no usable PNG or JPEG image below {}", names::path(&args.images)).into());
    }
    eprint_line(format_args!("{queries} queries in {}", names::path(&args.output)));
    Ok(())
}

fn eval_synth(plan: &Plan, times: bool) -> Result<(), armature::BoxError> {
    let (index, questions) = synthetic(plan, Settings::default())?;
    let variants = if plan.all_variants { "all variants" } else { "one variant" };
    let Plan { scenes, seed, .. } = plan;
    print(format_args!("{scenes} scenes of seed {seed}, {variants} of each as query\n"))?;
    print(evaluate(&index, &questions))?;
    if times {
        let sample = Plan { scenes: plan.scenes.min(100), ..*plan };
        let files: Vec<_> = sample
            .generate_all()
            .into_iter()
            .flat_map(|generated| generated.queries)
            .map(|q| q.file)
            .collect();
        print(format_args!("\n{}", timing::measure(&files, &index, PLACES)))?;
    }
    Ok(())
}

fn eval_pairs(database: &Path, queries: &Path, truth: Option<&Path>) -> Result<(), armature::BoxError> {
    let key = match truth {
        None => Key::SameName,
        Some(path) => {
            let text = regular::read_to_string(path)
                .map_err(|e| format!("cannot read {}: {e}", names::path(path)))?;
            Key::parse(&text).map_err(|e| format!("{}: {e}", names::path(path)))?
        }
    };
    let set = prepare_evaluation(&Listing::of(database)?, &Listing::of(queries)?, &key, Settings::default())?;
    report_skipped(&set.skipped);
    if set.unanswerable > 0 {
        let queries = set.unanswerable;
        eprint_line(format_args!("{queries} queries have no right answer in the database and are left out"));
    }
    if set.questions.is_empty() {
        return Err("there is no query with a right answer in the database".into());
    }
    Ok(print(evaluate(&set.index, &set.questions))?)
}

fn report_skipped(skipped: &[Skipped]) {
    for image in skipped {
        eprint_line(format_args!("skipped {}: {}", image.name, image.reason));
    }
    if !skipped.is_empty() {
        eprint_line(format_args!("{} images skipped", skipped.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn commands_are_well_formed() {
        Cli::command().debug_assert();
        assert!(Cli::try_parse_from(["ferret", "index", "dir", "-o", "db"]).is_ok());
        let query = |k| Cli::try_parse_from(["ferret", "query", "dir", "--db", "db", "-k", k]);
        assert!(query("3").is_ok());
        assert!(query("0").unwrap_err().to_string().contains("0 is not in 1.."));
    }

    #[test]
    fn image_sizes_are_parsed_or_refused() {
        assert_eq!(parse_size("192x128"), Ok((192, 128)));
        for bad in ["192", "0x5", "axb", "9999x10", "-1x20", ""] {
            assert!(parse_size(bad).unwrap_err().contains("192x128"), "{bad}");
        }
    }
}
