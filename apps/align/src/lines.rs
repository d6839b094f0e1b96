//! Lines of the program's output, one for each pair of sequences.

use crate::fasta::Sequence;
use crate::kernel::Best;
use armature_apps::names::escaped;
use clap::ValueEnum;
use serde::Serialize;

/// Format of an output line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Fields separated by tabs: first sequence, second sequence, score, end in the first, end in the second
    Tsv,
    /// JSON object with the keys first, second, score, first_end, second_end
    Json,
}

#[derive(Serialize)]
struct Fields<'f> {
    first: &'f str,
    second: &'f str,
    #[serde(flatten)]
    best: Best,
}

/// Returns the output line, with its line end, for the best alignment of two sequences. The ends of the alignment are counted from 1; an empty
/// alignment has the ends 0.
pub fn line(format: Format, first: &Sequence, second: &Sequence, best: Best) -> String {
    match format {
        Format::Tsv => format!(
            "{}\t{}\t{}\t{}\t{}\n",
            escaped(&first.name),
            escaped(&second.name),
            best.score,
            best.first_end,
            best.second_end
        ),
        Format::Json => {
            let fields = Fields { first: &first.name, second: &second.name, best };
            serde_json::to_string(&fields).unwrap_or_default() + "\n"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_one_line_in_tsv_and_json() {
        let sequence = |name: &str| Sequence { name: name.into(), letters: vec![0] };
        let best = Best { score: 7, first_end: 3, second_end: 12 };
        let (a, b) = (sequence("a\u{1}"), sequence("\"b\""));
        assert_eq!(line(Format::Tsv, &sequence("a"), &b, best), "a\t\"b\"\t7\t3\t12\n");
        assert_eq!(
            line(Format::Json, &a, &b, best),
            "{\"first\":\"a\\u0001\",\"second\":\"\\\"b\\\"\",\"score\":7,\"first_end\":3,\"second_end\":12}\n"
        );
    }
}
