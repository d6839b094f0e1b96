//! The best local alignment of sequences of DNA or protein, by Smith and Waterman (1981) with the gaps of Gotoh (1982): its score, and where it
//! ends.
//!
//! The table has a row for each letter of one sequence and a column for each of the other. No rank holds more of it than a panel of columns of its own
//! rows, which move to ranks that are free.
//!
//! - [`fasta`]: sequences in files
//! - [`scores`]: what two letters and a gap are worth
//! - [`kernel`]: the recurrence, and the serial program
//! - [`table`]: the table on ranks
//! - [`lines`]: what is printed
//! - [`kept`]: what a job that is started again need not do
//! - [`cli`]: the command line

pub mod cli;
pub mod fasta;
pub mod kept;
pub mod kernel;
pub mod lines;
pub mod scores;
pub mod table;
