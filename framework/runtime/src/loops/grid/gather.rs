//! The whole grid on rank 0: the rows of all ranks are brought together.

use std::ops::Range;
use std::time::Duration;

use bytemuck::Pod;

use super::local_rows::LocalRows;
use super::messages::{Rows, unexpected};
use crate::comm::endpoint::Endpoint;
use crate::error::Result;

/// On rank 0: puts its own rows, and those that come from the other ranks, into `all` rows of the grid; `held` is how many
/// each rank has that has any.
///
/// # Errors
/// If ranks are silent for longer than `limit`, or send what are not their rows.
pub(super) fn gather<T: Pod + Send>(
    endpoint: &mut Endpoint,
    limit: Duration,
    local: &mut LocalRows<T>,
    held: &[u64],
    all: &mut [T],
) -> Result<()> {
    let width = local.width();
    let own = local.grid().values;
    all[..own.len()].copy_from_slice(own);
    let mut missing: Vec<usize> = (1..held.len()).collect();
    let awaited = std::cell::RefCell::new(missing.clone());
    let mut starts = vec![1_u64];
    for units in held {
        starts.push(starts[starts.len() - 1] + units);
    }
    endpoint.wait_until(
        limit,
        |_, message| {
            if let Some(message) = message {
                let from = message.from;
                let sent = Rows::decode_gathered(message)?;
                let Some(at) = missing.iter().position(|&rank| rank == from) else {
                    return Err(unexpected(from, "rows of the grid", "nothing more"));
                };
                missing.swap_remove(at);
                awaited.borrow_mut().clone_from(&missing);
                // The last rank has the lower edge, too.
                let edge = u64::from(from + 1 == held.len());
                let rows: Range<u64> = starts[from]..starts[from + 1] + edge;
                let values: Vec<T> = sent.into_values(&rows, width, from)?;
                let begin = rows.start as usize * width;
                all[begin..begin + values.len()].copy_from_slice(&values);
            }
            Ok(missing.is_empty().then_some(()))
        },
        || format!("for the rows of ranks {:?}", awaited.borrow()),
    )
}
