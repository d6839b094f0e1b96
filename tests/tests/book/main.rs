//! Checks that the book matches the sources: each code name exists, each link has a target, and each page is in the
//! table of contents.
//!
//! If a test reports the page and line of a name that was renamed or removed, put the new name into the page. A name
//! that belongs to another project (a launcher's option, a crate's function) goes into `foreign.rs`.

mod foreign;
mod names;
mod page;
mod sources;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use page::Page;
use sources::Sources;

/// Pages outside of the directories `docs` and `bench/results` that are checked, too.
const PAGES: [&str; 3] = ["README.md", "bench/README.md", "examples/README.md"];

/// Directory of measured results, whose pages keep the names that were valid at the time of the measurement.
const HISTORY: &str = "bench/results/";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests is a directory of the repository").into()
}

/// Returns the pages of the book with their paths relative to the root of the repository.
fn pages() -> Vec<(String, Page)> {
    let root = root();
    let mut names: Vec<String> = PAGES.map(String::from).into();
    let mut open = vec![root.join("docs"), root.join(HISTORY)];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).expect("the book can be read") {
            let path = entry.expect("the book can be read").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                names.push(path.strip_prefix(&root).expect("it is below").to_string_lossy().into_owned());
            }
        }
    }
    names.sort_unstable();
    let page = |name: String| (Page::parse(&read(&name)), name);
    names.into_iter().map(page).map(|(page, name)| (name, page)).collect()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn directory_of(page: &str) -> &str {
    page.rsplit_once('/').map_or("", |(directory, _)| directory)
}

#[track_caller]
fn assert_none(faults: &[String], what: &str) {
    assert!(faults.is_empty(), "{what}:\n{}", faults.join("\n"));
}

#[test]
fn code_names_in_the_book_exist() {
    let sources = Sources::read(&root());
    let mut faults = Vec::new();
    for (name, page) in pages().into_iter().filter(|(name, _)| !name.starts_with(HISTORY)) {
        let of_spans = page.spans.iter().map(|span| (span.line, names::of_span(&span.text)));
        let of_blocks = page.blocks.iter().flat_map(|block| {
            (block.line + 1..)
                .zip(block.text.lines())
                .map(|(line, text)| (line, names::of_line(&block.language, text)))
        });
        for (line, found) in of_spans.chain(of_blocks) {
            let missing = found.iter().filter(|found| !found.exists(&sources, directory_of(&name)));
            faults.extend(missing.map(|missing| format!("{name}:{line}: {missing}")));
        }
    }
    assert_none(&faults, "the book names what is not in the sources");
}

#[test]
fn links_have_existing_targets() {
    let pages = pages();
    let mut faults = Vec::new();
    for (name, page) in &pages {
        for link in page.links.iter().filter(|link| !link.target.contains("://")) {
            let (file, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
            let path =
                if file.is_empty() { PathBuf::from(name) } else { Path::new(directory_of(name)).join(file) };
            let path = simplified(&path);
            let target = pages.iter().find(|(page, _)| *page == path);
            let has_anchor = || target.is_some_and(|(_, page)| page.anchors.iter().any(|a| a == anchor));
            if !root().join(&path).exists() || !anchor.is_empty() && !has_anchor() {
                faults.push(format!("{name}:{}: {}", link.line, link.target));
            }
        }
    }
    assert_none(&faults, "the book links to what is not there");
}

/// Removes `.` and `..` from a path.
fn simplified(path: &Path) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.to_str().expect("names of pages are plain").split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn each_page_is_in_the_table_of_contents() {
    let pages = pages();
    let (_, contents) = pages.iter().find(|(name, _)| name == "docs/SUMMARY.md").expect("there is one");
    let is_listed = |name: &str| contents.links.iter().any(|link| format!("docs/{}", link.target) == name);
    let books = pages
        .iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("docs/") && !name.ends_with("SUMMARY.md"));
    let faults: Vec<String> = books.filter(|name| !is_listed(name)).cloned().collect();
    assert_none(&faults, "docs/SUMMARY.md does not list");
}

/// Documentation tests compile the Rust code of a page only if a crate includes the page.
#[test]
fn each_page_with_rust_is_compiled() {
    let crates = ["framework/runtime/src/lib.rs", "framework/planner/src/lib.rs"].map(read).concat();
    let has_rust =
        |page: &Page| page.blocks.iter().any(|block| block.language.split(',').next() == Some("rust"));
    let mut faults = Vec::new();
    for (name, page) in pages().iter().filter(|(_, page)| has_rust(page)) {
        if !crates.contains(&format!("include_str!(\"../../../{name}\")")) {
            faults.push(name.clone());
        }
        // Documentation tests also take indented code and code blocks without a language for Rust, so that each block needs a language.
        faults.extend(
            page.blocks.iter().filter(|b| b.language.is_empty()).map(|b| format!("{name}:{}", b.line)),
        );
    }
    assert_none(&faults, "no crate takes these pages up in its `mod book`, or a fence has no language");
}

