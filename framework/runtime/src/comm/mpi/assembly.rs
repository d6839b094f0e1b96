//! Assembly of received messages in the order in which each sender has sent them, and reception of their bulk data.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ffi::c_int;

use ::mpi::ffi;
use bytes::Bytes;

use super::call::check;
use super::envelope::{self, Announced, Kind, Number, Unit, wire};
use super::memory::Landing;
use super::receive::{Control, count, empty_status};
use super::sentinel;
use crate::comm::{Frame, Part};
use crate::error::Result;

/// MPI tag of all bulk data, which has a separate communicator and needs no other tag.
pub(super) const BULK_TAG: c_int = 0;

/// Maximum number of posted receives of bulk data for one sender.
const POSTED: usize = 64;

/// Value of [`POSTED`] under the simulator. In the simulator all messages that are in flight between two ranks share the link, which delays all of
/// them, whereas a real connection transfers one after the other. Two receives are enough to keep the link busy.
const POSTED_SIMULATED: usize = 2;

/// Number of posted receives that one call of [`test_receives`](Assembly::test_receives) tests.
const WINDOW: usize = 64;

/// Completely received messages that are not passed on yet, each with its sender, in the order of completion.
pub(super) type Ready = VecDeque<(usize, Frame)>;

/// Incomplete messages by sender, and the receives posted for them.
///
/// Invariant: request `requests[i]` writes to a buffer of the message that `owners[i]` names, and this buffer is neither grown nor freed before the
/// request is complete.
pub(super) struct Assembly {
    comm: ffi::MPI_Comm,
    split: usize,
    largest: u64,
    most_posted: usize,
    /// Set under the simulator: a known pattern at the start of each buffer (see `sentinel.rs`) shows whether a receive is complete, and
    /// requests are not tested.
    has_sentinels: bool,
    senders: Vec<Sender>,
    requests: Vec<ffi::MPI_Request>,
    owners: Vec<Owner>,
    cursor: usize,
    done: [c_int; WINDOW],
    statuses: Vec<ffi::MPI_Status>,
}

/// Message to which a posted receive belongs, named by its sender and serial number, and the number of bytes that the receive must get.
#[derive(Clone, Copy)]
struct Owner {
    from: usize,
    serial: u64,
    bytes: usize,
    /// Address of the pattern in the receive buffer that the message overwrites (see `sentinel.rs`), if there is one.
    sentinel: Option<*const u8>,
}

/// State of the messages from one sender: incomplete messages, and complete ones that follow an incomplete one.
#[derive(Default)]
struct Sender {
    /// Number of the control message (short message or envelope) of this sender that is next in order.
    expected: Number,
    /// Control messages of this sender that arrived before an earlier one.
    early: Vec<(Number, Kind, Bytes)>,
    queue: VecDeque<Arriving>,
    /// Serial number of the first message in `queue`, among the messages from this sender.
    first: u64,
    /// Serial number, among the messages from this sender, of the first one in `queue` for which receives may still have to be posted.
    posting: u64,
    posted: usize,
}

struct Arriving {
    pieces: Vec<MessagePiece>,
    /// True while the envelope of the message is being received, if the envelope is itself sent as bulk data.
    far: bool,
    /// Index of the piece of the message (its small data, or one of its large data) for which the next receive must be posted, and the offset in the
    /// piece.
    next: (usize, usize),
    outstanding: usize,
}

enum MessagePiece {
    Here(Bytes),
    /// Piece of the message (its small data, or one of its large data) that is received into a separate buffer of `length` bytes. The buffer is
    /// allocated when its first receive is posted.
    Landing {
        buffer: Landing,
        length: usize,
    },
}

impl Arriving {
    fn new(announced: Vec<Announced>, far: bool) -> Self {
        let pieces = announced.into_iter().map(|piece| match piece {
            Announced::Here(bytes) => MessagePiece::Here(bytes),
            Announced::Bulk { length, unit } => {
                MessagePiece::Landing { buffer: Landing::empty(unit), length }
            }
        });
        let mut message = Arriving { pieces: pieces.collect(), far, next: (0, 0), outstanding: 0 };
        message.skip();
        message
    }

    /// Moves `next` to the next piece of the message for which a receive must be posted, or to the end of the message.
    fn skip(&mut self) {
        while let Some(piece) = self.pieces.get(self.next.0) {
            match piece {
                MessagePiece::Landing { length, .. } if self.next.1 < *length => break,
                _ => self.next = (self.next.0 + 1, 0),
            }
        }
    }

    fn all_posted(&self) -> bool {
        self.next.0 == self.pieces.len()
    }

    fn complete(&self) -> bool {
        self.all_posted() && self.outstanding == 0
    }

    /// Returns the data of a complete message: first its small data (the head), then each of its large data (the parts).
    fn into_parts(self) -> impl Iterator<Item = Part> {
        debug_assert!(self.complete());
        self.pieces.into_iter().map(move |piece| match piece {
            MessagePiece::Here(bytes) => Part::Bytes(bytes),
            MessagePiece::Landing { buffer, length } => {
                // SAFETY: the message is complete, so MPI has written all of the `length` bytes for which the buffer was allocated (the byte count
                // of each receive was checked), and `envelope::read` rejects a length that is not a multiple of the element size.
                unsafe { buffer.filled(length) }
            }
        })
    }
}

