//! Building a database from the images of a directory.

use crate::database::{Database, DatabaseError, Entry};
use crate::features::{Region, describe};
use crate::files::Listing;
use crate::lsh::Settings;
use crate::parallel;
use crate::picture::Picture;
use crate::segment::segment;

/// An image that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Name relative to the directory.
    pub name: String,
    /// Why it could not be used.
    pub reason: String,
}

/// Decodes an image and describes its regions: what `load`, `seg` and `ext` do to a query.
///
/// # Errors
/// If the bytes are no usable image; see [`Picture::decode`].
pub fn regions_of(bytes: &[u8]) -> Result<Vec<Region>, crate::picture::DecodeError> {
    Ok(describe(&segment(&Picture::decode(bytes)?)))
}

/// Describes all listed images, on all cores, and makes a database of them. The result depends on the images
/// only. Images that cannot be used are left out and returned beside it, in the order of their names.
///
/// # Errors
/// If the images make no database, say because two have the same name.
pub fn build(listing: &Listing, settings: Settings) -> Result<(Database, Vec<Skipped>), DatabaseError> {
    let names = listing.names();
    let described = parallel::map(names.len(), |i| {
        let bytes = listing.read(&names[i]).map_err(|e| e.to_string())?;
        regions_of(&bytes).map_err(|e| e.to_string())
    });
    let mut entries = Vec::new();
    let mut skipped = not_text(listing);
    for (name, result) in names.iter().zip(described) {
        match result {
            Ok(regions) => entries.push(Entry { name: name.clone(), regions }),
            Err(reason) => skipped.push(Skipped { name: name.clone(), reason }),
        }
    }
    skipped.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((Database::new(entries, settings)?, skipped))
}

/// The files of a listing that cannot be named in the output.
pub(crate) fn not_text(listing: &Listing) -> Vec<Skipped> {
    let skip = |name: &String| Skipped { name: name.clone(), reason: "the file's name is not UTF-8".into() };
    listing.refused().iter().map(skip).collect()
}
