//! Calls of one stage on one batch: run, expand, finish.

use super::erased::{Codec, ErasedStage, Expand, Expanded, Items};
use super::fill::Fill;
use super::machine::batch::{Batch, Payload, Piece};
use super::range::Range;
use crate::comm::clock::Clock;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};

/// Returns the items of a payload, decoded if they were received.
pub(super) fn unpack(codec: Option<&dyn Codec>, payload: Payload, range: &Range) -> Result<Items> {
    match (payload, codec) {
        (Payload::Items(items), _) => Ok(items),
        (Payload::Bytes { head, parts }, Some(codec)) => {
            codec.decode(head, parts, range.live()).map_err(|e| range.blame(e))
        }
        (Payload::Bytes { .. }, None) => {
            Err(Error::new(ErrorKind::Wire, "a batch for a stage that does not exist"))
        }
        (Payload::Kept { .. }, _) => Err(Error::new(ErrorKind::Wire, "a batch that another stage still has")),
    }
}

/// Output of a stage for a batch.
pub(super) struct Ran {
    pub(super) items: Items,
    /// Number of input items, or of items that were started.
    pub(super) coming: usize,
    /// Number of items counted in `coming` that produced no output.
    pub(super) dropped: usize,
    /// True if `items` is not the whole output for the batch.
    pub(super) is_cut: bool,
}

/// Settings for making pieces.
#[derive(Clone, Copy)]
pub(super) struct Pieces {
    pub(super) fill: Fill,
    pub(super) clock: Clock,
}

/// Runs a stage on a batch with these items.
pub(super) fn run(
    stage: &mut dyn ErasedStage,
    items: Option<Items>,
    batch: &mut Batch,
    cx: &mut Context,
) -> Result<Ran> {
    let items = items.ok_or_else(|| Error::new(ErrorKind::Wire, "a batch that another stage still has"))?;
    let coming = batch.range.live();
    let items = stage.run(items, &mut batch.range, cx)?;
    Ok(Ran { items, coming, dropped: coming - batch.range.live(), is_cut: false })
}

/// Makes the next piece of a batch with an expanding stage that has made `made` pieces of it. Without `items`, the stage holds the items of the batch
/// already.
pub(super) fn expand(
    stage: &mut dyn ErasedStage,
    (items, made): (Option<Items>, u64),
    batch: &mut Batch,
    Pieces { fill, clock }: Pieces,
    cx: &mut Context,
) -> Result<Ran> {
    let made = if items.is_some() { 0 } else { made };
    let expand = Expand { number: &batch.number, items, range: &batch.range, fill, clock };
    let Expanded { items, made: of_places, is_last, begun, dropped } = stage.expand(expand, cx)?;
    batch.range.dropped.clear();
    batch.range.made = Some(of_places);
    batch.number.pieces.push(made);
    batch.pieces.push(Piece { is_last, items: batch.range.live() as u32 });
    Ok(Ran { items, coming: begun, dropped, is_cut: made > 0 || !is_last })
}

/// Adds the last item of a stage behind the last item of the stream.
pub(super) fn finish(
    stage: &mut dyn ErasedStage,
    ran: Ran,
    is_serial: bool,
    batch: &mut Batch,
    cx: &mut Context,
) -> Result<Ran> {
    if !batch.is_end || batch.ended() < batch.pieces.len() {
        return Ok(ran);
    }
    let before = batch.range.live();
    let items = stage.finish(ran.items, &mut batch.range, cx)?;
    if !is_serial && batch.range.live() > before {
        let text = "gives an item at the end of the stream, and is not serial: each of several ranks may have seen a \
                    part of the items (declare it `.serial()`)";
        return Err(Error::new(ErrorKind::Config, text));
    }
    Ok(Ran { items, ..ran })
}