/// Returns the description of an envelope (list of the sizes of a message's data) of `length` bytes that is itself sent as bulk data.
fn far(length: usize) -> Announced {
    Announced::Bulk { length, unit: Unit::Byte }
}

impl Assembly {
    pub(super) fn new(
        comm: ffi::MPI_Comm,
        ranks: usize,
        split: usize,
        largest: u64,
        has_sentinels: bool,
    ) -> Self {
        Assembly {
            comm,
            split,
            largest,
            most_posted: if has_sentinels { POSTED_SIMULATED } else { POSTED },
            has_sentinels,
            senders: (0..ranks).map(|_| Sender::default()).collect(),
            requests: Vec::new(),
            owners: Vec::new(),
            cursor: 0,
            done: [0; WINDOW],
            statuses: vec![empty_status(); WINDOW],
        }
    }

    /// Accepts a received control message, and appends the messages that are now complete to `ready`.
    #[inline]
    pub(super) fn accept(&mut self, control: Control, ready: &mut Ready) -> Result<()> {
        let Control { from, tag, data } = control;
        let (kind, number) = envelope::read_tag(tag).map_err(|e| e.at_rank(from))?;
        let ranks = self.senders.len();
        let Some(sender) = self.senders.get_mut(from) else {
            return Err(wire(format!("a message arrived from rank {from}, but there are {ranks} ranks")));
        };
        if number != sender.expected {
            sender.early.push((number, kind, data));
            return Ok(());
        }
        sender.expected = number.next();
        self.in_order(from, kind, data, ready)?;
        while let Some(sender) = self.senders.get_mut(from)
            && let Some(at) = sender.early.iter().position(|(number, ..)| *number == sender.expected)
        {
            let (number, kind, data) = sender.early.swap_remove(at);
            sender.expected = number.next();
            self.in_order(from, kind, data, ready)?;
        }
        Ok(())
    }

    fn in_order(&mut self, from: usize, kind: Kind, data: Bytes, ready: &mut Ready) -> Result<()> {
        let sender = &mut self.senders[from];
        let message = match kind {
            Kind::Head if sender.queue.is_empty() => {
                ready.push_back((from, Frame { head: data, parts: Vec::new() }));
                return Ok(());
            }
            Kind::Head => Arriving::new(vec![Announced::Here(data)], false),
            Kind::Envelope => Arriving::new(envelope::read(data, self.largest)?, false),
            Kind::Far => Arriving::new(vec![far(envelope::read_far(&data)?)], true),
        };
        sender.queue.push_back(message);
        self.post(from)?;
        self.deliver(from, ready);
        Ok(())
    }

    /// Posts receives for the bulk data of rank `from`, in the order in which the data are sent, up to the permitted number of posted receives.
    fn post(&mut self, from: usize) -> Result<()> {
        let sender = &mut self.senders[from];
        while sender.posted < self.most_posted {
            let serial = sender.posting;
            let Some(message) = sender.queue.get_mut((serial - sender.first) as usize) else { break };
            if message.all_posted() {
                // While an envelope that is sent as bulk data has not arrived, no further receives are posted, because the lengths of the following
                // data are in the envelope.
                if message.far {
                    break;
                }
                sender.posting += 1;
                continue;
            }
            let (piece, offset) = message.next;
            let MessagePiece::Landing { buffer, length } = &mut message.pieces[piece] else {
                message.skip();
                continue;
            };
            if offset == 0 {
                let no_room = |e| wire(format!("no memory for {length} bytes from rank {from}: {e}"));
                buffer.reserve(*length).map_err(no_room)?;
            }
            let bytes = (*length - offset).min(self.split);
            let start = buffer.start().wrapping_add(offset);
            let sentinel = (self.has_sentinels && bytes >= sentinel::LENGTH).then(|| {
                // SAFETY: the receive buffer has capacity for `bytes` bytes at `offset`.
                unsafe { sentinel::set(start) };
                start.cast_const()
            });
            // SAFETY: reading a constant of the MPI library after MPI_Init.
            let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
            // SAFETY: the buffer's capacity is at least `length`, `offset + bytes <= length`, `bytes` is at most `split`, which fits a C int, and no
            // other receive covers the same bytes. The buffer is not changed until the request is complete or the transport leaks it.
            let code = unsafe {
                ffi::MPI_Irecv(
                    start.cast(),
                    bytes as c_int,
                    ffi::RSMPI_UINT8_T,
                    from as c_int,
                    BULK_TAG,
                    self.comm,
                    &mut request,
                )
            };
            check(code, "MPI_Irecv of bulk data")?;
            self.requests.push(request);
            self.owners.push(Owner { from, serial, bytes, sentinel });
            message.outstanding += 1;
            message.next = (piece, offset + bytes);
            message.skip();
            sender.posted += 1;
        }
        Ok(())
    }

