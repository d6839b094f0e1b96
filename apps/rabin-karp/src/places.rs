//! Segments of files that all ranks can read. Rank 0 sends the positions of segments instead of their bytes, and each rank reads the segments that it
//! hashes.

use crate::text::{Cut, Part, Segment};
use armature::BoxError;
use armature_apps::names;
use armature_apps::terminal::{Reader, eprint_line};
use armature_files::regular;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::vec;

/// Name, size and modification time of a file on rank 0, by which another rank detects that its file with this name is different.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileIdentity {
    path: Vec<u8>,
    size: u64,
    /// Time of the last modification: seconds since 1970, and nanoseconds.
    changed: (i64, i64),
}

impl FileIdentity {
    pub(crate) fn of(part: &Part) -> Option<Self> {
        match part {
            Part::File(path) | Part::Below(path) => open_file(path).ok().map(|(_, identity)| identity),
            Part::Standard | Part::Generated(_) => None,
        }
    }

    fn path(&self) -> PathBuf {
        OsString::from_vec(self.path.clone()).into()
    }
}

/// Position of a segment of a text: file, offset and length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    file: FileIdentity,
    part: u32,
    start: u64,
    /// Number of bytes of the segment up to the beginning of the next segment.
    own: usize,
    /// Number of bytes to read: the segment, and the bytes after it that a match may extend into.
    whole: usize,
}

/// Iterator over the positions of the segments of files, in order.
#[derive(Debug)]
pub struct Places {
    files: vec::IntoIter<(u32, FileIdentity)>,
    cut: Cut,
    /// Handle that shows whether the reader of standard output has closed it. If so, the iterator ends.
    reader: Reader,
    file: Option<(u32, FileIdentity)>,
    start: u64,
    left: usize,
}

impl Places {
    /// Creates the iterator over the segments of the files in `parts`. The iterator ends early if `reader` shows that standard output has been
    /// closed. A file below a directory is skipped with a message if it cannot be opened.
    ///
    /// # Errors
    /// A file that the user has named cannot be opened, or a part is not a file.
    pub fn new(parts: &[Part], cut: Cut, reader: Reader) -> Result<Self, BoxError> {
        let mut files = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let (path, named) = match part {
                Part::File(path) => (path, true),
                Part::Below(path) => (path, false),
                Part::Standard | Part::Generated(_) => {
                    return Err(format!(
                        "{} is not a file that ranks can read: omit --shared",
                        names::path(part.name())
                    )
                    .into());
                }
            };
            match open_file(path) {
                Ok((_, identity)) => files.push((number as u32, identity)),
                Err(e) if named => return Err(format!("cannot read {}: {e}", names::path(path)).into()),
                Err(e) => eprint_line(format_args!("skipped {}: {e}", names::path(path))),
            }
        }
        let segments: u64 =
            files.iter().map(|(_, identity)| identity.size.div_ceil(cut.segment as u64)).sum();
        let left = usize::try_from(segments)?;
        Ok(Places { files: files.into_iter(), cut, reader, file: None, start: 0, left })
    }
}

impl Iterator for Places {
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
        if self.reader.has_closed() {
            return None;
        }
        loop {
            if let Some((part, file)) = self.file.as_ref().filter(|(_, file)| self.start < file.size) {
                let (start, rest) = (self.start, file.size - self.start);
                let most = |bytes: usize| rest.min(bytes as u64) as usize;
                let (own, whole) = (most(self.cut.segment), most(self.cut.segment + self.cut.overlap));
                self.start += own as u64;
                self.left -= 1;
                return Some(Place { file: file.clone(), part: *part, start, own, whole });
            }
            (self.file, self.start) = (Some(self.files.next()?), 0);
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Places {}

/// Reader of file segments on the rank that hashes the segments.
#[derive(Debug, Default)]
pub struct PlaceReader {
    /// File of the previous segment, kept open because the next segment is probably in the same file.
    file: Option<(FileIdentity, File)>,
}

impl PlaceReader {
    /// Reads the segment at `place`.
    ///
    /// # Errors
    /// This rank cannot read the file, or sees a different file than rank 0.
    pub fn read(&mut self, place: Place) -> Result<Segment, BoxError> {
        let refused = |e: io::Error| {
            let path = place.file.path();
            format!(
                "cannot read {} on this rank: {e}; without --shared rank 0 reads it alone",
                names::path(&path)
            )
        };
        if self.file.as_ref().is_none_or(|(identity, _)| *identity != place.file) {
            let (file, identity) = open_file(&place.file.path()).map_err(refused)?;
            if identity != place.file {
                return Err(refused(io::Error::other(format!(
                    "it has {} bytes, expected the {} bytes and the modification time that rank 0 has seen",
                    identity.size, place.file.size
                )))
                .into());
            }
            self.file = Some((identity, file));
        }
        let mut bytes = vec![0; place.whole];
        if let Some((_, file)) = &self.file {
            file.read_exact_at(&mut bytes, place.start).map_err(refused)?;
        }
        Ok(Segment { part: place.part, start: place.start, own: place.own, bytes: bytes.into() })
    }
}

fn open_file(path: &Path) -> io::Result<(File, FileIdentity)> {
    let file = regular::open(path)?;
    let found = file.metadata()?;
    let identity = FileIdentity {
        path: path.as_os_str().as_bytes().to_vec(),
        size: found.len(),
        changed: (found.mtime(), found.mtime_nsec()),
    };
    Ok((file, identity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Segments;
    use std::fs;

    #[test]
    fn places_read_the_same_bytes_as_segments_of_rank_0() {
        let dir = tempfile::tempdir().unwrap();
        let parts: Vec<Part> = [&b"abracadabra"[..], b"", b"x"]
            .iter()
            .enumerate()
            .map(|(number, text)| {
                let path = dir.path().join(number.to_string());
                fs::write(&path, text).unwrap();
                Part::File(path)
            })
            .collect();
        for (segment, overlap) in [(1, 0), (3, 5), (4, 1), (11, 2), (100, 7)] {
            let cut = Cut { segment, overlap };
            let places = Places::new(&parts, cut, Reader::default()).unwrap();
            let declared = places.len();
            let mut reader = PlaceReader::default();
            let found: Vec<_> = places.map(|place| reader.read(place).unwrap()).collect();
            let expected: Vec<_> =
                Segments::new(&parts, cut, Reader::default()).map(Result::unwrap).collect();
            assert_eq!((&found, declared), (&expected, expected.len()), "{cut:?}");
        }
    }

    #[test]
    fn file_that_differs_from_rank_0_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        fs::write(&path, "abcdef").unwrap();
        let cut = Cut { segment: 4, overlap: 1 };
        let places = |part| Places::new(&[part], cut, Reader::default());
        let place = places(Part::File(path.clone())).unwrap().next().unwrap();
        let refused = || PlaceReader::default().read(place.clone()).unwrap_err().to_string();
        fs::write(&path, "abc").unwrap();
        let error = refused();
        assert!(error.contains("has 3 bytes") && error.contains("expected the 6"), "{error}");
        fs::remove_file(&path).unwrap();
        let error = refused();
        assert!(
            error.contains("on this rank: No such file") && error.contains("without --shared"),
            "{error}"
        );
        let error = places(Part::Standard).unwrap_err();
        assert!(error.to_string().contains("omit --shared"), "{error}");
    }
}
