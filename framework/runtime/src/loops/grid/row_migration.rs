//! State machine that sends and receives a rank's rows in a movement of rows.

use std::ops::Range;

use bytemuck::Pod;

use super::directive::Movement;
use super::local_rows::LocalRows;
use super::messages::{NeighbourSender, Rows, ToNeighbour, unexpected};
use super::neighbours::{Neighbours, Position};
use crate::error::Result;

#[derive(Clone, Debug, PartialEq, Eq)]
enum RowTransfer {
    Send { to: usize, units: Range<u64> },
    Receive { from: usize, units: Range<u64> },
}

/// One rank's part of a movement of rows: the rows that it sends and receives, in order.
#[derive(Debug)]
pub(super) struct RowMigration {
    /// Sends and receives of this rank in a movement of rows. In each round of the movement the rank sends before it receives.
    transfers: Vec<RowTransfer>,
    next: usize,
    /// True if a neighbour has announced the rows that this rank receives next.
    is_announced: bool,
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl RowMigration {
    pub(super) fn new(movement: &Movement, position: Position) -> Self {
        let mut transfers = Vec::new();
        for round in &movement.rounds {
            let sends = round.iter().filter(|m| m.from == position.rank);
            transfers.extend(sends.map(|m| RowTransfer::Send { to: m.to, units: m.units.clone() }));
            let receives = round.iter().filter(|m| m.to == position.rank);
            transfers.extend(receives.map(|m| RowTransfer::Receive { from: m.from, units: m.units.clone() }));
        }
        RowMigration { transfers, next: 0, is_announced: false, sent: 0, received: 0 }
    }

    /// Sends and receives rows until a message is missing. Returns true when the rank has sent and received all its rows. If a directive of rank 0
    /// arrives before the rows, it stays in the queue, and the caller must process it first.
    pub(super) fn advance<T: Pod + Send>(
        &mut self,
        position: Position,
        local: &mut LocalRows<T>,
        queues: &mut Neighbours,
        out: &mut dyn NeighbourSender,
    ) -> Result<bool> {
        while let Some(transfer) = self.transfers.get(self.next) {
            match transfer {
                RowTransfer::Send { to, units } => {
                    let (rows, count) = (row_range(units), (units.end - units.start) as usize);
                    let has = local.rows();
                    let is_up = *to < position.rank;
                    let is_there = if is_up {
                        rows.start == has.start && rows.end <= has.end
                    } else {
                        rows.end == has.end && rows.start >= has.start
                    };
                    if !is_there {
                        let what = format!("a directive to send rows {rows:?}");
                        return Err(unexpected(0, &what, &format!("rows at one end of {has:?}")));
                    }
                    let values = if is_up { local.take_front(count) } else { local.take_back(count) };
                    // Announces the rows, so that the receiver knows when their transfer begins and does not count its earlier
                    // waiting as transfer time.
                    out.send(*to, ToNeighbour::RowsComing)?;
                    out.send(*to, ToNeighbour::Rows(Rows::new(rows.start, values)))?;
                    self.sent += count as u64;
                }
                RowTransfer::Receive { from, units } => {
                    let is_above = *from < position.rank;
                    let queue = if is_above { &mut queues.above } else { &mut queues.below };
                    let sent = match queue.pop_front() {
                        None => return Ok(false),
                        // The caller processes a directive of rank 0 that arrives before the rows. The sender of the rows may forward directives
                        // while it still waits for rows that it has to pass on.
                        Some(directive @ ToNeighbour::Directive(_)) if !self.is_announced => {
                            queue.push_front(directive);
                            return Ok(false);
                        }
                        Some(ToNeighbour::RowsComing) if !self.is_announced => {
                            self.is_announced = true;
                            if queue.is_empty() {
                                out.send(*from, ToNeighbour::Wanted)?;
                            }
                            continue;
                        }
                        Some(ToNeighbour::Rows(rows)) if self.is_announced => rows,
                        Some(other) => {
                            let expected =
                                if self.is_announced { "rows" } else { "an announcement of rows first" };
                            return Err(other.unexpected(*from, expected));
                        }
                    };
                    let values = sent.into_values(&row_range(units), local.width(), *from)?;
                    if is_above {
                        local.append_front(&values);
                    } else {
                        local.append_back(&values);
                    }
                    self.received += units.end - units.start;
                    self.is_announced = false;
                }
            }
            self.next += 1;
        }
        Ok(true)
    }

    /// Returns true if the rank waits for rows whose sender has not announced them yet.
    pub(super) fn awaits_sender(&self) -> bool {
        !self.is_announced && matches!(self.transfers.get(self.next), Some(RowTransfer::Receive { .. }))
    }

    pub(super) fn waiting_for(&self) -> String {
        match self.transfers.get(self.next) {
            Some(RowTransfer::Receive { from, units }) => {
                format!("for rows {:?} from rank {from}", row_range(units))
            }
            _ => "to send rows".to_string(),
        }
    }
}

/// Converts numbers of units (computed rows) to numbers of rows, which are counted from the row above unit 0.
fn row_range(units: &Range<u64>) -> Range<u64> {
    units.start + 1..units.end + 1
}

#[cfg(test)]
mod tests {
    use armature_planner::loops::BlockMove;

