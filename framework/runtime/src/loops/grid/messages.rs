//! Messages between the ranks of a loop over a grid.

use std::mem::take;
use std::ops::Range;

use bytemuck::{AnyBitPattern, NoUninit, Pod};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::directive::Directive;
use crate::comm::message::{Body, Message, Put, Take, frame, messages};
use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};
use crate::loops::metrics::Sample;
use crate::loops::summary::RankReport;
use crate::loops::until::CheckResult;
use crate::persist::snapshot::Written;
use crate::wire::header::header;

messages! {
    "a loop over a grid":
    pub(super) enum Received;
    pub(super) enum Tag {
        /// Rows of a rank, sent to rank 0, which gathers the whole grid.
        Gather = 51,
    }
    /// Message to the rank that holds the next rows above or below. `V` holds the values of rows, which the sender borrows and the receiver owns.
    pub(super) enum ToNeighbour<V: &[u8] => Bytes> {
        /// Values of the sender's first or last row, which is next to the receiver's rows.
        HaloRow(row: HaloRow<V>) = 50 raw,
        /// In a grid with periodic rows: first row of the grid, sent to the rank with the last row, or last
        /// row, sent to the rank with the first. If the two ranks are also neighbours, each gets halo rows of
        /// both kinds from the other.
        WrapRow(row: HaloRow<V>) = 55 raw,
        Directive(directive: Directive) = 48,
        /// Announces that the next message to the receiver contains rows that move to it.
        RowsComing = 56,
        /// Rows of the grid that move from the sender to the receiver.
        Rows(rows: Rows) = 49 raw,
        /// The sender of this message cannot continue without rows that the receiver of the message has announced to it.
        Wanted = 53,
    }
    /// Message to or from the coordinator: a report, a verdict about convergence, or the end of the run.
    pub(super) enum Coordination {
        Report(report: ToCoordinator) = 24,
        /// Verdict of rank 0 about convergence, for all ranks with rows.
        CheckResult(check_result: CheckResult) = 54,
        /// The run has ended. Only ranks without rows receive this message.
        Finish = 23,
    }
}

/// Report of a rank with rows to the coordinator: measurements, rows written to a checkpoint, statistics of the run, a residual, or progress.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToCoordinator {
    /// Measurements of the rank's work since its last report of measurements to the coordinator.
    Sample(Sample),
    /// Pieces of a checkpoint that the rank has written, or why it could not write them, with the number of passes after which its rows were in that
    /// state.
    Saved(u64, Written),
    /// Statistics of the rank's work in the whole run, sent after its last sweep.
    Total(RankReport),
    /// Sweep before which a convergence check takes place, and residual of the rank since its previous check.
    Residual(u64, f64),
    /// Number of sweeps that the rank has done, including the finished fraction of its present sweep.
    Done(f64),
}

pub(super) trait NeighbourSender {
    fn send(&mut self, to: usize, message: ToNeighbour<&[u8]>) -> Result<()>;
}

header! {
    struct HaloRowHeader {
        sweep: u64,
        /// First column of the row whose value is sent.
        start: u64,
    }
}

header! {
    struct RowsHeader {
        first: u64,
    }
}

/// Halo row: values of some columns of a row, as they are after a sweep.
#[derive(Debug)]
pub(super) struct HaloRow<V> {
    pub(super) sweep: u64,
    pub(super) start: usize,
    values: V,
}

impl<'r> HaloRow<&'r [u8]> {
    #[inline]
    pub(super) fn of<T: NoUninit>(sweep: u64, columns: Range<usize>, row: &'r [T]) -> Self {
        HaloRow { sweep, start: columns.start, values: bytemuck::cast_slice(&row[columns]) }
    }
}

impl Put for HaloRow<&[u8]> {
    fn room(&self) -> usize {
        HaloRowHeader::SIZE + self.values.len()
    }

    fn put(self, head: &mut Vec<u8>, _: &mut Vec<Part>) -> Result<()> {
        head.extend_from_slice(&HaloRowHeader { sweep: self.sweep, start: self.start as u64 }.to_bytes());
        head.extend_from_slice(self.values);
        Ok(())
    }
}

impl Take for HaloRow<Bytes> {
    fn take(body: &mut Body) -> Result<Self> {
        let HaloRowHeader { sweep, start } = body.header(HaloRowHeader::SIZE, HaloRowHeader::read)?;
        let start = usize::try_from(start).map_err(|_| body.error(format!("it begins at column {start}")))?;
        Ok(HaloRow { sweep, start, values: take(&mut body.head) })
    }
}

