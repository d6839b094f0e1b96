//! Scores of pairs of letters in an alignment, and costs of gaps.

use armature_apps::names::path as shown;
use armature_files::regular;
use serde::{Deserialize, Serialize};
use std::path::Path;

const MAX_LETTERS: usize = 64;
/// Maximum absolute value of a letter score, and maximum cost of a gap. With this limit, the score of an alignment of a hundred thousand letters fits
/// into 32 bits.
pub const MAX_SCORE: i32 = 10_000;
const MAX_BYTES: u64 = 1 << 20;

/// Nucleotides of DNA and RNA, followed by the ambiguity codes, which match no letter, not even themselves.
const NUCLEOTIDES: &[u8] = b"ACGTNRYKMSWBDHV";

/// Scores of each pair of letters. A letter is identified by its number (its index in the list of letters).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scores {
    letters: Vec<u8>,
    rows: Vec<Vec<i32>>,
    is_dna: bool,
}

/// Costs of gaps. A gap of n letters costs `open` + n · `extend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gaps {
    /// Cost of each gap, independent of its length.
    pub open: i32,
    /// Additional cost of each letter of a gap.
    pub extend: i32,
}

impl Scores {
    /// Returns the scores of nucleotides: `alike` for equal ones, `unlike` for different ones. U counts as T.
    pub fn dna(alike: i32, unlike: i32) -> Self {
        let mut rows = vec![vec![unlike; NUCLEOTIDES.len()]; NUCLEOTIDES.len()];
        (0..4).for_each(|letter| rows[letter][letter] = alike);
        Scores { letters: NUCLEOTIDES.to_vec(), rows, is_dna: true }
    }

    /// Returns the score matrix BLOSUM62 for proteins.
    ///
    /// # Panics
    /// Never panics: the matrix is part of the program, and a test parses it.
    pub fn blosum62() -> Self {
        Scores::parse(include_str!("blosum62.txt")).expect("the matrix of the program is one")
    }

    /// Returns the score matrix with this name: `blosum62`, or the name of a file.
    ///
    /// # Errors
    /// The file does not exist or contains no matrix.
    pub fn from_name_or_file(name: &Path) -> Result<Self, String> {
        if name.to_str().is_some_and(|name| name.eq_ignore_ascii_case("blosum62")) {
            return Ok(Scores::blosum62());
        }
        let text = regular::read_text_at_most(name, MAX_BYTES);
        let text = text.map_err(|error| format!("cannot read the matrix {}: {error}", shown(name)))?;
        Scores::parse(&text).map_err(|error| format!("{}{error}", shown(name)))
    }

    /// Parses a score matrix in NCBI's format: comments after `#`, a line of letters, and for each letter a line with the letter and its scores.
    ///
    /// # Errors
    /// The part of the error message that follows the name of the file: the line and the expected content.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = (1..)
            .zip(text.lines())
            .map(|(number, line)| (number, line.split('#').next().unwrap_or_default()));
        let mut lines = lines.filter(|(_, line)| !line.trim().is_empty());
        let (number, header) = lines.next().ok_or(" has no matrix, expected a line of letters")?;
        let letters = header.split_whitespace().map(letter).collect::<Option<Vec<u8>>>();
        let expected = || {
            format!(", line {number}: expected different letters, {MAX_LETTERS} at most, with blanks between")
        };
        let letters = letters.filter(|all| all.len() <= MAX_LETTERS).ok_or_else(expected)?;
        if (1..letters.len()).any(|at| letters[..at].contains(&letters[at])) {
            return Err(expected());
        }
        let mut rows = vec![None; letters.len()];
        for (number, line) in lines {
            let mut words = line.split_whitespace();
            let of =
                words.next().and_then(letter).and_then(|of| letters.iter().position(|&letter| letter == of));
            let of =
                of.ok_or_else(|| format!(", line {number}: expected one of the letters of the first line"))?;
            let scores =
                words.map(|word| word.parse().ok().filter(|score| (-MAX_SCORE..=MAX_SCORE).contains(score)));
            let scores = scores.collect::<Option<Vec<i32>>>().filter(|scores| scores.len() == letters.len());
            let scores = scores.ok_or_else(|| {
                format!(
                    ", line {number}: expected {} scores, from {} to {MAX_SCORE}",
                    letters.len(),
                    -MAX_SCORE
                )
            })?;
            if rows[of].replace(scores).is_some() {
                return Err(format!(
                    ", line {number}: the scores of '{}' are given again",
                    letters[of] as char
                ));
            }
        }
        if let Some(at) = rows.iter().position(Option::is_none) {
            return Err(format!(" has no scores of '{}'", letters[at] as char));
        }
        Ok(Scores { letters, rows: rows.into_iter().flatten().collect(), is_dna: false })
    }

    /// Returns the number of an upper-case or lower-case letter, if the letter has scores.
    pub fn letter(&self, byte: u8) -> Option<u8> {
        let byte = byte.to_ascii_uppercase();
        let byte = if self.is_dna && byte == b'U' { b'T' } else { byte };
        self.letters.iter().position(|&letter| letter == byte).map(|number| number as u8)
    }

    /// Returns the number of X (any amino acid) for the protein letters J, O and U, which matrices omit.
    pub fn unknown(&self, byte: u8) -> Option<u8> {
        let is_left_out = !self.is_dna && b"JOU".contains(&byte.to_ascii_uppercase());
        if is_left_out { self.letter(b'X') } else { None }
    }

    /// Returns the letter with this number.
    ///
    /// # Panics
    /// Panics if there is no letter with this number.
    pub fn shown(&self, letter: u8) -> char {
        self.letters[usize::from(letter)] as char
    }

    /// Returns the scores of this letter paired with each letter, in the order of the letters' numbers.
    ///
    /// # Panics
    /// Panics if there is no letter with this number.
    #[inline]
    pub fn row_of(&self, letter: u8) -> &[i32] {
        &self.rows[usize::from(letter)]
    }

    /// Returns the largest score of two letters.
    pub fn best(&self) -> i32 {
        self.rows.iter().flatten().copied().max().unwrap_or(0)
    }

    /// Returns the end of the error message "'?' is not a letter of …": a description of the accepted letters.
    pub fn alphabet(&self) -> &'static str {
        if self.is_dna { "DNA or RNA; for proteins set --matrix" } else { "the matrix" }
    }
}

