//! Broadcast from rank 0 to all other ranks: down the [tree](super::tree), in pieces of bounded size.

use bytes::{Buf, Bytes};
use serde::{Serialize, de::DeserializeOwned};

use super::tree::Tree;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Control, Message, Tagged, frame_header};
use crate::comm::waiting::{Limits, Waits};
use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};
use crate::session::Session;
use crate::session::agreement::{Announcement, Opening};
use crate::user_code;
use crate::wire::{self, Codec, Item, weigh_some};

/// Approximate size in bytes of a piece of a broadcast value. Each piece is encoded and decoded as a whole: larger pieces need more memory in
/// addition to the values, much smaller pieces send too many messages.
pub(crate) const PIECE: usize = 4 << 20;

/// Encoded piece of a broadcast value: bytes, and large blocks of data that are sent as separate parts of the message.
pub(crate) type Encoded = (Vec<u8>, Vec<Part>);

/// Function that returns the next piece of a broadcast value, and true if it is the last piece.
pub(crate) type NextPiece<'n> = &'n mut dyn FnMut() -> Result<(Encoded, bool)>;

/// State of a collective operation on one rank; values are sent along a tree of ranks.
pub(super) struct Course {
    pub(super) limits: Limits,
    pub(super) run: u32,
    pub(super) parent: usize,
    pub(super) children: Vec<usize>,
    /// On rank 0: ranks that were taken for dead. Rank 0 sends all pieces to them too, because they may only have been slow, and expects no messages
    /// from them.
    aside: Vec<usize>,
    /// True if rank 0 has taken this rank for dead and sends all pieces to it directly.
    pub(super) is_aside: bool,
    /// On rank 0: the encoded [`Opening`], which precedes the first piece. Empty on other ranks, on which `arrived` is the first message from the
    /// parent.
    opening: Vec<u8>,
    arrived: Option<Message>,
}

impl Course {
    /// Begins a collective operation in which all ranks receive pieces of a value from rank 0 before anything else.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if rank 0 begins another operation or a skeleton; [`ErrorKind::Timeout`] if the parent in the tree is silent for too
    /// long, or if dead ranks are needed. The caller reports the error.
    pub(super) fn begin(endpoint: &mut Endpoint, what: Announcement, limits: Limits) -> Result<Self> {
        let run = endpoint.next_run_of(&what)?;
        let (rank, size) = (endpoint.rank(), endpoint.size());
        let mut lost = endpoint.lost().to_vec();
        let (mut parent, mut opening, mut arrived) = (0, Vec::new(), None);
        if rank == 0 {
            if size > 1 {
                opening = wire::to_bytes(&Opening { what, lost: lost.clone() })?;
            }
        } else {
            // Only rank 0 detects deaths, and its first piece lists the dead ranks. Until this piece arrives, a rank may take a dead rank
            // for its parent in the tree; the sender of the piece is the real parent.
            let tree = Tree::new(size, &lost);
            let (rank, heartbeats_to) = (tree.parent(rank).unwrap_or(0), &tree.children(rank)[..]);
            let (message, dead) = endpoint.await_opening(&what, &Waits { rank, limits, heartbeats_to })?;
            (parent, lost, arrived) = (message.from, dead, Some(message));
        }
        let tree = Tree::new(size, &lost);
        let is_aside = tree.parent(rank).is_none() && rank > 0;
        let aside = if rank == 0 { lost } else { Vec::new() };
        Ok(Course { limits, run, parent, children: tree.children(rank), aside, is_aside, opening, arrived })
    }

