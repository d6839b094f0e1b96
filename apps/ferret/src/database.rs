//! Database file: names and regions of all images, and the settings of the hash tables that find similar regions.
//!
//! Layout of version 1; all numbers are little-endian:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `FERRETDB` |
//! | 4 + 4 | version; numbers in a vector |
//! | 8 | length of the body |
//! | body | hash settings: tables, hashes, probes (4 each), width (4, float), seed (8) |
//! | | number of images (4), then for each, in the order of the names: |
//! | | length of the name (4), name in UTF-8, number of regions (4), and for each region its weight (4) and its vector (floats) |
//! | 8 | FNV-1a checksum of everything before |
//!
//! The hash tables follow from this content. They are rebuilt when the file is opened, which takes less time than reading them would.

use crate::features::{DIMENSIONS, Region, TOTAL_WEIGHT, Vector};
use crate::fingerprint::Fingerprint;
use crate::lsh::Settings;
use crate::segment::MAX_REGIONS;
use armature_apps::names::{self, escaped};
use armature_files::{output::Output, regular};
use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, Read, Write};
use std::path::Path;

pub(crate) const MAGIC: &[u8; 8] = b"FERRETDB";
const VERSION: u32 = 1;
const HEADER: usize = 24;
pub(crate) const COUNT_AT: usize = HEADER + 24;
pub(crate) const CHECKSUM: usize = 8;
const REGION: usize = 4 + 4 * DIMENSIONS;
/// Maximum length of a name in bytes, which is the maximum length of a path on Linux.
const MAX_NAME: usize = 4096;

/// Image of a database: its name and the description of its regions.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Name relative to the indexed directory, with `/` as separator.
    pub name: String,
    /// Regions of the image. The sum of their weights is [`TOTAL_WEIGHT`].
    pub regions: Vec<Region>,
}

/// Database of searchable images, in the order of their names.
#[derive(Clone, Debug, PartialEq)]
pub struct Database {
    entries: Vec<Entry>,
    settings: Settings,
}

/// Reason for which a database file cannot be created, written or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseError(String);

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DatabaseError {}

fn error(text: impl Into<String>) -> DatabaseError {
    DatabaseError(text.into())
}

impl Database {
    /// Creates a database from images in any order.
    ///
    /// # Errors
    /// Two images have the same name; a name is empty or longer than 4096 bytes; the regions of an image are missing, too many, not finite, or
    /// have a wrong total weight; or a setting is out of range.
    ///
    /// ```
    /// use ferret::database::{Database, Entry};
    /// use ferret::features::{Region, TOTAL_WEIGHT};
    /// let regions = vec![Region { weight: TOTAL_WEIGHT, vector: [0.5; 14] }];
    /// let entry = Entry { name: "birds/kite.png".into(), regions };
    /// let database = Database::new(vec![entry], Default::default()).unwrap();
    /// let bytes = database.to_bytes();
    /// assert_eq!(Database::from_bytes(&bytes).unwrap(), database);
    /// assert!(Database::from_bytes(&bytes[..bytes.len() - 1]).is_err());
    /// ```
    pub fn new(mut entries: Vec<Entry>, settings: Settings) -> Result<Self, DatabaseError> {
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let database = Database { entries, settings };
        database.check()?;
        Ok(database)
    }

    fn check(&self) -> Result<(), DatabaseError> {
        if !self.settings.are_valid() {
            return Err(error(format!("hash table settings out of range: {:?}", self.settings)));
        }
        if u32::try_from(self.entries.len()).is_err() {
            return Err(error(format!("{} images exceed the limit of a database", self.entries.len())));
        }
        for entry in &self.entries {
            entry.check()?;
        }
        match self.entries.windows(2).find(|pair| pair[0].name >= pair[1].name) {
            Some(pair) if pair[0].name == pair[1].name => {
                Err(error(format!("two images are called {}", escaped(&pair[0].name))))
            }
            Some(pair) => {
                let [first, second] = [0, 1].map(|i| escaped(&pair[i].name));
                Err(error(format!("{first} and {second} are out of order")))
            }
            None => Ok(()),
        }
    }

