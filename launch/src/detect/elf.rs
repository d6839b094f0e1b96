//! Reads the shared libraries that an ELF file names in its `DT_NEEDED` entries (not the libraries of these libraries).
//!
//! Only the header, the dynamic section and the names are read, so that the size of the file does not matter. A malformed file gives an
//! error.

use std::io::{self, Read, Seek, SeekFrom};

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
/// Maximum number of bytes of the dynamic section. Real files stay far below; the limit bounds the memory for malformed files.
const DYNAMIC_LIMIT: u64 = 1 << 20;
/// Maximum number of bytes of a library's name, which bounds the memory for malformed files.
const NAME_LIMIT: u64 = 4096;

pub(super) fn needed<F: Read + Seek>(file: &mut F) -> io::Result<Vec<String>> {
    let layout = Layout::read(file)?;
    let segments = layout.segments(file)?;
    let Some(dynamic) = segments.iter().find(|segment| segment.kind == PT_DYNAMIC) else {
        return Ok(Vec::new());
    };
    let table = bytes(file, dynamic.offset, dynamic.size.min(DYNAMIC_LIMIT))?;
    let entries: Vec<(u64, u64)> = table
        .chunks_exact(2 * layout.word)
        .map(|entry| (layout.number(&entry[..layout.word]), layout.number(&entry[layout.word..])))
        .take_while(|&(tag, _)| tag != DT_NULL)
        .collect();
    let Some(&(_, address)) = entries.iter().find(|&&(tag, _)| tag == DT_STRTAB) else {
        return Ok(Vec::new());
    };
    let names = segments
        .iter()
        .filter(|segment| segment.kind == PT_LOAD)
        .find_map(|s| s.offset.checked_add(address.checked_sub(s.address).filter(|&d| d < s.size)?))
        .ok_or_else(|| wrong("its names are outside all segments"))?;
    entries
        .iter()
        .filter(|&&(tag, _)| tag == DT_NEEDED)
        .map(|&(_, at)| text(file, names.checked_add(at).ok_or_else(|| wrong("a name is outside the file"))?))
        .collect()
}

struct Segment {
    kind: u64,
    offset: u64,
    address: u64,
    size: u64,
}

/// Size of an address (4 or 8 bytes) and byte order of an ELF file.
struct Layout {
    word: usize,
    little: bool,
}

impl Layout {
    fn read<F: Read + Seek>(file: &mut F) -> io::Result<Layout> {
        let start = bytes(file, 0, 16)?;
        if start.get(..4) != Some(b"\x7fELF") {
            return Err(wrong("not an ELF file"));
        }
        match (start.get(4), start.get(5)) {
            (Some(&class @ (1 | 2)), Some(&order @ (1 | 2))) => {
                Ok(Layout { word: 4 * usize::from(class), little: order == 1 })
            }
            _ => Err(wrong("an ELF file of an unknown class")),
        }
    }

    fn number(&self, bytes: &[u8]) -> u64 {
        let add = |sum: u64, &byte: &u8| sum << 8 | u64::from(byte);
        if self.little { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) }
    }

    fn segments<F: Read + Seek>(&self, file: &mut F) -> io::Result<Vec<Segment>> {
        // Positions of fields in the header and in an entry of the program headers, from the ELF specification. `wide` is true for a 64-bit file.
        let wide = self.word == 8;
        let head = bytes(file, 0, 64)?;
        let field = |bytes: &[u8], at: usize, length: usize| -> io::Result<u64> {
            bytes.get(at..at + length).map(|b| self.number(b)).ok_or_else(|| wrong("cut short"))
        };
        let offset = field(&head, if wide { 32 } else { 28 }, self.word)?;
        let size = field(&head, if wide { 54 } else { 42 }, 2)?;
        let count = field(&head, if wide { 56 } else { 44 }, 2)?;
        (0..count)
            .map(|i| {
                let at =
                    offset.checked_add(i * size).ok_or_else(|| wrong("a segment is outside the file"))?;
                let entry = bytes(file, at, size.min(64))?;
                let (file_at, address_at, size_at) = if wide { (8, 16, 32) } else { (4, 8, 16) };
                Ok(Segment {
                    kind: field(&entry, 0, 4)?,
                    offset: field(&entry, file_at, self.word)?,
                    address: field(&entry, address_at, self.word)?,
                    size: field(&entry, size_at, self.word)?,
                })
            })
            .collect()
    }
}

fn bytes<F: Read + Seek>(file: &mut F, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.take(length).read_to_end(&mut read)?;
    Ok(read)
}

fn text<F: Read + Seek>(file: &mut F, offset: u64) -> io::Result<String> {
    let read = bytes(file, offset, NAME_LIMIT)?;
    let end = read.iter().position(|&byte| byte == 0).ok_or_else(|| wrong("a name is not terminated"))?;
    Ok(String::from_utf8_lossy(&read[..end]).into_owned())
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::needed;
    use proptest::prelude::*;
    use std::io::Cursor;

    fn this_program() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn needed_libraries_of_this_program_include_libc() {
        let libraries = needed(&mut Cursor::new(this_program())).unwrap();
        assert!(libraries.iter().any(|name| name.starts_with("libc.so")), "{libraries:?}");
    }

    #[test]
    fn script_is_refused() {
        assert!(needed(&mut Cursor::new(b"#!/bin/sh\necho hello\n".to_vec())).is_err());
        assert!(needed(&mut Cursor::new(Vec::new())).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn damaged_header_never_panics(damage in proptest::collection::vec((0usize..1024, any::<u8>()), 1..8)) {
            use std::sync::OnceLock;
            static HEAD: OnceLock<Vec<u8>> = OnceLock::new();
            let mut file = HEAD.get_or_init(|| this_program()[..4096].to_vec()).clone();
            for (at, byte) in damage {
                file[at] = byte;
            }
            let _ = needed(&mut Cursor::new(file));
        }
    }
}
