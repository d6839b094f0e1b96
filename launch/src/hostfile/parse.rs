//! Parser for hostfiles (lists of hosts with their slots, speeds and memory).

use std::path::Path;

use super::{Host, Hostfile, HostfileError, MAX_SLOTS, size};

const SLOTS: &str = "slots=N with N a whole number from 1 to 2147483647";
const ALL_SLOTS: &str = "at most 2147483647 slots on all hosts together";
const SPEED: &str = "speed=S with S a number above 0, in the same unit for all hosts";
const MEMORY: &str = "memory=M with M a number and a unit, such as 64GiB or 500MB";
const NAME: &str = "a host name or address of letters, digits, '.', '-' and '_'";

pub(super) fn parse(file: &Path, text: &str) -> Result<Hostfile, HostfileError> {
    let mut hosts: Vec<Host> = Vec::new();
    let mut slots = 0;
    for (index, line) in text.lines().enumerate() {
        let fail = |found: &str, expected: &str| HostfileError {
            file: file.to_path_buf(),
            line: Some(index + 1),
            found: found.into(),
            expected: expected.into(),
        };
        let line = line.split('#').next().unwrap_or_default();
        let mut columns = line.split_whitespace();
        let Some(first) = columns.next() else { continue };
        let host = host(first, columns).map_err(|(found, expected)| fail(&found, expected))?;
        slots += host.slots;
        if slots > MAX_SLOTS {
            return Err(fail(line.trim(), ALL_SLOTS));
        }
        match hosts.iter_mut().find(|known| known.name == host.name) {
            None => hosts.push(host),
            // The slots of a repeated host are added, because PBS writes a line for each rank to its node file.
            Some(known)
                if host.speed.or(known.speed) == known.speed
                    && host.memory.or(known.memory) == known.memory =>
            {
                known.slots += host.slots;
            }
            Some(_) => {
                return Err(fail(line.trim(), "the speed and memory that an earlier line gives this host"));
            }
        }
    }
    if hosts.is_empty() {
        return Err(HostfileError {
            file: file.to_path_buf(),
            line: None,
            found: "no host".into(),
            expected: "at least one line such as `node01 slots=4`".into(),
        });
    }
    Ok(Hostfile { hosts })
}

type Wrong = (String, &'static str);

fn host<'a>(first: &str, columns: impl Iterator<Item = &'a str>) -> Result<Host, Wrong> {
    let (name, slots) = match first.split_once(':') {
        Some((name, slots)) => (
            name,
            Some(
                whole(slots)
                    .ok_or((first.to_owned(), "NAME:N with N a whole number from 1 to 2147483647"))?,
            ),
        ),
        None => (first, None),
    };
    let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name.is_empty() || name.starts_with('-') || !name.chars().all(named) {
        return Err((first.to_owned(), NAME));
    }
    let mut host = Host { name: name.to_owned(), slots: slots.unwrap_or(1), speed: None, memory: None };
    let mut has_slots = slots.is_some();
    for column in columns {
        let wrong = |expected| (column.to_owned(), expected);
        match column.split_once('=') {
            Some(("slots", _)) if has_slots => return Err(wrong("the number of slots only once")),
            Some(("slots", value)) => {
                host.slots = whole(value).ok_or(wrong(SLOTS))?;
                has_slots = true;
            }
            Some(("speed", _)) if host.speed.is_some() => return Err(wrong("the speed only once")),
            Some(("speed", value)) => host.speed = Some(speed(value).ok_or(wrong(SPEED))?),
            Some(("memory", _)) if host.memory.is_some() => return Err(wrong("the memory only once")),
            Some(("memory", value)) => host.memory = Some(size::bytes(value).ok_or(wrong(MEMORY))?),
            _ => return Err(wrong("a column slots=, speed= or memory=")),
        }
    }
    Ok(host)
}

fn whole(text: &str) -> Option<usize> {
    text.parse().ok().filter(|n| (1..=MAX_SLOTS).contains(n))
}

