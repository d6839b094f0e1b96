//! How often each word occurs in the files below a directory that all ranks see. A farm: a task is a file.
//!
//! ```sh
//! mpirun -n 4 target/release/word-count /usr/share/doc
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use armature::farm::Farm;
use armature::{BoxError, Config, Session};

type Counts = BTreeMap<String, u64>;

fn main() -> armature::Result<()> {
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

/// The words and how often they occur, on rank 0.
pub(crate) fn count_words(session: &Session, directory: &Path) -> Result<Option<Counts>, BoxError> {
    // Rank 0 alone lists the files: the others get the names of those that they read.
    let files = if session.is_root() { files_below(directory)? } else { Vec::new() };
    let mut total = Counts::new();
    // In whichever order they are read, the sums are the same.
    let mut farm = Farm::try_new("count", |file: PathBuf| count(&file)).unordered();
    let summary = farm.for_each(session, files, |_, counts| -> Result<(), BoxError> {
        // A file that cannot be read ends the job; to go on, look at what the `Err` says and return `Ok`.
        counts?.into_iter().for_each(|(word, count)| *total.entry(word).or_default() += count);
        Ok(())
    })?;
    Ok(summary.map(|_| total))
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
    fn are_the_counts_of_the_serial_program() {
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
    fn a_directory_that_is_not_there_is_named() {
        let missing = |session: &Session| count_words(session, "/no/such/directory".as_ref());
        let error = armature::run(&Config::new().ranks(2), missing).unwrap_err().to_string();
        assert!(error.contains("/no/such/directory"), "{error}");
    }
}
