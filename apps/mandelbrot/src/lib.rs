//! Pictures of the Mandelbrot set, computed by a farm whose tasks are the rows of the picture, or by a loop over the rows.
//!
//! A point c of the complex plane belongs to the set if the sequence z ↦ z² + c from 0 stays bounded. Points inside of the set cost the maximum
//! number of steps, points outside only a few. The work of rows therefore differs by orders of magnitude, and the picture cannot be divided well in
//! advance. [`escape`] iterates a point, [`scene`] computes a row of the picture, [`farm`] is the farm, and [`rows`] the loop whose rows move between
//! ranks.

pub mod cli;
pub mod escape;
pub mod farm;
pub mod palette;
pub mod png;
pub mod rows;
pub mod scene;
pub mod view;
