//! `.dag` files of pegasus-mpi-cluster: `TASK id options program arguments`, `EDGE parent child`, `DONE id`.

use std::collections::HashMap;

use crate::description::{Action, Description, Forward, Task};
use crate::draft::{Draft, End, Link};
use crate::error::{Error, ErrorKind, Result, SourceLocation, shown};

/// Unit in bytes in which pegasus-mpi-cluster states memory: a megabyte of 2²⁰ bytes.
const MEGABYTE: u64 = 1 << 20;

pub(crate) fn read(text: &str) -> Result<Description> {
    let mut draft = Draft::default();
    let mut done = Vec::new();
    let mut numbers = HashMap::new();
    for (number, line) in lines(text) {
        let place = SourceLocation::Line(number);
        let words = words(line).map_err(|message| Error::new(ErrorKind::Syntax, place, message))?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["TASK", id, rest @ ..] => {
                let task = task(id, rest).map_err(|message| Error::new(ErrorKind::Value, place, message))?;
                numbers.insert(task.name.clone(), draft.tasks.len());
                draft.tasks.push((task, place));
            }
            ["EDGE", from, to] => {
                let (from, to) = (End::Name((*from).into()), End::Name((*to).into()));
                draft.links.push(Link { from, to, size: 0, place });
            }
            ["DONE", id] => done.push((place, id.to_string())),
            _ => {
                let message = format!(
                    "{} is not a line of a .dag file: expected \"TASK id [options] program [arguments]\", \"EDGE \
                     parent child\", \
                     \"DONE id\" or \"# comment\"",
                    shown(line)
                );
                return Err(Error::new(ErrorKind::Syntax, place, message));
            }
        }
    }
    for (place, id) in done {
        let Some(&number) = numbers.get(&id) else { return Err(unknown(place, &id)) };
        draft.tasks[number].0.done = true;
    }
    draft.finish()
}

/// Returns the lines that are neither empty nor comments, each with its line number in the file, from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

pub(crate) fn unknown(place: SourceLocation, id: &str) -> Error {
    let message = format!("there is no task {}: expected the name of a task", shown(id));
    Error::new(ErrorKind::Graph, place, message)
}

fn task(id: &str, mut words: &[&str]) -> Result<Task, String> {
    let mut task = Task::new(id, Action::Nothing);
    while let [option, rest @ ..] = words {
        if !option.starts_with('-') {
            break;
        }
        let [value, rest @ ..] = rest else { return Err(format!("option {} has no value", shown(option))) };
        read_option(&mut task, option, value)?;
        words = rest;
    }
    let [program, arguments @ ..] = words else {
        return Err(format!(
            "task {} has no program: expected \"TASK id [options] program [arguments]\"",
            shown(id)
        ));
    };
    let arguments = arguments.iter().map(|&argument| argument.into()).collect();
    task.action = Action::Command { program: (*program).into(), arguments };
    Ok(task)
}

fn read_option(task: &mut Task, option: &str, value: &str) -> Result<(), String> {
    let wrong = |expected: &str| format!("option {option} is {}: expected {expected}", shown(value));
    // A fraction of a megabyte or core is rounded up, as in pegasus-mpi-cluster.
    let rounded_up =
        || value.parse::<f64>().ok().filter(|&amount| amount >= 0.0 && amount.is_finite()).map(f64::ceil);
    let pair = || value.split_once('=').map(|(left, right)| (left.to_string(), right.to_string()));
    match option {
        "-m" | "--request-memory" => {
            // `memory as u64` turns an amount beyond 64 bits into `u64::MAX`. The multiplication by `MEGABYTE` then overflows, and the amount is
            // refused.
            let memory = rounded_up().and_then(|memory| (memory as u64).checked_mul(MEGABYTE));
            task.memory = Some(memory.ok_or_else(|| wrong("megabytes, a number of 0 or more"))?);
        }
        "-c" | "--request-cpus" => {
            let cores = rounded_up().filter(|cores| (1.0..=f64::from(u32::MAX)).contains(cores));
            task.cores = cores.ok_or_else(|| wrong("cores, a number above 0"))? as u32;
        }
        "-t" | "--tries" => {
            let tries = value.parse().ok().filter(|&tries| tries > 0);
            task.tries = Some(tries.ok_or_else(|| wrong("tries, at least 1"))?);
        }
        "-p" | "--priority" => task.priority = value.parse().map_err(|_| wrong("a whole number"))?,
        "-f" | "--pipe-forward" => {
            let (variable, file) = pair().ok_or_else(|| wrong("VARIABLE=FILE"))?;
            task.forwards.push(Forward::Pipe { variable, file });
        }
        "-F" | "--file-forward" => {
            let (source, destination) = pair().ok_or_else(|| wrong("SOURCE=DESTINATION"))?;
            task.forwards.push(Forward::File { source, destination });
        }
        _ => return Err(format!("option {} is unknown: expected -m, -c, -t, -p, -f or -F", shown(option))),
    }
    Ok(())
}

/// Splits a line into words as a shell does: quotation marks keep spaces, and a backslash keeps the next character, except in single
/// quotation marks.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => {
                let next = characters
                    .next()
                    .ok_or("the line ends with a backslash: expected a character after it")?;
                word.get_or_insert_default().push(next);
            }
            (c, Some(mark)) if c == mark => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(mark) = quote {
        return Err(format!("the line ends within a quotation: expected {mark}"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dag_words_are_split_with_shell_quoting() {
        let split = |line| words(line).unwrap();
        assert_eq!(split(r#"a "b c" 'd "e' f\ g "" h"i"j"#), ["a", "b c", "d \"e", "f g", "", "hij"]);
        assert_eq!(split(r"'\' \'"), ["\\", "'"]);
        assert!(words("a 'b").unwrap_err().contains("within a quotation"));
        assert!(words("a \\").unwrap_err().contains("backslash"));
    }

    #[test]
    fn fractional_megabytes_and_cores_are_rounded_up() {
        let of = |options: &str| {
            read(&format!("TASK a {options} /bin/x\n"))
                .map(|read| (read.tasks()[0].memory, read.tasks()[0].cores))
        };
        assert_eq!(of("-m 99.1 -c 1.1").unwrap(), (Some(100 << 20), 2));
        assert_eq!(of("--request-memory 0.5 --request-cpus 1.5").unwrap(), (Some(1 << 20), 2));
        for wrong in ["-m -1", "-m nan", "-m inf", "-m 1e18", "-m x", "-c 0", "-c -0.5", "-c 1e10", "-c inf"]
        {
            let error = of(wrong).unwrap_err().to_string();
            assert!(
                error.contains("expected megabytes, a number") || error.contains("expected cores, a number"),
                "{error}"
            );
        }
    }

    #[test]
    fn every_dag_option_is_read() {
        let text =
            "# a comment\nTASK a -m 2 --request-cpus 3 -t 4 -p -5 -f V=f -F s=d /bin/x -m 'y z'\nDONE a\n";
        let description = read(text).unwrap();
        let task = &description.tasks()[0];
        assert_eq!((task.memory, task.cores, task.tries, task.priority), (Some(2 << 20), 3, Some(4), -5));
        let pipe = Forward::Pipe { variable: "V".into(), file: "f".into() };
        assert_eq!(task.forwards, [pipe, Forward::File { source: "s".into(), destination: "d".into() }]);
        let arguments = vec!["-m".into(), "y z".into()];
        assert_eq!(task.action, Action::Command { program: "/bin/x".into(), arguments });
        assert!(task.done);
    }
}
