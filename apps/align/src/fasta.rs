//! Sequences in FASTA files.

use crate::scores::Scores;
use armature_apps::names::{escaped, path as shown};
use armature_files::regular;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum size of a FASTA file in bytes. It limits the memory of a rank, because every rank holds the letters of both input files.
const MAX_BYTES: u64 = 1 << 30;

/// Named sequence of letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    /// First word of the sequence's header line.
    pub name: String,
    /// Letters of the sequence as [numbers](Scores::letter): indexes into the list of the letters that have scores.
    pub letters: Vec<u8>,
}

/// Number of occurrences in the input of each protein letter that has no scores and counts as X (any amino acid).
pub type Unknown = BTreeMap<char, u64>;

/// Reads the sequences of a FASTA file. Each letter must have scores or count as X ([`Scores::unknown`]); letters that count as X are added to
/// `unknown`.
///
/// # Errors
/// The file cannot be read or is no FASTA file. The error contains the file, the line and the expected content.
pub fn read(path: &Path, scores: &Scores, unknown: &mut Unknown) -> Result<Vec<Sequence>, String> {
    let bytes = regular::read_at_most(path, MAX_BYTES);
    let bytes = bytes.map_err(|error| format!("cannot read {}: {error}", shown(path)))?;
    parse(&bytes, scores, unknown).map_err(|error| format!("{}{error}", shown(path)))
}

/// Parses the sequences of a FASTA file. Letters may be upper or lower case, lines may end in LF or CR LF, and blanks between letters are ignored.
///
/// # Errors
/// The part of the error message that follows the name of the file: the line and the expected content.
pub fn parse(text: &[u8], scores: &Scores, unknown: &mut Unknown) -> Result<Vec<Sequence>, String> {
    let mut sequences: Vec<Sequence> = Vec::new();
    // Line number of the header of the sequence that is being parsed.
    let mut begun = 0;
    let check = |sequences: &[Sequence], begun: usize| match sequences.last() {
        Some(Sequence { name, letters }) if letters.is_empty() => {
            Err(format!(", line {begun}: the sequence {} has no letters", escaped(name)))
        }
        _ => Ok(()),
    };
    for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        let line = line.trim_ascii();
        if let Some(header) = line.strip_prefix(b">") {
            check(&sequences, begun)?;
            begun = number;
            let name = header.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| format!(", line {number}: expected a name in UTF-8 after '>'"))?;
            sequences.push(Sequence { name: name.to_string(), letters: Vec::new() });
            continue;
        }
        for &byte in line.iter().filter(|byte| !byte.is_ascii_whitespace()) {
            let Some(sequence) = sequences.last_mut() else {
                return Err(format!(
                    ", line {number}: expected a header that begins with '>' before any letters"
                ));
            };
            let letter = scores.letter(byte).or_else(|| {
                let letter = scores.unknown(byte)?;
                *unknown.entry(byte.to_ascii_uppercase().into()).or_default() += 1;
                Some(letter)
            });
            sequence.letters.push(letter.ok_or_else(|| {
                let what = byte.escape_ascii();
                format!(", line {number}: '{what}' is not a letter of {}", scores.alphabet())
            })?);
        }
    }
    check(&sequences, begun)?;
    if sequences.is_empty() {
        Err(" has no sequence, expected a line that begins with '>'".into())
    } else {
        Ok(sequences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &[u8]) -> Result<Vec<(String, String)>, String> {
        let scores = Scores::dna(2, -3);
        let sequences = parse(text, &scores, &mut Unknown::new())?.into_iter();
        Ok(sequences.map(|s| (s.name, s.letters.iter().map(|&l| scores.shown(l)).collect())).collect())
    }

    #[test]
    fn sequences_are_read_in_all_their_forms() {
        let text = b"\n>one the first\r\nACGT\r\nacg t\r\n\r\n>two\nNNRu\n";
        let expected = [("one", "ACGTACGT"), ("two", "NNRT")].map(|(a, b)| (a.to_string(), b.to_string()));
        assert_eq!(parsed(text).unwrap(), expected);
        assert_eq!(parsed(b">x\nA").unwrap()[0].1, "A");
    }

    #[test]
    fn letters_missing_from_the_matrix_become_x_and_are_counted() {
        let scores = Scores::blosum62();
        let mut unknown = Unknown::new();
        let sequences = parse(b">a\nMuOJ\n>b\nUX\n", &scores, &mut unknown).unwrap();
        let shown_letters =
            |n: usize| sequences[n].letters.iter().map(|&l| scores.shown(l)).collect::<String>();
        assert_eq!((shown_letters(0), shown_letters(1)), ("MXXX".into(), "XX".into()));
        assert_eq!(unknown, Unknown::from([('J', 1), ('O', 1), ('U', 2)]));
        // The matrix has no X, so J, O and U are errors.
        let own = Scores::parse("A B\nA 1 0\nB 0 1\n").unwrap();
        assert_eq!(
            parse(b">a\nAU\n", &own, &mut unknown).unwrap_err(),
            ", line 2: 'U' is not a letter of the matrix"
        );
    }

    #[test]
    fn malformed_fasta_is_reported_with_its_line() {
        for (text, expected) in [
            (&b""[..], " has no sequence, expected a line that begins with '>'"),
            (b"\n\nACGT\n", ", line 3: expected a header that begins with '>' before any letters"),
            (b">one\nAC\nAE\n", ", line 3: 'E' is not a letter of DNA or RNA; for proteins set --matrix"),
            (b">one\nA\x00\n", ", line 2: '\\x00' is not a letter of DNA or RNA; for proteins set --matrix"),
            (b"> one\nA\n", ", line 1: expected a name in UTF-8 after '>'"),
            (b">\xff\nA\n", ", line 1: expected a name in UTF-8 after '>'"),
            (b">one\n>two\nA\n", ", line 1: the sequence one has no letters"),
            (b">one\nA\n>two\n\n", ", line 3: the sequence two has no letters"),
        ] {
            assert_eq!(parsed(text).unwrap_err(), expected, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn errors_name_an_unreadable_file() {
        let error = read(Path::new("nowhere/at.fa"), &Scores::dna(1, -1), &mut Unknown::new()).unwrap_err();
        assert!(error.starts_with("cannot read nowhere/at.fa: "), "{error}");
    }
}
