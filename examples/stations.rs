//! The coldest, mean and warmest temperature of each weather station in a file of lines `station;temperature`. A pipeline: rank 0 reads
//! blocks of lines, all ranks parse them, rank 0 merges the results. The memory in use does not grow with the file.
//!
//! ```sh
//! mpirun -n 4 target/release/stations measurements.csv
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use armature::pipeline::Pipeline;
use armature::{BoxError, Config, Session};

/// Minimum, sum, maximum and number of the temperatures of a station.
type Statistics = (f64, f64, f64, u64);
type Stations = BTreeMap<String, Statistics>;

/// Bytes of the file that one item of the pipeline contains.
const BLOCK: u64 = 1 << 20;

fn main() -> std::process::ExitCode {
    armature::exit_code(run())
}

fn run() -> armature::Result<()> {
    let (config, args) = Config::from_args_and_rest()?;
    armature::run(&config, |session| {
        let [file] = &args[..] else { return Err("usage: stations FILE".into()) };
        for (name, (coldest, sum, warmest, count)) in stations(session, file.as_ref(), BLOCK)? {
            println!("{name};{coldest:.1};{:.1};{warmest:.1}", sum / count as f64);
        }
        Ok(())
    })
}

/// Returns the temperatures of each station on rank 0, and an empty map on the other ranks.
pub(crate) fn stations(session: &mut Session, file: &Path, block: u64) -> Result<Stations, BoxError> {
    let mut all = Stations::new();
    // Only rank 0 calls the source, so only rank 0 needs the file.
    Pipeline::try_source("read", || blocks(file, block)).try_map("parse", |lines| parse(&lines)).for_each(
        session,
        "merge",
        |part| {
            part.into_iter().for_each(|(name, seen)| merge(&mut all, name, seen));
        },
    )?;
    Ok(all)
}

fn blocks(file: &Path, block: u64) -> impl Iterator<Item = Result<String, BoxError>> {
    let mut open = None;
    std::iter::from_fn(move || {
        let mut next = || -> std::io::Result<String> {
            let file = match &mut open {
                Some(file) => file,
                None => open.insert(BufReader::new(File::open(file)?)),
            };
            let mut bytes = Vec::new();
            file.take(block).read_to_end(&mut bytes)?;
            file.read_until(b'\n', &mut bytes)?;
            String::from_utf8(bytes).map_err(std::io::Error::other)
        };
        match next() {
            Ok(lines) if lines.is_empty() => None,
            Ok(lines) => Some(Ok(lines)),
            Err(error) => Some(Err(format!("{}: {error}", file.display()).into())),
        }
    })
}

fn parse(lines: &str) -> Result<Stations, BoxError> {
    let mut stations = Stations::new();
    for line in lines.lines() {
        let fields = line.split_once(';').and_then(|(name, value)| Some((name, value.parse::<f64>().ok()?)));
        let (name, value) = fields.ok_or_else(|| format!("expected station;temperature, not {line:?}"))?;
        merge(&mut stations, name.to_string(), (value, value, value, 1));
    }
    Ok(stations)
}

fn merge(stations: &mut Stations, name: String, (coldest, sum, warmest, count): Statistics) {
    let seen = stations.entry(name).or_insert((f64::INFINITY, 0.0, f64::NEG_INFINITY, 0));
    *seen = (seen.0.min(coldest), seen.1 + sum, seen.2.max(warmest), seen.3 + count);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(file: &Path, ranks: usize) -> armature::Result<Stations> {
        armature::run(&Config::new().ranks(ranks), |session| stations(session, file, 1_000))
    }

    #[test]
    fn station_statistics_equal_serial_ones_on_1_to_3_ranks() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // The temperatures are quarters of a degree, so their sums are exact in any order.
        let lines: String =
            (0..5_000_i32).map(|n| format!("s{};{}\n", n % 7, f64::from(n * 37 % 200 - 80) / 4.0)).collect();
        std::fs::write(&file, lines.trim_end()).unwrap();
        let serial = parse(&lines).unwrap();
        assert_eq!(serial.len(), 7);
        for ranks in 1..=3 {
            assert_eq!(run(file.path(), ranks).unwrap(), serial);
        }
    }

    #[test]
    fn malformed_line_is_shown_in_the_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "Bergen;8.3\nOslo,5.7\n").unwrap();
        let error = run(file.path(), 2).unwrap_err().to_string();
        assert!(error.contains("expected station;temperature, not \"Oslo,5.7\""), "{error}");
    }
}
