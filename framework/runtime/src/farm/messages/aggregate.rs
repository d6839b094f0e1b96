//! Several chunks or several results in one message between the master and a sub-master. Each is encoded as in a separate message.

use bytes::{Buf, Bytes};

use super::tag::Tag;
use crate::comm::message::frame_header;
use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};
use crate::wire::header::header;

/// A chunk or result of an aggregate: its body without the message header, and its parts.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Rank that computed the result; 0 for a chunk.
    pub(crate) by: usize,
    pub(crate) body: Bytes,
    pub(crate) parts: Vec<Part>,
}

header! {
    struct Head {
        /// Number of chunks that a member may hold in addition to the running one.
        ahead: u32,
        count: u32,
    }
}

header! {
    /// Description of an entry, in a list before the bodies of all entries.
    struct Listed {
        by: u32,
        /// Number of parts of the entry.
        parts: u32,
        /// Size of the body in bytes, including its prefix.
        length: u64,
    }
}

/// Encodes entries as one message of `tag`, each after its prefix. A sub-master reads `ahead`, the number of chunks that a member may hold
/// in addition to the running one.
pub(in super::super) fn encode<const N: usize>(
    run: u32,
    tag: Tag,
    ahead: u32,
    items: Vec<([u8; N], Entry)>,
) -> Frame {
    let bytes: usize = items.iter().map(|(_, item)| Listed::SIZE + N + item.body.len()).sum();
    let mut head = frame_header(run, tag).to_vec();
    head.reserve(Head::SIZE + bytes);
    head.extend_from_slice(&Head { ahead, count: items.len() as u32 }.to_bytes());
    for (_, item) in &items {
        let (by, parts) = (item.by as u32, item.parts.len() as u32);
        head.extend_from_slice(&Listed { by, parts, length: (N + item.body.len()) as u64 }.to_bytes());
    }
    let mut parts = Vec::new();
    for (prefix, item) in items {
        head.extend_from_slice(&prefix);
        head.extend_from_slice(&item.body);
        parts.extend(item.parts);
    }
    Frame { head: head.into(), parts }
}

/// Decodes an aggregate. Returns the value of `ahead` and the entries.
///
/// # Errors
/// [`ErrorKind::Wire`] if the lengths and counts do not match the received data.
pub(super) fn decode(mut body: Bytes, parts: Vec<Part>) -> Result<(u32, Vec<Entry>)> {
    let torn = |what: &str| Error::new(ErrorKind::Wire, format!("an aggregate of chunks or results {what}"));
    let Head { ahead, count } = Head::read(&body).ok_or_else(|| torn("has no header"))?;
    body.advance(Head::SIZE);
    let count = count as usize;
    let list = count.checked_mul(Listed::SIZE).filter(|&bytes| bytes <= body.len());
    let list = body.split_to(list.ok_or_else(|| torn("is cut short"))?);
    let mut parts = parts.into_iter();
    let mut items = Vec::with_capacity(count);
    for Listed { by, parts: wanted, length } in list.chunks_exact(Listed::SIZE).filter_map(Listed::read) {
        let (by, wanted) = (by as usize, wanted as usize);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > body.len() {
            return Err(torn("is cut short"));
        }
        let parts: Vec<Part> = parts.by_ref().take(wanted).collect();
        if parts.len() < wanted {
            return Err(torn("lacks parts"));
        }
        items.push(Entry { by, body: body.split_to(length), parts });
    }
    if !body.is_empty() || parts.next().is_some() {
        return Err(torn("has bytes or parts after its last entry"));
    }
    Ok((ahead, items))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::message::FRAME_HEADER;

    fn item(by: usize, body: &'static [u8], parts: &[&'static [u8]]) -> Entry {
        let parts = parts.iter().map(|p| Part::from(Bytes::from_static(p))).collect();
        Entry { by, body: Bytes::from_static(body), parts }
    }

    fn bare(items: Vec<Entry>) -> Vec<([u8; 0], Entry)> {
        items.into_iter().map(|item| ([], item)).collect()
    }

    #[test]
    fn what_is_wrapped_comes_out_as_it_was() {
        let items = vec![item(3, b"abc", &[b"x", b"yz"]), item(70_000, b"", &[]), item(1, b"d", &[b""])];
        let message = encode(7, Tag::Chunks, 2, bare(items.clone()));
        let (ahead, back) = decode(message.head.slice(FRAME_HEADER..), message.parts).unwrap();
        assert_eq!((ahead, back.len()), (2, 3));
        for (was, is) in items.iter().zip(&back) {
            assert_eq!((was.by, &was.body), (is.by, &is.body));
            let bytes = |w: &Entry| w.parts.iter().map(|p| p.bytes().to_vec()).collect::<Vec<_>>();
            assert_eq!(bytes(was), bytes(is));
        }
    }

    #[test]
    fn hostile_aggregates_are_errors() {
        let message = encode(7, Tag::Chunks, 0, bare(vec![item(3, b"abc", &[b"x"]), item(4, b"de", &[])]));
        let body = message.head.slice(FRAME_HEADER..);
        for cut in 0..body.len() {
            assert!(decode(body.slice(..cut), message.parts.clone()).is_err(), "cut at {cut}");
        }
        assert!(decode(body.clone(), Vec::new()).is_err(), "the part is missing");
        let mut more = message.parts.clone();
        more.extend(message.parts.clone());
        assert!(decode(body.clone(), more).is_err(), "a part too many");
        let mut longer = body.to_vec();
        longer.push(0);
        assert!(decode(longer.into(), message.parts.clone()).is_err());
        let mut many = body.to_vec();
        many[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(decode(many.into(), message.parts).is_err());
    }
}
