//! Escaping of file names and other external text for output in a line that a person or a program reads.

pub use armature_text::{escaped, path, shown, unescaped};