fn letter(word: &str) -> Option<u8> {
    match word.as_bytes() {
        [byte] if byte.is_ascii_graphic() && *byte != b'>' => Some(byte.to_ascii_uppercase()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(scores: &Scores, a: u8, b: u8) -> i32 {
        scores.row_of(scores.letter(a).unwrap())[usize::from(scores.letter(b).unwrap())]
    }

    #[test]
    fn built_in_matrix_is_symmetric_with_published_values() {
        let scores = Scores::blosum62();
        for (a, b, expected) in
            [(b'W', b'W', 11), (b'c', b'C', 9), (b'L', b'i', 2), (b'E', b'Z', 4), (b'*', b'*', 1)]
        {
            assert_eq!(score(&scores, a, b), expected);
        }
        let all = b"ARNDCQEGHILKMFPSTWYVBZX*";
        assert!(all.iter().all(|&a| all.iter().all(|&b| score(&scores, a, b) == score(&scores, b, a))));
        let sum: i32 = all
            .iter()
            .flat_map(|&a| all.iter().map(move |&b| (a, b)))
            .map(|(a, b)| score(&scores, a, b))
            .sum();
        assert_eq!((sum, scores.best()), (-726, 11));
        assert_eq!(scores.letter(b'J'), None);
    }

    #[test]
    fn nucleotides_match_only_themselves() {
        let scores = Scores::dna(5, -4);
        assert_eq!(
            (score(&scores, b'a', b'A'), score(&scores, b'U', b't'), score(&scores, b'A', b'C')),
            (5, 5, -4)
        );
        assert_eq!((score(&scores, b'N', b'N'), score(&scores, b'N', b'A'), scores.best()), (-4, -4, 5));
    }

    #[test]
    fn errors_name_the_broken_line_of_a_matrix() {
        assert_eq!(score(&Scores::parse("# two\n a b # letters\nB 3 4\nA 1 2\n").unwrap(), b'A', b'b'), 2);
        for (text, expected) in [
            ("", " has no matrix, expected a line of letters"),
            ("A BC\n", ", line 1: expected different letters, 64 at most, with blanks between"),
            ("A a\n", ", line 1: expected different letters, 64 at most, with blanks between"),
            ("\nA B\nC 1 2\n", ", line 3: expected one of the letters of the first line"),
            ("A B\nA 1\n", ", line 2: expected 2 scores, from -10000 to 10000"),
            ("A B\nA 1 x\n", ", line 2: expected 2 scores, from -10000 to 10000"),
            ("A B\nA 1 10001\n", ", line 2: expected 2 scores, from -10000 to 10000"),
            ("A B\nA 1 2\nA 1 2\n", ", line 3: the scores of 'A' are given again"),
            ("A B\nA 1 2\n", " has no scores of 'B'"),
        ] {
            assert_eq!(Scores::parse(text).unwrap_err(), expected, "{text:?}");
        }
        let error = Scores::from_name_or_file(Path::new("nowhere")).unwrap_err();
        assert!(error.starts_with("cannot read the matrix nowhere: "), "{error}");
        assert_eq!(Scores::from_name_or_file(Path::new("BLOSUM62")).unwrap(), Scores::blosum62());
    }
}
