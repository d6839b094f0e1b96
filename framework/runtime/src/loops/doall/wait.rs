//! A rank that has nothing to do.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::session::Backoff;
use crate::session::post::Post;

/// How often a rank that waits looks whether the others live.
const LOOK: Duration = Duration::from_secs(1);

/// A wait that is going on.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) backoff: Backoff,
    pub(super) begin: Duration,
    /// When something came last, as the post counts silence.
    last: Duration,
    /// When to look next whether the others live.
    look: Duration,
}

impl Wait {
    /// It begins at `now`, that is `here` as the post counts silence.
    pub(super) fn new(post: &Post, now: Duration, here: Duration) -> Self {
        Wait { backoff: post.backoff(), begin: now, last: here, look: now + LOOK }
    }

    /// Something has come.
    pub(super) fn heard(&mut self, now: Duration, here: Duration) {
        (self.last, self.look) = (here, now + LOOK);
        self.backoff.reset();
    }

    /// Whether it is time to look whether the others live.
    pub(super) fn is_to_look(&self, now: Duration) -> bool {
        now >= self.look
    }

    /// Whether there is still somebody to wait for: in silence no longer than the limit, and for this.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if not.
    pub(super) fn check(
        &mut self,
        post: &Post,
        (now, here): (Duration, Duration),
        (limit, what): (Duration, String),
    ) -> Result<()> {
        self.look = now + LOOK;
        if let Some(rank) = (0..post.size()).find(|&rank| post.has_ended(rank)) {
            let text = format!("waited {what}, but the process of rank {rank} has ended");
            return Err(Error::new(ErrorKind::Timeout, text));
        }
        let silent = here.saturating_sub(self.last);
        if silent > limit {
            let text = format!("waited {:.0} s {what}", silent.as_secs_f64());
            return Err(Error::new(ErrorKind::Timeout, text));
        }
        Ok(())
    }
}
