//! Number of ways in which n queens can stand on a board of n × n so that none attacks another.
//!
//! Queens are placed row by row. A board with some queens is a node of a tree, and its children are the boards with one more queen. The sizes of
//! subtrees differ by orders of magnitude, so that the tree cannot be divided well in advance. [`board`] is the serial count, and [`farm`] the
//! parallel one.

pub mod board;
pub mod cli;
pub mod farm;