    /// Sends the pieces of rank 0's value, which `next` returns one by one, to all ranks. Each rank passes each piece to `take`. Rank 0 does so as
    /// well, so that all ranks decode the same data and rank 0 need not copy its value.
    ///
    /// # Errors
    /// The errors of `next` and `take`; [`ErrorKind::Timeout`] if the parent in the tree is silent for too long. The caller reports the error.
    pub(super) fn descend(
        &mut self,
        endpoint: &mut Endpoint,
        next: Option<NextPiece<'_>>,
        take: &mut dyn FnMut(Bytes, Vec<Part>) -> Result<()>,
    ) -> Result<()> {
        if endpoint.rank() > 0 {
            loop {
                let Message { code, body, parts, .. } = match self.arrived.take() {
                    Some(message) => message,
                    None => self.await_parent(endpoint)?,
                };
                self.pass_on(endpoint, code, &body, &parts)?;
                let (head, parts) = unpacked(self.parent, parts)?;
                take(head, parts)?;
                if code == Control::LastPiece.byte() {
                    return Ok(());
                }
            }
        }
        let next = next.ok_or_else(|| Error::new(ErrorKind::Wire, "rank 0 has no value to broadcast"))?;
        loop {
            let (piece, is_last) = next()?;
            let parts = packed(piece);
            let tag = if is_last { Control::LastPiece } else { Control::Piece };
            let opening = std::mem::take(&mut self.opening);
            self.pass_on(endpoint, tag.byte(), &opening, &parts)?;
            let (head, parts) = unpacked(0, parts)?;
            take(head, parts)?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Sends a piece of the broadcast value to the children of this rank in the tree of ranks, to those with the largest subtrees first.
    /// Rank 0 also sends it to ranks that were taken for dead.
    fn pass_on(&self, endpoint: &mut Endpoint, code: u8, opening: &[u8], parts: &[Part]) -> Result<()> {
        if self.children.is_empty() && self.aside.is_empty() {
            return Ok(());
        }
        let tag = Control::from_byte(code).unwrap_or(Control::LastPiece);
        let head = Bytes::from([&frame_header(self.run, tag)[..], opening].concat());
        let to = self.children.iter().rev().chain(&self.aside);
        to.copied().try_for_each(|rank| {
            endpoint.send_ready(rank, Frame { head: head.clone(), parts: parts.to_vec() })
        })
    }

    fn await_parent(&self, endpoint: &mut Endpoint) -> Result<Message> {
        let Course { parent, limits, .. } = *self;
        endpoint.await_from(
            &Waits { rank: parent, limits, heartbeats_to: &self.children },
            |from, tag| from == parent && (tag == Control::Piece.byte() || tag == Control::LastPiece.byte()),
            || format!("for rank {parent} to forward the broadcast value"),
        )
    }
}

/// Returns the parts of the message that carries a piece of a value: the encoded bytes, then the large blocks of data. Ranks can forward
/// these parts unchanged.
pub(in crate::session) fn packed((head, mut parts): Encoded) -> Vec<Part> {
    parts.insert(0, Part::Bytes(head.into()));
    parts
}

pub(super) fn unpacked(from: usize, mut parts: Vec<Part>) -> Result<(Bytes, Vec<Part>)> {
    if parts.is_empty() {
        return Err(Error::new(ErrorKind::Wire, format!("rank {from} sent an empty piece of a value")));
    }
    let head = parts.remove(0).into_bytes();
    Ok((head, parts))
}

pub(in crate::session) fn encode_items<T>(codec: &Codec<T>, items: Vec<T>) -> Result<Encoded> {
    let (mut head, mut parts) = ((items.len() as u64).to_le_bytes().to_vec(), Vec::new());
    // The items' `Serialize` may be user code, whose panics have to be caught.
    user_code::call(|| codec.encode(items, &mut head, &mut parts))?;
    Ok((head, parts))
}

pub(super) fn decode_items<T>(codec: &Codec<T>, mut head: Bytes, parts: Vec<Part>) -> Result<Vec<T>> {
    let items = head
        .try_get_u64_le()
        .map_err(|_| Error::new(ErrorKind::Wire, "a piece of values has no number of items"))?;
    let items = usize::try_from(items).unwrap_or(usize::MAX);
    user_code::call(|| codec.decode(head, parts, items))
}

impl Endpoint {
    /// Broadcasts a value of rank 0 in pieces, with [`Course::descend`]. The operation continues without dead ranks.
    ///
    /// # Errors
    /// The errors of [`Course::begin`] and [`Course::descend`].
    pub(crate) fn broadcast(
        &mut self,
        what: Announcement,
        limits: Limits,
        next: Option<NextPiece<'_>>,
        take: &mut dyn FnMut(Bytes, Vec<Part>) -> Result<()>,
    ) -> Result<()> {
        Course::begin(self, what.without_the_dead(), limits)?.descend(self, next, take)
    }

    /// Broadcasts the items of rank 0, in order, and an additional value. `bytes` is the approximate size of an item.
    ///
    /// # Errors
    /// The errors of [`broadcast`](Endpoint::broadcast), and of encoding the items.
    pub(crate) fn broadcast_items<T, S: Serialize + DeserializeOwned>(
        &mut self,
        what: Announcement,
        limits: Limits,
        codec: &Codec<T>,
        bytes: usize,
        root: Option<(Vec<T>, S)>,
    ) -> Result<(Vec<T>, S)> {
        let mut course = Course::begin(self, what.without_the_dead(), limits)?;
        let (items, extra_value) = root.unzip();
        let extra_value = course.descend_value(self, extra_value)?;
        Ok((course.descend_items(self, codec, bytes, items)?, extra_value))
    }
}

impl Course {
    pub(super) fn descend_value<S: Serialize + DeserializeOwned>(
        &mut self,
        endpoint: &mut Endpoint,
        value: Option<S>,
    ) -> Result<S> {
        let bytes = value.map(|value| wire::to_bytes(&value)).transpose()?;
        let mut encode = || Ok(((bytes.clone().unwrap_or_default(), Vec::new()), true));
        let mut got = None;
        let mut decode = |head: Bytes, _| {
            got = Some(wire::from_bytes(&head)?);
            Ok(())
        };
        let next: Option<NextPiece<'_>> = if endpoint.rank() == 0 { Some(&mut encode) } else { None };
        self.descend(endpoint, next, &mut decode)?;
        got.ok_or_else(|| Error::new(ErrorKind::Wire, "rank 0 sent no value"))
    }

    pub(super) fn descend_items<T>(
        &mut self,
        endpoint: &mut Endpoint,
        codec: &Codec<T>,
        bytes: usize,
        items: Option<Vec<T>>,
    ) -> Result<Vec<T>> {
        let count = (PIECE / bytes.max(1)).max(1);
        let mut rest = items.unwrap_or_default().into_iter();
        let mut encode = || {
            let piece = encode_items(codec, rest.by_ref().take(count).collect())?;
            Ok((piece, rest.len() == 0))
        };
        let mut all = Vec::new();
        let mut decode = |head: Bytes, parts: Vec<Part>| {
            let mut items = decode_items(codec, head, parts)?;
            if all.is_empty() {
                all = items;
            } else {
                all.append(&mut items);
            }
            Ok(())
        };
        let next: Option<NextPiece<'_>> = if endpoint.rank() == 0 { Some(&mut encode) } else { None };
        self.descend(endpoint, next, &mut decode)?;
        Ok(all)
    }
}

impl Session {
    /// Broadcasts the results of a skeleton from rank 0. `skeleton` describes the skeleton in error messages, such as `the farm "a"`; `place` adds
    /// the skeleton's name to an error.
    ///
    /// # Errors
    /// The errors of [`Endpoint::broadcast`], and of encoding the results. The errors are reported to all ranks.
    pub(crate) fn share<T: Item>(
        &mut self,
        skeleton: &str,
        codec: &Codec<T>,
        root: Option<Vec<T>>,
        place: impl Fn(Error) -> Error,
    ) -> Result<Vec<T>> {
        let root = root.map(|results| (results, ()));
        self.share_with(skeleton, codec, root, place).map(|(results, ())| results)
    }

    /// Broadcasts the results of a skeleton like [`share`](Session::share), together with another value.
    ///
    /// # Errors
    /// The errors of [`share`](Session::share).
    pub(crate) fn share_with<T: Item, S: Serialize + DeserializeOwned>(
        &mut self,
        skeleton: &str,
        codec: &Codec<T>,
        root: Option<(Vec<T>, S)>,
        place: impl Fn(Error) -> Error,
    ) -> Result<(Vec<T>, S)> {
        let what = Announcement::new(format!("gives all ranks the results of {skeleton}"));
        let what = what.with("results of type", std::any::type_name::<T>());
        let bytes = root.as_ref().map_or(1, |(items, _)| weigh_some(items) / items.len().max(1));
        self.reported(place, |endpoint, limits| endpoint.broadcast_items(what, limits, codec, bytes, root))
    }

    /// Reports the error in `result`, if there is one, to all ranks, so that the job ends. For errors outside of skeletons.
    ///
    /// # Errors
    /// The error in `result`.
    pub(crate) fn report_failure<R>(&mut self, result: Result<R>) -> Result<R> {
        if let Err(error) = &result {
            self.endpoint.report(error);
        }
        result
    }

    /// Runs a collective operation. If it fails, reports the error to all ranks, after `place` has added the location in the program.
    pub(super) fn reported<R>(
        &mut self,
        place: impl Fn(Error) -> Error,
        work: impl FnOnce(&mut Endpoint, Limits) -> Result<R>,
    ) -> Result<R> {
        let (endpoint, config) = self.endpoint();
        work(endpoint, config.limits()).map_err(|error| {
            let error =
                if error.kind() == ErrorKind::Peer { error } else { place(error).at_rank(endpoint.rank()) };
            endpoint.report(&error);
            error
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Config, run};

    fn broadcast_on_all<T: crate::Item + Clone + Sync>(
        ranks: usize,
        items: &[T],
        bytes: usize,
    ) -> Vec<(usize, Vec<T>, u8)> {
        let got = std::sync::Mutex::new(Vec::new());
        run(&Config::new().ranks(ranks), |session| {
            let root = session.is_root().then(|| (items.to_vec(), 7_u8));
            let what = Announcement::new("gives").with("bytes", bytes);
            let (endpoint, config) = session.endpoint();
            let codec = Codec::of_type();
            let (items, extra_value) =
                endpoint.broadcast_items(what, config.limits(), &codec, bytes, root)?;
            got.lock().unwrap().push((endpoint.rank(), items, extra_value));
            Ok(())
        })
        .unwrap();
        got.into_inner().unwrap()
    }

    #[test]
    fn all_ranks_receive_all_items_for_any_piece_size() {
        let words: Vec<String> = (0..1_000).map(|n| "x".repeat(n % 50)).collect();
        for ranks in [1, 2, 5] {
            // With these assumed sizes of an item, a piece of the broadcast value contains one item, 300 items, or all items.
            for bytes in [usize::MAX, PIECE / 300, weigh_some(&words) / words.len(), 0] {
                let got = broadcast_on_all(ranks, &words, bytes);
                assert_eq!(got.len(), ranks);
                assert!(got.iter().all(|(_, items, extra_value)| *items == words && *extra_value == 7));
            }
            assert!(broadcast_on_all(ranks, &[(); 10], 0).iter().all(|(_, items, _)| items.len() == 10));
            assert!(
                broadcast_on_all::<u64>(ranks, &[], 8)
                    .iter()
                    .all(|(_, items, extra_value)| items.is_empty() && *extra_value == 7)
            );
        }
    }

    #[test]
    fn encoding_error_reaches_every_rank() {
        #[derive(Clone, serde::Deserialize)]
        struct Odd;
        impl Serialize for Odd {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("never"))
            }
        }
        let error = run(&Config::new().ranks(3), |session| {
            let root = session.is_root().then(|| (vec![Odd], ()));
            let (endpoint, config) = session.endpoint();
            let (what, codec) = (Announcement::new("gives"), Codec::of_type());
            let sent = endpoint.broadcast_items(what, config.limits(), &codec, 1, root);
            sent.inspect_err(|error| endpoint.report(error))?;
            Ok(())
        });
        let error = error.unwrap_err();
        assert!(error.to_string().contains("never"), "{error}");
    }
}
