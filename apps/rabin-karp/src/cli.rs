//! Command line of the `rabin-karp` program.

use crate::lines::{Format, Lines};
use crate::patterns::{MAX_BITS, Patterns};
use crate::pipeline::{Search, pipeline};
use crate::places::FileIdentity;
use crate::text::{MAX_SEGMENT, Part, Repeated, parts};
use armature::pipeline::Summary;
use armature::{BoxError, Session};
use armature_apps::names;
use armature_apps::output::{Destination, SnapshotArgs, fingerprint, run_into};
use armature_apps::pipeline::PipelineArgs;
use armature_apps::terminal::eprint_line;
use armature_files::regular;
use clap::Parser;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Search texts for patterns, with segments of the texts distributed over the ranks.
///
///   rabin-karp needle haystack.txt
///   mpirun -n 4 rabin-karp --patterns words.txt --count --shared logs/
///   zcat big.gz | rabin-karp needle other -
///   rabin-karp foobar --generate foobar:2G --count
///
/// The output has the byte offset of each match, counted from 0, in order; matches may overlap.
/// Patterns and texts are sequences of arbitrary bytes. The memory in use does not grow with the text.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment, override_usage = USAGE)]
struct Cli {
    /// Patterns, followed by the text: a file, a directory (all files below it), or `-` for standard input
    #[arg(value_name = "PATTERN... FILE|DIR|-")]
    arguments: Vec<OsString>,
    /// File whose lines are further patterns; each rank reads it
    #[arg(long, value_name = "FILE")]
    patterns: Option<PathBuf>,
    /// Instead of a file, search TEXT repeated up to SIZE bytes (units K, M, G are powers of 1024); if the option is repeated, all texts form one
    /// text
    #[arg(long, value_name = "TEXT:SIZE", value_parser = parse_repeated)]
    generate: Vec<Repeated>,
    /// Size of a segment, the unit of work, in bytes (units K, M are powers of 1024)
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = parse_segment)]
    segment: usize,
    /// Let each rank read the files, which must have the same names on all ranks, instead of reading them on rank 0 and sending them
    #[arg(long)]
    shared: bool,
    /// Number of bits of a fingerprint; with a small number most candidates are no matches
    #[arg(long, value_name = "BITS", default_value_t = MAX_BITS, value_parser = clap::value_parser!(u32).range(1..=64))]
    hash_bits: u32,
    /// Print only the number of matches of each text
    #[arg(long)]
    count: bool,
    /// Format of the matches
    #[arg(long, value_enum, default_value = "tsv")]
    format: Format,
    /// File for the matches [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    snapshots: SnapshotArgs,
    #[command(flatten)]
    run: PipelineArgs,
}

const USAGE: &str =
    "rabin-karp [OPTIONS] PATTERN... FILE|DIR|-\n       rabin-karp [OPTIONS] --generate TEXT:SIZE PATTERN...";

const MAX_PATTERN_BYTES: u64 = 256 << 20;

fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn parse_segment(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text).filter(|bytes| (1..=MAX_SEGMENT as u64).contains(bytes));
    bytes.map(|bytes| bytes as usize).ok_or_else(|| "expected 1 to 256M bytes, for example 64K".into())
}

fn parse_repeated(text: &str) -> Result<Repeated, String> {
    let parts = text.rsplit_once(':').filter(|(text, _)| !text.is_empty());
    let parsed = parts.and_then(|(text, size)| Some((text, parse_bytes(size)?)));
    let (text, size) = parsed.ok_or("expected a text and its size in bytes, for example foobar:2G")?;
    Ok(Repeated { text: text.as_bytes().to_vec(), size })
}

/// Runs the `rabin-karp` program with the arguments of the process.
pub fn main() -> ExitCode {
    armature::exit_code(run(&armature_apps::version::parse()))
}

impl Cli {
    fn split(&self) -> Result<(Vec<Vec<u8>>, Option<&Path>), String> {
        let (arguments, text) = if self.generate.is_empty() {
            let (text, arguments) =
                self.arguments.split_last().ok_or(format!("nothing to search; usage: {USAGE}"))?;
            (arguments, Some(Path::new(text)))
        } else {
            (&self.arguments[..], None)
        };
        let mut patterns: Vec<Vec<u8>> = arguments.iter().map(|word| word.as_bytes().to_vec()).collect();
        if let Some(path) = &self.patterns {
            let file_error = |e: io::Error| format!("cannot read the patterns {}: {e}", names::path(path));
            let lines = regular::read_at_most(path, MAX_PATTERN_BYTES).map_err(file_error)?;
            // The line end of the last line does not begin another (empty) pattern.
            let lines = lines.strip_suffix(b"\n").unwrap_or(&lines);
            patterns.extend(lines.split(|&byte| byte == b'\n').map(<[u8]>::to_vec));
        }
        if patterns.is_empty() {
            return Err(format!("no pattern is given; usage: {USAGE}"));
        }
        Ok((patterns, text))
    }

