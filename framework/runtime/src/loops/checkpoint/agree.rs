//! How ranks learn at their start which checkpoint they go on from, and how rank 0 keeps its books in a run.

use std::time::Duration;

use super::Checkpoint;
use super::manifest::{Book, Manifest, Saved};
use crate::error::{Error, ErrorKind, Result};
use crate::session::letter::{Kind, Letter};
use crate::session::post::Post;
use crate::wire;

/// Rank 0 looks for a checkpoint, and the ranks that have units, `0..ranks`, tell each other of it, one after the other;
/// all of these call it. Returns the book on rank 0, and the checkpoint, if there is one.
///
/// A rank hears of it from the one before it, so nothing that a neighbour sends later can be here earlier.
///
/// # Errors
/// As [`Book::open`]; if the rank before is silent for longer than `limit`.
pub(in crate::loops) fn agree(
    post: &mut Post,
    ranks: usize,
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
        let why = || format!("for rank {} to say which checkpoint counts", rank - 1);
        (None, post.wait_until(limit, heard, why)?)
    };
    if rank + 1 < ranks {
        post.send(rank + 1, Kind::Welcome, &found)?;
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

    /// Whether units are to be written as they are after `pass` passes of this run, which none has done yet.
    pub(in crate::loops) fn is_due(&mut self, pass: u64, now: Duration) -> bool {
        let due = now.saturating_sub(self.last) >= self.every && !self.book.is_open();
        if due {
            self.last = now;
        }
        due && self.book.begin(self.before + pass, self.ranks)
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