    fn deliver(&mut self, from: usize, ready: &mut Ready) {
        let sender = &mut self.senders[from];
        while sender.queue.front().is_some_and(|message| message.complete() && !message.far) {
            let Some(message) = sender.queue.pop_front() else { break };
            sender.first += 1;
            sender.posting = sender.posting.max(sender.first);
            let mut pieces = message.into_parts();
            let head = pieces.next().map(Part::into_bytes).unwrap_or_default();
            ready.push_back((from, Frame { head, parts: pieces.collect() }));
        }
    }

    /// Tests some of the posted receives and processes the complete receives. Returns true if at least one receive was complete.
    pub(super) fn test_receives(&mut self, ready: &mut Ready) -> Result<bool> {
        if self.requests.is_empty() {
            return Ok(false);
        }
        if self.has_sentinels {
            return self.test_sentinels(ready);
        }
        if self.cursor >= self.requests.len() {
            self.cursor = 0;
        }
        let from = self.cursor;
        let window = (self.requests.len() - from).min(WINDOW);
        let mut found: c_int = 0;
        // SAFETY: the list of requests has `window` active requests from the cursor on; indices and statuses have capacity for as many.
        let code = unsafe {
            ffi::MPI_Testsome(
                window as c_int,
                self.requests.as_mut_ptr().add(from),
                &mut found,
                self.done.as_mut_ptr(),
                self.statuses.as_mut_ptr(),
            )
        };
        check(code, "MPI_Testsome of receives")?;
        // If no request is active, MPI_Testsome returns MPI_UNDEFINED instead of a number of receives. It is negative, so the conversion fails and
        // gives 0.
        let found = usize::try_from(found).unwrap_or(0);
        self.cursor += window - found;
        if found == 0 {
            return Ok(false);
        }
        let mut done = [(0, 0); WINDOW];
        for ((done, &index), status) in done.iter_mut().zip(&self.done).zip(&self.statuses).take(found) {
            *done = (index as usize, count(status)?);
        }
        // The last receive in the list is removed first, so that `swap_remove` does not move a completed receive that is still to be removed.
        let done = &mut done[..found];
        done.sort_unstable();
        for &(index, bytes) in done.iter().rev() {
            self.arrived(from + index, bytes, ready)?;
        }
        Ok(true)
    }

    /// Finds one complete receive by its sentinel, a pattern in the buffer that the message overwrites, and processes the receive. A receive
    /// whose buffer has no sentinel is completed when the rank waits for any request.
    fn test_sentinels(&mut self, ready: &mut Ready) -> Result<bool> {
        let is_filled = |owner: &Owner| {
            // SAFETY: the receive is posted, so its buffer exists, has a sentinel (a pattern at its start), and only the simulator writes to it.
            owner.sentinel.is_some_and(|start| unsafe { sentinel::is_overwritten(start) })
        };
        let Some(index) = self.owners.iter().position(is_filled) else { return Ok(false) };
        let mut status = empty_status();
        // SAFETY: the request is active and the pointers are valid for the call.
        let code = unsafe { ffi::MPI_Wait(&mut self.requests[index], &mut status) };
        check(code, "MPI_Wait for bulk data")?;
        self.arrived(index, count(&status)?, ready)?;
        Ok(true)
    }

    pub(super) fn arrived(&mut self, index: usize, bytes: usize, ready: &mut Ready) -> Result<()> {
        self.requests.swap_remove(index);
        let owner = self.owners.swap_remove(index);
        let from = owner.from;
        if bytes != owner.bytes {
            return Err(wire(format!("{bytes} bytes arrived from rank {from}, expected {}", owner.bytes)));
        }
        let sender = &mut self.senders[from];
        sender.posted -= 1;
        let Some(message) = sender.queue.get_mut((owner.serial - sender.first) as usize) else {
            return Err(wire(format!("data arrived from rank {from} for a message that is complete")));
        };
        message.outstanding -= 1;
        if message.far && message.complete() {
            let arrived = std::mem::replace(message, Arriving::new(Vec::new(), false));
            let envelope = arrived.into_parts().next().map(Part::into_bytes).unwrap_or_default();
            *message = Arriving::new(envelope::read(envelope, self.largest)?, false);
        }
        self.post(from)?;
        self.deliver(from, ready);
        Ok(())
    }

    /// Returns the requests of the posted receives. Their indices are valid arguments of [`arrived`](Assembly::arrived).
    pub(super) fn requests(&self) -> &[ffi::MPI_Request] {
        &self.requests
    }

    pub(super) fn is_empty(&self) -> bool {
        self.senders.iter().all(|sender| sender.queue.is_empty() && sender.early.is_empty())
    }
}

impl Drop for Assembly {
    fn drop(&mut self) {
        if !self.requests.is_empty() {
            // The buffers of unfinished receives are leaked, because MPI may still write to them.
            std::mem::forget(std::mem::take(&mut self.senders));
        }
    }
}
