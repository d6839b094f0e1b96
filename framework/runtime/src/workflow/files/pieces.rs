//! Messages with pieces of files.

use serde::{Deserialize, Serialize};

use crate::comm::Part;
use crate::comm::message::{Body, Put, Take};
use crate::error::Result;
use crate::wire;

/// Maximum size in bytes of a piece of a file. Large pieces need few requests; the size is limited because pieces in transit occupy memory.
pub(super) const PIECE: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::workflow) struct PieceRequest {
    /// Number of the file in the table of files. The standard output of the commands of rank `r` has the number of files in the table plus `r`.
    pub(in crate::workflow) file: usize,
    pub(in crate::workflow) offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::workflow) struct PieceHead {
    pub(in crate::workflow) file: usize,
    pub(in crate::workflow) offset: u64,
    pub(in crate::workflow) total: u64,
    pub(in crate::workflow) mode: u32,
    /// Reason why the sender cannot send the piece; `None` if it sends it.
    pub(in crate::workflow) refusal: Option<String>,
}

/// Reply to a [`PieceRequest`]: a header, and the bytes of the piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::workflow) struct FilePiece {
    pub(in crate::workflow) head: PieceHead,
    pub(in crate::workflow) bytes: Part,
}

impl FilePiece {
    pub(in crate::workflow) fn refused(request: PieceRequest, why: String) -> Self {
        let PieceRequest { file, offset } = request;
        let head = PieceHead { file, offset, total: 0, mode: 0, refusal: Some(why) };
        FilePiece { head, bytes: Part::of(Vec::<u8>::new()) }
    }
}

impl Put for FilePiece {
    fn put(self, head: &mut Vec<u8>, parts: &mut Vec<Part>) -> Result<()> {
        parts.push(self.bytes);
        wire::append(&self.head, head)
    }
}

impl Take for FilePiece {
    fn take(body: &mut Body) -> Result<Self> {
        let (head, parts) = body.rest();
        let bytes = parts.into_iter().next().unwrap_or_else(|| Part::of(Vec::<u8>::new()));
        Ok(FilePiece { head: wire::from_bytes(&head).map_err(|error| body.error(error.message()))?, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::message::{Encode, received};
    use crate::workflow::messages::Content;

    #[test]
    fn piece_and_refusal_messages_round_trip() {
        let head = PieceHead { file: 3, offset: 1 << 40, total: (1 << 40) + 5, mode: 0o755, refusal: None };
        let whole = FilePiece { head, bytes: Part::of(b"bytes".to_vec()) };
        let refused = FilePiece::refused(PieceRequest { file: 4, offset: 7 }, "it is gone".into());
        for piece in [whole, refused] {
            let message = || received(2, Content::FilePiece(piece.clone()).encode(1).unwrap());
            let Content::FilePiece(back) = Content::decode(message()).unwrap() else { panic!("not a piece") };
            assert_eq!(back, piece);
            let mut cut = message();
            cut.body.truncate(2);
            assert!(Content::decode(cut).is_err());
        }
    }
}
