//! Experiment that compares `rabin-karp` with other text searches, in bytes per second: command-line programs, and libraries in this process.
//!
//! The searched file is in the page cache. Programs and libraries both read the file, so that all of them do the same work. Programs print the
//! positions of the matches into a pipe, where they are counted, because `grep` stops at the first match if its output goes to `/dev/null`.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Instant;

use aho_corasick::AhoCorasick;
use armature_apps::random::Random;
use memchr::{arch::all::rabinkarp, memmem};
use rabin_karp::hash::propose;
use rabin_karp::patterns::Patterns;
use rabin_karp::text::{Cut, Part, Segments};
use rabin_karp::verify::verify;

use super::stream_runs::{command, folder, real, seconds};
use crate::pairs::{Contestant, round_robin};
use crate::stats::median_interval;
use crate::{Experiment, Report, RunResult, Table, Target, TargetedValue};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rabin-karp-peers",
    about: "rabin-karp on one and two ranks against grep, ripgrep, memchr and aho-corasick",
    needs: "mpirun of Open MPI, two cores, grep, ripgrep, rabin-karp beside this binary (ci/bench.sh builds it)",
    run,
};

const PATTERN: &str = "foobar";
const HAND: &str = "the same kernel in a loop";
const ONE: &str = "rabin-karp, one rank";
const TWO: &str = "rabin-karp, two ranks";
const SHARED: &str = "rabin-karp, two ranks, --shared";

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let folder = folder("rabin-karp-peers")?;
    // The text with few matches has 2 GB, like the text of Beard and Chamberlain (2015). The text with dense matches is smaller, because grep and
    // ripgrep search it at 50 MB/s.
    for (part, megabytes) in [("dense", 512), ("sparse", 2048)] {
        let size = if smoke { 2 << 20 } else { megabytes << 20 };
        if !report.selects(part) {
            continue;
        }
        let path = folder.join(part);
        let text = if part == "dense" { dense(size) } else { sparse(size) };
        fs::write(&path, &text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        let expected = memmem::find_iter(&text, PATTERN).count() as u64;
        drop(text);
        report.note(format!("{part}: {} MiB with {expected} matches", size >> 20));
        compare(report, part, &path, size, expected)?;
        let _ = fs::remove_file(&path);
    }
    Ok(())
}

/// Returns a text that consists of repetitions of the pattern, like the text of Beard and Chamberlain (2015).
fn dense(size: usize) -> Vec<u8> {
    let mut text = PATTERN.repeat(size / PATTERN.len() + 1).into_bytes();
    text.truncate(size);
    text
}

fn sparse(size: usize) -> Vec<u8> {
    let mut random = Random::new(1);
    let mut letter = || if random.below(64) == 0 { b'\n' } else { b'a' + random.below(26) as u8 };
    std::iter::repeat_with(&mut letter).take(size).collect()
}

fn compare(report: &mut Report, part: &str, path: &Path, size: usize, expected: u64) -> RunResult {
    let right = |found: u64| match found == expected {
        true => Ok(()),
        false => Err(format!("{found} matches instead of {expected}")),
    };
    let library = |search: &dyn Fn(&[u8]) -> u64| -> RunResult<f64> {
        let start = Instant::now();
        right(search(&fs::read(path)?))?;
        Ok(size as f64 / start.elapsed().as_secs_f64())
    };
    let ours = |ranks: usize, more: &str| -> RunResult<f64> {
        let path = path.display();
        let arguments = format!("{PATTERN} {path} --count --segment 256K --mapping {more}");
        let output = real("rabin-karp", ranks, &arguments.split(' ').map(String::from).collect::<Vec<_>>())?;
        right(super::stream_runs::number_before(&output, " matches in ")? as u64)?;
        Ok(size as f64 / seconds(&output)?)
    };
    let other = |line: &str| -> RunResult<f64> {
        let line = format!("{line} {PATTERN} {} | wc -l", path.display());
        let start = Instant::now();
        let found = command(["sh", "-c", &line].map(OsString::from))?;
        let took = start.elapsed().as_secs_f64();
        right(found.trim().parse().map_err(|e| format!("{line}: {e}: {found}"))?)?;
        Ok(size as f64 / took)
    };
    let patterns = Patterns::new([PATTERN.into()], 64)?;
    let automaton = AhoCorasick::new([PATTERN])?;
    let contestants = vec![
        Contestant::new(HAND, || {
            let start = Instant::now();
            right(by_hand(&patterns, path)?)?;
            Ok(size as f64 / start.elapsed().as_secs_f64())
        }),
        Contestant::new(ONE, || ours(1, "serial")),
        Contestant::new(TWO, || ours(2, "auto")),
        Contestant::new(SHARED, || ours(2, "auto --shared")),
        Contestant::new("grep -obaF", || other("LC_ALL=C grep -obaF")),
        Contestant::new("ripgrep -obaF", || other("rg -obaF --no-config -j 2")),
        Contestant::new("memchr::memmem", || {
            library(&|text| memmem::find_iter(text, PATTERN).count() as u64)
        }),
        Contestant::new("memchr, Rabin-Karp", || library(&|text| rabin_karp_of_memchr(text))),
        Contestant::new("aho-corasick", || library(&|text| automaton.find_iter(text).count() as u64)),
    ];
    let rounds = round_robin(report.rounds(9), contestants)?;
    let mut table = Table::new(&["search", "median [MB/s]", "low", "high"]);
    for (name, samples) in rounds.iter() {
        let rate = median_interval(samples);
        table.row([
            name.into(),
            (1e-6 * rate.value).into(),
            (1e-6 * rate.low).into(),
            (1e-6 * rate.high).into(),
        ]);
    }
    report.table(part, &table)?;
    for other in [HAND, ONE] {
        if let Some(ratio) = rounds.ratio(SHARED, other) {
            let what = format!("{part}: two ranks that share the file against {other}");
            report.mark(TargetedValue::new(&what, ratio, "times as fast", Target::AtLeast(1.8)));
        }
    }
    if let Some(ratio) = rounds.ratio(TWO, ONE) {
        report.note(format!(
            "{part}: where rank 0 sends the text, two ranks are {:.3} times as fast as one",
            ratio.value
        ));
    }
    Ok(())
}

/// Searches the file with the functions of `rabin-karp`, segment by segment and without a pipeline, and returns the number of matches.
fn by_hand(patterns: &Patterns, path: &Path) -> RunResult<u64> {
    let parts = [Part::File(path.into())];
    let cut = Cut { segment: 256 << 10, overlap: PATTERN.len() - 1 };
    let mut found = 0;
    for segment in Segments::new(&parts, cut, Default::default()) {
        let segment = segment?;
        let candidates = propose(patterns, &segment.bytes, segment.own);
        verify(patterns, &segment.bytes, &candidates, |_, _| found += 1);
    }
    Ok(found)
}

/// Searches the whole text with the algorithm that the crate `memchr` uses for tiny texts, and returns the number of matches.
fn rabin_karp_of_memchr(text: &[u8]) -> u64 {
    let finder = rabinkarp::Finder::new(PATTERN.as_bytes());
    let (mut rest, mut found) = (text, 0);
    while let Some(at) = finder.find(rest, PATTERN.as_bytes()) {
        found += 1;
        rest = &rest[at + PATTERN.len()..];
    }
    found
}
