//! Results that a restarted job reuses: alignments of completed pairs. The checkpoint of a partially filled table is in the same directory.
//!
//! ```text
//! DIR/0-3/manifest …    the checkpoint of the table of the first sequence of one file and the fourth of the other
//! DIR/0-3/best          JSON on one line, once the pair is aligned: fingerprint of the inputs, and the best alignment
//! ```

use crate::fasta::Sequence;
use crate::kernel::Best;
use crate::scores::{Gaps, Scores};
use armature_apps::names::{self, path as shown};
use armature_files::{output, regular};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::Path;

const MAX_BYTES: u64 = 1 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedAlignment {
    of: String,
    best: Best,
}

/// Returns a short text that identifies the inputs of the alignment of two sequences: both sequences, the scores and the gap costs.
pub fn fingerprint(first: &Sequence, second: &Sequence, scores: &Scores, gaps: Gaps) -> String {
    let sum = |letters: &[u8]| format!("{} letters {:08x}", letters.len(), crc32fast::hash(letters));
    let scores = crc32fast::hash(&serde_json::to_vec(scores).unwrap_or_default());
    let (first, second) = (sum(&first.letters), sum(&second.letters));
    format!("{first}, {second}, scores {scores:08x}, gaps {}+{}", gaps.open, gaps.extend)
}

/// Reads the saved alignment of a pair of sequences from `dir`. Returns `None` if no alignment is saved there.
///
/// # Errors
/// The file cannot be read, is damaged, or belongs to an alignment with another fingerprint.
pub fn read(dir: &Path, of: &str) -> Result<Option<Best>, String> {
    let path = dir.join("best");
    let text = match regular::read_text_at_most(&path, MAX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot read {}: {error}", shown(&path))),
    };
    let saved: SavedAlignment = serde_json::from_str(&text)
        .map_err(|error| format!("{}: {error}; remove it to align the pair again", shown(&path)))?;
    if saved.of != of {
        let message = format!(
            "{} contains the alignment of {}, expected {of}: name another directory",
            shown(&path),
            names::shown(&saved.of)
        );
        return Err(message);
    }
    Ok(Some(saved.best))
}

/// Writes the alignment of a pair of sequences to `dir`, for a restarted job.
///
/// # Errors
/// The file cannot be written.
pub fn write(dir: &Path, of: &str, best: Best) -> Result<(), String> {
    let path = dir.join("best");
    let text = serde_json::to_string(&SavedAlignment { of: of.into(), best }).unwrap_or_default() + "\n";
    let written = std::fs::create_dir_all(dir).and_then(|()| output::replace(&path, text.as_bytes()));
    written.map_err(|error| format!("cannot write {}: {error}", shown(&path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(letters: &[u8]) -> Sequence {
        Sequence { name: "a".into(), letters: letters.to_vec() }
    }

    #[test]
    fn fingerprint_depends_on_letters_scores_and_gaps() {
        let (dna, gaps) = (Scores::dna(2, -3), Gaps { open: 5, extend: 2 });
        let of = |one: &[u8], other: &[u8], scores, gaps| {
            fingerprint(&sequence(one), &sequence(other), scores, gaps)
        };
        let this = of(&[0, 1], &[2], &dna, gaps);
        for other in [
            of(&[0, 2], &[2], &dna, gaps),
            of(&[0, 1], &[2, 2], &dna, gaps),
            of(&[0, 1], &[2], &Scores::dna(2, -2), gaps),
            of(&[0, 1], &[2], &dna, Gaps { open: 5, extend: 1 }),
        ] {
            assert_ne!(this, other);
        }
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("0-0");
        assert_eq!(read(&dir, &this), Ok(None));
        let best = Best { score: 7, first_end: 2, second_end: 1 };
        write(&dir, &this, best).unwrap();
        assert_eq!(read(&dir, &this), Ok(Some(best)));
        let refused = read(&dir, "another").unwrap_err();
        assert!(
            refused.contains("best contains the alignment of 2 letters ")
                && refused.contains("expected another"),
            "{refused}"
        );
        std::fs::write(dir.join("best"), "{}").unwrap();
        assert!(read(&dir, &this).unwrap_err().contains("missing field"));
    }
}