    fn parts(&self, text: Option<&Path>) -> Result<Vec<Part>, BoxError> {
        text.map_or_else(|| Ok(vec![Part::Generated(self.generate.clone())]), parts)
    }

    /// Returns a text that names everything on which the output depends, so that no snapshot of another search is continued.
    fn identity(&self, patterns: &Patterns, parts: &[Part]) -> String {
        let Cli { segment, count, format, generate, .. } = self;
        let file = |part: &Part| (part.name().as_os_str().as_bytes().to_vec(), FileIdentity::of(part));
        let files: Vec<_> = parts.iter().map(file).collect();
        format!(
            "segments of {segment}, count {count}, {format:?}, {} patterns, {} texts, {} generated",
            fingerprint(patterns.all()),
            fingerprint(&files),
            fingerprint(generate)
        )
    }
}

fn run(cli: &Cli) -> Result<(), armature::BoxError> {
    let (patterns, text) = cli.split()?;
    let patterns = Arc::new(Patterns::new(patterns, cli.hash_bits)?);
    let search = Search { patterns, segment: cli.segment, count: cli.count, shared: cli.shared };
    let found = armature::run(&cli.run.config()?, |session| search_on_rank(session, cli, &search, text))?;
    if let Some((matches, summary)) = found {
        cli.run.print_summary(&summary);
        eprint_line(format_args!("{matches} matches in {:.3} s", summary.elapsed.as_secs_f64()));
    }
    Ok(())
}

fn search_on_rank(
    session: &mut Session,
    cli: &Cli,
    search: &Search,
    text: Option<&Path>,
) -> Result<Option<(u64, Summary)>, BoxError> {
    let (mut parts, mut output) = (Vec::new(), Destination::default());
    if session.is_root() {
        parts = cli.parts(text)?;
        if cli.snapshots.is_given() && parts.contains(&Part::Standard) {
            return Err("--snapshots needs a text that can be read again: name a file".into());
        }
        // With `--count`, rank 0 writes only at the end, from counts that the snapshots contain, so a restarted job need not continue the output.
        let snapshots = if cli.count { SnapshotArgs::default() } else { cli.snapshots.clone() };
        output = Destination::open(cli.output.as_deref(), &snapshots)?;
    }
    let names: Vec<&[u8]> = parts.iter().map(|part| part.name().as_os_str().as_bytes()).collect();
    let lines = Lines::new(cli.format, &names, search.patterns.all());
    let mut counts = vec![0; parts.len()];
    let job = cli.run.map(pipeline(search, &parts, output.reader()));
    let job = cli.snapshots.add_to(job, || cli.identity(&search.patterns, &parts));
    let mut nothing = Destination::default();
    let to = if cli.count { &mut nothing } else { &mut output };
    let summary = run_into(job, (session, "reduce"), (to, &mut counts), |found, counts, to| {
        counts[found.part as usize] += found.count;
        Ok(lines.write(&found, to)?)
    })?;
    if cli.count {
        lines.write_counts(&counts, &mut output)?;
    }
    output.finish()?;
    Ok(summary.map(|summary| (counts.iter().sum(), summary)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(arguments: &str) -> Result<Cli, String> {
        Cli::try_parse_from(["rabin-karp"].into_iter().chain(arguments.split_whitespace()))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn command_is_well_formed() {
        Cli::command().debug_assert();
        let cli = parse("one two text --segment 4K --hash-bits 9 --count --format json").unwrap();
        assert_eq!((cli.segment, cli.hash_bits, cli.count, cli.format), (4096, 9, true, Format::Json));
        let (patterns, text) = cli.split().unwrap();
        assert_eq!((patterns, text), (vec![b"one".to_vec(), b"two".to_vec()], Some(Path::new("text"))));
    }

    #[test]
    fn generated_text_replaces_the_file_argument() {
        let cli = parse("one two --generate a:b:3M --generate x:5").unwrap();
        let piece = |text: &str, size| Repeated { text: text.into(), size };
        assert_eq!(cli.generate, [piece("a:b", 3 << 20), piece("x", 5)]);
        assert_eq!(cli.split().unwrap().0.len(), 2);
        assert!(cli.split().unwrap().1.is_none());
    }

    #[test]
    fn unusable_options_are_refused() {
        for (arguments, expected) in [
            ("a b --segment 0", "expected 1 to 256M"),
            ("a b --segment 1G", "expected 1 to 256M"),
            ("a b --hash-bits 0", "1..=64"),
            ("a --generate foobar", "foobar:2G"),
            ("a --generate :5", "foobar:2G"),
            ("a --generate x:99999999999G", "foobar:2G"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(expected), "{arguments}: {error}");
        }
        let split = |arguments| parse(arguments).unwrap().split().unwrap_err();
        assert!(split("").contains("nothing to search") && split("text").contains("no pattern is given"));
        assert!(split("--generate x:5").contains("no pattern is given"));
    }
}
