//! Golden files: tests compare encoded messages and files byte by byte with the stored files below `golden/`, whose `README.md` describes what
//! to do when they differ.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::comm::message::{Tagged, frame_header};
use crate::comm::{Frame, Part};
use crate::wire;

/// If this environment variable has the value `write`, the tests write the golden messages to files.
const VARIABLE: &str = "ARMATURE_GOLDEN";
/// Run number in the headers of all golden messages. Its four bytes differ, so that a golden file shows the byte order.
pub(crate) const RUN: u32 = 0x0403_0201;

pub(crate) fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

/// Compares a file with the golden file `golden/files/NAME`. If there is no golden file, as for a new version of a format, the function creates it
/// and fails the test.
pub(crate) fn check_file(name: &str, written: &Path) {
    let (kept, written) = (place(&format!("files/{name}")), std::fs::read(written).unwrap());
    match std::fs::read(&kept) {
        Ok(bytes) => assert!(bytes == written, "the same content has other bytes than {}", kept.display()),
        Err(_) => {
            std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
            std::fs::write(&kept, written).unwrap();
            panic!("there was no {}; it has been made. Look at it and run this test again", kept.display());
        }
    }
}

/// Encoded messages for the comparison with a golden file, each with a description that does not depend on the names of types.
#[derive(Default)]
pub(crate) struct Messages(Vec<(String, Vec<u8>)>);

impl Messages {
    /// Adds a message for the comparison, which consists of the header of all messages and one encoded value.
    pub(crate) fn value(&mut self, what: &str, tag: impl Tagged, value: &impl Serialize) {
        let mut head = frame_header(RUN, tag).to_vec();
        head.extend_from_slice(&wire::to_bytes(value).unwrap());
        self.bytes(what, &head);
    }

    /// Adds a message for the comparison: its small data (the head) and each of its large data (the parts).
    pub(crate) fn message(&mut self, what: &str, message: &Frame) {
        self.head_and_parts(what, &message.head, &message.parts);
    }

    /// Adds a message for the comparison, given as its small data (`head`) and its large data (`parts`).
    pub(crate) fn head_and_parts(&mut self, what: &str, head: &[u8], parts: &[Part]) {
        self.bytes(what, head);
        for (number, part) in (1..).zip(parts) {
            self.bytes(&format!("{what}, part {number}"), part.bytes());
        }
    }

    pub(crate) fn bytes(&mut self, what: &str, bytes: &[u8]) {
        assert!(self.0.iter().all(|(known, _)| known != what), "two messages are called `{what}`");
        self.0.push((what.to_string(), bytes.to_vec()));
    }

    /// Compares all added messages with the golden file `golden/messages/ROOM.txt`, where `ROOM` is the value of `room`.
    pub(crate) fn check(&self, room: &str) {
        let path = place(&format!("messages/{room}.txt"));
        let found: Vec<String> = self.0.iter().map(|(what, bytes)| entry(what, bytes)).collect();
        if std::env::var(VARIABLE).is_ok_and(|value| value == "write") {
            std::fs::write(&path, found.join("\n")).unwrap();
        }
        let differences = differences(&found, &std::fs::read_to_string(&path).unwrap_or_default());
        assert!(
            differences.is_empty(),
            "messages are not what {} has. If they are meant to be, set {VARIABLE}=write, run this test again and look at \
             the change.\n{}",
            path.display(),
            differences.join("\n")
        );
    }
}

fn differences(found: &[String], kept: &str) -> Vec<String> {
    let kept: Vec<String> = kept.split("\n\n").map(|entry| format!("{}\n", entry.trim_end())).collect();
    let changed = found.iter().filter(|&entry| !kept.contains(entry)).map(|entry| format!("now  {entry}"));
    let gone = kept.iter().filter(|&entry| !found.contains(entry)).map(|entry| format!("kept {entry}"));
    gone.chain(changed).collect()
}

/// Returns an entry of a golden file: the description of a message, then its bytes as hexadecimal digits in groups of eight bytes.
fn entry(what: &str, bytes: &[u8]) -> String {
    let mut text = format!("{what}: {} bytes\n", bytes.len());
    for line in bytes.chunks(32) {
        text += "   ";
        for group in line.chunks(8) {
            text += " ";
            group.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
        }
        text += "\n";
    }
    text
}

#[test]
fn bytes_are_shown_in_groups_of_eight() {
    let bytes: Vec<u8> = (0..41).collect();
    let shown = "some: 41 bytes\n    0001020304050607 08090a0b0c0d0e0f 1011121314151617 18191a1b1c1d1e1f\n    \
                 2021222324252627 28\n";
    assert_eq!(entry("some", &bytes), shown);
    assert_eq!(entry("none", &[]), "none: 0 bytes\n");
}

#[test]
fn differences_from_stored_bytes_are_reported() {
    let found = [entry("one", &[1, 2]), entry("two", &[3])];
    let kept = found.join("\n");
    assert!(differences(&found, &kept).is_empty());
    assert_eq!(differences(&found[..1], &kept), ["kept two: 1 bytes\n    03\n"]);
    let changed = ["kept one: 2 bytes\n    0102\n", "now  one: 2 bytes\n    0103\n"];
    assert_eq!(differences(&[entry("one", &[1, 3]), found[1].clone()], &kept), changed);
}
