//! Pieces of files as messages.

use serde::{Deserialize, Serialize};

use crate::comm::message::{Message, frame_header};
use crate::comm::{Frame, Part};
use crate::error::Result;
use crate::wire;

use super::super::messages::Tag;

/// Maximum size of a piece in bytes: large enough that requests cost little, small enough that the pieces in transit are small compared
/// with the memory of a rank.
pub(super) const PIECE: u64 = 1 << 20;

/// Request for the piece of a file that begins at `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::workflow) struct Ask {
    /// Number of the file; the output of the commands of a rank has a number behind the files of the workflow.
    pub(in crate::workflow) file: usize,
    pub(in crate::workflow) offset: u64,
}

/// Header of a piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::workflow) struct PieceHead {
    pub(in crate::workflow) file: usize,
    pub(in crate::workflow) offset: u64,
    /// Size of the whole file in bytes.
    pub(in crate::workflow) total: u64,
    /// Permissions of the file.
    pub(in crate::workflow) mode: u32,
    /// Reason why there is no piece, if there is none.
    pub(in crate::workflow) refusal: Option<String>,
}

/// Answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::workflow) struct Piece {
    pub(in crate::workflow) head: PieceHead,
    pub(in crate::workflow) bytes: Part,
}

impl Piece {
    /// Creates the answer for a piece that cannot be read.
    pub(in crate::workflow) fn refused(ask: Ask, why: String) -> Self {
        let Ask { file, offset } = ask;
        let head = PieceHead { file, offset, total: 0, mode: 0, refusal: Some(why) };
        Piece { head, bytes: Part::of(Vec::<u8>::new()) }
    }

    /// Encodes the piece as a message.
    pub(in crate::workflow) fn into_frame(self, run: u32) -> Result<Frame> {
        let mut head = frame_header(run, Tag::Piece).to_vec();
        head.extend_from_slice(&wire::to_bytes(&self.head)?);
        Ok(Frame { head: head.into(), parts: vec![self.bytes] })
    }

    /// Decodes a message with a piece.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`](crate::ErrorKind::Wire) if the message contains no piece.
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
