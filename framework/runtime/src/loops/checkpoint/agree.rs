//! How ranks learn at their start which checkpoint they go on from, and how rank 0 keeps its books in a run.

use std::time::Duration;

use super::Checkpoint;
use super::manifest::{Book, Manifest, Saved};
use crate::error::{Error, ErrorKind, Result};
use crate::session::letter::{Kind, Letter};
use crate::session::post::Post;
use crate::wire;

/// Who tells whom of the checkpoint: whoever sends the first of what comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::loops) enum Route {
    /// Rank 0 tells all.
    Star,
    /// Each rank tells the next.
    Chain,
}

/// Rank 0 looks for a checkpoint, and the ranks that have units, `0..ranks`, are told of it; all of these call it. Returns the
/// book on rank 0, and the checkpoint, if there is one.
///
/// # Errors
/// As [`Book::open`]; if whoever is to tell is silent for longer than `limit`.
pub(in crate::loops) fn agree(
    post: &mut Post,
    (ranks, route): (usize, Route),
    checkpoint: &Checkpoint,
    name: &str,
    units: u64,
    limit: Duration,
) -> Result<(Option<Book>, Option<Manifest>)> {
    let rank = post.rank();
    let (book, found) = if rank == 0 {
        let (book, found) = Book::open(&checkpoint.dir, name, &checkpoint.fingerprint, units)?;
        if let Some(found) = &found {
            log::info!("loop {name}: goes on after {} passes, from {}", found.pass, checkpoint.dir.display());
        }
        (Some(book), found)
    } else {
        let heard = |_: &mut Post, letter: Option<Letter>| match letter {
            Some(letter) if letter.kind == Kind::Welcome => {
                wire::from_bytes::<Option<Manifest>>(&letter.body).map(Some)
            }
            Some(Letter { from, kind, .. }) => {
                let text = format!("rank {from} sent {kind:?}, expected which checkpoint counts");
                Err(Error::new(ErrorKind::Wire, text))
            }
            None => Ok(None),
        };
        let from = if route == Route::Chain { rank - 1 } else { 0 };
        let why = || format!("for rank {from} to say which checkpoint counts");
        (None, post.wait_until(limit, heard, why)?)
    };
    let told = match route {
        Route::Chain => rank + 1..ranks.min(rank + 2),
        Route::Star if rank == 0 => 1..ranks,
        Route::Star => 0..0,
    };
    for to in told {
        post.send(to, Kind::Welcome, &found)?;
    }
    Ok((book, found))
}

/// Rank 0's books in a run.
#[derive(Debug)]
pub(in crate::loops) struct Keeper {
    book: Book,
    every: Duration,
    /// When the last checkpoint began.
    last: Duration,
    ranks: usize,
    /// Passes that were done before this run.
    before: u64,
}

impl Keeper {
    /// The run begins `now`, with `ranks` that have units, after so many passes in earlier ones.
    pub(in crate::loops) fn new(
        book: Book,
        checkpoint: &Checkpoint,
        ranks: usize,
        before: u64,
        now: Duration,
    ) -> Self {
        Keeper { book, every: checkpoint.every, last: now, ranks, before }
    }

    /// Whether units are to be written as they are after `pass` passes of this run, which none has gone beyond yet; then how
    /// many passes these are, those of earlier runs included.
    pub(in crate::loops) fn is_due(&mut self, pass: u64, now: Duration) -> Option<u64> {
        if now.saturating_sub(self.last) < self.every || self.book.is_open() {
            return None;
        }
        self.last = now;
        let pass = self.before + pass;
        self.book.begin(pass, self.ranks).then_some(pass)
    }

    /// A rank has written its part of a checkpoint.
    ///
    /// # Errors
    /// As [`Book::add`].
    pub(in crate::loops) fn hear(&mut self, rank: usize, pass: u64, saved: Vec<Saved>) -> Result<()> {
        if self.book.add(rank, pass, saved)? {
            log::debug!("the checkpoint after {pass} passes is whole");
        }
        Ok(())
    }
}
