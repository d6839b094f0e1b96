//! The end of a run: rank 0 waits until all ranks are done.

use std::time::Duration;

use super::coordinator::Coordinator;
use super::messages::{Received, ToSpare};
use super::neighbours::Position;
use crate::comm::endpoint::Endpoint;
use crate::error::Result;

/// On rank 0, which has done everything: waits until all other ranks have, and lets those that have no rows go.
///
/// # Errors
/// If ranks that are not done are silent for longer than `limit`.
pub(super) fn all_done(
    mut coordinator: Coordinator,
    endpoint: &mut Endpoint,
    position: Position,
    limit: Duration,
) -> Result<Coordinator> {
    let missing = std::cell::RefCell::new(String::new());
    endpoint.wait_until(
        limit,
        |_, message| {
            if let Some(message) = message {
                let from = message.from;
                match Received::decode(message)? {
                    Received::ForCoordinator(message) => coordinator.on_message(from, message)?,
                    other => return Err(other.unexpected(from, "that it is done")),
                }
            }
            let left = coordinator.missing();
            *missing.borrow_mut() = format!("{left:?}");
            Ok(left.is_empty().then_some(()))
        },
        || format!("for ranks {} to end the last sweep", missing.borrow()),
    )?;
    for to in position.chain..endpoint.size() {
        let message = ToSpare::Finish.encode(endpoint.run());
        endpoint.send_ready(to, message)?;
    }
    coordinator.ended = endpoint.clock().now();
    Ok(coordinator)
}

/// The part of a rank that has no rows: it waits for the end.
pub(super) fn stand_by(endpoint: &mut Endpoint, limit: Duration) -> Result<()> {
    endpoint.wait_until(
        limit,
        |_, message| {
            let Some(message) = message else { return Ok(None) };
            let from = message.from;
            match Received::decode(message)? {
                Received::ForSpare(ToSpare::Finish) => Ok(Some(())),
                Received::ForSpare(ToSpare::Alive) => Ok(None),
                other => Err(other.unexpected(from, "the end of the loop")),
            }
        },
        || "for rank 0 to end the loop".to_string(),
    )
}
