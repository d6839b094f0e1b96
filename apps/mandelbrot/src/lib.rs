//! Pictures of the Mandelbrot set, as a farm whose tasks are the rows of the picture, or as a loop over them.
//!
//! A point c of the complex plane belongs to the set if z ↦ z² + c, begun at 0, stays near 0 for ever. Points inside cost
//! as many steps as one is willing to spend, points outside a few: rows differ in work by orders of magnitude, so the
//! picture is a task that cannot be divided well beforehand. [`escape`] is the kernel, [`scene`] a picture by rows,
//! [`farm`] the farm, [`rows`] the same as a loop whose rows move.

pub mod cli;
pub mod escape;
pub mod farm;
pub mod palette;
pub mod png;
pub mod rows;
pub mod scene;
pub mod view;
