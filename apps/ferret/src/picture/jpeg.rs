//! Decoding of JPEG files: check for completeness, and choice of a decoder that supports the pixel layout of the file.
//!
//! Decoders silently fill missing parts of a JPEG file with grey. Therefore this module parses the marker segments first: a file that ends before its
//! end marker was truncated, at whatever position.
//!
//! The decoder of the `image` crate (zune-jpeg 0.5) is fast. It is correct if all components of a pixel are in one scan, or the file is progressive,
//! and if no component is sampled more finely than the first one or in threes. Nearly all files satisfy these conditions. For other layouts the
//! decoder returns wrong colours or an error, or panics. Files with other layouts are decoded by the slower `jpeg-decoder`. It is correct if no
//! component has more than two samples in a direction for one of another component, or if only the first component has. Files that suit neither
//! decoder are rejected.

use super::{DecodeError, MAX_ALLOC, Raster, check_size, damaged, decode_as};
use image::ImageFormat::Jpeg;
use image::metadata::Orientation;
use image::{DynamicImage, GrayImage, RgbImage};
use jpeg_decoder::PixelFormat;

/// Maximum number of scans of a JPEG file. Encoders produce ten scans. Decoding one scan costs as much as decoding the whole image. Without the
/// limit, a small file with many scans would block a rank for a long time.
const MAX_SCANS: usize = 100;

