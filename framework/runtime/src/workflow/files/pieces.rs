//! Pieces of files as messages.

use serde::{Deserialize, Serialize};

use crate::comm::message::{Message, frame_header};
use crate::comm::{Frame, Part};
use crate::error::Result;
use crate::wire;

use super::super::messages::Tag;

/// Bytes of a piece, at most: long enough that asking for the next one is felt little, short enough that some of them on their way are
/// nothing beside what a rank holds anyway.
pub(super) const PIECE: u64 = 1 << 20;

/// To who has a file: its piece that begins at this byte is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::workflow) struct Ask {
    /// Its number; behind those of the workflow's files that of what commands have written on a rank.
    pub(in crate::workflow) file: usize,
    pub(in crate::workflow) offset: u64,
}

/// What is said of a piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::workflow) struct PieceHead {
    pub(in crate::workflow) file: usize,
    pub(in crate::workflow) offset: u64,
    /// Bytes of the whole file.
    pub(in crate::workflow) total: u64,
    /// Who may read, write and execute it.
    pub(in crate::workflow) mode: u32,
    /// Why there is no piece, if there is none.
    pub(in crate::workflow) refusal: Option<String>,
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::workflow) struct Piece {
    pub(in crate::workflow) head: PieceHead,
    pub(in crate::workflow) bytes: Part,
}

impl Piece {
    /// There is none.
    pub(in crate::workflow) fn refused(ask: Ask, why: String) -> Self {
        let Ask { file, offset } = ask;
        let head = PieceHead { file, offset, total: 0, mode: 0, refusal: Some(why) };
        Piece { head, bytes: Part::of(Vec::<u8>::new()) }
    }

    /// As a message.
    pub(in crate::workflow) fn into_frame(self, run: u32) -> Result<Frame> {
        let mut head = frame_header(run, Tag::Piece).to_vec();
        head.extend_from_slice(&wire::to_bytes(&self.head)?);
        Ok(Frame { head: head.into(), parts: vec![self.bytes] })
    }

    /// From such a message.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`](crate::ErrorKind::Wire) if it is none.
    pub(in crate::workflow) fn from_message(message: Message) -> Result<Self> {
        let head = wire::from_bytes(&message.body)?;
        let bytes = message.parts.into_iter().next().unwrap_or_else(|| Part::of(Vec::<u8>::new()));
        Ok(Piece { head, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::message::FRAME_HEADER;

    #[test]
    fn pieces_and_refusals_travel() {
        let head = PieceHead { file: 3, offset: 1 << 40, total: (1 << 40) + 5, mode: 0o755, refusal: None };
        let whole = Piece { head, bytes: Part::of(b"bytes".to_vec()) };
        let refused = Piece::refused(Ask { file: 4, offset: 7 }, "it is gone".into());
        for piece in [whole, refused] {
            let Frame { head, parts } = piece.clone().into_frame(1).unwrap();
            let message =
                |parts| Message { from: 2, code: Tag::Piece as u8, body: head.slice(FRAME_HEADER..), parts };
            assert_eq!(Piece::from_message(message(parts)).unwrap(), piece);
            let cut = Message { body: head.slice(FRAME_HEADER..FRAME_HEADER + 2), ..message(vec![]) };
            assert!(Piece::from_message(cut).is_err());
        }
    }
}
