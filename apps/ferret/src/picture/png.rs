//! Decoding of PNG files, and a check that a file can hold the pixels that its header announces.

use super::{DecodeError, Raster, check_size, damaged, decode_as};
use image::ImageFormat::Png;

/// Maximum ratio of the uncompressed to the compressed size. Deflate expands at most about 1032-fold. A file whose header announces more is damaged
/// or malicious.
const MAX_EXPANSION: u64 = 1100;
const LENGTH: usize = 4;
const NAME: usize = 4;
const CHECKSUM: usize = 4;
const SIGNATURE: usize = 8;

pub(super) fn decode(file: &[u8]) -> Result<Raster, DecodeError> {
    let decoded = check(file).and_then(|()| decode_as(Png, file));
    // The decoder's own error depends on the length of a truncated file. Every truncated file gets this one error instead.
    decoded.map_err(|e| if is_whole(file) { e } else { damaged(Png, "cut off before its end") })
}

fn check(file: &[u8]) -> Result<(), DecodeError> {
    let header = Header::of(file).ok_or_else(|| damaged(Png, "it does not begin with a header"))?;
    let Header { width, height, .. } = header;
    check_size(width, height)?;
    if header.packed_bytes() / MAX_EXPANSION > file.len() as u64 {
        let length = file.len();
        let what = format!("{length} bytes cannot hold the {width}x{height} pixels of its header");
        return Err(damaged(Png, what));
    }
    Ok(())
}

fn is_whole(file: &[u8]) -> bool {
    let mut rest = file.get(SIGNATURE..).unwrap_or_default();
    while let Some((length, behind)) = rest.split_first_chunk::<LENGTH>() {
        if behind.starts_with(b"IEND") {
            return true;
        }
        let content = u32::from_be_bytes(*length) as usize;
        rest = behind.get(content.saturating_add(NAME + CHECKSUM)..).unwrap_or_default();
    }
    false
}

#[derive(Clone, Copy, Debug)]
struct Header {
    width: u32,
    height: u32,
    /// Bits of one sample. A pixel with a grey value or a palette index has one sample, and a pixel with colour and transparency has four.
    depth: u8,
    samples: u8,
    interlaced: bool,
}

impl Header {
    fn of(file: &[u8]) -> Option<Self> {
        let chunk = file.get(SIGNATURE + LENGTH..)?.strip_prefix(b"IHDR")?;
        let (width, rest) = chunk.split_first_chunk()?;
        let (height, rest) = rest.split_first_chunk()?;
        let [depth, colour, _compression, _filter, interlace] = *rest.first_chunk()?;
        let samples = match colour {
            0 | 3 => 1,
            2 => 3,
            4 => 2,
            6 => 4,
            _ => return None,
        };
        let (width, height) = (u32::from_be_bytes(*width), u32::from_be_bytes(*height));
        Some(Header { width, height, depth, samples, interlaced: interlace != 0 })
    }

    /// Returns the size of the uncompressed data in bytes: the rows, each padded to a whole byte and preceded by a filter byte.
    fn packed_bytes(self) -> u64 {
        let bits = u64::from(self.depth) * u64::from(self.samples);
        let raster = |width: u32, height: u32| match width {
            0 => 0,
            _ => u64::from(height) * (1 + (u64::from(width) * bits).div_ceil(8)),
        };
        if !self.interlaced {
            return raster(self.width, self.height);
        }
        // The seven passes of Adam7: first column, first row, column step and row step of each pass in an interlaced picture.
        const PASSES: [[u32; 4]; 7] = [
            [0, 0, 8, 8],
            [4, 0, 8, 8],
            [0, 4, 4, 8],
            [2, 0, 4, 4],
            [0, 2, 2, 4],
            [1, 0, 2, 2],
            [0, 1, 1, 2],
        ];
        let count = |length: u32, first: u32, step: u32| length.saturating_sub(first).div_ceil(step);
        let pass = |[x, y, dx, dy]: [u32; 4]| raster(count(self.width, x, dx), count(self.height, y, dy));
        PASSES.into_iter().map(pass).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(width: u32, height: u32, depth: u8, samples: u8, interlaced: bool) -> u64 {
        Header { width, height, depth, samples, interlaced }.packed_bytes()
    }

    #[test]
    fn packed_png_size_counts_rows_and_interlace_passes() {
        assert_eq!(packed(600, 600, 1, 1, false), 600 * 76);
        assert_eq!(packed(601, 600, 1, 1, false), 600 * 77);
        assert_eq!(packed(3, 5, 4, 1, false), 5 * 3);
        assert_eq!(packed(3, 5, 16, 4, false), 5 * 25);
        // The seven passes of an interlaced picture of 8x8 pixels have 1x1, 1x1, 2x1, 2x2, 4x2, 4x4 and 8x4 pixels.
        assert_eq!(packed(8, 8, 8, 1, true), 64 + 1 + 1 + 1 + 2 + 2 + 4 + 4);
        assert_eq!(packed(1, 1, 8, 3, true), 4);
        assert_eq!(packed(0, 9, 8, 3, false), 0);
    }
}
