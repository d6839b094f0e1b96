//! Texts to be searched (files, standard input, or generated text), divided into overlapping segments.

use armature::BoxError;
use armature_apps::names;
use armature_apps::terminal::{Reader as Lines, eprint_line};
use armature_files::regular;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Maximum size of a segment in bytes, without the overlap with the next segment. Positions in a segment have 32 bits.
pub const MAX_SEGMENT: usize = 256 << 20;

/// Generated text that is never stored: `text` repeated up to `size` bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Repeated {
    /// Repeated bytes; not empty.
    pub text: Vec<u8>,
    /// Number of bytes of all repetitions. The last repetition may be incomplete.
    pub size: u64,
}

/// Text to be searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// File that the user has named.
    File(PathBuf),
    /// File below a directory that the user has named. It is skipped if it cannot be opened.
    Below(PathBuf),
    /// Standard input.
    Standard,
    /// Generated texts, one after another.
    Generated(Vec<Repeated>),
}

impl Part {
    /// Returns the name of the text in the output.
    pub fn name(&self) -> &Path {
        match self {
            Part::File(path) | Part::Below(path) => path,
            Part::Standard => Path::new("-"),
            Part::Generated(_) => Path::new("generated"),
        }
    }

    fn size(&self) -> Option<u64> {
        match self {
            Part::File(path) | Part::Below(path) => fs::metadata(path).ok().map(|found| found.len()),
            Part::Standard => None,
            Part::Generated(pieces) => Some(pieces.iter().map(|piece| piece.size).sum()),
        }
    }

    /// Opens the text behind its first `start` bytes; standard input is always read from its beginning. Returns `None` and prints a message if the
    /// text is skipped.
    fn open(&self, start: u64) -> Result<Option<Box<dyn Read + Send>>, BoxError> {
        let refused = |path: &Path, e: io::Error| format!("cannot read {}: {e}", names::path(path));
        let opened = |path: &Path| {
            let mut file = regular::open(path)?;
            file.seek(SeekFrom::Start(start))?;
            Ok(file)
        };
        Ok(Some(match self {
            Part::File(path) => Box::new(opened(path).map_err(|e| refused(path, e))?),
            Part::Below(path) => match opened(path) {
                Ok(file) => Box::new(file),
                Err(e) => {
                    eprint_line(format_args!("skipped {}: {e}", names::path(path)));
                    return Ok(None);
                }
            },
            Part::Standard => Box::new(io::stdin()),
            Part::Generated(pieces) => {
                let (mut all, mut start): (Box<dyn Read + Send>, _) = (Box::new(io::empty()), start);
                for piece in pieces {
                    let skipped = start.min(piece.size);
                    all = Box::new(all.chain(Repeating::new(piece, skipped)));
                    start -= skipped;
                }
                all
            }
        }))
    }
}

/// Returns the texts that a command line names: a file, standard input for `-`, or all regular files below a directory in the order of their names.
/// Links below the directory are not followed. A subdirectory that cannot be read is skipped with a message.
///
/// # Errors
/// The file or directory cannot be read.
pub fn parts(path: &Path) -> Result<Vec<Part>, BoxError> {
    if path == Path::new("-") {
        return Ok(vec![Part::Standard]);
    }
    let refused = |e: io::Error| format!("cannot read {}: {e}", names::path(path));
    if !fs::metadata(path).map_err(refused)?.is_dir() {
        return Ok(vec![Part::File(path.into())]);
    }
    let mut files = Vec::new();
    let mut waiting = vec![path.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        match list(&directory, &mut files) {
            Ok(below) => waiting.extend(below),
            Err(e) if directory == path => return Err(refused(e).into()),
            Err(e) => eprint_line(format_args!("skipped {}: {e}", names::path(&directory))),
        }
    }
    files.sort_unstable();
    Ok(files.into_iter().map(Part::Below).collect())
}

fn list(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<Vec<PathBuf>> {
    let mut below = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            below.push(entry.path());
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(below)
}

struct Repeating {
    /// Several repetitions of the text. One read then copies many bytes at once.
    block: Vec<u8>,
    at: usize,
    left: u64,
}

impl Repeating {
    fn new(piece: &Repeated, start: u64) -> Self {
        const BLOCK: usize = 64 << 10;
        let block = piece.text.repeat(BLOCK.div_ceil(piece.text.len()));
        let at = (start % block.len() as u64) as usize;
        Repeating { block, at, left: piece.size - start }
    }
}

impl Read for Repeating {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let count = buffer.len().min(self.block.len() - self.at).min(left);
        buffer[..count].copy_from_slice(&self.block[self.at..][..count]);
        self.at = (self.at + count) % self.block.len();
        self.left -= count as u64;
        Ok(count)
    }
}

