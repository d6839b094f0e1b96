//! Listing of the images of a directory, in an order that does not depend on the file system.

use armature_apps::names;
use armature_files::regular;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Maximum size of an image file in bytes: the size of 40 megapixels of 16-bit colour with transparency, uncompressed.
pub const MAX_FILE: u64 = 320 << 20;

/// Image or directory of images that was skipped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    /// Name relative to the listed directory, as [`names::escaped`] writes it.
    pub name: String,
    /// Reason for which the image or directory was skipped.
    pub reason: String,
}

impl Skipped {
    /// Creates an entry for the image or directory `name`, whose special characters are escaped.
    pub fn new(name: &str, reason: impl Into<String>) -> Self {
        Skipped { name: names::escaped(name), reason: reason.into() }
    }
}

/// Image files below a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    root: PathBuf,
    names: Vec<String>,
    skipped: Vec<Skipped>,
}

impl Listing {
    /// Lists the regular files that end in `.png`, `.jpg` or `.jpeg` (in any case) below `path`, or `path` itself if it is a file. Symbolic links
    /// below `path` are not followed, so that every image is listed once. A directory below `path` that cannot be read is skipped.
    ///
    /// # Errors
    /// `path` itself cannot be read. The error names it.
    pub fn of(path: &Path) -> io::Result<Self> {
        let at = |path: &Path, e: io::Error| {
            io::Error::new(e.kind(), format!("cannot read {}: {e}", names::path(path)))
        };
        let mut listing = Listing { root: path.to_owned(), names: Vec::new(), skipped: Vec::new() };
        let found = fs::metadata(path).map_err(|e| at(path, e))?;
        if !found.is_dir() {
            regular::open(path).map_err(|e| at(path, e))?;
            listing.root = path.parent().unwrap_or(Path::new("")).to_owned();
            listing.add(path.to_owned());
        } else {
            let mut waiting = listing.list(path, fs::read_dir(path).map_err(|e| at(path, e))?);
            while let Some(directory) = waiting.pop() {
                match fs::read_dir(&directory) {
                    Ok(entries) => waiting.extend(listing.list(&directory, entries)),
                    Err(e) => listing.skip(&directory, format!("cannot read the directory: {e}")),
                }
            }
        }
        listing.names.sort_unstable();
        listing.skipped.sort_unstable();
        Ok(listing)
    }

    fn list(&mut self, directory: &Path, entries: fs::ReadDir) -> Vec<PathBuf> {
        let mut below = Vec::new();
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(e) => {
                    self.skip(directory, format!("cannot read the rest of the directory: {e}"));
                    break;
                }
            };
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => below.push(path),
                Ok(kind) if kind.is_file() && is_image(&path) => self.add(path),
                Ok(_) => {}
                Err(e) => self.skip(&path, format!("cannot read its file type: {e}")),
            }
        }
        below
    }

    fn add(&mut self, path: PathBuf) {
        let parts: Option<Vec<&str>> = self.relative(&path).iter().map(|part| part.to_str()).collect();
        match parts {
            Some(parts) => self.names.push(parts.join("/")),
            None => self.skip(&path, "the file's name is not UTF-8".into()),
        }
    }

    fn skip(&mut self, path: &Path, reason: String) {
        self.skipped.push(Skipped { name: names::path(self.relative(path)), reason });
    }

    fn relative<'p>(&self, path: &'p Path) -> &'p Path {
        match path.strip_prefix(&self.root) {
            Ok(relative) if relative.as_os_str().is_empty() => Path::new("."),
            Ok(relative) => relative,
            Err(_) => path,
        }
    }

    /// Returns the names of the images relative to the listed directory, with `/` as separator, in ascending order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the skipped entries in ascending order: directories that cannot be read, and files whose names are not UTF-8.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Returns the path of the listed image with this name.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the content of the listed image with this name.
    ///
    /// # Errors
    /// The file cannot be read or is longer than [`MAX_FILE`].
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = regular::open(&self.path(name))?;
        let length = file.metadata()?.len();
        if length > MAX_FILE {
            let text = format!("{length} bytes are too many for an image: at most {MAX_FILE}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let mut bytes = Vec::with_capacity(length as usize);
        // The file may have grown since its length was read.
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
    fn listing_has_only_images_in_order_without_links() {
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
    fn names_that_are_not_utf_8_are_skipped() {
        use std::os::unix::ffi::OsStrExt;
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"\xff.png")), "x").unwrap();
        let listing = Listing::of(dir.path()).unwrap();
        assert!(listing.names().is_empty());
        let name = "\\xff.png".to_string();
        assert_eq!(listing.skipped(), [Skipped { name, reason: "the file's name is not UTF-8".into() }]);
    }

    #[test]
    fn too_large_file_is_refused_without_being_read() {
        let dir = tempfile::tempdir().unwrap();
        fs::File::create(dir.path().join("huge.png")).unwrap().set_len(1 << 40).unwrap();
        let listing = Listing::of(dir.path()).unwrap();
        assert!(listing.read("huge.png").unwrap_err().to_string().contains("too many for an image"));
    }

    #[test]
    fn error_names_the_missing_directory() {
        let text = Listing::of(Path::new("/nonexistent/images")).unwrap_err().to_string();
        assert!(text.contains("/nonexistent/images"), "{text}");
    }
}
