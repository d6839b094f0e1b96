//! Broadcast: what rank 0 has, given to all other ranks in pieces of bounded size.

use std::time::Duration;

use bytes::{Buf, Bytes};
use serde::{Serialize, de::DeserializeOwned};

use super::Session;
use super::agreement::Announcement;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Control, FRAME_HEADER, Message, frame_header};
use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};
use crate::user_code;
use crate::wire::{self, Codec, Item, weigh_some};

/// About how many bytes a piece has. Each piece is encoded and decoded as a whole: larger ones need more memory beside the values,
/// much smaller ones cost a message for little.
pub(crate) const PIECE: usize = 4 << 20;

/// A piece that is being encoded: its head, which begins with the header of a message, and bulk data.
pub(crate) type Encoded = (Vec<u8>, Vec<Part>);

impl Endpoint {
    /// All ranks get pieces from rank 0, where `next` encodes one after the other behind the head that it is given, until it says
    /// that there are no more. Each rank hands each piece to `take`, rank 0 too: so all have the same, and nothing is copied there
    /// that cannot be. Ranks that have died get none.
    ///
    /// # Errors
    /// Those of `next` and `take`; [`ErrorKind::Config`] if rank 0 runs something else; [`ErrorKind::Timeout`] if rank 0 is
    /// silent for longer than `limit`. The caller reports them.
    pub(crate) fn broadcast(
        &mut self,
        what: Announcement,
        limit: Duration,
        next: Option<&mut dyn FnMut(Encoded) -> Result<Option<Encoded>>>,
        take: &mut dyn FnMut(Bytes, Vec<Part>) -> Result<()>,
    ) -> Result<()> {
        let run = self.begin_run(&what.without_the_dead(), limit)?;
        let (rank, size) = (self.rank(), self.size());
        if rank > 0 {
            let step = |_: &mut Endpoint, message: Option<Message>| {
                let Some(message) = message else { return Ok(None) };
                match (message.from, message.tag()?) {
                    (0, Control::Piece) => take(message.body, message.parts).map(|()| None),
                    (0, Control::LastPiece) => Ok(Some(())),
                    (from, other) => {
                        let text = format!("rank {from} sent {other:?} instead of rank 0's results");
                        Err(Error::new(ErrorKind::Wire, text))
                    }
                }
            };
            return self.wait_until(limit, step, || "for the results of rank 0".to_string());
        }
        let next = next.ok_or_else(|| Error::new(ErrorKind::Wire, "rank 0 has nothing to give"))?;
        let to: Vec<usize> = (1..size).filter(|&rank| !self.is_lost(rank)).collect();
        let begun = || (frame_header(run, Control::Piece).to_vec(), Vec::new());
        while let Some((head, parts)) = next(begun())? {
            let piece = Frame { head: head.into(), parts };
            to.iter().try_for_each(|&rank| self.send_ready(rank, piece.clone()))?;
            take(piece.head.slice(FRAME_HEADER..), piece.parts)?;
        }
        to.iter().try_for_each(|&rank| self.send(rank, Control::LastPiece, &()))
    }

    /// All ranks get the items of rank 0, in their order, and something beside them. `bytes` is about how many an item has.
    ///
    /// # Errors
    /// As [`broadcast`](Endpoint::broadcast), and items that cannot be encoded.
    pub(crate) fn broadcast_items<T, S: Serialize + DeserializeOwned>(
        &mut self,
        what: Announcement,
        limit: Duration,
        codec: &Codec<T>,
        bytes: usize,
        root: Option<(Vec<T>, S)>,
    ) -> Result<(Vec<T>, S)> {
        let count = (PIECE / bytes.max(1)).max(1);
        let (items, mut beside) = root.unzip();
        let mut rest = items.map(Vec::into_iter);
        // The first piece is what stands beside.
        let mut encode = |(mut head, mut parts): Encoded| {
            if let Some(beside) = beside.take() {
                head.extend_from_slice(&wire::to_bytes(&beside)?);
                return Ok(Some((head, parts)));
            }
            let items: Vec<T> = rest.iter_mut().flatten().take(count).collect();
            if items.is_empty() {
                return Ok(None);
            }
            head.extend_from_slice(&(items.len() as u64).to_le_bytes());
            // `Serialize` may be the user's own code.
            user_code::call(|| codec.encode(items, &mut head, &mut parts))?;
            Ok(Some((head, parts)))
        };
        let (mut all, mut got) = (Vec::new(), None);
        let mut decode = |mut body: Bytes, parts: Vec<Part>| {
            if got.is_none() {
                got = Some(wire::from_bytes(&body)?);
                return Ok(());
            }
            let items = body
                .try_get_u64_le()
                .map_err(|_| Error::new(ErrorKind::Wire, "a piece of results has no number of items"))?;
            let items = usize::try_from(items).unwrap_or(usize::MAX);
            all.append(&mut user_code::call(|| codec.decode(body, parts, items))?);
            Ok(())
        };
        let next: Option<&mut dyn FnMut(Encoded) -> Result<Option<Encoded>>> =
            if self.rank() == 0 { Some(&mut encode) } else { None };
        self.broadcast(what, limit, next, &mut decode)?;
        match got {
            Some(beside) => Ok((all, beside)),
            None => Err(Error::new(ErrorKind::Wire, "rank 0 gave nothing")),
        }
    }
}

