//! The command line.

use crate::fasta::{self, Sequence, Unknown};
use crate::kept;
use crate::kernel::{Best, serial};
use crate::lines::{Format, line};
use crate::scores::{Gaps, LARGEST, Scores};
use crate::table::align;
use armature::loops::{Settings, Summary};
use armature::{BoxError, Session};
use armature_apps::loops::{BlockArgs, CheckpointArgs, LoopArgs};
use armature_apps::names;
use armature_apps::terminal::{print, tell};
use armature_files::output::Output;
use clap::Parser;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Align sequences of two FASTA files locally, by Smith and Waterman: the best score of each pair, and where it ends.
///
///   align one.fa other.fa
///   mpirun -n 4 align --matrix blosum62 query.fa proteins.fa --summary
///
/// Each sequence of the first file is aligned with each of the second. Ends are counted from 1; of several best alignments the one counts that
/// ends first in the first sequence, and then in the second. The table of a pair is spread over the ranks and held nowhere.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
struct Cli {
    /// Sequences whose letters are the rows of the table; rank 0 reads both files
    #[arg(value_name = "FILE")]
    first: PathBuf,
    /// Sequences whose letters are the columns
    #[arg(value_name = "FILE")]
    second: PathBuf,
    /// Score of two nucleotides that are alike
    #[arg(long = "match", default_value_t = 2, value_name = "SCORE", value_parser = score(0))]
    alike: i32,
    /// Score of two others, and of codes such as N
    #[arg(long, default_value_t = -3, value_name = "SCORE", value_parser = score(-LARGEST), allow_negative_numbers = true)]
    mismatch: i32,
    /// Scores of letters, for proteins for example: blosum62, or a file as NCBI has them. J, O and U count as X where it has none
    #[arg(long, value_name = "blosum62|FILE", conflicts_with_all = ["alike", "mismatch"])]
    matrix: Option<PathBuf>,
    /// What each gap costs [default: 5, with a matrix 11]
    #[arg(long, value_name = "COST", value_parser = score(0))]
    gap_open: Option<i32>,
    /// What each letter of a gap costs [default: 2, with a matrix 1]
    #[arg(long, value_name = "COST", value_parser = score(0))]
    gap_extend: Option<i32>,
    /// Columns that a rank holds of its rows, and after which rows can move
    #[arg(long, default_value_t = 256, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    panel: u64,
    /// How alignments are told
    #[arg(long, value_enum, default_value = "tsv")]
    format: Format,
    /// File for the alignments, which appears when all are done, each once, however often the job was started again
    /// [default: standard output, where a job that is started again repeats those that it has printed]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    block: BlockArgs,
    #[command(flatten)]
    checkpoint: CheckpointArgs,
    #[command(flatten)]
    args: LoopArgs,
}

/// A score or a cost of this or more.
fn score(least: i32) -> clap::builder::RangedI64ValueParser<i32> {
    clap::value_parser!(i32).range(i64::from(least)..=i64::from(LARGEST))
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    armature::exit_code(run(&Cli::parse()))
}

impl Cli {
    fn gaps(&self) -> Gaps {
        let usual =
            if self.matrix.is_some() { Gaps { open: 11, extend: 1 } } else { Gaps { open: 5, extend: 2 } };
        Gaps { open: self.gap_open.unwrap_or(usual.open), extend: self.gap_extend.unwrap_or(usual.extend) }
    }

    /// What letters are worth. Rank 0 alone asks for it, which may read a file.
    fn scores(&self) -> Result<Scores, String> {
        self.matrix
            .as_ref()
            .map_or_else(|| Ok(Scores::dna(self.alike, self.mismatch)), |name| Scores::named(name))
    }

    /// Opens the file for the alignments, if there is to be one, before any work is done.
    fn output(&self) -> Result<Option<Output>, String> {
        let file = self.output.as_ref().map(|path| Output::create(path)).transpose();
        file.map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &io::Error) -> String {
        let path = self.output.as_ref().map(|path| names::path(path)).unwrap_or_default();
        format!("cannot write {path}: {error}")
    }

    /// The settings of a pair's loop, of which checkpoints are kept between two panels.
    fn settings(&self, pair: &Pair<'_>) -> Settings {
        let settings = self.block.columns(self.args.settings()).panel_width(self.panel);
        match pair.other.letters.len() as u64 > self.panel {
            true => self.checkpoint.within(&pair.place).add_to(settings, &pair.of),
            false => settings,
        }
    }
}

/// Two sequences, where in the directory of checkpoints they have their place, and what their alignment depends on.
struct Pair<'p> {
    one: &'p Sequence,
    other: &'p Sequence,
    place: String,
    of: String,
}

/// All pairs, in their order.
fn pairs<'p>((scores, first, second): &'p Read, gaps: Gaps) -> impl Iterator<Item = Pair<'p>> {
    let numbered = |all: &'p [Sequence]| all.iter().enumerate();
    numbered(first).flat_map(move |(i, one)| {
        numbered(second).map(move |(k, other)| {
            let of = kept::fingerprint(one, other, scores, gaps);
            Pair { one, other, place: format!("{i}-{k}"), of }
        })
    })
}

