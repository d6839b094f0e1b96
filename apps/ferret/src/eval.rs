//! Quality of the image search, measured on queries with known right answers.

use crate::database::{Database, DatabaseError, Entry};
use crate::features::Region;
use crate::index::Index;
use crate::lsh::Settings;
use crate::parallel;
use crate::rank::{Scored, nearest};
use std::collections::BTreeMap;
use std::fmt;

/// Number of answers (similar images) per query that the evaluation examines.
pub const PLACES: usize = 10;

/// Query image with its right answer, the database image that it was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Kind of change that produced the query from its original, such as `crop`; empty if there are no kinds. A report also sums the results of each
    /// kind.
    pub kind: String,
    /// Regions of the query image.
    pub regions: Vec<Region>,
    /// Index of the right image in the database.
    pub right: u32,
}

/// Results of several queries: counts, summed over the queries. The methods return rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of evaluated queries.
    pub queries: usize,
    /// Number of queries whose first answer is right.
    pub first: usize,
    /// Number of queries with the right image among the first [`PLACES`] answers.
    pub in_top: usize,
    /// Number of queries whose first answer is right in an exhaustive search, which ranks every image.
    pub exhaustive_first: usize,
    /// Number of queries with the right image among the first [`PLACES`] answers of an exhaustive search.
    pub exhaustive_in_top: usize,
    /// Number of images in the first [`PLACES`] answers of exhaustive searches, summed over the queries.
    pub expected: usize,
    /// Number of images counted in `expected` that the search with the index also returned.
    pub found: usize,
    /// Number of candidates (images that the index selected for ranking by their distance), summed over the queries.
    pub ranked: usize,
    /// Number of images with a region in a hash bucket that the search probed, summed over the queries.
    pub touched: usize,
    /// Number of pairs of regions that the search with the index compared to select candidate images, summed over the queries.
    pub hits: usize,
    /// Number of images in the database, summed over the queries.
    pub images: usize,
    /// Number of all pairs of a region of the query and a region of the database, summed over the queries.
    pub pairs: usize,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.queries += other.queries;
        self.first += other.first;
        self.in_top += other.in_top;
        self.exhaustive_first += other.exhaustive_first;
        self.exhaustive_in_top += other.exhaustive_in_top;
        self.expected += other.expected;
        self.found += other.found;
        self.ranked += other.ranked;
        self.touched += other.touched;
        self.hits += other.hits;
        self.images += other.images;
        self.pairs += other.pairs;
    }

    /// Returns the share of queries whose first answer is right.
    pub fn first_right_rate(&self) -> f64 {
        share(self.first, self.queries)
    }

    /// Returns the share of queries with the right image among the first [`PLACES`] answers.
    pub fn in_top_rate(&self) -> f64 {
        share(self.in_top, self.queries)
    }

    /// Returns the share of the first [`PLACES`] answers of the exhaustive search that the index finds: recall@10.
    pub fn recall(&self) -> f64 {
        share(self.found, self.expected)
    }

    /// Returns the mean share of the database's images that the index selects for ranking by their distance.
    pub fn ranked_share(&self) -> f64 {
        share(self.ranked, self.images)
    }
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Results of an evaluation: counts summed over all queries, and over the queries of each kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Results of all queries together.
    pub all: Tally,
    /// Results of the queries of each [`Question::kind`]; empty if there is only one kind.
    pub by_kind: BTreeMap<String, Tally>,
}

/// Searches for the right answer of every question, with the index and with an exhaustive search, on all cores.
pub fn evaluate(index: &Index, questions: &[Question]) -> Report {
    let tallies = parallel::map(questions.len(), |i| evaluate_question(index, &questions[i]));
    let mut report = Report { all: Tally::default(), by_kind: BTreeMap::new() };
    for (question, tally) in questions.iter().zip(&tallies) {
        report.all.add(tally);
        report.by_kind.entry(question.kind.clone()).or_default().add(tally);
    }
    if report.by_kind.len() < 2 {
        report.by_kind.clear();
    }
    report
}

fn evaluate_question(index: &Index, question: &Question) -> Tally {
    let entries = index.database().entries();
    let regions_of = |image: u32| entries[image as usize].regions.as_slice();
    let everything: Vec<u32> = (0..entries.len() as u32).collect();
    let search = index.search(&question.regions);
    let answers = nearest(&question.regions, &search.candidates, PLACES, regions_of);
    let exhaustive = nearest(&question.regions, &everything, PLACES, regions_of);
    let is_right = |scored: &Scored| scored.image == question.right;
    Tally {
        queries: 1,
        first: usize::from(answers.first().is_some_and(is_right)),
        in_top: usize::from(answers.iter().any(is_right)),
        exhaustive_first: usize::from(exhaustive.first().is_some_and(is_right)),
        exhaustive_in_top: usize::from(exhaustive.iter().any(is_right)),
        expected: exhaustive.len(),
        found: exhaustive.iter().filter(|scored| answers.contains(scored)).count(),
        ranked: search.candidates.len(),
        touched: search.touched,
        hits: search.hits,
        images: entries.len(),
        pairs: question.regions.len() * index.regions(),
    }
}

