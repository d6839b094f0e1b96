//! Best local alignment of DNA or protein sequences by the algorithm of Smith and Waterman (1981) with the affine gaps of Gotoh (1982): its score and
//! its end.
//!
//! The table has a row for each letter of one sequence and a column for each letter of the other. A rank holds only one panel (a range of adjacent
//! columns) of its rows at a time. Rows move to ranks that have free time.
//!
//! - [`fasta`]: sequences in files
//! - [`scores`]: scores of letters, and costs of gaps
//! - [`kernel`]: recurrence of the table's values, and the serial program
//! - [`table`]: computation of the table on several ranks
//! - [`lines`]: lines of the output
//! - [`saved`]: results that a restarted job reuses
//! - [`cli`]: command line

pub mod cli;
pub mod fasta;
pub mod kernel;
pub mod lines;
pub mod saved;
pub mod scores;
pub mod table;