/// Segment of a text, followed by the first bytes of the next segments: one byte less than the longest pattern has. These bytes contain the whole of
/// every match that begins in the segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Index of the text to which the segment belongs.
    pub part: u32,
    /// Offset of the segment in the text.
    pub start: u64,
    /// Number of bytes of the segment up to the beginning of the next segment.
    pub own: usize,
    /// Bytes of the segment, followed by the bytes of the next segments that a match may extend into.
    pub bytes: Bytes,
}

/// Sizes for the division of texts into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Size of a segment in bytes, without the overlap; at least 1.
    pub segment: usize,
    /// Number of bytes that a segment contains of the next segments: one less than the length of the longest pattern.
    pub overlap: usize,
}

/// Iterator over the segments of texts, in order. Only one segment and its overlap with the next segments are in memory.
pub struct Segments<'p> {
    parts: &'p [Part],
    cut: Cut,
    /// Handle that shows whether the reader of standard output has closed it. If so, the iterator ends.
    lines: Lines,
    next: usize,
    text: Option<Box<dyn Read + Send>>,
    /// `start` is the offset of the next segment, and `read` its bytes that have been read.
    start: u64,
    read: Vec<u8>,
    left: Option<usize>,
    failed: bool,
}

impl<'p> Segments<'p> {
    /// Creates the iterator over the segments of the texts in `parts`.
    pub fn new(parts: &'p [Part], cut: Cut, lines: Lines) -> Self {
        let sizes = parts.iter().map(Part::size);
        let left: Option<u64> = sizes.map(|size| Some(size?.div_ceil(cut.segment as u64))).sum();
        let left = left.and_then(|left| usize::try_from(left).ok());
        let read = Vec::new();
        Segments { parts, cut, lines, next: 0, text: None, start: 0, read, left, failed: false }
    }

    /// Skips the first `count` segments, which an earlier job has searched, without reading them.
    ///
    /// # Errors
    /// A text cannot be opened, or the texts of known size have fewer segments.
    pub fn skip_unread(mut self, mut count: u64) -> Result<Self, BoxError> {
        let segment = self.cut.segment as u64;
        self.left = self.left.map(|left| left.saturating_sub(count as usize));
        while count > 0 {
            let part = self.parts.get(self.next).ok_or("the texts have become shorter")?;
            let skipped = count.min(part.size().unwrap_or(0).div_ceil(segment));
            self.next += 1;
            let Some(text) = part.open(skipped * segment)? else { continue };
            (self.text, self.start, count) = (Some(text), skipped * segment, count - skipped);
        }
        Ok(self)
    }

    fn advance(&mut self) -> Result<Option<Segment>, BoxError> {
        let whole = self.cut.segment + self.cut.overlap;
        loop {
            let Some(text) = &mut self.text else {
                let Some(part) = self.parts.get(self.next) else { return Ok(None) };
                self.next += 1;
                (self.text, self.start, self.read) = (part.open(0)?, 0, Vec::new());
                continue;
            };
            // The buffer is not allocated for a whole segment in advance, because a text may be much shorter than a segment.
            let missing = (whole - self.read.len()) as u64;
            let part = self.next - 1;
            let came = text
                .take(missing)
                .read_to_end(&mut self.read)
                .map_err(|e| format!("cannot read {}: {e}", names::path(self.parts[part].name())))?;
            // A read that returns fewer bytes than requested has reached the end of the text.
            let ends = (came as u64) < missing && self.read.len() <= self.cut.segment;
            let own = self.read.len().min(self.cut.segment);
            let mut behind = Vec::new();
            if ends {
                self.text = None;
            } else {
                behind.reserve_exact(whole);
                behind.extend_from_slice(&self.read[own..]);
            }
            let bytes = Bytes::from(std::mem::replace(&mut self.read, behind));
            let start = self.start;
            self.start += own as u64;
            if own > 0 {
                return Ok(Some(Segment { part: part as u32, start, own, bytes }));
            }
        }
    }
}

impl Iterator for Segments<'_> {
    type Item = Result<Segment, BoxError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.lines.has_closed() {
            return None;
        }
        let next = self.advance().transpose();
        self.failed = matches!(next, None | Some(Err(_)));
        self.left = self.left.map(|left| left.saturating_sub(1));
        next
    }

    /// Returns the number of segments, computed from the sizes of the files before they are read. It is wrong if a file changes later.
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.map_or((0, None), |left| (left, Some(left)))
    }
}

