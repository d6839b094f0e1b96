//! Counts the words of all files below a directory that all ranks can read. A farm: each file is a task.
//!
//! ```sh
//! mpirun -n 4 target/release/word-count /usr/share/doc
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use armature::farm::Farm;
use armature::{BoxError, Config, Session};

type Counts = BTreeMap<String, u64>;

fn main() -> std::process::ExitCode {
    armature::exit_code(run())
}

fn run() -> armature::Result<()> {
    let (config, args) = Config::from_args_and_rest()?;
    let directory = args.first().map_or(".", String::as_str);
    armature::run(&config, |session| {
        if let Some(counts) = count_words(session, directory.as_ref())? {
            let mut words: Vec<_> = counts.into_iter().collect();
            words.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            words.iter().take(10).for_each(|(word, count)| println!("{count:>8} {word}"));
        }
        Ok(())
    })
}

/// Returns the number of occurrences of each word, on rank 0.
pub(crate) fn count_words(session: &mut Session, directory: &Path) -> Result<Option<Counts>, BoxError> {
    // Only rank 0 lists the files. The other ranks receive the names of the files that they read.
    let files = if session.is_root() { files_below(directory)? } else { Vec::new() };
    let mut total = Counts::new();
    // Results are added in any order, because the sums do not depend on the order of the files.
    let mut farm = Farm::try_new("count", |file: PathBuf| count(&file)).unordered();
    // A file that cannot be read ends the job. With `for_each_result` the job would continue, and the closure would
    // receive the error.
    farm.for_each(session, files, |_, counts| {
        counts.into_iter().for_each(|(word, count)| *total.entry(word).or_default() += count);
    })?;
    Ok(session.is_root().then_some(total))
}

fn files_below(directory: &Path) -> Result<Vec<PathBuf>, BoxError> {
    let (mut files, mut open) = (Vec::new(), vec![directory.to_path_buf()]);
    while let Some(directory) = open.pop() {
        let entries = directory.read_dir().map_err(|error| format!("{}: {error}", directory.display()))?;
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}

fn count(file: &Path) -> Result<Counts, BoxError> {
    let text = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut counts = Counts::new();
    for word in String::from_utf8_lossy(&text).split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty())
    {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_counts_equal_serial_counts_on_1_to_3_ranks() {
        let book = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs");
        let mut serial = Counts::new();
        for file in book.read_dir().unwrap() {
            for (word, count) in count(&file.unwrap().path()).unwrap() {
                *serial.entry(word).or_default() += count;
            }
        }
        assert!(serial["rank"] > 100);
        for ranks in 1..=3 {
            let counts = armature::run(&Config::new().ranks(ranks), |session| count_words(session, &book));
            assert_eq!(counts.unwrap().unwrap(), serial);
        }
    }

    #[test]
    fn missing_directory_is_named_in_the_error() {
        let config = Config::new().ranks(2);
        let counts = armature::run(&config, |session| count_words(session, "/no/such/directory".as_ref()));
        let error = counts.unwrap_err().to_string();
        assert!(error.contains("/no/such/directory"), "{error}");
    }
}
