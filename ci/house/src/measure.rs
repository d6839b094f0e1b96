//! All measures (counts) of the structure and the language of the repository.

use std::path::Path;

use crate::calls::calls;
use crate::config::Config;
use crate::imports::{arrows, circles};
use crate::layers::wrong;
use crate::lines::lines;
use crate::numbers::{Number, numbers};
use crate::source::sources;

/// Count of something in the source code (a measure), with the places that were counted.
#[derive(Debug, Default)]
pub(crate) struct Measure {
    pub(crate) name: String,
    pub(crate) value: u64,
    /// Lines that `--list` prints, one for each counted place.
    pub(crate) list: Vec<String>,
}

impl Measure {
    fn new(name: &str) -> Self {
        Measure { name: name.to_string(), ..Measure::default() }
    }

    fn add(&mut self, value: u64, what: String) {
        if value > 0 {
            self.value += value;
            self.list.push(what);
        }
    }
}

/// Returns all measures of the repository in `root`, in the order of the printed table.
///
/// # Errors
/// A file cannot be read, or a module's file is missing.
pub(crate) fn measure(root: &Path, config: &Config) -> Result<Vec<Measure>, String> {
    let mut all = Vec::new();
    for krate in &config.crates {
        all.extend(sources(root, krate)?);
    }
    let mut measures = Vec::new();
    for wanted in &config.calls {
        let patterns = wanted.patterns()?;
        let mut measure = Measure::new(&wanted.name);
        let is_within = |path: &Path| {
            wanted.within.is_empty()
                || wanted.within.iter().any(|room| path.starts_with(config.layered.join(room)))
        };
        for source in all.iter().filter(|source| is_within(&source.path)) {
            let lines = calls(&source.code, &patterns);
            let value = if wanted.each { lines.len() } else { lines.len().min(1) };
            measure.add(value as u64, format!("{}: lines {lines:?}", source.path.display()));
        }
        measures.push(measure);
    }

    let arrows = arrows(&all);
    let circles = circles(all.len(), &arrows);
    let mut round = Measure::new("import circles");
    let mut within = Measure::new("files in import circles");
    for circle in &circles {
        round.value += 1;
        circle.iter().for_each(|&file| within.add(1, all[file].path.display().to_string()));
        let ties = arrows.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
        round.list.push(format!("a circle of {} files:", circle.len()));
        round.list.extend(ties.map(|((from, to), names)| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            format!("  {} -> {}: {}", all[*from].path.display(), all[*to].path.display(), names.join(", "))
        }));
    }
    let mut up = Measure::new("arrows that run up or across");
    for (from, to, layers) in wrong(&config.layered, &config.layers, &all, &arrows)? {
        let names: Vec<&str> = arrows[&(from, to)].iter().map(String::as_str).collect();
        let what = format!(
            "{layers}: {} -> {}: {}",
            all[from].path.display(),
            all[to].path.display(),
            names.join(", ")
        );
        up.add(1, what);
    }
    measures.extend([round, within, up]);

    let mut constants = Measure::new("numeric constants");
    let mut named = Measure::new("  those with a name");
    let mut code = Measure::new("lines of code");
    for source in &all {
        let path = source.path.display();
        for Number { line, what, has_name } in numbers(&source.code) {
            let what = format!("{path}:{line}: {what}");
            named.add(u64::from(has_name), what.clone());
            constants.add(1, what);
        }
        let count = lines(&source.code) as u64;
        code.add(count, format!("{path}: {count}"));
    }
    measures.extend([constants, named, code]);

    let (found, comments) = config.language.unclear_comments(root)?;
    let mut all_comments = Measure::new("comments");
    all_comments.value = comments as u64;
    let mut unclear = Measure::new("  unclear ones");
    found.into_iter().for_each(|place| unclear.add(1, place));
    let mut long = Measure::new("long sentences on pages");
    config.language.long_sentences(root)?.into_iter().for_each(|place| long.add(1, place));
    let (messages, found) = config.language.messages(root)?;
    let all_messages = Measure { name: "messages".to_string(), value: messages.len() as u64, list: messages };
    let mut unclear_messages = Measure::new("  unclear messages");
    found.into_iter().for_each(|place| unclear_messages.add(1, place));
    measures.extend([all_comments, unclear, all_messages, unclear_messages, long]);
    Ok(measures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_of_a_small_crate_are_correct() {
        let dir = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(dir.path().join("k/src").join(name), text).unwrap();
        std::fs::create_dir_all(dir.path().join("k/src")).unwrap();
        write("lib.rs", "mod low;\nmod high;\n");
        write("low.rs", "use crate::high::B;\npub(crate) const A: u8 = 7;\nfn f() {\n    catch(B)\n}\n");
        write(
            "high.rs",
            "use crate::low::A;\n// Why.\npub(crate) struct B;\nfn g() {\n    catch(A); catch(9)\n}\n",
        );
        let config: Config = toml::from_str(
            "crates = [\"k\"]\nlayered = \"k/src\"\nby_hand = []\n\
             layers = [{ name = \"low\", rooms = [\"low.rs\"] }, { name = \"high\", rooms = [\"high.rs\", \"lib.rs\"] }]\n\
             calls = [{ name = \"caught\", patterns = [\"call catch\"] }, \
                      { name = \"calls\", patterns = [\"call catch\"], each = true, within = [\"high.rs\"] }]\n\
             [goals]\n[limits]\n\
             [language]\ncomments = [\"k\"]\npages = []\nopenings = [\"Why\"]\nphrases = []\n",
        )
        .unwrap();
        let found = measure(dir.path(), &config).unwrap();
        let values: Vec<(&str, u64)> = found.iter().map(|m| (m.name.as_str(), m.value)).collect();
        let expected = [
            ("caught", 2),
            ("calls", 2),
            ("import circles", 1),
            ("files in import circles", 2),
            ("arrows that run up or across", 1),
            ("numeric constants", 2),
            ("  those with a name", 1),
            ("lines of code", 12),
            ("comments", 1),
            ("  unclear ones", 1),
            ("messages", 0),
            ("  unclear messages", 0),
            ("long sentences on pages", 0),
        ];
        assert_eq!(values, expected);
        assert_eq!(found[4].list, ["low -> high: k/src/low.rs -> k/src/high.rs: B"]);
        assert_eq!(found[5].list, ["k/src/low.rs:2: A", "k/src/high.rs:5: 9"]);
    }
}
