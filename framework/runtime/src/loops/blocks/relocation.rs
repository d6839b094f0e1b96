//! A rank's part of a movement.

use std::ops::Range;

use bytemuck::Pod;

use super::block::Block;
use super::mail::{Out, Place, Queue, next_rows, open_rows, send_rows, unexpected};
use super::orders::Movement;
use crate::error::Result;
use crate::session::letter::Kind;

/// What a rank does in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Task {
    Send { to: usize, units: Range<u64> },
    Receive { from: usize, units: Range<u64> },
}

/// Sends and receives rows, round by round, as far as it can.
#[derive(Debug)]
pub(super) struct Relocation {
    /// In order; in a round sends come first.
    tasks: Vec<Task>,
    next: usize,
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl Relocation {
    pub(super) fn new(movement: &Movement, place: Place) -> Self {
        let mut tasks = Vec::new();
        for round in &movement.rounds {
            let sends = round.iter().filter(|m| m.from == place.rank);
            tasks.extend(sends.map(|m| Task::Send { to: m.to, units: m.units.clone() }));
            let receives = round.iter().filter(|m| m.to == place.rank);
            tasks.extend(receives.map(|m| Task::Receive { from: m.from, units: m.units.clone() }));
        }
        Relocation { tasks, next: 0, sent: 0, received: 0 }
    }

    /// Goes on; true when the rank has done its part.
    pub(super) fn advance<T: Pod + Send>(
        &mut self,
        place: Place,
        block: &mut Block<T>,
        above: &mut Queue,
        below: &mut Queue,
        out: &mut dyn Out,
    ) -> Result<bool> {
        while let Some(task) = self.tasks.get(self.next) {
            match task {
                Task::Send { to, units } => {
                    let (rows, count) = (row_range(units), (units.end - units.start) as usize);
                    let has = block.rows();
                    let is_up = *to < place.rank;
                    let is_there = if is_up {
                        rows.start == has.start && rows.end <= has.end
                    } else {
                        rows.end == has.end && rows.start >= has.start
                    };
                    if !is_there {
                        let what = format!("an order to send rows {rows:?}");
                        return Err(unexpected(0, &what, &format!("some at an end of {has:?}")));
                    }
                    let values = if is_up { block.take_front(count) } else { block.take_back(count) };
                    send_rows(out, Kind::Units, *to, rows.start, values)?;
                    self.sent += count as u64;
                }
                Task::Receive { from, units } => {
                    let is_above = *from < place.rank;
                    let queue = if is_above { &mut *above } else { &mut *below };
                    let Some(mail) = next_rows(queue, *from)? else { return Ok(false) };
                    let values = open_rows(mail, &row_range(units), block.width(), *from)?;
                    if is_above {
                        block.put_front(&values);
                    } else {
                        block.put_back(&values);
                    }
                    self.received += units.end - units.start;
                }
            }
            self.next += 1;
        }
        Ok(true)
    }

    /// Whom it waits for.
    pub(super) fn waiting_for(&self) -> String {
        match self.tasks.get(self.next) {
            Some(Task::Receive { from, units }) => {
                format!("for rows {:?} that move here from rank {from}", row_range(units))
            }
            _ => "to send rows".to_string(),
        }
    }
}

/// The rows that are these units.
fn row_range(units: &Range<u64>) -> Range<u64> {
    units.start + 1..units.end + 1
}
