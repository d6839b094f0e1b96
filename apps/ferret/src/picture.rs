//! Decoded images: PNG and JPEG bytes to RGB, with bounded size and clear errors.

use crate::resample::resample;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Cursor;

/// Longest side accepted, in pixels.
pub const MAX_SIDE: u32 = 16_384;
/// Largest number of pixels accepted; above the 33 megapixels of an 8K frame.
pub const MAX_PIXELS: u64 = 40_000_000;
/// Longest side kept after decoding; larger images are averaged down, because the search works at a lower
/// resolution anyway and a small picture travels faster between ranks.
pub const KEPT_SIDE: u32 = 256;

/// What a decoder may allocate, in bytes: a raster of [`MAX_PIXELS`] with eight bytes each, and some slack.
const MAX_ALLOC: u64 = 8 * MAX_PIXELS + (16 << 20);
/// Deflate cannot expand more than about 1032-fold, so a PNG that promises more is broken or hostile.
const MAX_PNG_EXPANSION: u64 = 1100;
/// Colour behind transparent pixels.
const BACKDROP: u32 = 128;

/// An RGB image, rows from top to bottom, three bytes a pixel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Width in pixels, at least one.
    pub width: u32,
    /// Height in pixels, at least one.
    pub height: u32,
    /// `width * height * 3` bytes: red, green, blue.
    #[serde(with = "crate::raw")]
    pub rgb: Vec<u8>,
}

/// Why bytes are not a usable image. The text says what was found and what is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(String);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DecodeError {}

impl Picture {
    /// A picture of the given size.
    ///
    /// # Panics
    /// If a side is zero or `rgb` is not `width * height * 3` long.
    pub fn new(width: u32, height: u32, rgb: Vec<u8>) -> Self {
        assert!(width > 0 && height > 0, "a picture has no empty side");
        assert_eq!(
            rgb.len(),
            width as usize * height as usize * 3,
            "RGB bytes of a {width}x{height} picture"
        );
        Picture { width, height, rgb }
    }

    /// Decodes a PNG or JPEG file.
    ///
    /// Transparent parts are composited on mid-grey; images whose longer side exceeds [`KEPT_SIDE`] are
    /// averaged down to it. Sixteen-bit, palette and grey images become eight-bit RGB.
    ///
    /// # Errors
    /// If the bytes are neither PNG nor JPEG, are damaged or cut off, or describe an image above [`MAX_SIDE`]
    /// or [`MAX_PIXELS`]. The size is checked before memory is taken for the pixels.
    ///
    /// ```
    /// use ferret::picture::Picture;
    /// let original = Picture::new(2, 1, vec![255, 0, 0, 0, 0, 255]);
    /// assert_eq!(Picture::decode(&original.to_png()).unwrap(), original);
    /// assert!(Picture::decode(b"not an image").is_err());
    /// ```
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = ImageReader::new(Cursor::new(bytes))
            .with_guessed_format()
            .map_err(|e| DecodeError(format!("cannot be read: {e}")))?;
        let format = match reader.format() {
            Some(format @ (ImageFormat::Png | ImageFormat::Jpeg)) => format,
            _ if bytes.is_empty() => return Err(DecodeError("the file is empty".into())),
            _ => return Err(DecodeError("neither a PNG nor a JPEG file".into())),
        };
        let mut limits = Limits::no_limits();
        limits.max_image_width = Some(MAX_SIDE);
        limits.max_image_height = Some(MAX_SIDE);
        limits.max_alloc = Some(MAX_ALLOC);
        reader.limits(limits);
        let damaged = |e: image::ImageError| DecodeError(format!("damaged {} file: {e}", name_of(format)));
        let decoder = reader.into_decoder().map_err(damaged)?;
        check_size(decoder.dimensions(), decoder.total_bytes(), format, bytes.len() as u64)?;
        let decoded = DynamicImage::from_decoder(decoder).map_err(damaged)?;
        let (width, height) = (decoded.width(), decoded.height());
        if width == 0 || height == 0 {
            return Err(DecodeError(format!("an empty image of {width}x{height} pixels")));
        }
        let rgb = if decoded.color().has_alpha() {
            composite(&decoded.into_rgba8())
        } else {
            decoded.into_rgb8().into_raw()
        };
        Ok(Picture { width, height, rgb }.bounded(KEPT_SIDE))
    }

    /// The same picture with its longer side at most `side`, proportions kept.
    fn bounded(self, side: u32) -> Self {
        let longer = self.width.max(self.height);
        if longer <= side {
            return self;
        }
        let shrink = |length: u32| {
            let exact = u64::from(length) * u64::from(side) + u64::from(longer) / 2;
            ((exact / u64::from(longer)) as u32).max(1)
        };
        let (width, height) = (shrink(self.width), shrink(self.height));
        self.resized(width, height)
    }

    /// The same picture resampled to the given size.
    ///
    /// # Panics
    /// If a side is zero.
    pub fn resized(&self, width: u32, height: u32) -> Self {
        let from = (self.width as usize, self.height as usize);
        let to = (width as usize, height as usize);
        Picture { width, height, rgb: resample::<3>(&self.rgb, from, to) }
    }

    /// The picture as a PNG file.
    pub fn to_png(&self) -> Vec<u8> {
        self.encode(ImageFormat::Png)
    }

    /// The picture as a JPEG file of the encoder's default quality.
    ///
    /// # Panics
    /// If a side is longer than the 65535 pixels that JPEG allows.
    pub fn to_jpeg(&self) -> Vec<u8> {
        self.encode(ImageFormat::Jpeg)
    }

    fn encode(&self, format: ImageFormat) -> Vec<u8> {
        let mut file = Cursor::new(Vec::new());
        image::write_buffer_with_format(
            &mut file,
            &self.rgb,
            self.width,
            self.height,
            image::ExtendedColorType::Rgb8,
            format,
        )
        // Writing to memory does not fail, and a `Picture`'s size and bytes always agree.
        .expect("an RGB picture of matching size encodes into memory");
        file.into_inner()
    }
}

