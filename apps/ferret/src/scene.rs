//! Synthetic scenes: seeded pictures of coloured and textured shapes on a background.

use crate::picture::Picture;
use armature_apps::random::Random;

type Colour = [f32; 3];

enum Paint {
    Plain(Colour),
    Blend(Colour, Colour, (f32, f32)),
    Stripes(Colour, Colour, (f32, f32), f32),
    Checks(Colour, Colour, f32),
}

enum Shape {
    Ellipse,
    Box,
    Triangle,
    Ring,
    Cross,
}

struct Object {
    shape: Shape,
    centre: (f32, f32),
    size: (f32, f32),
    axis: (f32, f32),
    paint: Paint,
}

/// Creates the scene with the number `number` of the random stream `seed`. The pixels are equal on every machine.
///
/// # Panics
/// Panics if a side is zero.
pub fn scene(seed: u64, number: u64, width: u32, height: u32) -> Picture {
    let mut random = Random::stream(seed, number);
    let aspect = width as f32 / height as f32;
    let horizon = if random.below(2) == 0 { random.between(0.3, 0.8) } else { 2.0 };
    let (sky, ground) = (paint(&mut random), paint(&mut random));
    let objects: Vec<Object> = (0..3 + random.below(5)).map(|_| object(&mut random, aspect)).collect();
    let colour_at = |x: f32, y: f32| {
        let backdrop = if y < horizon { &sky } else { &ground };
        let covering = objects.iter().rev().find_map(|o| o.inside(x, y).map(|local| o.paint.at(local)));
        covering.unwrap_or_else(|| backdrop.at((x, y)))
    };
    let mut rgb = Vec::with_capacity(width as usize * height as usize * 3);
    for row in 0..height {
        for column in 0..width {
            let mut sum = [0.5f32; 3];
            for (dx, dy) in [(0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75)] {
                let x = (column as f32 + dx) / height as f32;
                let y = (row as f32 + dy) / height as f32;
                let colour = colour_at(x, y);
                (0..3).for_each(|c| sum[c] += colour[c] / 4.0);
            }
            rgb.extend(sum.map(|v| v as u8));
        }
    }
    Picture::new(width, height, rgb)
}

fn colour(random: &mut Random) -> Colour {
    [0; 3].map(|_| random.between(20.0, 235.0))
}

fn tone(random: &mut Random, base: Colour) -> Colour {
    base.map(|v| (v + random.between(-70.0, 70.0)).clamp(10.0, 245.0))
}

fn paint(random: &mut Random) -> Paint {
    let first = colour(random);
    let second = tone(random, first);
    match random.below(4) {
        0 => Paint::Plain(first),
        1 => Paint::Blend(first, second, random.direction()),
        2 => Paint::Stripes(first, second, random.direction(), random.between(0.03, 0.12)),
        _ => Paint::Checks(first, second, random.between(0.04, 0.15)),
    }
}

fn object(random: &mut Random, aspect: f32) -> Object {
    let shape = match random.below(5) {
        0 => Shape::Ellipse,
        1 => Shape::Box,
        2 => Shape::Triangle,
        3 => Shape::Ring,
        _ => Shape::Cross,
    };
    Object {
        shape,
        centre: (random.between(0.1, aspect - 0.1), random.between(0.1, 0.9)),
        size: (random.between(0.08, 0.3), random.between(0.08, 0.3)),
        axis: random.direction(),
        paint: paint(random),
    }
}

impl Paint {
    fn at(&self, (x, y): (f32, f32)) -> Colour {
        match *self {
            Paint::Plain(colour) => colour,
            Paint::Blend(a, b, (dx, dy)) => {
                let t = (0.5 + 0.5 * (x * dx + y * dy)).clamp(0.0, 1.0);
                [0, 1, 2].map(|c| a[c] + (b[c] - a[c]) * t)
            }
            Paint::Stripes(a, b, (dx, dy), width) => {
                if even((x * dx + y * dy) / width) {
                    a
                } else {
                    b
                }
            }
            Paint::Checks(a, b, side) => {
                if even(x / side) == even(y / side) {
                    a
                } else {
                    b
                }
            }
        }
    }
}

fn even(position: f32) -> bool {
    position.floor() as i32 % 2 == 0
}

impl Object {
    /// Returns the offset of the point (in the rotated and scaled coordinates of the object) from the object's centre if the point lies inside of the
    /// object.
    fn inside(&self, x: f32, y: f32) -> Option<(f32, f32)> {
        let (dx, dy) = (x - self.centre.0, y - self.centre.1);
        let u = (dx * self.axis.0 + dy * self.axis.1) / self.size.0;
        let v = (dy * self.axis.0 - dx * self.axis.1) / self.size.1;
        let square = u * u + v * v;
        let hit = match self.shape {
            Shape::Ellipse => square <= 1.0,
            Shape::Box => u.abs() <= 0.9 && v.abs() <= 0.9,
            Shape::Triangle => (-1.0..=0.7).contains(&v) && u.abs() <= (v + 1.0) * 0.6,
            Shape::Ring => (0.35..=1.0).contains(&square),
            Shape::Cross => (u.abs() <= 0.35 && v.abs() <= 1.0) || (v.abs() <= 0.35 && u.abs() <= 1.0),
        };
        hit.then_some((dx, dy))
    }
}

#[cfg(test)]
mod tests {
    use super::scene;

    #[test]
    fn scenes_are_reproducible_and_distinct() {
        assert_eq!(scene(1, 0, 60, 40), scene(1, 0, 60, 40));
        assert_ne!(scene(1, 0, 60, 40), scene(1, 1, 60, 40));
        assert_ne!(scene(1, 0, 60, 40), scene(2, 0, 60, 40));
    }

    #[test]
    fn generated_scene_matches_the_recorded_checksum() {
        // A scene with a given seed must never change, because only measurements on equal scenes are comparable.
        let sum = scene(1, 0, 60, 40).rgb.iter().fold(0u64, |sum, &b| sum.wrapping_mul(31) + u64::from(b));
        assert_eq!(sum, 6_339_905_278_658_438_818);
    }
}
