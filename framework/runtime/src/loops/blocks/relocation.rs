//! A rank's part of a movement.

use std::ops::Range;

use bytemuck::Pod;

use super::block::Block;
use super::mail::{Out, Place, next_rows, open_rows, send_coming, send_rows, send_wanted, unexpected};
use super::neighbours::Neighbours;
use super::orders::Movement;
use crate::comm::message::Tag;
use crate::error::Result;

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
    /// The rows that are to be received next are on their way.
    coming: bool,
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
        Relocation { tasks, next: 0, coming: false, sent: 0, received: 0 }
    }

    /// Goes on; true when the rank has done its part.
    pub(super) fn advance<T: Pod + Send>(
        &mut self,
        place: Place,
        block: &mut Block<T>,
        mail: &mut Neighbours,
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
                    // The receiver takes what follows this for the time that the rows need.
                    send_coming(out, *to)?;
                    send_rows(out, Tag::Units, *to, rows.start, values)?;
                    self.sent += count as u64;
                }
                Task::Receive { from, units } => {
                    let is_above = *from < place.rank;
                    let queue = if is_above { &mut mail.above } else { &mut mail.below };
                    let Some(mail) = next_rows(queue, *from)? else { return Ok(false) };
                    if !self.coming {
                        if !mail.is_coming() {
                            return Err(unexpected(*from, "rows", "that they are announced first"));
                        }
                        self.coming = true;
                        if queue.is_empty() {
                            send_wanted(out, *from)?;
                        }
                        continue;
                    }
                    let values = open_rows(mail, &row_range(units), block.width(), *from)?;
                    if is_above {
                        block.put_front(&values);
                    } else {
                        block.put_back(&values);
                    }
                    self.received += units.end - units.start;
                    self.coming = false;
                }
            }
            self.next += 1;
        }
        Ok(true)
    }

    /// Whether it waits for a rank that has not begun to send.
    pub(super) fn awaits_sender(&self) -> bool {
        !self.coming && matches!(self.tasks.get(self.next), Some(Task::Receive { .. }))
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

#[cfg(test)]
mod tests {
    use armature_planner::loops::BlockMove;

    use super::*;
    use crate::comm::Part;
    use crate::comm::message::{FRAME_HEADER, TAG_AT, frame_header};
    use crate::error::Result;

    use super::super::mail::Mail;

    /// What a rank sends.
    #[derive(Default)]
    struct Wire(Vec<Mail>);

    impl Out for Wire {
        fn begin(&mut self, tag: Tag, _: usize) -> Vec<u8> {
            frame_header(1, tag).to_vec()
        }
        fn send(&mut self, _: usize, head: Vec<u8>, parts: Vec<Part>) -> Result<()> {
            let tag = if head[TAG_AT] == Tag::Wanted as u8 { Tag::Wanted } else { Tag::Units };
            self.0.push(Mail { tag, body: bytes::Bytes::from(head).slice(FRAME_HEADER..), parts });
            Ok(())
        }
    }

    /// Waiting for the sender is told from waiting for what it has sent, and the sender hears of that.
    #[test]
    fn a_receiver_knows_whether_rows_are_on_their_way() {
        let movement = Movement { before: 1, rounds: vec![vec![BlockMove { from: 0, to: 1, units: 2..4 }]] };
        let place = |rank| Place { rank, chain: 2 };
        let block = |rows: Range<u64>| {
            Block::<f64>::create(3, rows, |row, all| {
                all.fill(row as f64);
                Ok(())
            })
        };
        let (mut upper, mut lower) = (block(1..5).unwrap(), block(5..6).unwrap());
        let (mut wire, mut mail) = (Wire::default(), Neighbours::of(place(1)));
        let mut receiver = Relocation::new(&movement, place(1));
        let mut receive = |mail: &mut Neighbours| {
            let mut wire = Wire::default();
            let done = receiver.advance(place(1), &mut lower, mail, &mut wire);
            let said: Vec<Tag> = wire.0.iter().map(|mail| mail.tag).collect();
            (done.map_err(|error| error.to_string()), receiver.awaits_sender(), said)
        };
        assert_eq!(receive(&mut mail), (Ok(false), true, vec![]), "nothing has come");
        let mut sender = Relocation::new(&movement, place(0));
        assert!(sender.advance(place(0), &mut upper, &mut Neighbours::of(place(0)), &mut wire).unwrap());
        assert!(!sender.awaits_sender() && sender.sent == 2);
        let [coming, rows] = <[Mail; 2]>::try_from(wire.0).unwrap();
        mail.receive(0, coming).unwrap();
        let wanted = vec![Tag::Wanted];
        assert_eq!(receive(&mut mail), (Ok(false), false, wanted), "they are on their way");
        assert_eq!(receive(&mut mail), (Ok(false), false, vec![]), "that is said once");
        mail.receive(0, rows).unwrap();
        assert_eq!(receive(&mut mail), (Ok(true), false, vec![]));
        assert_eq!((lower.rows(), lower.first()), (3..6, &[3.0; 3][..]));
    }
}
