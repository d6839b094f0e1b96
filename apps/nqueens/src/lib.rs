//! In how many ways can n queens stand on a board of n × n so that none attacks another?
//!
//! Queens are placed row by row. A board with some of them is a node of a tree, its children are the boards with one more, and
//! what lies below a board differs from its neighbour's by orders of magnitude: nobody can divide the tree well beforehand.
//! [`board`] is the serial program, [`farm`] the farm.

pub mod board;
pub mod cli;
pub mod farm;
