//! Tests of database files that are written, read or damaged.

use super::*;
use armature_apps::random::Random;
use proptest::prelude::*;

fn sample(images: u32) -> Database {
    let mut random = Random::new(8);
    let entries = (0..images).map(|i| {
        let count = 1 + random.below(4);
        let regions = (0..count).map(|r| Region {
            weight: TOTAL_WEIGHT / count + if r == 0 { TOTAL_WEIGHT % count } else { 0 },
            vector: [0.0; DIMENSIONS].map(|_| random.unit()),
        });
        Entry { name: format!("dir/image {i}\t.png"), regions: regions.collect() }
    });
    Database::new(entries.collect(), Settings::default()).unwrap()
}

/// Returns the damaged file with a correct checksum. With a wrong checksum, the parser would not read the damaged part.
fn resealed(mut file: Vec<u8>) -> Vec<u8> {
    let end = file.len() - CHECKSUM;
    let checksum = fnv1a(&file[..end]);
    file[end..].copy_from_slice(&checksum.to_le_bytes());
    file
}

#[test]
fn every_flipped_bit_and_every_truncation_is_detected() {
    let file = sample(3).to_bytes();
    assert_eq!(Database::from_bytes(&file).unwrap(), sample(3));
    for position in 0..file.len() {
        for bit in 0..8 {
            let mut damaged = file.clone();
            damaged[position] ^= 1 << bit;
            assert!(Database::from_bytes(&damaged).is_err(), "byte {position} bit {bit}");
        }
        assert!(Database::from_bytes(&file[..position]).is_err(), "cut at {position}");
    }
    let mut longer = file;
    longer.push(0);
    assert!(Database::from_bytes(&longer).is_err());
}

proptest! {
    #[test]
    fn damaged_content_with_a_valid_checksum_is_refused_or_consistent(
        changes in proptest::collection::vec((HEADER..400usize, any::<u8>()), 1..8),
    ) {
        let mut file = sample(3).to_bytes();
        let end = file.len() - CHECKSUM;
        for (position, value) in changes {
            file[position.min(end - 1)] = value;
        }
        if let Ok(database) = Database::from_bytes(&resealed(file)) {
            prop_assert!(database.check().is_ok());
        }
    }

    #[test]
    fn random_bytes_are_refused_as_a_database(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Database::from_bytes(&bytes).is_err());
        let mut disguised = MAGIC.to_vec();
        disguised.extend(VERSION.to_le_bytes());
        disguised.extend(bytes);
        prop_assert!(Database::from_bytes(&disguised).is_err());
    }
}

#[test]
fn header_claiming_four_billion_images_allocates_no_memory() {
    let mut file = sample(1).to_bytes();
    file[HEADER + 24..HEADER + 28].copy_from_slice(&u32::MAX.to_le_bytes());
    let text = Database::from_bytes(&resealed(file)).unwrap_err().to_string();
    assert!(text.contains("ends too early"), "{text}");
}

#[test]
fn database_errors_name_the_problem() {
    let text = |file: &[u8]| Database::from_bytes(file).unwrap_err().to_string();
    assert!(text(b"\x89PNG").contains("not a ferret database"));
    let mut newer = sample(1).to_bytes();
    newer[8] = 2;
    assert!(text(&newer).contains("database version 2; this program reads version 1"));
    let file = sample(1).to_bytes();
    assert!(text(&file[..40]).contains("cut off"));
    let missing = Database::open(Path::new("/nonexistent/db")).unwrap_err().to_string();
    assert!(missing.contains("/nonexistent/db"), "{missing}");
}

#[test]
fn unusable_images_are_refused() {
    let good = sample(1).entries[0].clone();
    let refused = |entries: Vec<Entry>| Database::new(entries, Settings::default()).unwrap_err().to_string();
    assert!(refused(vec![good.clone(), good.clone()]).contains("two images"));
    assert!(refused(vec![Entry { regions: vec![], ..good.clone() }]).contains("0 regions"));
    let mut light = good.clone();
    light.regions[0].weight -= 1;
    assert!(refused(vec![light]).contains("weights sum"));
    let mut endless = good;
    endless.regions[0].vector[3] = f32::NAN;
    assert!(refused(vec![endless]).contains("out of range"));
}

#[test]
fn saved_database_can_be_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    sample(5).save(Output::create(&path).unwrap()).unwrap();
    assert_eq!(Database::open(&path).unwrap(), sample(5));
    assert!(Database::open(dir.path()).unwrap_err().to_string().contains("directory"));
    assert!(sample(1).save(Output::create(Path::new("/dev/full")).unwrap()).is_err());
}
