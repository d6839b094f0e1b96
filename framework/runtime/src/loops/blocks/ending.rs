//! The end of a run: rank 0 waits until all ranks are done.

use std::time::Duration;

use super::leader::Leader;
use super::mail::{Place, told, unexpected};
use crate::error::Result;
use crate::session::letter::{Kind, Letter};
use crate::session::post::Post;

/// On rank 0, which has done everything: waits until all other ranks have, and tells those that have no rows.
///
/// # Errors
/// If ranks that are not done are silent for longer than `limit`.
pub(super) fn all_done(mut leader: Leader, post: &mut Post, place: Place, limit: Duration) -> Result<Leader> {
    let missing = std::cell::RefCell::new(String::new());
    post.wait_until(
        limit,
        |_, letter| {
            if let Some(Letter { from, kind, body, .. }) = letter {
                hear(Some(&mut leader), from, kind, &body)?;
            }
            let left = leader.missing();
            *missing.borrow_mut() = format!("{left:?}");
            Ok(left.is_empty().then_some(()))
        },
        || format!("for ranks {} to end the last sweep", missing.borrow()),
    )?;
    for to in place.chain..post.size() {
        post.send(to, Kind::Finish, &())?;
    }
    leader.ended = post.clock().now();
    Ok(leader)
}

/// Takes a letter that is not the machine's.
///
/// # Errors
/// If it has no place in a run.
pub(super) fn hear(leader: Option<&mut Leader>, from: usize, kind: Kind, body: &[u8]) -> Result<()> {
    match (kind, leader) {
        (Kind::Report, Some(leader)) => leader.hear(from, told(body)?),
        _ => Err(unexpected(from, &format!("{kind:?}"), "messages of a loop over blocks")),
    }
}

/// The part of a rank that has no rows: it waits for the end.
pub(super) fn stand_by(post: &mut Post, limit: Duration) -> Result<()> {
    post.wait_until(
        limit,
        |_, letter| match letter.map(|letter| (letter.from, letter.kind)) {
            Some((_, Kind::Finish)) => Ok(Some(())),
            Some((_, Kind::Status)) | None => Ok(None),
            Some((from, kind)) => Err(unexpected(from, &format!("{kind:?}"), "the end of the loop")),
        },
        || "for rank 0 to end the loop".to_string(),
    )
}