impl HaloRow<Bytes> {
    /// Copies the received values to their columns in `row`. They must be of sweep `sweep` and begin at column `start`. Returns the
    /// column after the last one.
    #[inline]
    pub(super) fn write<T: Pod>(
        &self,
        row: &mut [T],
        sweep: u64,
        start: usize,
        from: usize,
    ) -> Result<usize> {
        let count = self.values.len() / size_of::<T>();
        let fits = count > 0 && self.values.len() == count * size_of::<T>() && count <= row.len() - start;
        if self.sweep != sweep || self.start != start || !fits {
            return Err(Error::new(
                ErrorKind::Wire,
                format!(
                    "rank {from} sent {} bytes of sweep {} from column {} on, expected sweep {sweep} from column \
                     {start} on, at most {} values of {} bytes",
                    self.values.len(),
                    self.sweep,
                    self.start,
                    row.len() - start,
                    size_of::<T>()
                ),
            ));
        }
        let target: &mut [u8] = bytemuck::cast_slice_mut(&mut row[start..start + count]);
        target.copy_from_slice(&self.values);
        Ok(start + count)
    }
}

#[derive(Debug)]
pub(super) struct Rows {
    first: u64,
    values: Part,
}

impl Rows {
    pub(super) fn new<T: NoUninit + Send>(first: u64, values: Vec<T>) -> Self {
        Rows { first, values: Part::of(values) }
    }

    /// Encodes the rows as a message to rank 0, which gathers the whole grid; `run` is the number of that operation.
    pub(super) fn encode_gathered(self, run: u32) -> Result<Frame> {
        frame(run, Tag::Gather, 0, |head, parts| self.put(head, parts))
    }

    /// Decodes a message that [`encode_gathered`](Rows::encode_gathered) has encoded.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the message has another tag or is damaged.
    pub(super) fn decode_gathered(message: Message) -> Result<Self> {
        let mut body = message.expect(Tag::Gather)?;
        let rows = Rows::take(&mut body)?;
        body.end().map(|()| rows)
    }

    /// Returns the values of the message, which must be those of the rows `rows`, with `width` columns each.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if rank `from` has sent other values.
    pub(super) fn into_values<T: AnyBitPattern>(
        self,
        rows: &Range<u64>,
        width: usize,
        from: usize,
    ) -> Result<Vec<T>> {
        let (length, wanted) = (self.values.len(), (rows.end - rows.start) as usize * width * size_of::<T>());
        if self.first != rows.start || length != wanted {
            let sent = format!("{length} bytes of the rows from {} on", self.first);
            return Err(unexpected(from, &sent, &format!("{wanted} bytes of the rows {rows:?}")));
        }
        // Values that are not aligned in memory cannot be used in place, so they are copied.
        Ok(self.values.into_values().unwrap_or_else(|part| copied(&part)))
    }
}

fn copied<T: AnyBitPattern>(part: &Part) -> Vec<T> {
    part.bytes().chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

impl Put for Rows {
    fn put(self, head: &mut Vec<u8>, parts: &mut Vec<Part>) -> Result<()> {
        head.extend_from_slice(&RowsHeader { first: self.first }.to_bytes());
        parts.push(self.values);
        Ok(())
    }
}

impl Take for Rows {
    fn take(body: &mut Body) -> Result<Self> {
        let RowsHeader { first } = body.header(RowsHeader::SIZE, RowsHeader::read)?;
        let values = body.parts.pop().ok_or_else(|| body.error("it has no values"))?;
        Ok(Rows { first, values })
    }
}

pub(super) fn unexpected(from: usize, what: &str, expected: &str) -> Error {
    Error::new(ErrorKind::Wire, format!("rank {from} sent {what}, expected {expected}"))
}

/// Returns a message in the form in which a simulated worker would receive it from the transport.
#[cfg(test)]
pub(super) fn delivered(message: ToNeighbour<&[u8]>) -> ToNeighbour<Bytes> {
    use crate::comm::message::{Encode, received};
    ToNeighbour::decode(received(0, message.encode(1).unwrap())).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::message::{Encode, received};

    #[test]
    fn truncated_halo_row_is_refused() {
        let row = ToNeighbour::HaloRow(HaloRow::of(1, 0..1, &[0_u8]));
        let mut message = received(2, row.encode(1).unwrap());
        message.body.truncate(3);
        let error = Received::decode(message).unwrap_err();
        let text = "rank 2 sent a damaged HaloRow of a loop over a grid: expected at least 16 bytes, got 3";
        assert_eq!(error.message(), text);
    }

    #[test]
    fn rows_of_another_range_are_refused() {
        let rows = |count: u64| delivered(ToNeighbour::Rows(Rows::new(5, vec![1.5_f64; 3 * count as usize])));
        let ToNeighbour::Rows(two) = rows(2) else { panic!("they are rows") };
        assert_eq!(two.into_values::<f64>(&(5..7), 3, 1).unwrap(), [1.5; 6]);
        for wrong in [4..6, 5..8] {
            let ToNeighbour::Rows(two) = rows(2) else { panic!("they are rows") };
            let error = two.into_values::<f64>(&wrong, 3, 1).unwrap_err();
            assert!(
                error.message().starts_with("rank 1 sent 48 bytes of the rows from 5 on, expected "),
                "{error}"
            );
        }
        let message = || received(1, ToNeighbour::Rows(Rows::new(5, vec![1.5_f64])).encode(1).unwrap());
        let (cut, bare) =
            (Message { body: Bytes::new(), ..message() }, Message { parts: vec![], ..message() });
        assert!(Received::decode(cut).is_err() && Received::decode(bare).is_err());
    }
}
