//! Command line of the `align` program.

use crate::fasta::{self, Sequence, Unknown};
use crate::kernel::{Best, serial};
use crate::lines::{Format, line};
use crate::saved;
use crate::scores::{Gaps, MAX_SCORE, Scores};
use crate::table::align;
use armature::loops::{Settings, Summary};
use armature::{BoxError, Session};
use armature_apps::loops::{BlockArgs, CheckpointArgs, LoopArgs};
use armature_apps::output::{Destination, SnapshotArgs};
use armature_apps::terminal::eprint_line;
use clap::Parser;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Find the best local alignment of each pair of sequences from two FASTA files (Smith-Waterman).
///
///   align one.fa other.fa
///   mpirun -n 4 align --matrix blosum62 query.fa proteins.fa --summary
///
/// Each sequence of the first file is aligned with each sequence of the second file. The output has the
/// score of the best alignment and its end in both sequences, counted from 1. Of equal scores, the
/// alignment that ends first in the first sequence, then in the second, is reported. The table of a
/// pair is distributed over the ranks, and no rank holds all of it.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
struct Cli {
    /// FASTA file with the first sequences, the rows of the tables; rank 0 reads both files
    #[arg(value_name = "FILE")]
    first: PathBuf,
    /// FASTA file with the second sequences, the columns of the tables
    #[arg(value_name = "FILE")]
    second: PathBuf,
    /// Score of two equal nucleotides
    #[arg(long = "match", default_value_t = 2, value_name = "SCORE", value_parser = score(0))]
    alike: i32,
    /// Score of two different nucleotides, and of ambiguity codes such as N
    #[arg(long, default_value_t = -3, value_name = "SCORE", value_parser = score(-MAX_SCORE), allow_negative_numbers = true)]
    mismatch: i32,
    /// Matrix of scores, for proteins for example: `blosum62`, or a file in NCBI's format. J, O and U count as X if the matrix does not contain them
    #[arg(long, value_name = "blosum62|FILE", conflicts_with_all = ["alike", "mismatch"])]
    matrix: Option<PathBuf>,
    /// Cost of a gap [default: 5, with --matrix 11]
    #[arg(long, value_name = "COST", value_parser = score(0))]
    gap_open: Option<i32>,
    /// Additional cost of each letter of a gap [default: 2, with --matrix 1]
    #[arg(long, value_name = "COST", value_parser = score(0))]
    gap_extend: Option<i32>,
    /// Number of columns that a rank holds of its rows; rows can move to other ranks after each panel of this width
    #[arg(long, default_value_t = 256, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    panel: u64,
    /// Format of the alignments
    #[arg(long, value_enum, default_value = "tsv")]
    format: Format,
    /// File for the alignments, which appears when all alignments are complete and contains each of them once, even if the job was restarted
    /// [default: standard output; with --checkpoint, all alignments are printed at the end]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    block: BlockArgs,
    #[command(flatten)]
    checkpoint: CheckpointArgs,
    #[command(flatten)]
    args: LoopArgs,
}

fn score(least: i32) -> clap::builder::RangedI64ValueParser<i32> {
    clap::value_parser!(i32).range(i64::from(least)..=i64::from(MAX_SCORE))
}

/// Runs the `align` program with the arguments of the process.
pub fn main() -> ExitCode {
    armature::exit_code(run(&armature_apps::version::parse()))
}

impl Cli {
    fn gaps(&self) -> Gaps {
        let usual =
            if self.matrix.is_some() { Gaps { open: 11, extend: 1 } } else { Gaps { open: 5, extend: 2 } };
        Gaps { open: self.gap_open.unwrap_or(usual.open), extend: self.gap_extend.unwrap_or(usual.extend) }
    }

    /// Returns the letter scores that the options select. Only rank 0 calls this function, because it may read a file.
    fn scores(&self) -> Result<Scores, String> {
        self.matrix.as_ref().map_or_else(
            || Ok(Scores::dna(self.alike, self.mismatch)),
            |name| Scores::from_name_or_file(name),
        )
    }

    /// Returns the settings of the loop that fills the alignment table of a pair. The loop computes the panels (ranges of adjacent columns) one after
    /// the other. If one panel holds all columns, the loop saves no checkpoint.
    fn settings(&self, pair: &Pair<'_>) -> Settings {
        let settings = self.block.columns(self.args.settings()).panel_width(self.panel);
        match pair.other.letters.len() as u64 > self.panel {
            true => self.checkpoint.within(&pair.directory).add_to(settings, &pair.fingerprint),
            false => settings,
        }
    }
}

/// Pair of sequences to align, the subdirectory for the checkpoint of their table, and the fingerprint of their alignment.
struct Pair<'p> {
    one: &'p Sequence,
    other: &'p Sequence,
    directory: String,
    fingerprint: String,
}

fn pairs<'p>((scores, first, second): &'p Inputs, gaps: Gaps) -> impl Iterator<Item = Pair<'p>> {
    let numbered = |all: &'p [Sequence]| all.iter().enumerate();
    numbered(first).flat_map(move |(i, one)| {
        numbered(second).map(move |(k, other)| {
            let fingerprint = saved::fingerprint(one, other, scores, gaps);
            Pair { one, other, directory: format!("{i}-{k}"), fingerprint }
        })
    })
}

/// Content of the input files, which rank 0 reads and broadcasts: letter scores, sequences of the first file and sequences of the second file.
type Inputs = (Scores, Vec<Sequence>, Vec<Sequence>);