    use bytes::Bytes;

    use super::super::messages::delivered;
    use super::*;

    #[derive(Default)]
    struct Wire(Vec<ToNeighbour<Bytes>>);

    impl NeighbourSender for Wire {
        fn send(&mut self, _: usize, message: ToNeighbour<&[u8]>) -> Result<()> {
            self.0.push(delivered(message));
            Ok(())
        }
    }

    /// A rank that waits for rows which their sender has announced sends it the message `Wanted`, once. Before the announcement it sends nothing,
    /// because the sender may be busy with a sweep.
    #[test]
    fn receiver_requests_announced_rows_once() {
        let movement = Movement { before: 1, rounds: vec![vec![BlockMove { from: 0, to: 1, units: 2..4 }]] };
        let position = |rank| Position { rank, chain: 2 };
        let local = |rows: Range<u64>| {
            LocalRows::<f64>::create(3, rows, |row, all| {
                all.fill(row as f64);
                Ok(())
            })
        };
        let (mut upper, mut lower) = (local(1..5).unwrap(), local(5..6).unwrap());
        let (mut wire, mut queues) = (Wire::default(), Neighbours::of(position(1)));
        let mut receiver = RowMigration::new(&movement, position(1));
        let mut receive = |queues: &mut Neighbours| {
            let mut wire = Wire::default();
            let done = receiver.advance(position(1), &mut lower, queues, &mut wire);
            let requests_rows = matches!(wire.0[..], [ToNeighbour::Wanted]);
            assert!(requests_rows || wire.0.is_empty());
            (done.map_err(|error| error.to_string()), receiver.awaits_sender(), requests_rows)
        };
        assert_eq!(receive(&mut queues), (Ok(false), true, false), "nothing has come");
        let mut sender = RowMigration::new(&movement, position(0));
        assert!(
            sender.advance(position(0), &mut upper, &mut Neighbours::of(position(0)), &mut wire).unwrap()
        );
        assert!(!sender.awaits_sender() && sender.sent == 2);
        let [announcement, rows] = <[ToNeighbour<Bytes>; 2]>::try_from(wire.0).unwrap();
        queues.receive(0, announcement).unwrap();
        assert_eq!(receive(&mut queues), (Ok(false), false, true), "they are on their way");
        assert_eq!(receive(&mut queues), (Ok(false), false, false), "it is asked once");
        queues.receive(0, rows).unwrap();
        assert_eq!(receive(&mut queues), (Ok(true), false, false));
        assert_eq!((lower.rows(), lower.first()), (3..6, &[3.0; 3][..]));
    }
}
