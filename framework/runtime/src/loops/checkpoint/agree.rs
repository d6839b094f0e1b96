//! How ranks learn at their start which checkpoint they go on from, and how rank 0 keeps its books in a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Checkpoint;
use super::book::Book;
use super::folder::Attempt;
use super::manifest::{Manifest, Saved};
use super::write::Writer;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Control, Message, Tag};
use crate::error::{Error, ErrorKind, Result};
use crate::wire;

/// Who tells whom of the checkpoint: whoever sends the first of what comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::loops) enum Route {
    /// Rank 0 tells all.
    Star,
    /// Each rank tells the next.
    Chain,
}

/// What a rank begins with.
#[derive(Debug)]
pub(in crate::loops) struct Agreed {
    /// Rank 0's books.
    pub(in crate::loops) book: Option<Book>,
    /// The checkpoint that the job goes on from, if there is one.
    pub(in crate::loops) found: Option<Manifest>,
    /// Writes this rank's part of the next ones.
    pub(in crate::loops) writer: Writer,
}

/// What ranks are told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) attempt: Attempt,
    pub(super) found: Option<Manifest>,
}

/// Rank 0 looks for a checkpoint, and the ranks that have units, `0..ranks`, are told of it; all of these call it.
///
/// # Errors
/// As [`Book::open`]; if whoever is to tell is silent for longer than `limit`.
pub(in crate::loops) fn agree(
    endpoint: &mut Endpoint,
    (ranks, route): (usize, Route),
    checkpoint: &Checkpoint,
    name: &str,
    units: u64,
    limit: Duration,
) -> Result<Agreed> {
    let rank = endpoint.rank();
    let (book, told) = if rank == 0 {
        let (book, found) = Book::open(&checkpoint.dir, name, &checkpoint.fingerprint, units)?;
        if let Some(found) = &found {
            log::info!("loop {name}: goes on after {} passes, from {}", found.pass, checkpoint.dir.display());
        }
        let attempt = book.attempt().clone();
        (Some(book), Told { attempt, found })
    } else {
        let heard = |_: &mut Endpoint, message: Option<Message>| match message {
            Some(message) if message.is(Control::Placement) => {
                wire::from_bytes::<Told>(&message.body).map(Some)
            }
            Some(message) => {
                let what = message.tag::<Tag>()?;
                let text = format!("rank {} sent {what:?}, expected which checkpoint counts", message.from);
                Err(Error::new(ErrorKind::Wire, text))
            }
            None => Ok(None),
        };
        let from = if route == Route::Chain { rank - 1 } else { 0 };
        let why = || format!("for rank {from} to say which checkpoint counts");
        (None, endpoint.wait_until(limit, heard, why)?)
    };
    let to_tell = match route {
        Route::Chain => rank + 1..ranks.min(rank + 2),
        Route::Star if rank == 0 => 1..ranks,
        Route::Star => 0..0,
    };
    for to in to_tell {
        endpoint.send(to, Control::Placement, &told)?;
    }
    let Told { attempt, found } = told;
    let writer = Writer::new(&checkpoint.dir, attempt, rank, !endpoint.clock().is_simulated());
    Ok(Agreed { book, found, writer })
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
