//! The compiler's messages for common mistakes must say what to do.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a program against the armature library `library`. The error is the output of the compiler.
fn compile(library: &Path, program: &str) -> Result<(), String> {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("main.rs");
    std::fs::write(&source, program).expect("the program is written");
    let mut library_argument = std::ffi::OsString::from("armature=");
    library_argument.push(library);
    let output = Command::new("rustc")
        .args(["--edition", "2024", "--emit", "metadata", "--out-dir"])
        .arg(dir.path())
        .arg("--extern")
        .arg(library_argument)
        .arg("-L")
        .arg(format!("dependency={}", library.parent().expect("a directory").display()))
        .arg(&source)
        .output()
        .expect("rustc can be started");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Returns the `armature` library of this test, or an equivalent one: the newest in the directory of the test binary with which a correct program
/// compiles.
fn library() -> PathBuf {
    const RIGHT: &str = r#"
        use armature::farm::Farm;
        use armature::{Config, Movable};
        fn moves(_: impl Movable) {}
        fn main() {
            moves(1);
            armature::run(&Config::new(), |session| {
                let rank = session.rank() as u64;
                Ok(Farm::new("sum", move |n: u64| n + rank).collect(session, 0..3)?.on_root())
            }).unwrap();
        }"#;
    let this = std::env::current_exe().expect("the test knows itself");
    let entries = std::fs::read_dir(this.parent().expect("a directory")).expect("it can be read");
    let is_library = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libarmature-") && name.ends_with(".rlib")
    };
    let mut libraries: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(is_library).collect();
    libraries.sort_by_key(|path| std::fs::metadata(path).and_then(|data| data.modified()).ok());
    let mut errors = String::new();
    for library in libraries.into_iter().rev() {
        match compile(&library, RIGHT) {
            Ok(()) => return library,
            Err(error) => errors += &error,
        }
    }
    panic!("a right program does not compile: {errors}");
}

#[test]
fn compile_errors_name_the_remedy() {
    let library = library();
    let wrong = [
        (
            "a result without serde's traits",
            r#"struct Picture(Vec<u8>);
            fn main() { let _ = armature::farm::Farm::new("a", |n: u64| Picture(vec![n as u8])); }"#,
            &[
                "`Picture` cannot travel from rank to rank",
                "derive both traits of serde",
                "`armature::Plain`",
            ][..],
        ),
        (
            "an item without serde's traits",
            r#"struct Picture(Vec<u8>);
            fn main() {
                let _ = armature::pipeline::Pipeline::source("a", || 0..3u64).map("b", |n| Picture(vec![n as u8]));
            }"#,
            &["`Picture` cannot travel from rank to rank", "derive both traits of serde"],
        ),
        (
            "a session in a task",
            r#"use armature::farm::Farm;
            fn main() {
                let _ = armature::run(&armature::Config::new(), |session| {
                    Ok(Farm::new("a", |n: u64| n + session.rank() as u64).collect(session, 0..3)?.on_root())
                });
            }"#,
            &[
                "cannot move to another thread",
                "a `Session` stays on the thread of its rank",
                "let rank = session.rank();",
            ],
        ),
        (
            "standard input under its lock",
            r#"use armature::farm::Farm;
            fn main() {
                let _ = armature::run(&armature::Config::new(), |session| {
                    let lines = std::io::stdin().lines().map_while(Result::ok);
                    Ok(Farm::new("a", |line: String| line.len()).collect(session, lines)?.on_root())
                });
            }"#,
            &["cannot move to another thread", "std::io::BufReader::new(std::io::stdin()).lines()"],
        ),
        (
            "a session in a stage",
            r#"use armature::pipeline::Pipeline;
            fn main() {
                let _ = armature::run(&armature::Config::new(), |session| {
                    let ranks = Pipeline::source("a", || 0..3u64).map("b", |n| n + session.rank() as u64);
                    Ok(ranks.collect(session)?.on_root())
                });
            }"#,
            &["cannot move to another thread", "let rank = session.rank();"],
        ),
        (
            "standard input under its lock as a source",
            r#"use armature::pipeline::Pipeline;
            fn main() {
                let lines = || std::io::stdin().lines().map_while(Result::ok);
                let _ = Pipeline::source("lines", lines).map("length", |line| line.len());
            }"#,
            &["StdinLock", "cannot move to another thread"],
        ),
        (
            "a session in a loop",
            r#"fn main() {
                let _ = armature::run(&armature::Config::new(), |session| {
                    Ok(armature::loops::map(session, "a", 0..3, |n| n + session.rank() as u64)?)
                });
            }"#,
            &["cannot move to another thread", "let rank = session.rank();"],
        ),
        (
            "a skeleton in the sink of a skeleton",
            r#"use armature::farm::Farm;
            fn main() {
                let _ = armature::run(&armature::Config::new(), |session| {
                    let sink = |_, n| drop(session.broadcast(Some(n)));
                    Ok(Farm::new("a", |n: u64| n).for_each(session, 0..3, sink)?.on_root())
                });
            }"#,
            &["cannot move to another thread", "a `Session` stays on the thread of its rank"],
        ),
        (
            "a skeleton in the fold of a loop",
            r#"use armature::loops::ParallelFor;
            fn main() {
                let _ = armature::run(&armature::Config::new(), |session| {
                    let largest = |a: u64, n: u64| session.all_reduce(n, u64::max).unwrap_or(a);
                    Ok(ParallelFor::new("a", 0..3).fold_in_order(session, |n| n, 0, largest)?)
                });
            }"#,
            &["cannot borrow `*session` as mutable because previous closure requires unique access"],
        ),
        (
            "a counter that is not shared between threads",
            r#"use armature::farm::Farm;
            fn main() {
                let count = std::rc::Rc::new(std::cell::Cell::new(0));
                let _ = Farm::new("a", move |n: u64| { count.set(count.get() + 1); n });
            }"#,
            &["cannot move to another thread", "such as an `Arc` instead of an `Rc`"],
        ),
        (
            "text as plain memory",
            r#"fn main() { let _ = armature::farm::Farm::new("a", |text: String| text).plain(); }"#,
            &["`String: bytemuck::pod::Pod`"],
        ),
    ];
    for (what, program, texts) in wrong {
        let error = compile(&library, program).expect_err(what);
        for text in texts {
            assert!(error.contains(text), "{what}: `{text}` is not printed:\n{error}");
        }
    }
}
