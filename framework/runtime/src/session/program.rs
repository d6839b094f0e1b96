//! Comparison of the programs that ranks run: their builds and their command lines.
//!
//! Messages carry values without the names of their fields, so ranks interpret them correctly only if they run the same build. Ranks that
//! were started with different arguments compute different things, mostly without any error.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Program {
    /// Path of the executable, or of the shared library that contains the program.
    pub(super) file: String,
    /// Build id of the executable or library, or a checksum of its bytes; `None` if the file cannot be read.
    pub(super) build: Option<String>,
    /// Command-line arguments without `argv[0]`, escaped, one per line; only the first [`SENT`] bytes.
    pub(super) arguments: String,
    pub(super) checksum: u32,
}

/// Maximum size in bytes of the command-line arguments that a rank sends to rank 0. A command line may have megabytes, and rank 0 receives those of
/// all ranks.
const SENT: usize = 4 << 10;
/// Maximum number of characters of an argument in an error message.
const SHOWN: usize = 80;
/// Number of characters of a long argument that an error message shows before the first difference.
const BEFORE: usize = 20;

impl Program {
    pub(super) fn own() -> Self {
        static OWN: OnceLock<Program> = OnceLock::new();
        OWN.get_or_init(|| {
            let file = code_file().or_else(|_| std::env::current_exe()).unwrap_or_default();
            let build = build(&file);
            if let Err(error) = &build {
                log::warn!(
                    "cannot compare the build of this rank with that of the others: {file:?}: {error}"
                );
            }
            Program::new(
                &file,
                build.ok(),
                std::env::args_os().skip(1).map(|argument| format!("{argument:?}")),
            )
        })
        .clone()
    }

    fn new(file: &Path, build: Option<String>, arguments: impl Iterator<Item = String>) -> Self {
        let mut arguments = arguments.collect::<Vec<_>>().join("\n");
        let checksum = crc32fast::hash(arguments.as_bytes());
        let end = (0..=SENT.min(arguments.len())).rev().find(|&at| arguments.is_char_boundary(at));
        arguments.truncate(end.unwrap_or(0));
        Program { file: file.display().to_string(), build, arguments, checksum }
    }

    /// Returns true if the two programs certainly have different builds. An unknown build counts as equal.
    pub(super) fn is_other_build(&self, other: &Program) -> bool {
        self.build.is_some() && other.build.is_some() && self.build != other.build
    }

    /// Compares the build of a rank with that of `root`, which is rank 0. An error message names the hosts of both ranks.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the builds differ.
    pub(super) fn check_build(&self, host: &str, (root, root_host): (&Program, &str)) -> Result<()> {
        if !self.is_other_build(root) {
            return Ok(());
        }
        let text = format!(
            "runs {:?} on {host:?} (build {}), which is another build than {:?} on {root_host:?} (build {}) of rank 0: start the same \
             executable on every rank; if different builds are meant to exchange messages, set ARMATURE_CHECK_BUILD=off \
             (Config::check_build)",
            self.file,
            self.build.as_deref().unwrap_or_default(),
            root.file,
            root.build.as_deref().unwrap_or_default(),
        );
        Err(Error::new(ErrorKind::Config, text))
    }

    /// Compares the command-line arguments of a rank with those of `root`, which is the program of rank 0.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the arguments differ, with the first difference.
    pub(super) fn check_arguments(&self, root: &Program) -> Result<()> {
        if self.checksum == root.checksum && self.arguments == root.arguments {
            return Ok(());
        }
        let (mut mine, mut theirs) = (self.arguments.lines(), root.arguments.lines());
        let mut number = 1;
        let difference = loop {
            match (mine.next(), theirs.next()) {
                (None, None) => {
                    break format!(
                        "was started with other arguments than rank 0, which differ after the first {SENT} bytes"
                    );
                }
                (mine, theirs) if mine != theirs => {
                    let (mine, theirs) = excerpts(mine, theirs);
                    break format!("was started with {mine} as argument {number}, but rank 0 with {theirs}");
                }
                _ => number += 1,
            }
        };
        let text = format!(
            "{difference}: start every rank with the same arguments; if they differ on purpose, set ARMATURE_CHECK_ARGUMENTS=off \
             (Config::check_arguments)"
        );
        Err(Error::new(ErrorKind::Config, text))
    }
}