    /// Returns the images in the order of their names.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the index, in the order of the names, of the image with this name, if there is one.
    pub fn number_of(&self, name: &str) -> Option<u32> {
        let place = self.entries.binary_search_by(|entry| entry.name.as_str().cmp(name));
        place.ok().map(|number| number as u32)
    }

    /// Returns the number of images.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if the database has no images.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the settings of the hash tables.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Returns the content of the database file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut file = Vec::new();
        file.extend_from_slice(MAGIC);
        file.extend_from_slice(&VERSION.to_le_bytes());
        file.extend_from_slice(&(DIMENSIONS as u32).to_le_bytes());
        file.extend_from_slice(&[0; 8]);
        for number in [self.settings.tables, self.settings.hashes, self.settings.probes] {
            file.extend_from_slice(&number.to_le_bytes());
        }
        file.extend_from_slice(&self.settings.width.to_le_bytes());
        file.extend_from_slice(&self.settings.seed.to_le_bytes());
        file.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        for entry in &self.entries {
            file.extend_from_slice(&(entry.name.len() as u32).to_le_bytes());
            file.extend_from_slice(entry.name.as_bytes());
            file.extend_from_slice(&(entry.regions.len() as u32).to_le_bytes());
            for region in &entry.regions {
                file.extend_from_slice(&region.weight.to_le_bytes());
                region.vector.iter().for_each(|v| file.extend_from_slice(&v.to_le_bytes()));
            }
        }
        let body = (file.len() - HEADER) as u64;
        file[16..HEADER].copy_from_slice(&body.to_le_bytes());
        let checksum = fnv1a(&file);
        file.extend_from_slice(&checksum.to_le_bytes());
        file
    }

    /// Parses the content of a database file.
    ///
    /// # Errors
    /// The content is no database, has another version, is truncated, or is damaged. Allocations are limited by the length of the content.
    pub fn from_bytes(file: &[u8]) -> Result<Self, DatabaseError> {
        if !file.starts_with(MAGIC) {
            return Err(error("not a ferret database (it does not begin with FERRETDB)"));
        }
        let mut header = Reader { rest: &file[MAGIC.len()..], total: file.len() };
        let version = header.u32()?;
        if version != VERSION {
            return Err(error(format!(
                "it has database version {version}; this program reads version {VERSION}"
            )));
        }
        let dimensions = header.u32()?;
        if dimensions as usize != DIMENSIONS {
            return Err(error(format!("its vectors have {dimensions} numbers, expected {DIMENSIONS}")));
        }
        let body = header.u64()?;
        let expected = body.checked_add((HEADER + CHECKSUM) as u64);
        if expected != Some(file.len() as u64) {
            return Err(error(format!(
                "the file is {} bytes long but announces a body of {body}: cut off or damaged",
                file.len()
            )));
        }
        let (content, checksum) = file.split_at(file.len() - CHECKSUM);
        if fnv1a(content).to_le_bytes() != checksum {
            return Err(error("the checksum does not match: the file is damaged"));
        }
        let database = Reader { rest: &content[HEADER..], total: file.len() }.database()?;
        database.check()?;
        Ok(database)
    }

    /// Writes the database to `output`. A file appears completely or not at all.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn save(&self, mut output: Output) -> io::Result<()> {
        output.write_all(&self.to_bytes())?;
        output.commit()
    }

    /// Reads a database file. The file must be a regular file, because every rank reads the file, and a pipe can only be read once.
    ///
    /// # Errors
    /// The file cannot be read or [is no usable database](Database::from_bytes). The error names the file.
    pub fn open(path: &Path) -> Result<Self, DatabaseError> {
        Ok(Self::open_with_fingerprint(path)?.0)
    }

    /// Reads a database file, and returns the database with its fingerprint.
    ///
    /// # Errors
    /// The errors of [`open`](Database::open).
    pub fn open_with_fingerprint(path: &Path) -> Result<(Self, Fingerprint), DatabaseError> {
        let refuse = |e: &dyn fmt::Display| DatabaseError::of(path, e);
        let mut file = Vec::new();
        open_file(path)?.read_to_end(&mut file).map_err(|e| refuse(&e))?;
        let database = Self::from_bytes(&file).map_err(|e| refuse(&e))?;
        let fingerprint = Fingerprint::of(&mut Cursor::new(file)).map_err(|e| refuse(&e))?;
        Ok((database, fingerprint))
    }
}

