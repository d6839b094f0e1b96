//! Names that the sources of the project define: words, members of types, options of commands, environment variables, files.

use std::collections::HashSet;
use std::path::Path;

/// Extensions of source files besides `rs`: shell scripts, environment files of MPI libraries, manifests, C and Python, and configuration files of
/// Slurm.
const OTHER_SOURCES: [&str; 6] = ["sh", "env", "toml", "c", "py", "conf"];

const SKIPPED: [&str; 2] = ["target", ".git"];

/// Directory of this test, which is not searched because its test data contains made-up names.
const OURS: &str = "tests/tests/book";

/// Source file that lists the environment variables, and the prefixes of variables for tests and scripts.
const SETTINGS: &str = "framework/runtime/src/session/config/variables.rs";

#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// Words in the code and strings of the sources, but not in comments.
    words: HashSet<String>,
    /// Pairs `(Type, member)`; members are methods, variants, fields and constants.
    members: HashSet<(String, String)>,
    /// Long options of commands, with their dashes.
    options: HashSet<String>,
    /// Environment variables that begin with `ARMATURE_`; an entry that ends in `_` is a prefix.
    settings: Vec<String>,
    /// Paths of files and directories, relative to the root of the repository.
    files: Vec<String>,
}

impl Sources {
    /// Reads all source files of the repository.
    ///
    /// # Panics
    /// If a file cannot be read.
    pub(crate) fn read(root: &Path) -> Sources {
        let mut sources = Sources::default();
        let mut open = vec![root.to_path_buf()];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(&directory).expect("the repository can be read") {
                let path = entry.expect("the repository can be read").path();
                let name = path.strip_prefix(root).expect("it is below").to_string_lossy().into_owned();
                if path.is_dir() && SKIPPED.iter().any(|skipped| path.ends_with(skipped)) {
                    continue;
                }
                if path.is_dir() {
                    open.push(path);
                } else if !name.starts_with(OURS) {
                    sources.read_file(&path);
                }
                sources.files.push(name);
            }
        }
        let settings = std::fs::read_to_string(root.join(SETTINGS)).expect("the settings can be read");
        let (settings, _tests) = settings.split_once("#[cfg(test)]").expect("its tests come last");
        let quoted = settings.split('"').skip(1).step_by(2).filter(|name| *name != "ARMATURE_");
        sources.settings = quoted.filter(|name| name.starts_with("ARMATURE_")).map(String::from).collect();
        sources
    }

    fn read_file(&mut self, path: &Path) {
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        let is_rust = extension == "rs";
        if !is_rust && !OTHER_SOURCES.contains(&&*extension) {
            return;
        }
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        self.add(&text, is_rust);
    }

    pub(crate) fn add(&mut self, text: &str, is_rust: bool) {
        let mut scopes: Vec<(usize, String)> = Vec::new();
        let mut is_option = false;
        for line in text.lines() {
            let code = if is_rust { without_comment(line) } else { line };
            // `# ` begins a comment, but `#SBATCH --nodes` and other directives of batch systems are not comments.
            if !is_rust && ["# ", "#!"].iter().any(|start| code.trim_start().starts_with(start)) {
                continue;
            }
            self.add_words(code);
            if is_rust {
                self.add_members(code, &mut scopes);
                self.add_option(code, &mut is_option);
            }
        }
    }

    fn add_words(&mut self, code: &str) {
        for word in code.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')) {
            if word.starts_with("--") {
                self.options.insert(word.to_string());
            }
            let word = word.trim_matches('-');
            self.words.extend(word.split('-').map(String::from));
            self.words.insert(word.to_string());
        }
    }

    /// Finds the members of types and traits by indentation: in formatted sources, a `struct`, `enum`, `trait` or `impl` block ends with a brace at
    /// the indentation of its first line, and its members are indented by four more spaces.
    fn add_members(&mut self, code: &str, scopes: &mut Vec<(usize, String)>) {
        let depth = code.len() - code.trim_start().len();
        let code = code.trim();
        while code.starts_with('}') && scopes.last().is_some_and(|(head, _)| *head >= depth) {
            scopes.pop();
        }
        let code =
            ["pub ", "pub(crate) ", "pub(super) ", "unsafe ", "const fn "].iter().fold(code, |code, word| {
                code.strip_prefix(word)
                    .map_or(code, |rest| if *word == "const fn " { &code[6..] } else { rest })
            });
        if let Some((head, name)) = scopes.last()
            && *head + 4 == depth
        {
            let code =
                ["fn ", "const ", "type "].iter().find_map(|word| code.strip_prefix(word)).unwrap_or(code);
            let member = identifier(code);
            if !member.is_empty() {
                self.members.insert((name.clone(), member.into()));
            }
        }
        // A brace alone on a line, as after a `where` clause, begins no new block: the first line of the `struct`, `enum`, `trait` or `impl` has
        // already been recorded.
        let is_head = code.ends_with('{') || !code.ends_with([';', '}', ',', ')']);
        if is_head && let Some(name) = scope(code) {
            scopes.push((depth, name.into()));
        }
    }

    /// clap derives an option from a field after the line `#[arg(long)]`.
    fn add_option(&mut self, code: &str, is_option: &mut bool) {
        let code = code.trim();
        if code.starts_with("#[arg(") {
            *is_option = code.contains("long");
            if let Some((_, name)) = code.split_once("long = \"") {
                self.options.insert(format!("--{}", name.split('"').next().unwrap_or_default()));
            }
        } else if *is_option && code.contains(':') && !code.starts_with('#') {
            let field = code.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
            self.options.insert(format!("--{}", identifier(field).replace('_', "-")));
            *is_option = false;
        }
    }

    pub(crate) fn has_word(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    pub(crate) fn has_member(&self, of: &str, member: &str) -> bool {
        self.members.contains(&(of.into(), member.into()))
    }

    pub(crate) fn has_option(&self, option: &str) -> bool {
        self.options.contains(option)
    }

    /// Returns true if the sources list the environment variable. A listed prefix, such as `ARMATURE_TEST_`, matches all variables that begin with
    /// it.
    pub(crate) fn has_setting(&self, name: &str) -> bool {
        let is_it = |setting: &String| {
            setting == name || setting.ends_with('_') && name.starts_with(setting.as_str())
        };
        self.settings.iter().any(is_it)
    }

    /// Returns true if a file or directory matches `name`, which may lack `.rs`. It is relative to the root or to `base`, or has the last components
    /// of a path, between which others may be left out.
    pub(crate) fn has_file(&self, name: &str, base: &str) -> bool {
        let mut name = name.trim_start_matches("./").trim_end_matches('/');
        let mut from = base;
        while let Some(rest) = name.strip_prefix("../") {
            from = from.rsplit_once('/').map_or("", |(above, _)| above);
            name = rest;
        }
        let joined = format!("{from}/{name}");
        self.files.iter().any(|file| {
            let short = file.strip_suffix(".rs").unwrap_or(file);
            [file.as_str(), short].iter().any(|file| *file == name || *file == joined || ends_in(file, name))
        })
    }
}

