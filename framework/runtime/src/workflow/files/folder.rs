//! Directory in which the commands of a rank run, with files that were received from other ranks.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use armature_files::fresh;
use armature_files::private::PrivateDir;
use armature_files::regular::{self, Links};

use super::pieces::PIECE;
use super::table::OURS;
use super::{FilePiece, PieceHead, PieceRequest};
use crate::comm::Part;
use crate::session::output_file;

/// Bits of a file's mode that are sent with the file: the permissions to read, write and execute.
const PERMISSIONS: u32 = 0o777;

#[derive(Debug)]
pub(in crate::workflow) struct Folder {
    path: PathBuf,
    /// Directory that this rank has created for the run and will remove; `None` on rank 0.
    own: Option<PrivateDir>,
    /// Random part of the names of incomplete files, so that no other user can guess them.
    token: String,
}

impl Folder {
    /// Opens the directory of a rank: on rank 0 `directory` itself, and on any other rank a new directory within it, because several ranks may run
    /// on one host.
    pub(super) fn new(directory: &Path, rank: usize) -> Result<Self, String> {
        let wrong =
            |error: io::Error| format!("cannot use the directory {} for files: {error}", directory.display());
        let directory = std::path::absolute(directory).map_err(wrong)?;
        if rank == 0 {
            let path = directory.canonicalize().map_err(wrong)?;
            return Ok(Folder { path, own: None, token: fresh() });
        }
        fs::create_dir_all(&directory).map_err(wrong)?;
        let directory = directory.canonicalize().map_err(wrong)?;
        let own = PrivateDir::create(&directory, &format!("{OURS}rank-")).map_err(wrong)?;
        let path = own.path().join("files");
        fs::create_dir(&path).map_err(wrong)?;
        Ok(Folder { path, own: Some(own), token: fresh() })
    }

    pub(in crate::workflow) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the file for the standard output of this rank's commands; `None` on rank 0, where the program chooses the file.
    pub(in crate::workflow) fn output(&self) -> Option<PathBuf> {
        self.own.as_ref().map(|own| own.path().join("output"))
    }

    /// Returns the path of the file `name` in the directory, or an error if a symbolic link on the path leads out of the directory.
    fn place(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        let parent = path.parent().unwrap_or(&self.path);
        match parent.canonicalize()?.starts_with(&self.path) {
            true => Ok(path),
            false => Err(leads_out()),
        }
    }

    pub(in crate::workflow) fn make_room<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<(), String> {
        for name in names {
            let path = self.path.join(name);
            let parent = path.parent().unwrap_or(&self.path);
            // Only the part of a file's path that exists already can contain symbolic links. If that part lies in the directory of the commands, so
            // do the parent directories that are created.
            let there = parent.ancestors().find_map(|above| above.canonicalize().ok());
            let created = match there.is_some_and(|there| there.starts_with(&self.path)) {
                true => fs::create_dir_all(parent),
                false => Err(leads_out()),
            };
            created.map_err(|error| format!("cannot create the directory of {name:?}: {error}"))?;
        }
        Ok(())
    }

