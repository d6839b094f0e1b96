//! Serial execution of image queries, whose output the parallel pipeline must reproduce.

use crate::files::{Listing, Skipped};
use crate::index::Index;
use crate::stages::{ext, ind, load, out, rank, seg};
use std::fmt;
use std::io::{self, Write};

/// Number of answered queries and list of unusable images after a serial run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of answered queries.
    pub answered: usize,
    /// Unusable query images in the order of their names.
    pub skipped: Vec<Skipped>,
}

/// Reason for which a serial run of queries was aborted.
#[derive(Debug)]
pub enum QueryError {
    /// A query image is unusable, and `strict` was set.
    Unusable(Skipped),
    /// The output with the answers could not be written.
    Output(io::Error),
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::Unusable(image) => write!(f, "cannot use {}: {}", image.name, image.reason),
            QueryError::Output(e) => write!(f, "cannot write the output: {e}"),
        }
    }
}

impl std::error::Error for QueryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            QueryError::Unusable(_) => None,
            QueryError::Output(e) => Some(e),
        }
    }
}

/// Writes the `k` most similar database images of every listed query image, in the order of the query images' names.
///
/// # Errors
/// The output cannot be written or, with `strict`, an image is unusable.
pub fn query_serial(
    listing: &Listing,
    index: &Index,
    k: usize,
    strict: bool,
    output: &mut dyn Write,
) -> Result<Summary, QueryError> {
    let mut summary = Summary::default();
    let skip = |summary: &mut Summary, image: Skipped| {
        if strict {
            return Err(QueryError::Unusable(image));
        }
        summary.skipped.push(image);
        Ok(())
    };
    for image in listing.skipped() {
        skip(&mut summary, image.clone())?;
    }
    for name in listing.names() {
        let loaded = listing
            .read(name)
            .map_err(|e| e.to_string())
            .and_then(|bytes| load(name.clone(), &bytes).map_err(|e| e.to_string()));
        match loaded {
            Ok(item) => {
                let answer = rank(ind(ext(seg(item)), index), index, k);
                output.write_all(out(&answer).as_bytes()).map_err(QueryError::Output)?;
                summary.answered += 1;
            }
            Err(reason) => skip(&mut summary, Skipped::new(name, reason))?,
        }
    }
    summary.skipped.sort_unstable();
    Ok(summary)
}
