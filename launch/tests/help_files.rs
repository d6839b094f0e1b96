//! Completions are tested with a real bash, and man pages with a real man.

use std::path::Path;
use std::process::{Command, Stdio};

fn armature(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_armature")).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn listed_commands() -> Vec<String> {
    let (_, help, _) = armature(&["--help"]);
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = commands.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_string).collect()
}

/// Returns the completions of bash for `words`, the last of which is incomplete.
fn offered(completions: &Path, words: &[&str]) -> Vec<String> {
    let script = r#"
        set -eu; source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        complete -p armature >/dev/null
        _armature armature "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, "bash"]).arg(completions).args(words);
    let output = bash.output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    text.lines().map(str::to_string).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("armature");
    let (code, script, _) = armature(&["completions", "bash"]);
    assert_eq!(code, 0);
    std::fs::write(&file, script).unwrap();

    let commands = offered(&file, &["armature", ""]);
    let names = listed_commands();
    assert!(names.len() >= 16, "{names:?}");
    assert!(names.iter().all(|name| commands.contains(name)), "{commands:?} of {names:?}");
    assert_eq!(offered(&file, &["armature", "sta"]), ["status"]);
    assert_eq!(offered(&file, &["armature", "run", "--recov"]), ["--recover"]);
    assert_eq!(offered(&file, &["armature", "run", "--mpi", "m"]), ["mpich"]);
    assert_eq!(offered(&file, &["armature", "workflow", "r"]), ["run"]);
}

#[test]
fn every_shell_gets_completions_and_an_unknown_one_is_refused() {
    for (shell, begin) in [("zsh", "#compdef armature\n"), ("fish", "# "), ("elvish", ""), ("powershell", "")]
    {
        let (code, script, _) = armature(&["completions", shell]);
        assert!(code == 0 && script.starts_with(begin) && script.contains("completions"), "{shell}");
    }
    let (code, _, message) = armature(&["completions", "csh"]);
    assert!(code == 2 && message.contains("possible values: bash"), "{message}");
}

#[test]
fn every_command_has_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("share/man1");
    let (code, text, _) = armature(&["man", "--dir", pages.to_str().unwrap()]);
    let mut names: Vec<String> = std::fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(code, 0);
    assert!(text.starts_with(&format!("{} man pages are in ", names.len())), "{text}");
    let expected = listed_commands().into_iter().map(|command| format!("armature-{command}.1"));
    for name in
        expected.chain(["armature.1", "armature-workflow-run.1", "armature-plan-workflow.1"].map(Into::into))
    {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    for name in &names {
        let page = std::fs::read_to_string(pages.join(name)).unwrap();
        let has = |section: &str| page.contains(&format!("\n.SH {section}\n"));
        assert!(has("NAME") && has("SYNOPSIS") && has("DESCRIPTION"), "{name}: {page}");
        assert!(page.contains(concat!("\"armature ", env!("CARGO_PKG_VERSION"), "\"")), "{name}: {page}");
        renders(&pages.join(name));
    }
    let (_, printed, _) = armature(&["man", "workflow", "run"]);
    assert_eq!(printed, std::fs::read_to_string(pages.join("armature-workflow-run.1")).unwrap());
    assert_eq!(armature(&["man"]).1, std::fs::read_to_string(pages.join("armature.1")).unwrap());
}

/// If man is installed, it must format the page without a warning.
fn renders(page: &Path) {
    let man =
        Command::new("man").args(["--warnings", "--local-file"]).arg(page).stdin(Stdio::null()).output();
    let Ok(man) = man else { return };
    let (text, warnings) = (String::from_utf8_lossy(&man.stdout), String::from_utf8_lossy(&man.stderr));
    assert!(man.status.success() && warnings.is_empty() && text.contains("SYNOPSIS"), "{page:?}: {warnings}");
}

#[test]
fn page_of_an_unknown_command_is_an_error() {
    let (code, text, message) = armature(&["man", "workflow", "walk"]);
    assert!(
        code == 2 && text.is_empty() && message.contains("no command `armature workflow walk`"),
        "{message}"
    );
    let (code, _, _) = armature(&["man", "--dir", "x", "run"]);
    assert_eq!(code, 2);
}
