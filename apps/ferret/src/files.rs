//! The images of a directory, in an order that does not depend on the file system.

use armature_files::regular;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Longest image file that is read, in bytes: 40 megapixels of sixteen-bit colour and transparency, unpacked.
pub const MAX_FILE: u64 = 320 << 20;

/// Image files below a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    root: PathBuf,
    names: Vec<String>,
    refused: Vec<String>,
}

impl Listing {
    /// Lists the regular files ending in `.png`, `.jpg` or `.jpeg` (in any case) below `path`, or `path` itself
    /// if it is a file. Symbolic links below `path` are not followed, so every image is listed once.
    ///
    /// # Errors
    /// If `path` or a directory below it cannot be read; the error names it.
    pub fn of(path: &Path) -> io::Result<Self> {
        let at = |path: &Path, e: io::Error| {
            io::Error::new(e.kind(), format!("cannot read {}: {e}", path.display()))
        };
        let mut listing = Listing { root: path.to_owned(), names: Vec::new(), refused: Vec::new() };
        let found = fs::metadata(path).map_err(|e| at(path, e))?;
        if !found.is_dir() {
            // Neither a directory nor an image.
            regular::open(path).map_err(|e| at(path, e))?;
            listing.root = path.parent().unwrap_or(Path::new("")).to_owned();
            listing.add(path.to_owned());
        } else {
            let mut waiting = vec![path.to_owned()];
            while let Some(directory) = waiting.pop() {
                for entry in fs::read_dir(&directory).map_err(|e| at(&directory, e))? {
                    let entry = entry.map_err(|e| at(&directory, e))?;
                    let kind = entry.file_type().map_err(|e| at(&entry.path(), e))?;
                    if kind.is_dir() {
                        waiting.push(entry.path());
                    } else if kind.is_file() && is_image(&entry.path()) {
                        listing.add(entry.path());
                    }
                }
            }
        }
        listing.names.sort_unstable();
        listing.refused.sort_unstable();
        Ok(listing)
    }

    fn add(&mut self, path: PathBuf) {
        let relative = path.strip_prefix(&self.root).unwrap_or(&path);
        let parts: Option<Vec<&str>> = relative.iter().map(|part| part.to_str()).collect();
        match parts {
            Some(parts) => self.names.push(parts.join("/")),
            None => self.refused.push(relative.to_string_lossy().into_owned()),
        }
    }

    /// Names relative to the directory, with `/` between the parts, in ascending order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Files whose names are not UTF-8, for a message to the user.
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// Where the file of this name is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The content of the file of this name.
    ///
    /// # Errors
    /// If the file cannot be read or is longer than [`MAX_FILE`].
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = regular::open(&self.path(name))?;
        let length = file.metadata()?.len();
        if length > MAX_FILE {
            let text = format!("{length} bytes are too many for an image: at most {MAX_FILE}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let mut bytes = Vec::with_capacity(length as usize);
        // The file may grow while it is being read.
        file.take(MAX_FILE).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    ["png", "jpg", "jpeg"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_images_only_in_order_and_without_links() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("b/c")).unwrap();
        for name in ["b/c/2.png", "b/1.JPG", "a.jpeg", "b.txt", "z.png"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(dir.path().join("a.jpeg"), dir.path().join("link.png")).unwrap();
        let listing = Listing::of(dir.path()).unwrap();
        assert_eq!(listing.names(), ["a.jpeg", "b/1.JPG", "b/c/2.png", "z.png"]);
        assert_eq!(listing.read("b/c/2.png").unwrap(), b"x");
        let single = Listing::of(&dir.path().join("b/1.JPG")).unwrap();
        assert_eq!(single.names(), ["1.JPG"]);
        assert!(single.path("1.JPG").is_file());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn names_that_are_not_text_are_set_apart() {
        use std::os::unix::ffi::OsStrExt;
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"\xff.png")), "x").unwrap();
        let listing = Listing::of(dir.path()).unwrap();
        assert!(listing.names().is_empty());
        assert_eq!(listing.refused().len(), 1);
    }

    #[test]
    fn a_file_too_long_for_an_image_takes_no_memory() {
        let dir = tempfile::tempdir().unwrap();
        // Sparse: it takes no space on the disk either.
        fs::File::create(dir.path().join("huge.png")).unwrap().set_len(1 << 40).unwrap();
        let listing = Listing::of(dir.path()).unwrap();
        assert!(listing.read("huge.png").unwrap_err().to_string().contains("too many for an image"));
    }

    #[test]
    fn a_missing_directory_is_named() {
        let text = Listing::of(Path::new("/nonexistent/images")).unwrap_err().to_string();
        assert!(text.contains("/nonexistent/images"), "{text}");
    }
}