impl std::fmt::Debug for Segments<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segments").field("cut", &self.cut).field("next", &self.next).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn repeated(text: &str, size: u64) -> Repeated {
        Repeated { text: text.as_bytes().to_vec(), size }
    }

    fn cut(parts: &[Part], segment: usize, overlap: usize) -> Vec<Segment> {
        Segments::new(parts, Cut { segment, overlap }, Lines::default()).map(Result::unwrap).collect()
    }

    fn written(text: &[u8]) -> (tempfile::TempDir, Vec<Part>) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("text"), text).unwrap();
        let parts = parts(&dir.path().join("text")).unwrap();
        (dir, parts)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn segments_cover_the_text_and_overlap(
            text in proptest::collection::vec(any::<u8>(), 0..200),
            segment in 1_usize..40,
            overlap in 0_usize..60,
        ) {
            let (_dir, parts) = written(&text);
            let segments = cut(&parts, segment, overlap);
            prop_assert_eq!(segments.len(), text.len().div_ceil(segment));
            let mut start = 0;
            for found in segments {
                prop_assert_eq!(found.start, start as u64);
                let end = text.len().min(start + segment);
                prop_assert_eq!(found.own, end - start);
                prop_assert_eq!(&found.bytes[..], &text[start..text.len().min(end + overlap)]);
                start = end;
            }
        }
    }

    #[test]
    fn generated_pieces_are_concatenated_and_truncated() {
        let parts = [Part::Generated(vec![repeated("foobar", 14), repeated("x", 3)])];
        let segments = cut(&parts, 100, 5);
        assert_eq!(&segments[0].bytes[..], b"foobarfoobarfoxxx");
        let long = cut(&[Part::Generated(vec![repeated("abc", 1_000_000)])], 300_007, 0);
        let text: Vec<u8> = long.iter().flat_map(|s| s.bytes.to_vec()).collect();
        assert!(text.len() == 1_000_000 && text.chunks(3).all(|c| b"abc".starts_with(c)));
    }

    #[test]
    fn segments_are_skipped_without_reading_them() {
        let (_dir, file) = written(b"0123456789");
        let generated = Part::Generated(vec![repeated("foobar", 14), repeated("z", 0), repeated("xy", 5)]);
        let missing = Part::Below("/no/such".into());
        let parts = [&file[..], &[generated, missing], &file[..], &[Part::Generated(Vec::new())]].concat();
        for (segment, overlap) in [(1, 0), (4, 1), (5, 9), (100, 3)] {
            let all = cut(&parts, segment, overlap);
            for count in 0..=all.len() {
                let segments = Segments::new(&parts, Cut { segment, overlap }, Lines::default());
                let rest: Vec<_> = segments.skip_unread(count as u64).unwrap().map(Result::unwrap).collect();
                assert_eq!(rest, all[count..], "{count} of segments of {segment}");
            }
            let segments = Segments::new(&parts, Cut { segment, overlap }, Lines::default());
            assert!(segments.skip_unread(all.len() as u64 + 1).is_err());
        }
    }

    #[test]
    fn size_hint_is_exact_if_all_sizes_are_known() {
        let parts = [Part::Generated(vec![repeated("a", 10)]), Part::Generated(vec![repeated("b", 4)])];
        let mut segments = Segments::new(&parts, Cut { segment: 4, overlap: 2 }, Lines::default());
        assert_eq!(segments.size_hint(), (4, Some(4)));
        segments.next();
        assert_eq!(segments.size_hint(), (3, Some(3)));
        assert_eq!(segments.count(), 3);
        let endless = [Part::Standard];
        assert_eq!(
            Segments::new(&endless, Cut { segment: 4, overlap: 2 }, Lines::default()).size_hint().1,
            None
        );
    }

    #[test]
    fn files_below_a_directory_are_sorted_without_links() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        for (name, text) in [("b/z", "first"), ("c", ""), ("d", "last")] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        std::os::unix::fs::symlink(dir.path().join("d"), dir.path().join("a")).unwrap();
        let parts = parts(dir.path()).unwrap();
        let names: Vec<_> = parts.iter().map(Part::name).collect();
        assert!(names.len() == 3 && names[0].ends_with("b/z") && names[1].ends_with("c"), "{names:?}");
        let segments = cut(&parts, 100, 3);
        assert_eq!(segments.iter().map(|s| s.part).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn missing_named_file_is_an_error_and_missing_found_file_is_skipped() {
        assert!(parts(Path::new("/no/such")).unwrap_err().to_string().contains("cannot read /no/such"));
        let device = [Part::File("/dev/null".into())];
        let mut segments = Segments::new(&device, Cut { segment: 4, overlap: 2 }, Lines::default());
        assert!(segments.next().unwrap().unwrap_err().to_string().contains("expected a regular file"));
        assert!(segments.next().is_none());
        assert_eq!(cut(&[Part::Below("/no/such".into())], 4, 2), []);
    }
}
