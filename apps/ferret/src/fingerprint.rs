//! Fingerprint of a database file, read from the two ends of the file without its middle.

use crate::database::{CHECKSUM, COUNT_AT, Database, DatabaseError, MAGIC, open_file};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Identification of a database: the number of images, and the checksum of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    images: u32,
    checksum: u64,
}

impl Fingerprint {
    /// Returns the fingerprint of the database in the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read or is no database. The error names the file. Damage between the ends of the file is not detected here.
    pub fn read(path: &Path) -> Result<Self, DatabaseError> {
        match Self::of(&mut open_file(path)?) {
            Ok(fingerprint) => Ok(fingerprint),
            Err(_) => Database::open_with_fingerprint(path).map(|(_, fingerprint)| fingerprint),
        }
    }

    pub(crate) fn of(file: &mut (impl Read + Seek)) -> io::Result<Self> {
        let (mut magic, mut images, mut checksum) = ([0; MAGIC.len()], [0; 4], [0; CHECKSUM]);
        file.read_exact(&mut magic)?;
        if magic != *MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        file.seek(SeekFrom::Start(COUNT_AT as u64))?;
        file.read_exact(&mut images)?;
        file.seek(SeekFrom::End(-(CHECKSUM as i64)))?;
        file.read_exact(&mut checksum)?;
        Ok(Fingerprint { images: u32::from_le_bytes(images), checksum: u64::from_le_bytes(checksum) })
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} images, checksum {:016x}", self.images, self.checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Entry;
    use crate::features::{Region, TOTAL_WEIGHT};
    use armature_files::output::Output;
    use std::fs;

    fn database(names: &[&str]) -> Database {
        let regions = vec![Region { weight: TOTAL_WEIGHT, vector: [0.5; 14] }];
        let entry = |name: &&str| Entry { name: name.to_string(), regions: regions.clone() };
        Database::new(names.iter().map(entry).collect(), Default::default()).unwrap()
    }

    #[test]
    fn fingerprints_distinguish_databases() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let fingerprint = |names: &[&str]| {
            database(names).save(Output::create(&path).unwrap()).unwrap();
            let found = Fingerprint::read(&path).unwrap();
            assert_eq!(Database::open_with_fingerprint(&path).unwrap().1, found);
            found
        };
        let first = fingerprint(&["a.png", "b.png"]);
        assert_eq!(first, fingerprint(&["a.png", "b.png"]));
        assert_ne!(first, fingerprint(&["a.png", "c.png"]));
        assert_ne!(first, fingerprint(&["a.png"]));
        assert!(first.to_string().starts_with("2 images, checksum "), "{first}");
    }

    #[test]
    fn invalid_database_file_is_named_in_the_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("d\tb");
        let error = |path: &Path| Fingerprint::read(path).unwrap_err().to_string();
        assert!(error(&path).contains("d\\tb: No such file"), "{}", error(&path));
        fs::write(&path, "FERRETDB").unwrap();
        assert!(error(&path).contains("d\\tb: the file ends too early"), "{}", error(&path));
        fs::write(&path, [b'x'; 200]).unwrap();
        assert!(error(&path).contains("d\\tb: not a ferret database"), "{}", error(&path));
        assert!(error(dir.path()).contains("it is a directory"), "{}", error(dir.path()));
    }
}
