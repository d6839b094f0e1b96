//! Names of files, and other text from outside, escaped for a line that a person or a program reads.

pub use armature_text::{escaped, path, shown, unescaped};
