//! Synthetic image collections: scenes for the database, altered copies of the scenes as queries, and the right answers.

use crate::parallel;
use crate::queries::{ImageFile, Query, write};
use crate::scene::scene;
use crate::variant::Variant;
use armature_apps::random::Random;
use std::fs;
use std::io;
use std::path::Path;

/// Parameters of a synthetic image collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of scenes.
    pub scenes: u32,
    /// Seed of the random scenes. Collections with equal parameters have equal files.
    pub seed: u64,
    /// Width of a scene in pixels.
    pub width: u32,
    /// Height of a scene in pixels.
    pub height: u32,
    /// True if each scene has four queries, one for each kind of change; otherwise each scene has one query, and the kinds alternate.
    pub all_variants: bool,
}

/// Image file of a scene, with its altered copies as queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SceneFiles {
    /// Unchanged image of the scene, for the database.
    pub original: ImageFile,
    /// Altered copies of the scene.
    pub queries: Vec<Query>,
}

impl Plan {
    /// Creates the files of the scene with this number, counted from zero.
    ///
    /// # Panics
    /// Panics if a side is zero.
    pub fn generate(&self, number: u32) -> SceneFiles {
        let picture = scene(self.seed, u64::from(number), self.width, self.height);
        let folder = format!("scene-{:04}", number + 1);
        let kinds = Variant::ALL.into_iter().enumerate();
        let queries = kinds
            .filter(|(turn, _)| self.all_variants || *turn == number as usize % Variant::ALL.len())
            .map(|(turn, kind)| {
                // Each copy has its own random stream, with a number above those of the scenes.
                let stream = (1 << 40) + u64::from(number) * Variant::ALL.len() as u64 + turn as u64;
                Query::of(&picture, kind, &format!("{folder}/{kind}"), &mut Random::stream(self.seed, stream))
            })
            .collect();
        let original = ImageFile { name: format!("{folder}/original.png"), bytes: picture.to_png() };
        SceneFiles { original, queries }
    }

    /// Creates the files of all scenes, in parallel on all cores.
    ///
    /// # Panics
    /// Panics if a side is zero.
    pub fn generate_all(&self) -> Vec<SceneFiles> {
        parallel::map(self.scenes as usize, |number| self.generate(number as u32))
    }

    /// Writes the collection: images such as `database/scene-0001/original.png`, queries such as `queries/scene-0001/crop.jpg`, and `truth.tsv`
    /// with a line `query<TAB>right image` for each query. The names are relative to the two directories. Returns the number of queries.
    ///
    /// # Errors
    /// A file cannot be written.
    ///
    /// # Panics
    /// Panics if a side is zero.
    pub fn write(&self, directory: &Path) -> io::Result<usize> {
        let (database, queries) = (directory.join("database"), directory.join("queries"));
        let lines = parallel::map(self.scenes as usize, |number| -> io::Result<Vec<String>> {
            let generated = self.generate(number as u32);
            generated.original.store(&database)?;
            generated
                .queries
                .iter()
                .map(|query| {
                    query.file.store(&queries)?;
                    Ok(format!("{}\t{}\n", query.file.name, generated.original.name))
                })
                .collect()
        });
        let lines: Vec<String> = lines.into_iter().collect::<io::Result<Vec<_>>>()?.concat();
        fs::create_dir_all(directory)?;
        write(&directory.join("truth.tsv"), lines.concat().as_bytes())?;
        Ok(lines.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Listing;

    const PLAN: Plan = Plan { scenes: 5, seed: 3, width: 48, height: 32, all_variants: false };

    #[test]
    fn equal_plans_generate_equal_collections() {
        assert_eq!(PLAN.generate_all(), PLAN.generate_all());
        assert_ne!(PLAN.generate_all(), Plan { seed: 4, ..PLAN }.generate_all());
        assert_eq!(Plan { scenes: 9, ..PLAN }.generate_all()[..5], PLAN.generate_all()[..]);
    }

    #[test]
    fn variant_kinds_rotate_unless_all_are_requested() {
        let kinds: Vec<&str> =
            PLAN.generate_all().iter().map(|generated| generated.queries[0].kind.name()).collect();
        assert_eq!(kinds, ["crop", "noise", "brightness", "scale", "crop"]);
        let all = Plan { all_variants: true, ..PLAN }.generate(0);
        assert_eq!(all.queries.len(), 4);
        assert_eq!(all.queries[0], PLAN.generate(0).queries[0]);
    }

    #[test]
    fn synthetic_collection_is_written_as_documented() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(PLAN.write(dir.path()).unwrap(), 5);
        let queries = Listing::of(&dir.path().join("queries")).unwrap();
        assert_eq!(queries.names()[..2], ["scene-0001/crop.jpg", "scene-0002/noise.png"]);
        assert_eq!(queries.read("scene-0001/crop.jpg").unwrap(), PLAN.generate(0).queries[0].file.bytes);
        let truth = fs::read_to_string(dir.path().join("truth.tsv")).unwrap();
        assert_eq!(truth.lines().next(), Some("scene-0001/crop.jpg\tscene-0001/original.png"));
        assert_eq!(Listing::of(&dir.path().join("database")).unwrap().names().len(), 5);
    }
}