pub(crate) fn open_file(path: &Path) -> Result<File, DatabaseError> {
    if path.is_dir() {
        return Err(DatabaseError::of(path, "it is a directory; expected the output of `ferret index`"));
    }
    regular::open(path).map_err(|e| DatabaseError::of(path, e))
}

impl DatabaseError {
    pub(crate) fn of(path: &Path, what: impl fmt::Display) -> Self {
        error(format!("cannot use the database {}: {what}", names::path(path)))
    }
}

impl Entry {
    fn check(&self) -> Result<(), DatabaseError> {
        let wrong = |what: &str| Err(error(format!("image {}: {what}", escaped(&self.name))));
        if self.name.is_empty() || self.name.len() > MAX_NAME {
            return wrong("the name must have between 1 and 4096 bytes");
        }
        if !(1..=MAX_REGIONS).contains(&self.regions.len()) {
            return wrong(&format!("{} regions; expected 1 to {MAX_REGIONS}", self.regions.len()));
        }
        let weight: u64 = self.regions.iter().map(|r| u64::from(r.weight)).sum();
        if weight != u64::from(TOTAL_WEIGHT) {
            return wrong(&format!("the weights sum to {weight}; expected {TOTAL_WEIGHT}"));
        }
        if !self.regions.iter().flat_map(|r| &r.vector).all(|v| v.is_finite() && v.abs() < 1e3) {
            return wrong("a vector holds a number out of range");
        }
        Ok(())
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Reader<'a> {
    fn take_bytes(&mut self, count: usize) -> Result<&'a [u8], DatabaseError> {
        let Some((bytes_taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(error(format!("the file ends too early, after {} bytes", self.total)));
        };
        self.rest = rest;
        Ok(bytes_taken)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], DatabaseError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take_bytes(N)?);
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, DatabaseError> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn u64(&mut self) -> Result<u64, DatabaseError> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    fn f32(&mut self) -> Result<f32, DatabaseError> {
        Ok(f32::from_le_bytes(self.bytes()?))
    }

    fn database(mut self) -> Result<Database, DatabaseError> {
        let (tables, hashes, probes) = (self.u32()?, self.u32()?, self.u32()?);
        let settings = Settings { tables, hashes, probes, width: self.f32()?, seed: self.u64()? };
        let count = self.u32()? as usize;
        // The file's length limits the initial capacity, because a damaged count must not cause a huge allocation. The smallest image has a name of
        // one byte and one region.
        let mut entries = Vec::with_capacity(count.min(self.rest.len() / (4 + 1 + 4 + REGION)));
        for _ in 0..count {
            entries.push(self.entry()?);
        }
        if !self.rest.is_empty() {
            return Err(error(format!("{} bytes follow the last image", self.rest.len())));
        }
        Ok(Database { entries, settings })
    }

    fn entry(&mut self) -> Result<Entry, DatabaseError> {
        let length = self.u32()? as usize;
        let name = std::str::from_utf8(self.take_bytes(length)?)
            .map_err(|_| error("an image's name is not UTF-8"))?
            .to_owned();
        let count = self.u32()? as usize;
        if count > MAX_REGIONS {
            return Err(error(format!(
                "image {}: {count} regions; expected at most {MAX_REGIONS}",
                escaped(&name)
            )));
        }
        let mut regions = Vec::with_capacity(count);
        for _ in 0..count {
            let weight = self.u32()?;
            let mut vector: Vector = [0.0; DIMENSIONS];
            for number in &mut vector {
                *number = self.f32()?;
            }
            regions.push(Region { weight, vector });
        }
        Ok(Entry { name, regions })
    }
}

/// Returns the 64-bit FNV-1a hash. Every step is a bijection of the state, so that a single changed byte is always detected.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
#[path = "database_tests.rs"]
mod tests;