/// Returns two different arguments for an error message. A long argument is shortened to the text around the first difference.
fn excerpts(one: Option<&str>, other: Option<&str>) -> (String, String) {
    let chars = |text: Option<&str>| text.unwrap_or_default().chars().collect::<Vec<_>>();
    let same = chars(one).iter().zip(&chars(other)).take_while(|(one, other)| one == other).count();
    let shown = |text: Option<&str>| match text {
        None => "nothing".to_string(),
        Some(text) if text.chars().count() <= SHOWN => text.to_string(),
        Some(text) => {
            let start = same.saturating_sub(BEFORE);
            let part: String = text.chars().skip(start).take(SHOWN).collect();
            let (before, after) = (start > 0, start + SHOWN < text.chars().count());
            format!("{}{part}{}", if before { "…" } else { "" }, if after { "…" } else { "" })
        }
    };
    (shown(one), shown(other))
}

/// Returns the file from which this function was loaded: the executable, or a shared library. The process's own executable may be
/// another program, such as an interpreter or the dynamic loader.
fn code_file() -> io::Result<PathBuf> {
    let here = code_file as fn() -> io::Result<PathBuf> as usize;
    let maps = std::fs::read("/proc/self/maps")?;
    let maps = String::from_utf8_lossy(&maps);
    // Example of a line of `/proc/self/maps`: `55d0c0a00000-55d0c0b00000 r-xp 00100000 08:01 4711 /home/me/app`
    let is_here = |line: &&str| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16).ok();
        range.is_some_and(|(start, end)| {
            number(start).is_some_and(|start| start <= here) && number(end).is_some_and(|end| here < end)
        })
    };
    let path = maps.lines().find(is_here).and_then(|line| line.find('/').map(|at| &line[at..]));
    match path {
        // The program's file was replaced after the program was started. `/proc/self/exe` still leads to the old file, which is running.
        Some(path) if path.ends_with(" (deleted)") => Ok("/proc/self/exe".into()),
        Some(path) => Ok(path.into()),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Returns the build id of a file, or a checksum of its bytes if it has no build id. Linkers write a build id unless they are configured
/// not to. With a build id a rank does not read the whole file, and the id does not change when debug information is stripped.
fn build(file: &Path) -> io::Result<String> {
    let mut file = File::open(file)?;
    if let Some(id) = elf::build_id(&file) {
        return Ok(id.iter().map(|byte| format!("{byte:02x}")).collect());
    }
    let (mut hasher, mut bytes) = (crc32fast::Hasher::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(format!("{:08x}, no build id", hasher.finalize())),
            length => hasher.update(&bytes[..length]),
        }
    }
}

mod elf {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    /// First bytes of a 64-bit ELF file in the byte order of this machine.
    const START: [u8; 6] = [0x7f, b'E', b'L', b'F', 2, if cfg!(target_endian = "little") { 1 } else { 2 }];
    /// Type code of an ELF segment with notes.
    const NOTES: u32 = 4;
    /// Type code of an ELF note of the owner `GNU` that contains a build id.
    const BUILD_ID: u32 = 3;
    /// Maximum number of bytes that are read of an ELF segment with notes.
    const LARGEST: u64 = 64 << 10;

    pub(super) fn build_id(file: &File) -> Option<Vec<u8>> {
        let header = read(file, 0, 64)?;
        if header[..START.len()] != START {
            return None;
        }
        let segments = u64_at(&header, 32)?;
        let (size, count) = (u16_at(&header, 54)?, u16_at(&header, 56)?);
        (0..u64::from(count)).find_map(|number| {
            let segment = read(file, segments.checked_add(number * u64::from(size))?, 56)?;
            if u32_at(&segment, 0)? != NOTES {
                return None;
            }
            let notes = read(file, u64_at(&segment, 8)?, u64_at(&segment, 32)?.min(LARGEST))?;
            let alignment = if u64_at(&segment, 48)? == 8 { 8 } else { 4 };
            build_id_of(&notes, alignment)
        })
    }

    fn build_id_of(mut notes: &[u8], alignment: usize) -> Option<Vec<u8>> {
        loop {
            let (name, length) = (u32_at(notes, 0)? as usize, u32_at(notes, 4)? as usize);
            let start = (12 + name).next_multiple_of(alignment);
            let text = notes.get(start..start + length)?;
            if u32_at(notes, 8)? == BUILD_ID && notes.get(12..12 + name)? == b"GNU\0" {
                return Some(text.to_vec());
            }
            notes = notes.get((start + length).next_multiple_of(alignment)..)?;
        }
    }

    fn read(file: &File, from: u64, length: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        file.read_exact_at(&mut bytes, from).ok()?;
        Some(bytes)
    }

    fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
        bytes.get(at..at + N)?.try_into().ok()
    }

    fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
        array(bytes, at).map(u16::from_ne_bytes)
    }

    fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
        array(bytes, at).map(u32::from_ne_bytes)
    }

    fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
        array(bytes, at).map(u64::from_ne_bytes)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn encode_note(kind: u32, name: &[u8], text: &[u8], alignment: usize) -> Vec<u8> {
            let mut bytes = [name.len() as u32, text.len() as u32, kind].map(u32::to_ne_bytes).concat();
            bytes.extend(name);
            bytes.resize(bytes.len().next_multiple_of(alignment), 0);
            bytes.extend(text);
            bytes.resize(bytes.len().next_multiple_of(alignment), 0);
            bytes
        }

        #[test]
        fn build_id_is_found_after_other_notes() {
            for alignment in [4, 8] {
                let others = [
                    encode_note(5, b"GNU\0", b"property", alignment),
                    encode_note(3, b"Go\0\0", b"1", alignment),
                ];
                let notes = [others.concat(), encode_note(3, b"GNU\0", b"twenty bytes", alignment)].concat();
                assert_eq!(build_id_of(&notes, alignment).as_deref(), Some(&b"twenty bytes"[..]));
                assert_eq!(build_id_of(&others.concat(), alignment), None);
                assert_eq!(build_id_of(&notes[..notes.len() - 8], alignment), None, "it is cut off");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(arguments: &[&str]) -> Program {
        let arguments = arguments.iter().map(|argument| format!("{argument:?}"));
        Program::new(Path::new("/bin/app"), Some("12ab".into()), arguments)
    }

    #[track_caller]
    fn refused(mine: &[&str], root: &[&str]) -> String {
        let error = started(mine).check_arguments(&started(root)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.message().split(": start every rank").next().unwrap().to_string()
    }

    #[test]
    fn first_differing_argument_is_named() {
        let size = ["--size", "512"];
        assert!(started(&size).check_arguments(&started(&size)).is_ok());
        let text = refused(&["--size", "256"], &size);
        assert_eq!(text, "was started with \"256\" as argument 2, but rank 0 with \"512\"");
        assert!(refused(&["--size"], &size).starts_with("was started with nothing as argument 2, but"));
        assert!(refused(&["--size", "512", ""], &size).ends_with("but rank 0 with nothing"));
        assert!(
            refused(&["--size 512"], &size).starts_with("was started with \"--size 512\" as argument 1,")
        );
        let text = refused(&["\u{1b}[2J\n\u{2028}"], &["a"]);
        assert!(text.starts_with(r#"was started with "\u{1b}[2J\n\u{2028}" as argument 1,"#), "{text}");
    }

    #[test]
    fn long_argument_is_shown_around_the_difference() {
        let long = |middle: &str| format!("{}{middle}{}", "a".repeat(900), "b".repeat(900));
        let text = refused(&[&long("1")], &[&long("2")]);
        assert!(text.chars().count() < 300, "{text}");
        assert!(text.contains(&format!("…{}1b", "a".repeat(20))) && text.contains("a2b"), "{text}");
        // The arguments differ after the part that ranks send to rank 0, so only their checksums show the difference.
        let names: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        let root = names.clone();
        names[9_999] = "other";
        assert_eq!(
            refused(&names, &root),
            "was started with other arguments than rank 0, which differ after the first 4096 bytes"
        );
        assert!(started(&root).arguments.len() <= SENT);
    }

    #[test]
    fn build_identity_depends_on_file_content() {
        let dir = tempfile::tempdir().unwrap();
        let own = code_file().unwrap();
        assert_eq!(own, std::env::current_exe().unwrap());
        let copy = dir.path().join("copy");
        std::fs::copy(&own, &copy).unwrap();
        assert_eq!(build(&own).unwrap(), build(&copy).unwrap());
        // A file without a build id, such as a script, is compared by its content.
        let [one, same, other] = ["one", "same", "other"].map(|name| dir.path().join(name));
        for (file, text) in [(&one, "a program"), (&same, "a program"), (&other, "b program")] {
            std::fs::write(file, text).unwrap();
        }
        assert_eq!(build(&one).unwrap(), build(&same).unwrap());
        assert_ne!(build(&one).unwrap(), build(&other).unwrap());
        assert!(build(&dir.path().join("none")).is_err());
    }

    #[test]
    fn different_build_is_refused_with_both_files_and_hosts() {
        let root = started(&[]);
        assert!(Program { file: "/bin/copy".into(), ..root.clone() }.check_build("b", (&root, "a")).is_ok());
        assert!(
            Program { build: None, ..root.clone() }.check_build("b", (&root, "a")).is_ok(),
            "nothing is known"
        );
        let other = Program { file: "/bin/v2".into(), build: Some("34cd".into()), ..root.clone() };
        let error = other.check_build("node-2", (&root, "node-1")).unwrap_err();
        let text = "runs \"/bin/v2\" on \"node-2\" (build 34cd), which is another build than \"/bin/app\" on \"node-1\" (build 12ab) of rank 0: ";
        assert!(error.message().starts_with(text), "{error}");
    }
}
