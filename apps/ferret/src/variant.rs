//! Changes of a picture as they occur in real collections: cropped, noisy, brighter or darker, resized.

use crate::picture::Picture;
use armature_apps::random::Random;
use std::fmt;

/// Kind of a change to a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Cutting out a part that has 70 to 90 % of each side.
    Crop,
    /// Normally distributed noise with a standard deviation of 8 to 28 on every channel.
    Noise,
    /// Multiplication of all colour values by 0.65 to 1.35, with saturation.
    Brightness,
    /// Resizing both sides by a factor of 0.5 to 1.6.
    Scale,
}

impl Variant {
    /// All kinds of changes to a picture, in a fixed order.
    pub const ALL: [Variant; 4] = [Variant::Crop, Variant::Noise, Variant::Brightness, Variant::Scale];

    /// Returns the name of the kind for file names and tables.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Crop => "crop",
            Variant::Noise => "noise",
            Variant::Brightness => "brightness",
            Variant::Scale => "scale",
        }
    }

    /// Returns an altered copy of `picture`. The strength of the change is drawn from `random`.
    pub fn apply(self, picture: &Picture, random: &mut Random) -> Picture {
        match self {
            Variant::Crop => crop(picture, random),
            Variant::Noise => noise(picture, random.between(8.0, 28.0), random),
            Variant::Brightness => brightness(picture, strength(random)),
            Variant::Scale => {
                let factor = random.between(0.5, 1.6);
                let side = |length: u32| ((length as f32 * factor + 0.5) as u32).max(1);
                picture.resized(side(picture.width), side(picture.height))
            }
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn strength(random: &mut Random) -> f32 {
    let change = random.between(0.1, 0.35);
    if random.below(2) == 0 { 1.0 - change } else { 1.0 + change }
}

fn crop(picture: &Picture, random: &mut Random) -> Picture {
    let mut window = |length: u32| {
        let cropped_length = ((length as f32 * random.between(0.7, 0.9) + 0.5) as u32).clamp(1, length);
        (random.below(length - cropped_length + 1), cropped_length)
    };
    let (left, width) = window(picture.width);
    let (top, height) = window(picture.height);
    let mut rgb = Vec::with_capacity(width as usize * height as usize * 3);
    for y in top..top + height {
        let start = (y as usize * picture.width as usize + left as usize) * 3;
        rgb.extend_from_slice(&picture.rgb[start..start + width as usize * 3]);
    }
    Picture::new(width, height, rgb)
}

fn noise(picture: &Picture, deviation: f32, random: &mut Random) -> Picture {
    let noisy = |&v: &u8| (f32::from(v) + deviation * random.normal() + 0.5).clamp(0.0, 255.0) as u8;
    Picture::new(picture.width, picture.height, picture.rgb.iter().map(noisy).collect())
}

fn brightness(picture: &Picture, factor: f32) -> Picture {
    let lit = |&v: &u8| (f32::from(v) * factor + 0.5).min(255.0) as u8;
    Picture::new(picture.width, picture.height, picture.rgb.iter().map(lit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::scene;

    #[test]
    fn each_variant_applies_the_change_of_its_name() {
        let original = scene(4, 2, 90, 60);
        let vary = |kind: Variant| kind.apply(&original, &mut Random::new(9));
        let crop = vary(Variant::Crop);
        assert!((63..=81).contains(&crop.width) && (42..=54).contains(&crop.height));
        let noise = vary(Variant::Noise);
        assert_eq!((noise.width, noise.height), (90, 60));
        assert_ne!(noise, original);
        let sum = |p: &Picture| p.rgb.iter().map(|&v| f64::from(v)).sum::<f64>();
        let ratio = sum(&vary(Variant::Brightness)) / sum(&original);
        assert!((0.64..0.91).contains(&ratio) || (1.05..1.36).contains(&ratio), "ratio {ratio}");
        let scaled = vary(Variant::Scale);
        assert_ne!(scaled.width, original.width);
        for kind in Variant::ALL {
            assert_eq!(vary(kind), vary(kind), "{kind} repeats");
        }
    }
}