pub(super) fn decode(file: &[u8]) -> Result<Raster, DecodeError> {
    let layout = Layout::of(file)?;
    if let Some(frame) = &layout.frame {
        check_size(frame.width, frame.height)?;
    }
    if layout.scans > MAX_SCANS {
        let scans = layout.scans;
        return Err(DecodeError(format!("a JPEG file with {scans} scans, expected at most {MAX_SCANS}")));
    }
    match layout.decoder()? {
        Decoder::Usual => decode_as(Jpeg, file),
        Decoder::Careful => decode_carefully(file),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decoder {
    Usual,
    Careful,
}

/// Properties of a JPEG file by which a decoder is chosen.
#[derive(Clone, Debug, Default)]
struct Layout {
    /// First frame (SOF segment) of the file; `None` if no frame has a supported coding process, in which case the decoder reports an error.
    frame: Option<Frame>,
    scans: usize,
    first_scan: usize,
}

#[derive(Clone, Debug)]
struct Frame {
    progressive: bool,
    width: u32,
    height: u32,
    /// Horizontal and vertical sampling factors of each component: its samples per row and per column of a minimum coded unit (MCU).
    sampling: Vec<(u8, u8)>,
}

impl Layout {
    fn of(file: &[u8]) -> Result<Self, DecodeError> {
        let mut layout = Layout::default();
        let mut rest = file;
        while let Some((marker, content, behind)) = segment(rest) {
            match marker {
                marker::END => return Ok(layout),
                marker::BASELINE | marker::EXTENDED | marker::PROGRESSIVE if layout.frame.is_none() => {
                    layout.frame = Frame::of(content, marker == marker::PROGRESSIVE);
                }
                marker::SCAN => {
                    if layout.scans == 0 {
                        layout.first_scan = content.first().copied().unwrap_or(0).into();
                    }
                    layout.scans += 1;
                }
                _ => {}
            }
            rest = behind;
        }
        Err(damaged(Jpeg, "cut off before its end marker"))
    }

    fn decoder(&self) -> Result<Decoder, DecodeError> {
        let Some(Frame { progressive, sampling, .. }) = &self.frame else { return Ok(Decoder::Usual) };
        let Some((first, others)) = sampling.split_first() else { return Ok(Decoder::Usual) };
        let together = *progressive || self.first_scan == sampling.len();
        let coarser = others.iter().all(|other| other.0 <= first.0 && other.1 <= first.1);
        if together && coarser && sampling.iter().all(|s| s.0.is_power_of_two() && s.1.is_power_of_two()) {
            return Ok(Decoder::Usual);
        }
        if sampling.iter().all(|s| s.0 <= 2 && s.1 <= 2) || others.iter().all(|s| *s == (1, 1)) {
            return Ok(Decoder::Careful);
        }
        let text: Vec<String> = sampling.iter().map(|s| format!("{}x{}", s.0, s.1)).collect();
        let scans = if together { "" } else { " in separate scans" };
        Err(DecodeError(format!(
            "a JPEG file with an unsupported layout: components of {} samples{scans}",
            text.join(", ")
        )))
    }
}

impl Frame {
    fn of(content: &[u8], progressive: bool) -> Option<Self> {
        let [_precision, h1, h2, w1, w2, components] = *content.first_chunk()?;
        let sampling = content[6..].chunks_exact(3).take(components.into());
        Some(Frame {
            progressive,
            width: u16::from_be_bytes([w1, w2]).into(),
            height: u16::from_be_bytes([h1, h2]).into(),
            sampling: sampling.map(|component| (component[1] >> 4, component[1] & 15)).collect(),
        })
    }
}

/// Second bytes of markers, with the names of the standard ITU-T T.81, table B.1.
mod marker {
    /// SOF0: start of a frame, baseline process.
    pub(super) const BASELINE: u8 = 0xc0;
    /// SOF1: start of a frame, extended sequential process.
    pub(super) const EXTENDED: u8 = 0xc1;
    /// SOF2: start of a frame, progressive process.
    pub(super) const PROGRESSIVE: u8 = 0xc2;
    /// SOI: start of the image.
    pub(super) const START: u8 = 0xd8;
    /// EOI: end of the image.
    pub(super) const END: u8 = 0xd9;
    /// SOS: start of a scan.
    pub(super) const SCAN: u8 = 0xda;
}

/// Returns the next marker, the content of its segment, and the rest of the file, or `None` if the segment is incomplete. Bytes before the marker are
/// skipped: the entropy-coded data of a scan with its stuffed bytes and restart markers.
fn segment(file: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let mut rest = file;
    loop {
        let at = rest.iter().position(|byte| *byte == 0xff)?;
        rest = &rest[at + 1..];
        match *rest.first()? {
            // Skipped: a stuffed byte, TEM, a restart marker, and a fill byte before a marker.
            0x00 | 0x01 | 0xd0..=0xd7 | 0xff => {}
            marker @ (marker::START | marker::END) => return Some((marker, &[], &rest[1..])),
            marker => {
                let (length, _) = rest[1..].split_first_chunk()?;
                // The length field includes its own two bytes.
                let end = 1 + usize::from(u16::from_be_bytes(*length)).max(2);
                return Some((marker, rest.get(3..end)?, &rest[end..]));
            }
        }
    }
}

fn decode_carefully(file: &[u8]) -> Result<Raster, DecodeError> {
    let refuse = |e: jpeg_decoder::Error| damaged(Jpeg, e);
    let mut decoder = jpeg_decoder::Decoder::new(file);
    decoder.set_max_decoding_buffer_size(MAX_ALLOC as usize);
    let pixels = decoder.decode().map_err(refuse)?;
    let info = decoder.info().ok_or_else(|| damaged(Jpeg, "no frame"))?;
    let (width, height) = (info.width.into(), info.height.into());
    let image = match info.pixel_format {
        PixelFormat::L8 => GrayImage::from_raw(width, height, pixels).map(DynamicImage::from),
        PixelFormat::RGB24 => RgbImage::from_raw(width, height, pixels).map(DynamicImage::from),
        PixelFormat::CMYK32 => RgbImage::from_raw(width, height, from_cmyk(&pixels)).map(DynamicImage::from),
        PixelFormat::L16 => None,
    };
    let image =
        image.ok_or_else(|| damaged(Jpeg, format!("unexpected pixel format {:?}", info.pixel_format)))?;
    let orientation = decoder.exif_data().and_then(Orientation::from_exif_chunk);
    Ok((image, orientation.unwrap_or(Orientation::NoTransforms)))
}

fn from_cmyk(pixels: &[u8]) -> Vec<u8> {
    let light = |ink: u8| u32::from(255 - ink);
    let colour = |pixel: &[u8]| [0, 1, 2].map(|i| ((light(pixel[i]) * light(pixel[3]) + 127) / 255) as u8);
    pixels.chunks_exact(4).flat_map(colour).collect()
}