/// What rank 0 has read.
type Read = (Scores, Vec<Sequence>, Vec<Sequence>);

fn read(cli: &Cli) -> Result<Read, String> {
    let scores = cli.scores()?;
    let mut unknown = Unknown::new();
    let first = fasta::read(&cli.first, &scores, &mut unknown)?;
    let second = fasta::read(&cli.second, &scores, &mut unknown)?;
    if !unknown.is_empty() {
        let counts: Vec<String> =
            unknown.iter().map(|(letter, count)| format!("{letter} ({count})")).collect();
        tell(format_args!("align: letters without scores in the matrix count as X: {}", counts.join(", ")));
    }
    Ok((scores, first, second))
}

fn run(cli: &Cli) -> Result<(), armature::BoxError> {
    let done = cli.args.run(|session, verify| on_rank(session, cli, verify), |seconds| Ok(*seconds))?;
    if let Some((summary, serial)) = done {
        cli.args.tell_aside("the last pair", &summary);
        if let Some(seconds) = serial {
            tell(format_args!("the same bits as the serial loop, which takes {seconds:.3} s row by row"));
        }
    }
    Ok(())
}

/// One rank's part. Rank 0 reads, prints, and compares with the serial program if that is asked for: then it gives the seconds that this takes.
fn on_rank(session: &mut Session, cli: &Cli, verify: bool) -> Result<Option<(Summary, f64)>, BoxError> {
    let read = if session.is_root() { Some(read(cli)?) } else { None };
    let read = session.broadcast(read)?;
    let (gaps, mut last, mut seconds) = (cli.gaps(), None, 0.0);
    let mut output = if session.is_root() { cli.output()? } else { None };
    for (pair, known) in pairs(&read, gaps).zip(known(session, cli, &read)?) {
        let Pair { one, other, .. } = &pair;
        let letters = (&one.letters[..], &other.letters[..]);
        let best = match known {
            Some(best) => best,
            None => {
                let (best, summary) = align(session, letters, &read.0, gaps, cli.settings(&pair))?;
                last = summary;
                best
            }
        };
        if !session.is_root() {
            continue;
        }
        if let (Some(dir), None) = (cli.checkpoint.dir(), known) {
            kept::write(&dir.join(&pair.place), &pair.of, best)?;
        }
        let line = line(cli.format, one, other, best);
        match &mut output {
            Some(file) => file.write_all(line.as_bytes()).map_err(|error| cli.refused(&error))?,
            None => print(line)?,
        }
        if verify {
            let begun = Instant::now();
            let expected = serial(&one.letters, &other.letters, &read.0, gaps);
            seconds += begun.elapsed().as_secs_f64();
            if best != expected {
                return Err(format!(
                    "{} and {}: {best:?}, where the serial program finds {expected:?}",
                    one.name, other.name
                )
                .into());
            }
        }
    }
    if let Some(file) = output {
        file.commit().map_err(|error| cli.refused(&error))?;
    }
    if session.is_root() && last.is_none() {
        tell("every pair was aligned before");
    }
    Ok(last.map(|summary| (summary, seconds)))
}

/// What jobs before this one have found of each pair.
fn known(session: &mut Session, cli: &Cli, read: &Read) -> Result<Vec<Option<Best>>, BoxError> {
    let Some(dir) = cli.checkpoint.dir() else { return Ok(vec![None; read.1.len() * read.2.len()]) };
    let known = |pair: Pair<'_>| kept::read(&dir.join(&pair.place), &pair.of);
    let known = session.is_root().then(|| pairs(read, cli.gaps()).map(known).collect::<Result<_, _>>());
    Ok(session.broadcast(known.transpose()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(words: &str) -> Result<Cli, String> {
        Cli::try_parse_from(["align"].into_iter().chain(words.split_whitespace()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_is_well_formed() {
        Cli::command().debug_assert();
        let cli = parse("a b").unwrap();
        assert_eq!((cli.gaps(), cli.scores().unwrap()), (Gaps { open: 5, extend: 2 }, Scores::dna(2, -3)));
        let cli = parse("a b --matrix blosum62 --gap-extend 2").unwrap();
        assert_eq!((cli.gaps(), cli.scores().unwrap()), (Gaps { open: 11, extend: 2 }, Scores::blosum62()));
        let cli = parse("a b --match 5 --mismatch -4 --gap-open 0").unwrap();
        assert_eq!((cli.gaps().open, cli.scores().unwrap()), (0, Scores::dna(5, -4)));
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        for (words, expected) in [
            ("a", "FILE"),
            ("a b --match -1", "unexpected argument '-1'"),
            ("a b --gap-open 10001", "0..=10000"),
            ("a b --mismatch -10001", "-10000..=10000"),
            ("a b --panel 0", "1.."),
            ("a b --matrix x --match 3", "cannot be used with"),
            ("a b --format xml", "possible values: tsv, json"),
        ] {
            let error = parse(words).unwrap_err();
            assert!(error.contains(expected), "{words}: {error}");
        }
    }
}