/// Returns true if `path` and `name` have the same last component, and `path` has the other components of `name` in the same order.
fn ends_in(path: &str, name: &str) -> bool {
    let (mut path, mut name) = (path.rsplit('/'), name.rsplit('/'));
    path.next() == name.next() && name.all(|part| path.any(|above| above == part))
}

/// Returns the name of the type or trait whose members the block after this line of Rust code contains (`struct`, `enum`, `trait` or `impl`). `None`
/// for other lines.
fn scope(code: &str) -> Option<&str> {
    let code = code.trim_end_matches('{').trim();
    for word in ["struct ", "enum ", "trait "] {
        if let Some(name) = code.strip_prefix(word) {
            return Some(identifier(name));
        }
    }
    let rest = code.strip_prefix("impl")?;
    let rest = if rest.starts_with('<') { &rest[generics(rest)..] } else { rest };
    let of = rest.split_once(" for ").map_or(rest, |(_, of)| of).trim();
    Some(identifier(of.rsplit("::").next().filter(|_| !of.contains('<')).unwrap_or(of)))
}

/// Returns the length of generic parameters `<…>` at the beginning of a text.
fn generics(text: &str) -> usize {
    let mut depth = 0_usize;
    let bytes = text.as_bytes();
    for (place, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if place > 0 && bytes[place - 1] != b'-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return place + 1;
        }
    }
    text.len()
}

pub(crate) fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    if text.starts_with(|c: char| c.is_ascii_digit()) { "" } else { &text[..end] }
}

/// Removes the comment from a line. `//` after a colon, as in a URL, begins no comment.
fn without_comment(line: &str) -> &str {
    let mut from = 0;
    while let Some(found) = line[from..].find("//") {
        let place = from + found;
        if place == 0 || !line[..place].ends_with(':') {
            return &line[..place];
        }
        from = place + 2;
    }
    line
}

#[test]
fn source_is_parsed_into_its_names() {
    let text = "\
//! Gone
pub struct Farm<T> {
    pub name: String, // hidden
}

impl<T: Into<Vec<u8>>> Farm<T>
where
    T: Send,
{
    pub fn map(self) {
        inner: 3
    }
}

impl<A, F: Fn() -> A> Doing for other::Farm {
    const LIMIT: u32 = 3;
}

pub enum Kind {
    Warm { degrees: u8 },
    Cold,
}

struct Cli {
    #[arg(long, default_value = \"x\")]
    per_task: u32,
    #[arg(long = \"fast\")]
    is_fast: bool,
}
";
    let mut sources = Sources::default();
    sources.add(text, true);
    for (of, member) in [("Farm", "name"), ("Farm", "LIMIT"), ("Kind", "Warm"), ("Kind", "Cold")] {
        assert!(sources.has_member(of, member), "{of}::{member}: {:?}", sources.members);
    }
    assert!(!sources.has_member("Farm", "inner") && !sources.has_member("Farm", "Cold"));
    assert!(
        sources.has_option("--per-task") && sources.has_option("--fast") && !sources.has_option("--slow")
    );
    sources.files = vec!["framework/runtime/src/farm/machine/crew.rs".into(), "ci/test.sh".into()];
    for (name, base) in [
        ("farm/crew", "docs"),
        ("farm/machine/crew.rs", "docs"),
        ("../ci/test.sh", "docs"),
        ("test.sh", "ci"),
    ] {
        assert!(sources.has_file(name, base), "{name}");
    }
    for name in ["machine/farm/crew", "farm/machine", "ci/test", "loops/crew"] {
        assert!(!sources.has_file(name, "docs"), "{name}");
    }
    assert!(sources.has_word("Doing") && !sources.has_word("Gone") && !sources.has_word("hidden"));
}