    /// Removes the files `names` that an earlier try or run has left, so that they are not taken for outputs of the next try.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub(in crate::workflow) fn clear<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<(), String> {
        for name in names {
            let removed = self.place(name).and_then(|path| match fs::symlink_metadata(&path) {
                // A directory with the name of an output file is not removed.
                Ok(found) if !found.is_dir() => fs::remove_file(&path),
                _ => Ok(()),
            });
            removed.map_err(|error| {
                format!("cannot remove {name:?}, which an earlier try or run has left: {error}")
            })?;
        }
        Ok(())
    }

    /// Checks that the file `name` exists and can be sent to another rank.
    ///
    /// # Errors
    /// The file cannot be sent, with the reason as text.
    pub(in crate::workflow) fn check(&self, name: &str) -> Result<(), String> {
        let open = || regular::open_with(&self.place(name)?, OpenOptions::new().read(true), Links::Refused);
        open().map(drop).map_err(|error| match error.kind() {
            ErrorKind::NotFound => "there is no such file".to_string(),
            _ => error.to_string(),
        })
    }

    pub(in crate::workflow) fn read(&self, name: &str, request: PieceRequest) -> FilePiece {
        let piece = self.place(name).and_then(|path| read(&path, Links::Refused, request));
        piece.unwrap_or_else(|error| FilePiece::refused(request, format!("cannot read {name:?}: {error}")))
    }

    pub(in crate::workflow) fn read_output(&self, request: PieceRequest) -> FilePiece {
        let piece = self.output().ok_or_else(|| ErrorKind::NotFound.into());
        let piece = piece.and_then(|path| read(&path, Links::Refused, request));
        piece.unwrap_or_else(|error| FilePiece::refused(request, error.to_string()))
    }

    /// Writes a received piece of a file to an incomplete copy. After the last piece the copy is renamed to the name of the file.
    pub(in crate::workflow) fn write(
        &self,
        name: &str,
        head: &PieceHead,
        bytes: &[u8],
    ) -> Result<(), String> {
        let refused = |why: String| format!("cannot write {name:?} in {}: {why}", self.path.display());
        self.make_room([name]).map_err(refused)?;
        let write = || {
            let path = self.place(name)?;
            if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
                return Err(io::Error::new(
                    ErrorKind::IsADirectory,
                    "is a directory, expected a regular file",
                ));
            }
            write(&self.incomplete_path(&path, head.file), &path, head, bytes)
        };
        write().map_err(|error| refused(error.to_string()))
    }

    pub(in crate::workflow) fn forget(&self, name: &str, file: usize) {
        // An error is ignored: there is no incomplete copy if no piece of the file has arrived.
        let _ = fs::remove_file(self.incomplete_path(&self.path.join(name), file));
    }

    fn incomplete_path(&self, path: &Path, file: usize) -> PathBuf {
        path.with_file_name(format!("{OURS}part-{}-{file}", self.token))
    }

    /// Writes a received piece of the standard output of a rank's commands to a file in `directory`. If a file of an earlier run exists, the new
    /// file gets another name.
    pub(in crate::workflow) fn write_output(
        &self,
        directory: &Path,
        rank: usize,
        head: &PieceHead,
        bytes: &[u8],
    ) -> Result<(), String> {
        let name = |number: u32| match number {
            1 => output_file(rank),
            _ => format!("{number}-{}", output_file(rank)),
        };
        let mut paths = (1..).map(|number| directory.join(name(number)));
        let path = paths.find(|path| !path.exists()).unwrap_or_else(|| directory.join(name(1)));
        write(&self.incomplete_path(&path, head.file), &path, head, bytes).map_err(|error| {
            format!("cannot write the output of commands on rank {rank} to {}: {error}", path.display())
        })
    }
}

fn leads_out() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "a symbolic link in its path leads out of the directory")
}

fn read(path: &Path, links: Links, request: PieceRequest) -> io::Result<FilePiece> {
    let mut file = regular::open_with(path, OpenOptions::new().read(true), links)?;
    let found = file.metadata()?;
    let PieceRequest { file: number, offset } = request;
    let length = found.len().saturating_sub(offset).min(PIECE);
    let mut bytes = Vec::with_capacity(length as usize);
    file.seek(SeekFrom::Start(offset))?;
    file.take(length).read_to_end(&mut bytes)?;
    let mode = found.permissions().mode() & PERMISSIONS;
    let head = PieceHead { file: number, offset, total: found.len(), mode, refusal: None };
    Ok(FilePiece { head, bytes: Part::of(bytes) })
}