/// Creates a synthetic collection of images, and returns the index of its database and the evaluation questions.
///
/// # Errors
/// The scenes form no database.
///
/// # Panics
/// Panics if a file of the collection cannot be decoded, which would be an error of the encoder.
pub fn synthetic(
    plan: &crate::synth::Plan,
    settings: Settings,
) -> Result<(Index, Vec<Question>), DatabaseError> {
    let regions =
        |bytes: &[u8]| crate::build::regions_of(bytes).expect("an image that was just encoded decodes again");
    let described = parallel::map(plan.scenes as usize, |number| {
        let generated = plan.generate(number as u32);
        let entry = Entry { regions: regions(&generated.original.bytes), name: generated.original.name };
        let queries = generated.queries.iter().map(|q| (q.kind.name().to_owned(), regions(&q.file.bytes)));
        (entry, queries.collect::<Vec<_>>())
    });
    let (entries, queries): (Vec<Entry>, Vec<_>) = described.into_iter().unzip();
    let names: Vec<String> = entries.iter().map(|e| e.name.clone()).collect();
    let index = Index::new(Database::new(entries, settings)?);
    let questions = names
        .iter()
        .zip(queries)
        .filter_map(|(name, queries)| Some((index.database().number_of(name)?, queries)))
        .flat_map(|(right, queries)| {
            queries.into_iter().map(move |(kind, regions)| Question { kind, regions, right })
        })
        .collect();
    Ok((index, questions))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = &self.all;
        let percent = |part, whole| format!("{:.1} %", 100.0 * share(part, whole));
        writeln!(f, "{} queries on {} images", all.queries, all.images / all.queries.max(1))?;
        writeln!(f, "{:<36}{:>12}{:>14}", "", "with index", "exhaustive")?;
        let rates = [
            ("right image is the first answer", all.first, all.exhaustive_first),
            ("right image is among ten", all.in_top, all.exhaustive_in_top),
        ];
        for (what, indexed, exhaustive) in rates {
            let (indexed, exhaustive) = (percent(indexed, all.queries), percent(exhaustive, all.queries));
            writeln!(f, "{what:<36}{indexed:>12}{exhaustive:>14}")?;
        }
        let shares = [
            ("recall@10 of the exhaustive answers", all.found, all.expected, all.expected),
            ("pairs of regions compared", all.hits, all.pairs, all.pairs),
            ("images touched a query", all.touched, all.images, all.images),
            ("images ranked a query", all.ranked, all.images, all.images),
        ];
        for (what, part, whole, exhaustive) in shares {
            writeln!(f, "{what:<36}{:>12}{:>14}", percent(part, whole), percent(exhaustive, whole))?;
        }
        if !self.by_kind.is_empty() {
            writeln!(f, "\n{:<14}{:>8}{:>10}{:>10}{:>10}", "kind", "queries", "first", "among 10", "recall")?;
        }
        for (kind, tally) in &self.by_kind {
            let rates = [
                percent(tally.first, tally.queries),
                percent(tally.in_top, tally.queries),
                percent(tally.found, tally.expected),
            ];
            writeln!(f, "{kind:<14}{:>8}{:>10}{:>10}{:>10}", tally.queries, rates[0], rates[1], rates[2])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::Plan;

    #[test]
    fn search_quality_is_high_on_a_small_collection() {
        // The test has 60 scenes, while `ferret eval synth` uses 500. With 60 images, the ten best answers include images that do not resemble the
        // query, and the index finds these less reliably.
        let plan = Plan { scenes: 60, seed: 11, width: 96, height: 64, all_variants: true };
        let (index, questions) = synthetic(&plan, Settings::default()).unwrap();
        let report = evaluate(&index, &questions);
        assert_eq!(report.all.queries, 240);
        assert!(report.all.first_right_rate() >= 0.9, "{report}");
        assert!(report.all.in_top_rate() >= 0.98, "{report}");
        assert!(report.all.recall() >= 0.9, "{report}");
        assert_eq!(report.by_kind.len(), 4);
    }

    #[test]
    fn search_ranks_only_a_few_of_many_images() {
        let mut random = armature_apps::random::Random::new(1);
        let regions = |random: &mut armature_apps::random::Random| {
            [0; 4].map(|_| Region {
                weight: crate::features::TOTAL_WEIGHT / 4,
                vector: [0.0; crate::features::DIMENSIONS].map(|_| random.between(0.0, 0.4)),
            })
        };
        let entries =
            (0..2000).map(|i| Entry { name: format!("{i:04}"), regions: regions(&mut random).to_vec() });
        let index = Index::new(Database::new(entries.collect(), Settings::default()).unwrap());
        let questions: Vec<Question> = (0..40u32)
            .map(|right| Question {
                kind: String::new(),
                regions: (index.database().entries()[right as usize].regions.iter())
                    .map(|r| Region { vector: r.vector.map(|v| v + 0.02 * random.normal()), ..*r })
                    .collect(),
                right,
            })
            .collect();
        let all = evaluate(&index, &questions).all;
        assert!(all.ranked_share() < 0.1, "{all:?}");
        assert_eq!(all.first, 40, "{all:?}");
    }

    #[test]
    fn wrong_answer_key_gives_a_low_score() {
        let plan = Plan { scenes: 30, seed: 5, width: 48, height: 32, all_variants: false };
        let (index, mut questions) = synthetic(&plan, Settings::default()).unwrap();
        questions.iter_mut().for_each(|q| q.right = (q.right + 1) % 30);
        let report = evaluate(&index, &questions);
        assert!(report.all.first_right_rate() < 0.2, "{report}");
    }
}
