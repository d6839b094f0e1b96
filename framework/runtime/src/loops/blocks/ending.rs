//! The end of a run: rank 0 waits until all ranks are done.

use std::time::Duration;

use super::leader::Leader;
use super::mail::{Place, told, unexpected};
use crate::comm::endpoint::Endpoint;
use crate::comm::message::Tag;
use crate::error::Result;

/// On rank 0, which has done everything: waits until all other ranks have, and tells those that have no rows.
///
/// # Errors
/// If ranks that are not done are silent for longer than `limit`.
pub(super) fn all_done(
    mut leader: Leader,
    endpoint: &mut Endpoint,
    place: Place,
    limit: Duration,
) -> Result<Leader> {
    let missing = std::cell::RefCell::new(String::new());
    endpoint.wait_until(
        limit,
        |_, message| {
            if let Some(message) = message {
                hear(Some(&mut leader), message.from, message.tag()?, &message.body)?;
            }
            let left = leader.missing();
            *missing.borrow_mut() = format!("{left:?}");
            Ok(left.is_empty().then_some(()))
        },
        || format!("for ranks {} to end the last sweep", missing.borrow()),
    )?;
    for to in place.chain..endpoint.size() {
        endpoint.send(to, Tag::Finish, &())?;
    }
    leader.ended = endpoint.clock().now();
    Ok(leader)
}

/// Takes a message that is not the machine's.
///
/// # Errors
/// If it has no place in a run.
pub(super) fn hear(leader: Option<&mut Leader>, from: usize, tag: Tag, body: &[u8]) -> Result<()> {
    match (tag, leader) {
        (Tag::Report, Some(leader)) => leader.hear(from, told(body)?),
        _ => Err(unexpected(from, &format!("{tag:?}"), "messages of a loop over blocks")),
    }
}

/// The part of a rank that has no rows: it waits for the end.
pub(super) fn stand_by(endpoint: &mut Endpoint, limit: Duration) -> Result<()> {
    endpoint.wait_until(
        limit,
        |_, message| match message.map(|m| m.tag().map(|tag| (m.from, tag))).transpose()? {
            Some((_, Tag::Finish)) => Ok(Some(())),
            Some((_, Tag::Status)) | None => Ok(None),
            Some((from, tag)) => Err(unexpected(from, &format!("{tag:?}"), "the end of the loop")),
        },
        || "for rank 0 to end the loop".to_string(),
    )
}
