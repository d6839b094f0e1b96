//! Construction of a `ferret` database (names and regions of images) from the images in a directory.

use crate::database::{Database, DatabaseError, Entry};
use crate::features::{Region, describe};
use crate::files::{Listing, Skipped};
use crate::lsh::Settings;
use crate::parallel;
use crate::picture::Picture;
use crate::segment::segment;

/// Decodes an image and describes its regions, like the stages `load`, `seg` (segmentation) and `ext` (extraction of features) of the pipeline.
///
/// # Errors
/// The bytes are no usable image; see [`Picture::decode`].
pub fn regions_of(bytes: &[u8]) -> Result<Vec<Region>, crate::picture::DecodeError> {
    Ok(describe(&segment(&Picture::decode(bytes)?)))
}

/// Describes the regions of all listed images, in parallel on all cores, and creates a database from them. The result depends only on the images.
/// Returns the database, and the unusable images in the order of their names.
///
/// # Errors
/// The images form no database, for example because two have the same name.
pub fn build(listing: &Listing, settings: Settings) -> Result<(Database, Vec<Skipped>), DatabaseError> {
    let names = listing.names();
    let described = parallel::map(names.len(), |i| {
        let bytes = listing.read(&names[i]).map_err(|e| e.to_string())?;
        regions_of(&bytes).map_err(|e| e.to_string())
    });
    let mut entries = Vec::new();
    let mut skipped = listing.skipped().to_vec();
    for (name, result) in names.iter().zip(described) {
        match result {
            Ok(regions) => entries.push(Entry { name: name.clone(), regions }),
            Err(reason) => skipped.push(Skipped::new(name, reason)),
        }
    }
    skipped.sort_unstable();
    Ok((Database::new(entries, settings)?, skipped))
}