fn read(cli: &Cli) -> Result<Inputs, String> {
    let scores = cli.scores()?;
    let mut unknown = Unknown::new();
    let first = fasta::read(&cli.first, &scores, &mut unknown)?;
    let second = fasta::read(&cli.second, &scores, &mut unknown)?;
    if !unknown.is_empty() {
        let counts: Vec<String> =
            unknown.iter().map(|(letter, count)| format!("{letter} ({count})")).collect();
        eprint_line(format_args!(
            "align: letters without scores in the matrix count as X: {}",
            counts.join(", ")
        ));
    }
    Ok((scores, first, second))
}

fn run(cli: &Cli) -> Result<(), armature::BoxError> {
    let done = cli.args.run(|session, verify| align_pairs(session, cli, verify), |seconds| Ok(*seconds))?;
    if let Some((summary, serial)) = done {
        cli.args.eprint_result("the last pair", &summary);
        if let Some(seconds) = serial {
            eprint_line(format_args!(
                "the same bits as the serial loop, which takes {seconds:.3} s row by row"
            ));
        }
    }
    Ok(())
}

/// Aligns all pairs of sequences, on all ranks together. Rank 0 reads the files and prints the alignments. If `verify` is true, rank 0 also compares
/// the alignments with those of the serial program and returns the seconds that the serial program took.
fn align_pairs(session: &mut Session, cli: &Cli, verify: bool) -> Result<Option<(Summary, f64)>, BoxError> {
    let read = if session.is_root() { Some(read(cli)?) } else { None };
    let read = session.broadcast(read)?;
    let (gaps, mut last, mut seconds) = (cli.gaps(), None, 0.0);
    let (mut output, mut lines) = (Destination::default(), String::new());
    if session.is_root() {
        output = Destination::open(cli.output.as_deref(), &SnapshotArgs::default())?;
    }
    let saved = saved_alignments(session, cli, &read)?;
    let (known, all) = (saved.iter().flatten().count(), saved.len());
    for (pair, saved) in pairs(&read, gaps).zip(saved) {
        let Pair { one, other, .. } = &pair;
        let letters = (&one.letters[..], &other.letters[..]);
        let best = match saved {
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
        if let (Some(dir), None) = (cli.checkpoint.dir(), saved) {
            saved::write(&dir.join(&pair.directory), &pair.fingerprint, best)?;
        }
        lines += &line(cli.format, one, other, best);
        // With checkpoints, rank 0 writes the alignments only when all pairs of sequences are aligned. If they were written earlier, a restarted job
        // would write some of them again.
        if cli.checkpoint.dir().is_none() {
            output.write_all(std::mem::take(&mut lines).as_bytes())?;
            output.flush()?;
        }
        if verify {
            let start = Instant::now();
            let expected = serial(&one.letters, &other.letters, &read.0, gaps);
            seconds += start.elapsed().as_secs_f64();
            if best != expected {
                return Err(format!(
                    "{} and {}: {best:?}, where the serial program finds {expected:?}",
                    one.name, other.name
                )
                .into());
            }
        }
    }
    output.write_all(lines.as_bytes())?;
    output.finish()?;
    match known {
        _ if !session.is_root() || known == 0 => {}
        _ if known == all => eprint_line("all pairs were aligned by earlier jobs"),
        _ => eprint_line(format_args!("{known} of {all} pairs were aligned by earlier jobs")),
    }
    Ok(last.map(|summary| (summary, seconds)))
}

/// Returns one entry for each pair of sequences: the alignment that an earlier job saved in the checkpoint directory, if it saved one.
fn saved_alignments(session: &mut Session, cli: &Cli, read: &Inputs) -> Result<Vec<Option<Best>>, BoxError> {
    let Some(dir) = cli.checkpoint.dir() else { return Ok(vec![None; read.1.len() * read.2.len()]) };
    let saved = |pair: Pair<'_>| saved::read(&dir.join(&pair.directory), &pair.fingerprint);
    let saved = session.is_root().then(|| pairs(read, cli.gaps()).map(saved).collect::<Result<_, _>>());
    Ok(session.broadcast(saved.transpose()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(arguments: &str) -> Result<Cli, String> {
        Cli::try_parse_from(["align"].into_iter().chain(arguments.split_whitespace()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn command_is_well_formed() {
        Cli::command().debug_assert();
        let cli = parse("a b").unwrap();
        assert_eq!((cli.gaps(), cli.scores().unwrap()), (Gaps { open: 5, extend: 2 }, Scores::dna(2, -3)));
        let cli = parse("a b --matrix blosum62 --gap-extend 2").unwrap();
        assert_eq!((cli.gaps(), cli.scores().unwrap()), (Gaps { open: 11, extend: 2 }, Scores::blosum62()));
        let cli = parse("a b --match 5 --mismatch -4 --gap-open 0").unwrap();
        assert_eq!((cli.gaps().open, cli.scores().unwrap()), (0, Scores::dna(5, -4)));
    }

    #[test]
    fn unusable_options_are_refused() {
        for (arguments, expected) in [
            ("a", "FILE"),
            ("a b --match -1", "unexpected argument '-1'"),
            ("a b --gap-open 10001", "0..=10000"),
            ("a b --mismatch -10001", "-10000..=10000"),
            ("a b --panel 0", "1.."),
            ("a b --matrix x --match 3", "cannot be used with"),
            ("a b --format xml", "possible values: tsv, json"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(expected), "{arguments}: {error}");
        }
    }
}