fn speed(text: &str) -> Option<f64> {
    text.parse().ok().filter(|&s: &f64| s.is_finite() && s > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ok(text: &str) -> Vec<Host> {
        parse(Path::new("hosts"), text).unwrap().hosts
    }

    fn error(text: &str) -> String {
        parse(Path::new("hosts"), text).unwrap_err().to_string()
    }

    #[test]
    fn host_attributes_are_accepted_in_any_order() {
        let host = &ok("node01 memory=1.5GiB speed=2e9 slots=3 # the fast one\n")[0];
        assert_eq!((host.name.as_str(), host.slots), ("node01", 3));
        assert_eq!((host.speed, host.memory), (Some(2e9), Some(3 << 29)));
    }

    #[test]
    fn comments_blank_lines_and_carriage_returns_are_ignored() {
        assert_eq!(ok("# a\r\n\r\n  \nnode01\r\n").len(), 1);
    }

    #[test]
    fn repeated_host_adds_its_slots() {
        let hosts = ok("a\nb\na\na:2\n");
        assert_eq!(
            hosts.iter().map(|h| (h.name.as_str(), h.slots)).collect::<Vec<_>>(),
            [("a", 4), ("b", 1)]
        );
    }

    #[test]
    fn hostfile_text_in_errors_is_escaped_and_truncated() {
        assert_eq!(
            error("a\u{1b}[2J\u{202e}\n"),
            format!("hosts:1: `a\\u{{1b}}[2J\\u{{202e}}`: expected {NAME}")
        );
        let long = error(&format!("a slots={}\n", "9".repeat(500_000)));
        assert!(long.len() < 250 && long.contains("… (500006 bytes)"), "{} bytes", long.len());
    }

    #[test]
    fn hostfile_errors_name_the_line_and_what_was_expected() {
        assert_eq!(error("a\nb speed=fast\n"), format!("hosts:2: `speed=fast`: expected {SPEED}"));
        assert_eq!(error("a memory=64\n"), format!("hosts:1: `memory=64`: expected {MEMORY}"));
        assert_eq!(
            error("a:0\n"),
            "hosts:1: `a:0`: expected NAME:N with N a whole number from 1 to 2147483647"
        );
        assert_eq!(error("a slot=4\n"), "hosts:1: `slot=4`: expected a column slots=, speed= or memory=");
        assert_eq!(error("a:2 slots=4\n"), "hosts:1: `slots=4`: expected the number of slots only once");
        assert_eq!(error("--oops\n"), format!("hosts:1: `--oops`: expected {NAME}"));
        assert_eq!(
            error("a speed=1\na speed=2\n"),
            "hosts:2: `a speed=2`: expected the speed and memory that an earlier line gives this host"
        );
        for text in ["a slots=1\nb slots=4294967295\n", "a\nb slots=2147483648\n", "a\nb slots=0\n"] {
            let slots = text.rsplit(' ').next().unwrap().trim();
            assert_eq!(error(text), format!("hosts:2: `{slots}`: expected {SLOTS}"));
        }
        for text in ["a slots=2147483647\nb slots=1\n", "a slots=2147483647\na slots=1\n"] {
            let line = text.lines().last().unwrap();
            assert_eq!(error(text), format!("hosts:2: `{line}`: expected {ALL_SLOTS}"));
        }
        assert_eq!(error("# none\n"), "hosts: no host: expected at least one line such as `node01 slots=4`");
    }

    proptest! {
        #[test]
        fn hostfile_parser_never_panics(text in "[ -~\n]{0,200}") {
            let _ = parse(Path::new("hosts"), &text);
        }

        #[test]
        fn written_hostfiles_round_trip(slots in proptest::collection::vec(1usize..100, 1..20)) {
            let text: String = slots.iter().enumerate().map(|(i, n)| format!("h{i} slots={n}\n")).collect();
            let read = parse(Path::new("hosts"), &text).unwrap();
            prop_assert_eq!(&parse(Path::new("x"), &read.for_openmpi()).unwrap(), &read);
            prop_assert_eq!(&parse(Path::new("x"), &read.for_mpich()).unwrap(), &read);
            prop_assert_eq!(read.slots(), slots.iter().sum::<usize>());
        }
    }
}
