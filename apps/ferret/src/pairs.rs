//! Evaluation questions from files: a directory of images, a directory of queries, and the right answer of each query.

use crate::build::{build, regions_of};
use crate::database::{Database, DatabaseError};
use crate::eval::Question;
use crate::files::{Listing, Skipped};
use crate::index::Index;
use crate::lsh::Settings;
use crate::parallel;
use armature_apps::names::{shown, unescaped};
use std::collections::BTreeMap;

/// Evaluation questions created from image files, with the index of the database.
#[derive(Clone, Debug)]
pub struct EvaluationSet {
    /// Search index of the images in the database directory.
    pub index: Index,
    /// Questions, one for each query image with a right answer.
    pub questions: Vec<Question>,
    /// Number of query images without a right answer in the database, which are left out.
    pub unanswerable: usize,
    /// Unusable images of the database directory and of the query directory, with the reasons.
    pub skipped: Vec<Skipped>,
}

/// Method that finds the right answer of each query image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// The right answer has the same relative name as the query, apart from the extension.
    SameName,
    /// List of the right answers: names of queries, each with the name of the right image.
    Listed(BTreeMap<String, String>),
}

impl Key {
    /// Parses lines `query<TAB>image`, as `ferret synth` writes them.
    ///
    /// # Errors
    /// A line has no tab. The error contains the number of the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let line = |(number, line): (usize, &str)| {
            let (query, image) = line
                .split_once('\t')
                .ok_or(format!("line {number}: expected query<TAB>image, found `{}`", shown(line)))?;
            Ok((unescaped(query), unescaped(image)))
        };
        (1..).zip(text.lines()).map(line).collect::<Result<_, _>>().map(Key::Listed)
    }

    fn answer(&self, query: &str, database: &Database, by_stem: &BTreeMap<&str, u32>) -> Option<u32> {
        match self {
            Key::SameName => by_stem.get(stem(query)).copied(),
            Key::Listed(answers) => database.number_of(answers.get(query)?),
        }
    }
}

fn stem(name: &str) -> &str {
    let file = name.rfind('/').map_or(0, |slash| slash + 1);
    name[file..].rfind('.').map_or(name, |dot| &name[..file + dot])
}

/// Creates the search index of `images`, and questions from `queries` with the right answers that `key` selects.
///
/// # Errors
/// The images form no database.
pub fn prepare_evaluation(
    images: &Listing,
    queries: &Listing,
    key: &Key,
    settings: Settings,
) -> Result<EvaluationSet, DatabaseError> {
    let (database, mut skipped) = build(images, settings)?;
    let by_stem: BTreeMap<&str, u32> =
        (0..).zip(database.entries()).map(|(number, entry)| (stem(&entry.name), number)).collect();
    let (paired, unpaired): (Vec<_>, Vec<_>) = queries
        .names()
        .iter()
        .map(|name| (name, key.answer(name, &database, &by_stem)))
        .partition(|(_, right)| right.is_some());
    let described = parallel::map(paired.len(), |i| {
        let bytes = queries.read(paired[i].0).map_err(|e| e.to_string())?;
        regions_of(&bytes).map_err(|e| e.to_string())
    });
    skipped.extend_from_slice(queries.skipped());
    let mut questions = Vec::new();
    for ((name, right), result) in paired.into_iter().zip(described) {
        match (result, right) {
            (Ok(regions), Some(right)) => questions.push(Question { kind: String::new(), regions, right }),
            (Err(reason), _) => skipped.push(Skipped::new(name, reason)),
            (Ok(_), None) => {}
        }
    }
    Ok(EvaluationSet { index: Index::new(database), questions, unanswerable: unpaired.len(), skipped })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::evaluate;
    use crate::synth::Plan;

    #[test]
    fn stem_strips_the_extension_and_keeps_the_folder() {
        assert_eq!(stem("a.b/c.png"), "a.b/c");
        assert_eq!(stem("a.b/c"), "a.b/c");
        assert_eq!(stem("x.tar.gz"), "x.tar");
    }

    #[test]
    fn queries_of_a_written_collection_find_their_images() {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan { scenes: 30, seed: 6, width: 96, height: 64, all_variants: false };
        plan.write(dir.path()).unwrap();
        let images = Listing::of(&dir.path().join("database")).unwrap();
        let queries = Listing::of(&dir.path().join("queries")).unwrap();
        let key = Key::parse(&std::fs::read_to_string(dir.path().join("truth.tsv")).unwrap()).unwrap();
        let set = prepare_evaluation(&images, &queries, &key, Settings::default()).unwrap();
        assert_eq!((set.questions.len(), set.unanswerable, set.skipped.len()), (30, 0, 0));
        let report = evaluate(&set.index, &set.questions);
        assert!(report.all.in_top >= 29, "{report}");
        // The queries and the images have different names, so [`Key::SameName`] finds no right answers.
        let set = prepare_evaluation(&images, &queries, &Key::SameName, Settings::default()).unwrap();
        assert_eq!((set.questions.len(), set.unanswerable), (0, 30));
        let set = prepare_evaluation(&images, &images, &Key::SameName, Settings::default()).unwrap();
        assert_eq!(evaluate(&set.index, &set.questions).all.first, 30);
    }

    #[test]
    fn parse_errors_name_the_line() {
        assert!(Key::parse("a\tb\nc d\n").unwrap_err().contains("line 2"));
    }
}
