//! Decoded images: conversion of PNG and JPEG files to RGB, with a limited size and specific errors.

mod jpeg;
mod png;
#[cfg(test)]
mod tests;

use crate::resample::resample;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Cursor;

/// Maximum side (width or height) of an accepted image in pixels.
pub const MAX_SIDE: u32 = 16_384;
/// Maximum number of pixels of an accepted image: more than the 33 megapixels of an 8K frame.
pub const MAX_PIXELS: u64 = 40_000_000;
/// Maximum side in pixels of a decoded image. Larger images are averaged down, because the search uses a lower resolution anyway, and ranks send
/// small pictures faster.
pub const KEPT_SIDE: u32 = 256;

/// Maximum memory that an image decoder may allocate, in bytes: a raster of [`MAX_PIXELS`] with eight bytes per pixel, and 16 MiB in addition.
const MAX_ALLOC: u64 = 8 * MAX_PIXELS + (16 << 20);
const BACKDROP: u32 = 128;

/// RGB image with rows from top to bottom and three bytes per pixel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Width in pixels, at least one.
    pub width: u32,
    /// Height in pixels, at least one.
    pub height: u32,
    /// Pixels row by row, with three bytes each: red, green, blue.
    #[serde(with = "crate::raw")]
    pub rgb: Vec<u8>,
}

/// Reason for which a file is no usable image. The error names the found and the accepted content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(String);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DecodeError {}

impl Picture {
    /// Creates a picture of the given size.
    ///
    /// # Panics
    /// Panics if a side is zero or the length of `rgb` is not `width * height * 3`.
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
    /// Transparent parts are composited on mid-grey, and images whose longer side exceeds [`KEPT_SIDE`] are averaged down to it. 16-bit, palette
    /// and grey images become 8-bit RGB. An image whose EXIF orientation is rotated or mirrored is turned upright.
    ///
    /// # Errors
    /// The bytes are neither PNG nor JPEG, are damaged or truncated, or describe an image above [`MAX_SIDE`] or [`MAX_PIXELS`]. The size is
    /// checked before memory for the pixels is allocated. JPEG files without an end marker are rejected, and so are a few rare layouts that none
    /// of the decoders supports correctly.
    ///
    /// ```
    /// use ferret::picture::Picture;
    /// let original = Picture::new(2, 1, vec![255, 0, 0, 0, 0, 255]);
    /// assert_eq!(Picture::decode(&original.to_png()).unwrap(), original);
    /// assert!(Picture::decode(b"not an image").is_err());
    /// ```
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (decoded, orientation) = match image::guess_format(bytes) {
            Ok(ImageFormat::Png) => png::decode(bytes)?,
            Ok(ImageFormat::Jpeg) => jpeg::decode(bytes)?,
            _ if bytes.is_empty() => return Err(DecodeError("the file is empty".into())),
            _ => return Err(DecodeError("neither a PNG nor a JPEG file".into())),
        };
        let (width, height) = (decoded.width(), decoded.height());
        if width == 0 || height == 0 {
            return Err(DecodeError(format!("an empty image of {width}x{height} pixels")));
        }
        let rgb = if decoded.color().has_alpha() {
            composite(&decoded.into_rgba8())
        } else {
            decoded.into_rgb8().into_raw()
        };
        Ok(Picture { width, height, rgb }.bounded(KEPT_SIDE).upright(orientation))
    }

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

    fn upright(self, orientation: Orientation) -> Self {
        if orientation == Orientation::NoTransforms {
            return self;
        }
        let image = RgbImage::from_raw(self.width, self.height, self.rgb);
        let mut image = DynamicImage::from(image.expect("a picture's size and bytes always agree"));
        image.apply_orientation(orientation);
        Picture { width: image.width(), height: image.height(), rgb: image.into_rgb8().into_raw() }
    }

    /// Returns this picture resampled to the given size.
    ///
    /// # Panics
    /// Panics if a side is zero.
    pub fn resized(&self, width: u32, height: u32) -> Self {
        let from = (self.width as usize, self.height as usize);
        let to = (width as usize, height as usize);
        Picture { width, height, rgb: resample::<3>(&self.rgb, from, to) }
    }

    /// Returns the picture as a PNG file.
    pub fn to_png(&self) -> Vec<u8> {
        self.encode(ImageFormat::Png)
    }

    /// Returns the picture as a JPEG file with the default quality of the encoder.
    ///
    /// # Panics
    /// Panics if a side exceeds the 65535 pixels that JPEG allows.
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
        .expect("an RGB picture of matching size encodes into memory");
        file.into_inner()
    }
}

type Raster = (DynamicImage, Orientation);

fn decode_as(format: ImageFormat, file: &[u8]) -> Result<Raster, DecodeError> {
    let mut limits = Limits::no_limits();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_ALLOC);
    let mut reader = ImageReader::with_format(Cursor::new(file), format);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(|e| damaged(format, e))?;
    let (width, height) = decoder.dimensions();
    check_size(width, height)?;
    let orientation = decoder.orientation().map_err(|e| damaged(format, e))?;
    Ok((DynamicImage::from_decoder(decoder).map_err(|e| damaged(format, e))?, orientation))
}

fn damaged(format: ImageFormat, what: impl fmt::Display) -> DecodeError {
    let name = if format == ImageFormat::Png { "PNG" } else { "JPEG" };
    DecodeError(format!("damaged {name} file: {what}"))
}

fn check_size(width: u32, height: u32) -> Result<(), DecodeError> {
    let pixels = u64::from(width) * u64::from(height);
    if width > MAX_SIDE || height > MAX_SIDE || pixels > MAX_PIXELS {
        return Err(DecodeError(format!(
            "{width}x{height} pixels is too large: at most {MAX_SIDE} a side and {MAX_PIXELS} in all"
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
