use super::*;
use crate::scene::scene;
use image::{ExtendedColorType, write_buffer_with_format};
use proptest::prelude::*;
use std::path::Path;

fn png(bytes: &[u8], width: u32, height: u32, colour: ExtendedColorType) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    write_buffer_with_format(&mut file, bytes, width, height, colour, ImageFormat::Png).unwrap();
    file.into_inner()
}

fn message(bytes: &[u8]) -> String {
    Picture::decode(bytes).unwrap_err().to_string()
}

/// Returns a PNG file whose header announces the given size, although the file contains a single pixel.
fn promise(width: u32, height: u32) -> Vec<u8> {
    let mut file = png(&[7; 3], 1, 1, ExtendedColorType::Rgb8);
    promise_in(&mut file, width, height);
    file
}

fn promise_in(file: &mut [u8], width: u32, height: u32) {
    file[16..20].copy_from_slice(&width.to_be_bytes());
    file[20..24].copy_from_slice(&height.to_be_bytes());
    let checksum = crc32(&file[12..29]);
    file[29..33].copy_from_slice(&checksum.to_be_bytes());
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    })
}

#[test]
fn every_pixel_format_is_converted_to_rgb() {
    let decode = |file: Vec<u8>| Picture::decode(&file).unwrap().rgb;
    assert_eq!(decode(png(&[9], 1, 1, ExtendedColorType::L8)), [9, 9, 9]);
    assert_eq!(decode(png(&[9, 255], 1, 1, ExtendedColorType::La8)), [9, 9, 9]);
    assert_eq!(decode(png(&[1, 2, 3, 0], 1, 1, ExtendedColorType::Rgba8)), [128, 128, 128]);
    assert_eq!(decode(png(&[255, 0, 0, 51], 1, 1, ExtendedColorType::Rgba8)), [153, 102, 102]);
    let deep = [0xff, 0xff, 0, 0, 0x80, 0x80];
    assert_eq!(decode(png(&deep, 1, 1, ExtendedColorType::Rgb16)), [255, 0, 128]);
}

#[test]
fn jpeg_round_trip_is_nearly_lossless() {
    let original = scene(1, 1, 64, 48);
    let again = Picture::decode(&original.to_jpeg()).unwrap();
    assert_eq!((again.width, again.height), (64, 48));
    let error = difference(&original, &again);
    assert!(error < 12.0, "mean error {error}");
}

#[test]
fn large_images_are_averaged_down() {
    let wide = Picture::new(1000, 10, vec![77; 30_000]);
    let decoded = Picture::decode(&wide.to_png()).unwrap();
    assert_eq!((decoded.width, decoded.height), (256, 3));
    assert!(decoded.rgb.iter().all(|&v| v == 77));
    let line = Picture::decode(&Picture::new(1, 5000, vec![5; 15_000]).to_png()).unwrap();
    assert_eq!((line.width, line.height), (1, 256));
}

#[test]
fn huge_images_are_refused_from_their_header() {
    for (width, height) in [(u32::MAX >> 1, 1), (1, 20_000), (100_000, 100_000)] {
        let text = message(&promise(width, height));
        assert!(text.contains("damaged") || text.contains("too large"), "{text}");
    }
    assert!(message(&promise(16_000, 16_000)).contains("too large: at most"));
    assert!(message(&promise(6_000, 6_000)).contains("cannot hold"));
    assert!(Picture::decode(&promise(0, 0)).is_err());
}

#[test]
fn non_image_files_are_refused_with_the_reason() {
    assert_eq!(message(b""), "the file is empty");
    assert_eq!(message(b"GIF89a and so on"), "neither a PNG nor a JPEG file");
    assert_eq!(message(b"plain text"), "neither a PNG nor a JPEG file");
    assert!(message(b"\x89PNG\r\n\x1a\n").contains("damaged PNG file"));
    assert!(message(b"\xff\xd8\xff\xe0").contains("damaged JPEG file"));
}

