//! Test queries with known answers: altered copies (cropped, noisy, …) of the images of a collection.

use crate::files::{Listing, Skipped};
use crate::parallel;
use crate::picture::Picture;
use crate::variant::Variant;
use armature_apps::names;
use armature_apps::random::Random;
use armature_files::regular::{Links, open_with};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Image file of a collection or of its queries, in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFile {
    /// Name relative to the directory of the database or of the queries.
    pub name: String,
    /// Content of the image file.
    pub bytes: Vec<u8>,
}

impl ImageFile {
    pub(crate) fn store(&self, directory: &Path) -> io::Result<()> {
        let path = directory.join(&self.name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        write(&path, &self.bytes)
    }
}

/// Writes a file of a collection. A regular file is overwritten; symbolic links and devices are refused.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    open_with(path, options.write(true).create(true).truncate(true), Links::Refused)
        .and_then(|mut file| file.write_all(bytes))
        .map_err(|e| io::Error::new(e.kind(), format!("cannot write {}: {e}", names::path(path))))
}

/// Altered copy of an image, to be used as query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Kind of change that made the query from its original, such as cropping.
    pub kind: Variant,
    /// File with the altered image.
    pub file: ImageFile,
}

impl Query {
    /// Creates an altered copy of `picture` as the file `stem` with the extension of the format. Cropped and brightened copies are stored as JPEG,
    /// like most edited photographs, and the other copies as PNG.
    pub(crate) fn of(picture: &Picture, kind: Variant, stem: &str, random: &mut Random) -> Self {
        let changed = kind.apply(picture, random);
        let (extension, bytes) = match kind {
            Variant::Crop | Variant::Brightness => ("jpg", changed.to_jpeg()),
            Variant::Noise | Variant::Scale => ("png", changed.to_png()),
        };
        Query { kind, file: ImageFile { name: format!("{stem}.{extension}"), bytes } }
    }
}

/// Parameters of the altered copies that are made of a collection's images as queries. All copies are JPEG files, as cameras produce them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variants {
    /// Number of altered copies of each image per kind of change, such as cropping or noise.
    pub copies: u32,
    /// Minimum longer side, in pixels, of an altered copy that serves as query; smaller copies are enlarged.
    pub side: u32,
    /// Seed of the changes. Equal images and parameters yield equal files.
    pub seed: u64,
}

impl Variants {
    /// Writes altered copies of every listed image below `directory`, such as `queries/ad.png/crop-1.jpg` for the image `ad.png`, and `truth.tsv`
    /// with a line `query<TAB>right image` for each copy. Returns the number of copies, and the unusable images.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, listing: &Listing, directory: &Path) -> io::Result<(usize, Vec<Skipped>)> {
        let queries = directory.join("queries");
        let originals = listing.names();
        let generated =
            parallel::map(originals.len(), |number| -> io::Result<Result<Vec<String>, Skipped>> {
                let name = &originals[number];
                let decoded = listing.read(name).map_err(|e| e.to_string());
                let decoded = decoded.and_then(|bytes| Picture::decode(&bytes).map_err(|e| e.to_string()));
                let picture = match decoded {
                    Ok(picture) => picture,
                    Err(reason) => return Ok(Err(Skipped::new(name, reason))),
                };
                // Each image has its own random stream, so that the copies of an image do not depend on the other images.
                let mut random = Random::stream(self.seed, number as u64);
                let mut lines = Vec::new();
                for kind in Variant::ALL {
                    for copy in 1..=self.copies {
                        let changed = enlarged(kind.apply(&picture, &mut random), self.side);
                        let file =
                            ImageFile { name: format!("{name}/{kind}-{copy}.jpg"), bytes: changed.to_jpeg() };
                        file.store(&queries)?;
                        lines.push(format!("{}\t{}\n", names::escaped(&file.name), names::escaped(name)));
                    }
                }
                Ok(Ok(lines))
            });
        let (mut truth, mut skipped) = (Vec::new(), listing.skipped().to_vec());
        for image in generated {
            match image? {
                Ok(lines) => truth.extend(lines),
                Err(image) => skipped.push(image),
            }
        }
        skipped.sort_unstable();
        fs::create_dir_all(directory)?;
        write(&directory.join("truth.tsv"), truth.concat().as_bytes())?;
        Ok((truth.len(), skipped))
    }
}

fn enlarged(picture: Picture, side: u32) -> Picture {
    let longer = picture.width.max(picture.height);
    if longer >= side {
        return picture;
    }
    let scaled = |length: u32| (length as f32 * side as f32 / longer as f32 + 0.5).max(1.0) as u32;
    picture.resized(scaled(picture.width), scaled(picture.height))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::scene;

    #[test]
    fn each_image_gets_variants_of_each_kind_listed_in_the_truth_file() {
        let dir = tempfile::tempdir().unwrap();
        let images = dir.path().join("images");
        for number in 0..2 {
            let bytes = scene(3, number, 48, 32).to_png();
            ImageFile { name: format!("deep/{number}.png"), bytes }.store(&images).unwrap();
        }
        ImageFile { name: "bad.png".into(), bytes: b"no image".to_vec() }.store(&images).unwrap();
        let listing = Listing::of(&images).unwrap();
        let write = |to: &str, seed| {
            Variants { copies: 3, side: 60, seed }.write(&listing, &dir.path().join(to)).unwrap()
        };
        let read = |to: &str| {
            let queries = Listing::of(&dir.path().join(to).join("queries")).unwrap();
            let files: Vec<_> = queries.names().iter().map(|n| queries.read(n).unwrap()).collect();
            (queries.names().to_vec(), files)
        };

        let (queries, skipped) = write("once", 1);
        assert_eq!((queries, skipped.len()), (2 * 4 * 3, 1));
        assert_eq!(skipped[0].name, "bad.png");
        let (names, files) = read("once");
        assert_eq!(names.len(), queries);
        assert_eq!(names[3], "deep/0.png/crop-1.jpg");
        let distinct: std::collections::BTreeSet<_> = files.iter().collect();
        assert_eq!(distinct.len(), queries, "no two copies are the same");
        let longer_sides = files.iter().map(|f| Picture::decode(f).unwrap()).map(|p| p.width.max(p.height));
        assert!(longer_sides.clone().all(|side| side >= 60), "{:?}", longer_sides.collect::<Vec<_>>());
        let truth = fs::read_to_string(dir.path().join("once/truth.tsv")).unwrap();
        assert_eq!(truth.lines().next(), Some("deep/0.png/crop-1.jpg\tdeep/0.png"));
        assert_eq!(truth.lines().count(), queries);

        write("again", 1);
        write("other", 2);
        assert_eq!(read("once"), read("again"));
        assert_ne!(read("once"), read("other"));
    }
}