/// Writes a piece of a file to the incomplete copy `part`, which is renamed to `path` after the last piece.
fn write(part: &Path, path: &Path, head: &PieceHead, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    if head.offset == 0 {
        // An incomplete copy that exists already is left from a transfer that was not completed, for example because the sender died.
        let _ = fs::remove_file(part);
        options.create_new(true);
    }
    let mut file = regular::open_with(part, &mut options, Links::Refused)?;
    file.seek(SeekFrom::Start(head.offset))?;
    file.write_all(bytes)?;
    if head.offset + bytes.len() as u64 == head.total {
        file.set_permissions(Permissions::from_mode(head.mode & PERMISSIONS))?;
        fs::rename(part, path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn send(from: &Folder, to: &Folder, name: &str) -> Result<usize, String> {
        let (mut offset, mut pieces) = (0, 0);
        loop {
            let FilePiece { head, bytes } = from.read(name, PieceRequest { file: 5, offset });
            if let Some(why) = head.refusal {
                return Err(why);
            }
            to.write(name, &head, bytes.bytes())?;
            (offset, pieces) = (offset + bytes.len() as u64, pieces + 1);
            if offset == head.total {
                return Ok(pieces);
            }
            assert!(to.check(name).is_err(), "it is there before it is complete");
        }
    }

    fn folders() -> (tempfile::TempDir, Folder, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let (root, other) = (Folder::new(dir.path(), 0).unwrap(), Folder::new(dir.path(), 1).unwrap());
        (dir, root, other)
    }

    #[test]
    fn files_keep_their_content_and_mode() {
        let (dir, root, other) = folders();
        assert_eq!(root.path(), dir.path().canonicalize().unwrap());
        let content: Vec<u8> = (0..2 * PIECE + 7).map(|n| (n % 251) as u8).collect();
        for (name, content, pieces) in
            [("a", &content[..], 3), ("d/e/empty", &[], 1), ("x", &content[..9], 1)]
        {
            other.make_room([name]).unwrap();
            fs::write(other.path().join(name), content).unwrap();
            let mode = Permissions::from_mode(if name == "x" { 0o750 } else { 0o640 });
            fs::set_permissions(other.path().join(name), mode.clone()).unwrap();
            assert_eq!(send(&other, &root, name), Ok(pieces));
            let copy = dir.path().join(name);
            assert_eq!(fs::read(&copy).unwrap(), content);
            assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, mode.mode());
        }
        drop((root, other));
        let mut left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["a", "d", "x"], "only what rank 0 has stays");
    }

    #[test]
    fn files_outside_the_directory_and_non_regular_files_are_refused() {
        let (dir, root, other) = folders();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("f"), "secret").unwrap();
        symlink(outside.path(), dir.path().join("out")).unwrap();
        symlink(outside.path().join("f"), dir.path().join("link")).unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        let refused = |name: &str, expected: &str| {
            let why = root.check(name).unwrap_err();
            assert!(why.contains(expected), "{name}: {why}");
            assert!(send(&root, &other, name).is_err(), "{name}");
        };
        refused("none", "there is no such file");
        refused("d", "is a directory, expected a regular file");
        refused("link", "symbolic link");
        refused("out/f", "leads out of the directory");
        for name in ["out/f", "d"] {
            other.make_room([name]).unwrap();
            fs::write(other.path().join(name), "new").unwrap();
            assert!(send(&other, &root, name).unwrap_err().contains("cannot write"), "{name}");
        }
        assert_eq!(fs::read(outside.path().join("f")).unwrap(), b"secret");
        assert!(root.make_room(["out/new/f"]).unwrap_err().contains("leads out of the directory"));
        assert!(!outside.path().join("new").exists());
        // A symbolic link with the name of the received file is replaced; the target of the link stays as it is.
        fs::write(other.path().join("link"), "new").unwrap();
        send(&other, &root, "link").unwrap();
        assert_eq!(fs::read(dir.path().join("link")).unwrap(), b"new");
        assert_eq!(fs::read(outside.path().join("f")).unwrap(), b"secret");
    }

    #[test]
    fn files_of_earlier_attempts_are_removed() {
        let (dir, root, _other) = folders();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("f"), "precious").unwrap();
        symlink(outside.path(), dir.path().join("away")).unwrap();
        symlink(outside.path().join("f"), dir.path().join("link")).unwrap();
        fs::write(dir.path().join("old"), "old").unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        root.clear(["old", "link", "d", "none"]).unwrap();
        assert!(root.check("old").is_err() && root.check("link").is_err() && dir.path().join("d").is_dir());
        assert!(root.clear(["away/f"]).unwrap_err().contains("leads out of the directory"));
        assert_eq!(fs::read(outside.path().join("f")).unwrap(), b"precious");
    }

    #[test]
    fn partial_file_can_be_discarded() {
        let (dir, root, _other) = folders();
        let head = PieceHead { file: 3, offset: 0, total: 9, mode: 0o644, refusal: None };
        root.write("f", &head, b"half").unwrap();
        let parts = || {
            fs::read_dir(dir.path())
                .unwrap()
                .flatten()
                .filter(|entry| entry.file_name().to_string_lossy().contains("part"))
                .count()
        };
        assert_eq!(parts(), 1);
        root.forget("f", 3);
        assert_eq!(parts(), 0);
    }
}
