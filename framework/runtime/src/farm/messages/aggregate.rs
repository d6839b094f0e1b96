//! Messages with several chunks, from the master to a sub-master, or several results, from a sub-master to the master. Each chunk or result is
//! encoded as in a separate message.

use std::mem::take;

use super::chunk::{ChunkHeader, Entry, Payload};
use crate::comm::Part;
use crate::comm::message::{Body, Put, Take};
use crate::error::Result;
use crate::wire::header::header;

header! {
    /// Entry of the list of chunks or results at the beginning of a message with several of them.
    struct Listed {
        by: u32,
        /// Number of large blocks of data of the chunk or result, each of which is sent as a separate part of the message.
        parts: u32,
        /// Size in bytes of the body of the chunk or result, including the header in front of it.
        length: u64,
    }
}

impl Put for Vec<(ChunkHeader, Payload)> {
    fn put(self, head: &mut Vec<u8>, parts: &mut Vec<Part>) -> Result<()> {
        let entry = |(header, Payload { head: body, parts }): (ChunkHeader, Payload)| {
            (header.to_bytes(), Entry { by: 0, body, parts })
        };
        put(self.into_iter().map(entry).collect(), head, parts);
        Ok(())
    }
}

impl Take for Vec<(ChunkHeader, Payload)> {
    fn take(body: &mut Body) -> Result<Self> {
        let entries = entries(body)?;
        let chunk = |entry: Entry| {
            let mut entry = body.with(entry.body, entry.parts);
            Ok((ChunkHeader::take(&mut entry)?, Payload::take(&mut entry)?))
        };
        entries.into_iter().map(chunk).collect()
    }
}

/// A number without meaning precedes the list of results, because the message format requires it.
impl Put for Vec<Entry> {
    fn put(self, head: &mut Vec<u8>, parts: &mut Vec<Part>) -> Result<()> {
        0_u32.put(head, parts)?;
        put(self.into_iter().map(|entry| ([], entry)).collect(), head, parts);
        Ok(())
    }
}

impl Take for Vec<Entry> {
    fn take(body: &mut Body) -> Result<Self> {
        u32::take(body)?;
        entries(body)
    }
}

/// Writes the number of chunks or results, the list that describes them, and their bodies, each after its own header.
pub(in super::super) fn put<const N: usize>(
    items: Vec<([u8; N], Entry)>,
    head: &mut Vec<u8>,
    parts: &mut Vec<Part>,
) {
    let bytes: usize = items.iter().map(|(_, item)| Listed::SIZE + N + item.body.len()).sum();
    head.reserve(size_of::<u32>() + bytes);
    head.extend_from_slice(&(items.len() as u32).to_le_bytes());
    for (_, item) in &items {
        let (by, parts) = (item.by as u32, item.parts.len() as u32);
        head.extend_from_slice(&Listed { by, parts, length: (N + item.body.len()) as u64 }.to_bytes());
    }
    for (prefix, item) in items {
        head.extend_from_slice(&prefix);
        head.extend_from_slice(&item.body);
        parts.extend(item.parts);
    }
}

/// Reads the chunks or results in the rest of a message.
///
/// # Errors
/// [`ErrorKind::Wire`](crate::ErrorKind::Wire) if the lengths and counts do not match the received data.
fn entries(body: &mut Body) -> Result<Vec<Entry>> {
    let count = u32::take(body)? as usize;
    let list = body.list(count, Listed::SIZE, Listed::read)?;
    let mut parts = take(&mut body.parts).into_iter();
    let mut items = Vec::with_capacity(count);
    for Listed { by, parts: wanted, length } in list {
        let (by, wanted) = (by as usize, wanted as usize);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > body.head.len() {
            return Err(body.error("it is cut short"));
        }
        let parts: Vec<Part> = parts.by_ref().take(wanted).collect();
        if parts.len() < wanted {
            return Err(body.error("it lacks parts"));
        }
        items.push(Entry { by, body: body.head.split_to(length), parts });
    }
    body.parts = parts.collect();
    Ok(items)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::ToMaster;
    use super::*;
    use crate::comm::message::{Encode, Message, received};

    fn item(by: usize, body: &'static [u8], parts: &[&'static [u8]]) -> Entry {
        let parts = parts.iter().map(|p| Part::from(Bytes::from_static(p))).collect();
        Entry { by, body: Bytes::from_static(body), parts }
    }

    #[test]
    fn aggregated_results_round_trip() {
        let items = vec![item(3, b"abc", &[b"x", b"yz"]), item(70_000, b"", &[]), item(1, b"d", &[b""])];
        let message = received(5, ToMaster::Results(items.clone()).encode(7).unwrap());
        let ToMaster::Results(back) = ToMaster::decode(message).unwrap() else { panic!("no results") };
        assert_eq!(back.len(), 3);
        for (was, is) in items.iter().zip(&back) {
            assert_eq!((was.by, &was.body), (is.by, &is.body));
            let bytes = |w: &Entry| w.parts.iter().map(|p| p.bytes().to_vec()).collect::<Vec<_>>();
            assert_eq!(bytes(was), bytes(is));
        }
    }

    #[test]
    fn hostile_aggregates_are_errors() {
        let items = vec![item(3, b"abc", &[b"x"]), item(4, b"de", &[])];
        let Message { from, code, body, parts } = received(5, ToMaster::Results(items).encode(7).unwrap());
        let decode = |body: Bytes, parts| ToMaster::decode(Message { from, code, body, parts });
        for cut in 0..body.len() {
            assert!(decode(body.slice(..cut), parts.clone()).is_err(), "cut at {cut}");
        }
        assert!(decode(body.clone(), Vec::new()).is_err(), "the part is missing");
        let mut more = parts.clone();
        more.extend(parts.clone());
        assert!(decode(body.clone(), more).is_err(), "a part too many");
        let mut longer = body.to_vec();
        longer.push(0);
        assert!(decode(longer.into(), parts.clone()).is_err());
        let mut many = body.to_vec();
        many[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(decode(many.into(), parts).is_err());
    }
}