fn name_of(format: ImageFormat) -> &'static str {
    if format == ImageFormat::Png { "PNG" } else { "JPEG" }
}

fn check_size(
    (width, height): (u32, u32),
    raster: u64,
    format: ImageFormat,
    file: u64,
) -> Result<(), DecodeError> {
    let pixels = u64::from(width) * u64::from(height);
    if width > MAX_SIDE || height > MAX_SIDE || pixels > MAX_PIXELS {
        return Err(DecodeError(format!(
            "{width}x{height} pixels is too large: at most {MAX_SIDE} a side and {MAX_PIXELS} in all"
        )));
    }
    if format == ImageFormat::Png && raster / MAX_PNG_EXPANSION > file {
        return Err(DecodeError(format!(
            "damaged PNG file: {file} bytes cannot hold the {width}x{height} pixels its header promises"
        )));
    }
    Ok(())
}

fn composite(rgba: &image::RgbaImage) -> Vec<u8> {
    let mut rgb = Vec::with_capacity(rgba.len() / 4 * 3);
    for pixel in rgba.as_raw().chunks_exact(4) {
        let alpha = u32::from(pixel[3]);
        for &value in &pixel[..3] {
            rgb.push(((u32::from(value) * alpha + BACKDROP * (255 - alpha) + 127) / 255) as u8);
        }
    }
    rgb
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::scene;
    use image::{ExtendedColorType, write_buffer_with_format};
    use proptest::prelude::*;

    fn png(bytes: &[u8], width: u32, height: u32, colour: ExtendedColorType) -> Vec<u8> {
        let mut file = Cursor::new(Vec::new());
        write_buffer_with_format(&mut file, bytes, width, height, colour, ImageFormat::Png).unwrap();
        file.into_inner()
    }

    fn message(bytes: &[u8]) -> String {
        Picture::decode(bytes).unwrap_err().to_string()
    }

    /// A PNG header that promises the given size, followed by nothing much.
    fn promise(width: u32, height: u32) -> Vec<u8> {
        let mut file = png(&[7; 3], 1, 1, ExtendedColorType::Rgb8);
        file[16..20].copy_from_slice(&width.to_be_bytes());
        file[20..24].copy_from_slice(&height.to_be_bytes());
        let checksum = crc32(&file[12..29]);
        file[29..33].copy_from_slice(&checksum.to_be_bytes());
        file
    }

    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0u32, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
        })
    }

    #[test]
    fn every_kind_of_pixel_becomes_rgb() {
        let decode = |file: Vec<u8>| Picture::decode(&file).unwrap().rgb;
        assert_eq!(decode(png(&[9], 1, 1, ExtendedColorType::L8)), [9, 9, 9]);
        assert_eq!(decode(png(&[9, 255], 1, 1, ExtendedColorType::La8)), [9, 9, 9]);
        assert_eq!(decode(png(&[1, 2, 3, 0], 1, 1, ExtendedColorType::Rgba8)), [128, 128, 128]);
        assert_eq!(decode(png(&[255, 0, 0, 51], 1, 1, ExtendedColorType::Rgba8)), [153, 102, 102]);
        let deep = [0xff, 0xff, 0, 0, 0x80, 0x80];
        assert_eq!(decode(png(&deep, 1, 1, ExtendedColorType::Rgb16)), [255, 0, 128]);
    }

    #[test]
    fn jpeg_comes_back_nearly_equal() {
        let original = scene(1, 1, 64, 48);
        let again = Picture::decode(&original.to_jpeg()).unwrap();
        assert_eq!((again.width, again.height), (64, 48));
        let error: u32 = original.rgb.iter().zip(&again.rgb).map(|(a, b)| u32::from(a.abs_diff(*b))).sum();
        assert!(error < 12 * original.rgb.len() as u32, "mean error {}", error / original.rgb.len() as u32);
    }

    #[test]
    fn large_images_are_averaged_down() {
        let wide = Picture::new(1000, 10, vec![77; 30_000]);
        let kept = Picture::decode(&wide.to_png()).unwrap();
        assert_eq!((kept.width, kept.height), (256, 3));
        assert!(kept.rgb.iter().all(|&v| v == 77));
        let line = Picture::decode(&Picture::new(1, 5000, vec![5; 15_000]).to_png()).unwrap();
        assert_eq!((line.width, line.height), (1, 256));
    }

    #[test]
    fn sizes_that_would_take_much_memory_are_refused_by_their_header() {
        for (width, height) in [(u32::MAX >> 1, 1), (1, 20_000), (100_000, 100_000)] {
            let text = message(&promise(width, height));
            assert!(text.contains("damaged") || text.contains("too large"), "{text}");
        }
        assert!(message(&promise(16_000, 16_000)).contains("too large: at most"));
        assert!(message(&promise(6_000, 6_000)).contains("cannot hold"));
        assert!(Picture::decode(&promise(0, 0)).is_err());
    }

    #[test]
    fn other_files_are_refused_with_the_reason() {
        assert_eq!(message(b""), "the file is empty");
        assert_eq!(message(b"GIF89a and so on"), "neither a PNG nor a JPEG file");
        assert_eq!(message(b"plain text"), "neither a PNG nor a JPEG file");
        assert!(message(b"\x89PNG\r\n\x1a\n").contains("damaged PNG file"));
        assert!(message(b"\xff\xd8\xff\xe0").contains("damaged JPEG file"));
    }

    #[test]
    fn cut_off_files_are_refused() {
        let picture = scene(1, 2, 48, 32);
        let file = picture.to_png();
        for length in (0..file.len() / 2).step_by(7) {
            assert!(Picture::decode(&file[..length]).is_err(), "PNG of {length} bytes");
        }
        // JPEG decoders fill in what is missing at the end; a file without any scan is refused.
        let file = picture.to_jpeg();
        for length in (0..file.len()).step_by(5) {
            let _ = Picture::decode(&file[..length]);
        }
        assert!(Picture::decode(&file[..200]).is_err());
    }

    proptest! {
        #[test]
        fn damaged_files_never_panic(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..20),
            jpeg in any::<bool>(),
        ) {
            let picture = scene(1, 3, 40, 24);
            let mut file = if jpeg { picture.to_jpeg() } else { picture.to_png() };
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
        fn noise_behind_a_signature_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for signature in [&b"\x89PNG\r\n\x1a\n"[..], b"\xff\xd8\xff"] {
                prop_assert!(Picture::decode(&[signature, &bytes[..]].concat()).is_err());
            }
        }
    }
}
