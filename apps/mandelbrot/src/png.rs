//! Output of a picture as a PNG file.

use armature_files::output::Output;
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder};
use std::io;

/// Writes rows of red, green and blue bytes as a PNG file. The file appears at its path when it is complete.
///
/// # Errors
/// An error in writing the file.
///
/// # Panics
/// Panics if `rgb` does not have three bytes for each pixel.
pub fn save(mut file: Output, rgb: &[u8], width: u32, height: u32) -> io::Result<()> {
    PngEncoder::new(&mut file).write_image(rgb, width, height, ExtendedColorType::Rgb8).map_err(
        |e| match e {
            image::ImageError::IoError(e) => e,
            other => io::Error::other(other),
        },
    )?;
    file.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_png_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.png");
        let rgb: Vec<u8> = (0..3 * 5 * 4).map(|i| i * 4).collect();
        save(Output::create(&path).unwrap(), &rgb, 5, 4).unwrap();
        let read = image::open(&path).unwrap().into_rgb8();
        assert_eq!((read.width(), read.height()), (5, 4));
        assert_eq!(read.into_raw(), rgb);
    }
}