/// Returns a file of `tests/pictures`. Each JPEG file there is `original.png` in the pixel layout that its name describes.
fn stored(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pictures").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

const LAYOUTS: [&str; 13] = [
    "together",
    "restarts",
    "progressive",
    "progressive-separate",
    "separate-1x1",
    "separate-2x2",
    "separate-2x1",
    "separate-1x2",
    "separate-restarts",
    "light-then-colours",
    "blue-with-light",
    "coarse-light",
    "coarse-light-progressive",
];

fn difference(a: &Picture, b: &Picture) -> f64 {
    assert_eq!((a.width, a.height), (b.width, b.height));
    let sum: u32 = a.rgb.iter().zip(&b.rgb).map(|(a, b)| u32::from(a.abs_diff(*b))).sum();
    f64::from(sum) / a.rgb.len() as f64
}

#[test]
fn every_jpeg_layout_is_decoded_to_the_right_colours() {
    let original = Picture::decode(&stored("original.png")).unwrap();
    for layout in LAYOUTS {
        let picture = Picture::decode(&stored(&format!("{layout}.jpg"))).unwrap();
        // Pictures that libjpeg decodes differ from the original by 1.3 to 2.7 grey levels on average; a uniformly grey picture differs by 59.
        let found = difference(&picture, &original);
        assert!(found < 4.0, "{layout}: {found} away from the original");
    }
    let text = message(&stored("separate-4x2.jpg"));
    assert!(
        text.contains("unsupported layout: components of 4x2, 2x1, 2x1 samples in separate scans"),
        "{text}"
    );
}

#[test]
fn jpeg_file_of_very_many_scans_is_refused() {
    let file = stored("separate-2x2.jpg");
    let scan = file.windows(2).rposition(|bytes| bytes == [0xff, 0xda]).unwrap();
    let end = file.len() - 2;
    let many = [&file[..end], &file[scan..end].repeat(1000), &file[end..]].concat();
    assert!(message(&many).contains("a JPEG file with 1003 scans"), "{}", message(&many));
}

#[test]
fn flat_png_files_are_read_despite_their_high_compression() {
    for name in ["palette-1", "palette-2", "palette-4", "palette-8", "palette-1-interlaced"] {
        let picture = Picture::decode(&stored(&format!("flat-{name}.png"))).unwrap();
        assert_eq!((picture.width, picture.height), (256, 256), "{name}");
        assert!(picture.rgb.chunks(3).all(|pixel| pixel == [200, 100, 50]), "{name}");
    }
    for name in ["grey-1", "grey-2", "grey-4", "grey-8"] {
        let picture = Picture::decode(&stored(&format!("flat-{name}.png"))).unwrap();
        assert!(picture.rgb.iter().all(|value| *value == 0), "{name}");
    }
    for name in ["palette-1", "palette-1-interlaced", "palette-8", "grey-1"] {
        let mut file = stored(&format!("flat-{name}.png"));
        promise_in(&mut file, 6000, 6000);
        assert!(message(&file).contains("cannot hold the 6000x6000 pixels"), "{name}: {}", message(&file));
    }
}

#[test]
fn jpeg_files_truncated_anywhere_are_refused() {
    for layout in LAYOUTS.map(|layout| format!("{layout}.jpg")).iter().chain(&["on-its-side.jpg".into()]) {
        let file = stored(layout);
        for length in 3..file.len() {
            let text = message(&file[..length]);
            assert!(text.contains("cut off"), "{layout}, {length} of {} bytes: {text}", file.len());
        }
        // Some cameras append data after the end marker. The decoder ignores this data.
        let longer = [&file[..], &file[..file.len() / 2]].concat();
        assert_eq!(Picture::decode(&longer), Picture::decode(&file), "{layout}");
    }
}

#[test]
fn truncated_png_files_are_refused_or_decoded_completely() {
    let deep: Vec<u8> = scene(1, 2, 24, 16).rgb.iter().flat_map(|v| [*v, 7]).collect();
    for file in [
        scene(1, 2, 48, 32).to_png(),
        png(&deep, 24, 16, ExtendedColorType::Rgb16),
        stored("original.png"),
        stored("flat-palette-1.png"),
        stored("flat-palette-1-interlaced.png"),
    ] {
        let whole = Picture::decode(&file).unwrap();
        for length in 8..file.len() {
            match Picture::decode(&file[..length]) {
                Ok(picture) => assert!(picture == whole, "{length} of {} bytes: other pixels", file.len()),
                Err(e) => assert!(e.to_string().contains("cut off"), "{length} of {} bytes: {e}", file.len()),
            }
        }
    }
}

fn exif(orientation: u8) -> Vec<u8> {
    let entry = [[0x01, 0x12, 0, 3], [0, 0, 0, 1], [0, orientation, 0, 0]].concat();
    [&b"MM\0\x2a\0\0\0\x08\0\x01"[..], &entry, &[0; 4]].concat()
}

fn jpeg_with(exif: &[u8], file: &[u8]) -> Vec<u8> {
    let length = (2 + 6 + exif.len() as u16).to_be_bytes();
    [&file[..2], &[0xff, 0xe1], &length, b"Exif\0\0", exif, &file[2..]].concat()
}

fn png_with(exif: &[u8], file: &[u8]) -> Vec<u8> {
    let content = [b"eXIf", exif].concat();
    let (length, checksum) = ((exif.len() as u32).to_be_bytes(), crc32(&content).to_be_bytes());
    [&file[..33], &length, &content, &checksum, &file[33..]].concat()
}

#[test]
fn exif_orientation_is_applied() {
    let (width, height) = (48, 32);
    let upright = scene(1, 4, width, height);
    for orientation in 1..=8u8 {
        // Position in the displayed image of a pixel of the stored image, from the table of the EXIF standard.
        let seen = |row: u32, column: u32| match orientation {
            1 => (column, row),
            2 => (width - 1 - column, row),
            3 => (width - 1 - column, height - 1 - row),
            4 => (column, height - 1 - row),
            5 => (row, column),
            6 => (width - 1 - row, column),
            7 => (width - 1 - row, height - 1 - column),
            _ => (row, height - 1 - column),
        };
        let (w, h) = if orientation < 5 { (width, height) } else { (height, width) };
        let places = (0..h).flat_map(|row| (0..w).map(move |column| (row, column)));
        let pixel = |(row, column)| {
            let (x, y) = seen(row, column);
            let at = 3 * (y * width + x) as usize;
            upright.rgb[at..at + 3].to_vec()
        };
        let lying = Picture::new(w, h, places.flat_map(pixel).collect());
        let turned = Picture::decode(&png_with(&exif(orientation), &lying.to_png())).unwrap();
        assert!(turned == upright, "PNG, orientation {orientation}");
        let turned = Picture::decode(&jpeg_with(&exif(orientation), &lying.to_jpeg())).unwrap();
        assert!(difference(&turned, &upright) < 12.0, "JPEG, orientation {orientation}");
    }
    // Invalid orientations: 0, 9, a truncated EXIF block, and an empty EXIF block.
    for nothing in [exif(0), exif(9), exif(6)[..20].to_vec(), vec![]] {
        assert_eq!(Picture::decode(&png_with(&nothing, &upright.to_png())).unwrap(), upright);
    }
    // This file is decoded by the decoder for rare layouts.
    let lying = Picture::decode(&stored("separate-2x2.jpg")).unwrap();
    let turned = Picture::decode(&jpeg_with(&exif(6), &stored("separate-2x2.jpg"))).unwrap();
    assert_eq!((turned.width, turned.height), (lying.height, lying.width));
    let file = stored("on-its-side.jpg");
    let picture = Picture::decode(&file).unwrap();
    assert_eq!((picture.width, picture.height), (96, 64));
}

proptest! {
    #[test]
    fn damaged_files_never_panic(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..20),
        kind in 0..LAYOUTS.len() + 2,
    ) {
        let mut file = match LAYOUTS.get(kind) {
            Some(layout) => stored(&format!("{layout}.jpg")),
            None if kind == LAYOUTS.len() => scene(1, 3, 40, 24).to_png(),
            None => stored("flat-palette-1-interlaced.png"),
        };
        for (place, value) in changes {
            let place = place.index(file.len());
            file[place] = value;
        }
        if let Ok(decoded) = Picture::decode(&file) {
            prop_assert_eq!(decoded.rgb.len(), (decoded.width * decoded.height * 3) as usize);
            prop_assert!(decoded.width.max(decoded.height) <= KEPT_SIDE);
        }
    }

    #[test]
    fn random_bytes_after_a_signature_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for signature in [&b"\x89PNG\r\n\x1a\n"[..], b"\xff\xd8\xff"] {
            prop_assert!(Picture::decode(&[signature, &bytes[..]].concat()).is_err());
        }
    }
}
