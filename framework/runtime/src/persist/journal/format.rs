//! Binary format of a journal, the file with completed results. `README.md` describes the format. Pure functions.

use super::Identity;
use crate::wire::header::header;

pub(super) const MAGIC: [u8; 8] = *b"armajrnl";
pub(super) const VERSION: u32 = 1;
pub(super) const SUM: usize = size_of::<u32>();
pub(super) const LONGEST_IDENTITY: usize = 3 * (2 + u16::MAX as usize);

header! {
    /// First fields of a journal file: magic number, version of the format, and size of the identity that follows.
    pub(super) struct Start {
        magic: u64, version: u32,
        length: u32,
    }
}

/// Returns the header of the journal of a job with `identity`, or an error message that names the field of the identity that is too long.
pub(super) fn header(identity: &Identity) -> Result<Vec<u8>, String> {
    let Identity { name, version, fingerprint } = identity;
    let mut body = Vec::new();
    for (what, bytes) in
        [("name", name.as_bytes()), ("version", version.as_bytes()), ("fingerprint", fingerprint)]
    {
        let length = u16::try_from(bytes.len()).map_err(|_| {
            format!("the job's {what} has {} bytes, expected {} at most", bytes.len(), u16::MAX)
        })?;
        body.extend_from_slice(&length.to_le_bytes());
        body.extend_from_slice(bytes);
    }
    // The cast is lossless, because the encoded identity has at most [`LONGEST_IDENTITY`] bytes.
    let start = Start { magic: u64::from_le_bytes(MAGIC), version: VERSION, length: body.len() as u32 };
    let mut header = start.to_bytes().to_vec();
    header.extend_from_slice(&body);
    let sum = crc32fast::hash(&header);
    header.extend_from_slice(&sum.to_le_bytes());
    Ok(header)
}

/// Parses the identity of a job from `bytes`, the part of a journal's header between its [`Start`] and its checksum.
pub(super) fn identity(mut bytes: &[u8]) -> Option<Identity> {
    let mut field = || {
        let (length, rest) = bytes.split_first_chunk()?;
        let (field, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        bytes = rest;
        Some(field.to_vec())
    };
    let (name, version, fingerprint) = (field()?, field()?, field()?);
    let text = |bytes| String::from_utf8(bytes).ok();
    let identity = Identity { name: text(name)?, version: text(version)?, fingerprint };
    bytes.is_empty().then_some(identity)
}

header! {
    pub(super) struct Head {
        length: u32,
        /// Checksum of the record and of its position in the journal, see [`Head::hasher`].
        sum: u32,
        task: u64,
    }
}

impl Head {
    /// Creates the head of a record that follows the record (or header) whose checksum is `before`.
    pub(super) fn new(before: u32, task: u64, length: u32, parts: &[&[u8]]) -> Self {
        let mut head = Head { length, sum: 0, task };
        let mut hasher = head.hasher(before);
        parts.iter().for_each(|part| hasher.update(part));
        head.sum = hasher.finalize();
        head
    }

    /// Returns a hasher for the checksum of a record with this head that follows a record with the checksum `before`. The caller adds the payload.
    /// Because of `before`, an intact record that was moved to another position in the journal does not match its checksum.
    pub(super) fn hasher(&self, before: u32) -> crc32fast::Hasher {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&before.to_le_bytes());
        hasher.update(&self.length.to_le_bytes());
        hasher.update(&self.task.to_le_bytes());
        hasher
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_round_trips() {
        let job = Identity::new("wörter", "0.1", [0, 255, 7]);
        let header = header(&job).unwrap();
        assert_eq!(identity(&header[Start::SIZE..header.len() - SUM]), Some(job));
        for end in Start::SIZE..header.len() - SUM {
            assert_eq!(identity(&header[Start::SIZE..end]), None);
        }
    }

    #[test]
    fn too_long_name_is_refused() {
        let error = header(&Identity::new("x".repeat(65_536), "1", [])).unwrap_err();
        assert_eq!(error, "the job's name has 65536 bytes, expected 65535 at most");
        let longest = Identity::new("x".repeat(65_535), "x".repeat(65_535), vec![0; 65_535]);
        assert_eq!(header(&longest).unwrap().len(), Start::SIZE + LONGEST_IDENTITY + SUM);
    }

    #[test]
    fn record_head_round_trips() {
        let head = Head::new(7, u64::MAX - 1, 3, &[b"a", b"bc"]);
        assert_eq!(Head::read(&head.to_bytes()), Some(head));
        assert_eq!(Head::new(7, u64::MAX - 1, 3, &[b"abc"]), head, "pieces do not matter");
        assert_ne!({ Head::new(8, u64::MAX - 1, 3, &[b"abc"]).sum }, { head.sum }, "the place does");
    }

    #[test]
    fn zeros_are_not_a_record() {
        let head = Head { length: 0, sum: 0, task: 0 };
        assert_ne!(head.hasher(0).finalize(), { head.sum });
    }
}