/// Returns the options of a farm, pipeline or loop: public methods that take `self` and return `Self`, except for those that add a pipeline stage or
/// a closure.
fn options_of(files: &[&str]) -> BTreeSet<String> {
    const SETTINGS: &str = "framework/runtime/src/loops/settings.rs";
    let chainable = |text: &str| -> Vec<String> {
        let methods = text.split("pub fn ").skip(1).filter_map(|method| {
            let head = method.split('{').next().unwrap_or_default();
            let (name, arguments) = head.split_once('(')?;
            let name = name.split('<').next().unwrap_or_default();
            let is_chainable = arguments.starts_with("self") || arguments.starts_with("mut self");
            (is_chainable && head.trim_end().ends_with("-> Self")).then(|| name.to_string())
        });
        methods
            .filter(|name| {
                !["update", "forced", "closure", "after_command", "filter"].contains(&name.as_str())
            })
            .collect()
    };
    let settings = read(SETTINGS);
    let mut found = BTreeSet::new();
    for text in files.iter().map(|file| read(&format!("framework/runtime/src/{file}"))) {
        found.extend(chainable(&text));
        for group in text.split("loop_options!(").skip(1) {
            let name = group.split(')').next().unwrap_or_default();
            let (_, arm) =
                settings.split_once(&format!("({name}) => {{")).expect("there is such a group of options");
            found.extend(chainable(arm.split("\n    };").next().unwrap_or_default()));
        }
    }
    found
}

/// `docs/options.md` must list exactly the options of each builder (such as that of farms).
#[test]
fn table_of_options_matches_the_builders() {
    const COLUMNS: [&[&str]; 8] = [
        &["pipeline/builder.rs", "pipeline/options.rs", "pipeline/run.rs"],
        &["farm/builder.rs"],
        &["loops/doall/do_all.rs"],
        &["loops/grid/doacross.rs"],
        &["loops/grid/stencil.rs"],
        &["loops/grid/table_loop.rs"],
        &["loops/parallel_for.rs"],
        &["workflow/builder.rs", "workflow/send.rs"],
    ];
    let page = read("docs/options.md");
    let rows = page.lines().skip_while(|line| !line.starts_with("| option |")).skip(2);
    let rows: Vec<Vec<&str>> = rows
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    for (column, files) in COLUMNS.iter().enumerate() {
        let listed: BTreeSet<String> = rows
            .iter()
            .filter(|row| row[2 + column] == "yes")
            .map(|row| row[0].trim_matches('`').to_string())
            .collect();
        assert_eq!(listed, options_of(files), "column {} of docs/options.md against {files:?}", 3 + column);
    }
}

#[test]
fn documented_packages_match_ci_setup() {
    let setup = read("ci/setup.sh");
    let (_, list) = setup.split_once("\nBUILD=(").expect("ci/setup.sh has the packages for building");
    let packages = list.split(')').next().unwrap_or_default();
    for page in ["README.md", "docs/quick-start.md"] {
        assert!(
            read(page).contains(&format!("apt-get install {packages}\n")),
            "{page} does not install {packages}"
        );
    }
}

#[test]
fn dependencies_have_the_versions_of_the_workspace() {
    let workspace = read("Cargo.toml");
    let version = |line: &str| {
        line.split('"').find(|text| text.starts_with(|c: char| c.is_ascii_digit())).map(String::from)
    };
    let mut faults = Vec::new();
    let mut seen = 0;
    for (name, page) in pages() {
        for block in page.blocks.iter().filter(|block| block.language == "toml") {
            let Some((_, dependencies)) = block.text.split_once("[dependencies]") else { continue };
            for line in
                dependencies.lines().filter(|line| line.contains(" = ") && !line.starts_with("armature"))
            {
                let key = line.split(" = ").next().unwrap_or_default();
                let ours = workspace.lines().find(|ours| ours.starts_with(&format!("{key} = ")));
                seen += 1;
                if ours.and_then(version) != version(line) {
                    faults.push(format!("{name}:{}: {line}; the workspace has {ours:?}", block.line));
                }
            }
        }
    }
    assert_none(&faults, "dependencies in the book differ from the workspace's");
    assert!(seen > 0, "the book shows no dependencies");
}