impl Session {
    /// Gives all ranks the results that rank 0 has of a skeleton, in words such as `the farm "a"`; `place` adds it to an error.
    ///
    /// # Errors
    /// As [`Endpoint::broadcast`], and results that cannot be encoded. They are reported.
    pub(crate) fn share<T: Item, S: Serialize + DeserializeOwned>(
        &self,
        skeleton: &str,
        codec: &Codec<T>,
        root: Option<(Vec<T>, S)>,
        place: impl Fn(Error) -> Error,
    ) -> Result<(Vec<T>, S)> {
        let endpoint = &mut *self.endpoint()?;
        let what = Announcement::new(format!("gives all ranks the results of {skeleton}"));
        let what = what.with("results of type", std::any::type_name::<T>());
        let bytes = root.as_ref().map_or(1, |(items, _)| weigh_some(items) / items.len().max(1));
        let shared = endpoint.broadcast_items(what, self.config.join_limit, codec, bytes, root);
        shared.map_err(|error| {
            let error = if error.kind() == ErrorKind::Peer { error } else { place(error).at_rank(self.rank) };
            endpoint.report(&error);
            error
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Config, run};

    /// What each rank gets of these items of rank 0.
    fn given<T: crate::Item + Clone + Sync>(
        ranks: usize,
        items: &[T],
        bytes: usize,
    ) -> Vec<(usize, Vec<T>, u8)> {
        let got = std::sync::Mutex::new(Vec::new());
        run(&Config::new().ranks(ranks), |session| {
            let root = session.is_root().then(|| (items.to_vec(), 7_u8));
            let what = Announcement::new("gives").with("bytes", bytes);
            let mut endpoint = session.endpoint()?;
            let limit = Duration::from_secs(20);
            let (items, beside) = endpoint.broadcast_items(what, limit, &Codec::of_type(), bytes, root)?;
            got.lock().unwrap().push((session.rank(), items, beside));
            Ok(())
        })
        .unwrap();
        got.into_inner().unwrap()
    }

    #[test]
    fn all_ranks_get_all_items_in_order_in_pieces_of_any_size() {
        let words: Vec<String> = (0..1_000).map(|n| "x".repeat(n % 50)).collect();
        for ranks in [1, 2, 5] {
            // One item a piece, some, all in one.
            for bytes in [usize::MAX, PIECE / 300, weigh_some(&words) / words.len(), 0] {
                let got = given(ranks, &words, bytes);
                assert_eq!(got.len(), ranks);
                assert!(got.iter().all(|(_, items, beside)| *items == words && *beside == 7));
            }
            assert!(given(ranks, &[(); 10], 0).iter().all(|(_, items, _)| items.len() == 10));
            assert!(
                given::<u64>(ranks, &[], 8).iter().all(|(_, items, beside)| items.is_empty() && *beside == 7)
            );
        }
    }

    #[test]
    fn what_cannot_be_encoded_is_an_error_on_every_rank() {
        #[derive(Clone, serde::Deserialize)]
        struct Odd;
        impl Serialize for Odd {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("never"))
            }
        }
        let error = run(&Config::new().ranks(3), |session| {
            let root = session.is_root().then(|| (vec![Odd], ()));
            let limit = Duration::from_secs(20);
            let endpoint = &mut *session.endpoint()?;
            let given =
                endpoint.broadcast_items(Announcement::new("gives"), limit, &Codec::of_type(), 1, root);
            given.inspect_err(|error| endpoint.report(error))?;
            Ok(())
        });
        let error = error.unwrap_err();
        assert!(error.to_string().contains("never"), "{error}");
    }
}
