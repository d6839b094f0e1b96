//! Count, on rank 0, of the batches that are between source and sink.

/// Counter, on rank 0, of the batches that were drawn from the source, or made by an expanding stage (one that makes several items from one), and
/// have not reached the sink.
///
/// An expanding stage divides its output for one batch into pieces, which travel as batches. A piece may reach the sink before rank 0 receives the
/// request for the next pieces, and in an unordered stream the last piece may arrive before the first. Batches are therefore counted at each level:
/// the batches of the source, the pieces that the first expanding stage makes of them, the pieces that the next expanding stage makes of those
/// pieces, and so on. For each batch of the level above, there is one piece more than rank 0 has permitted, because the first piece needs no
/// permission. A batch of a level is complete when its last piece has arrived. The stream is empty only if no batch is open at any level.
#[derive(Debug)]
pub(super) struct InFlight {
    drawn: u64,
    /// Number of batches in flight: of the source, then, for each stage that makes several items from one, of the parts of its output. Negative for a
    /// moment if a part has reached the sink before rank 0 has received the request for it.
    open: Vec<i64>,
}

impl InFlight {
    pub(super) fn new(levels: usize) -> Self {
        InFlight { drawn: 0, open: vec![0; levels + 1] }
    }

    pub(super) fn drawn(&mut self) {
        self.drawn += 1;
        self.open.iter_mut().for_each(|open| *open += 1);
    }

    /// Counts `pieces` further parts of a stage's output as in flight, because rank 0 has permitted them. The stage is number `level`, from 1, of
    /// those that make several items from one.
    pub(super) fn granted(&mut self, level: usize, pieces: u64) {
        self.open.iter_mut().skip(level).for_each(|open| *open += pieces as i64);
    }

    /// Subtracts `pieces` parts of a stage's output that rank 0 had permitted and that the stage did not need. The stage is number `level`, from 1,
    /// of those that make several items from one.
    pub(super) fn returned(&mut self, level: usize, pieces: u64) {
        self.open.iter_mut().skip(level).for_each(|open| *open -= pieces as i64);
    }

    /// Records that a batch has reached the sink. It completes the output that each of the last `ended` stages that make several items from one has
    /// made for its input batch (see [`Batch::ended`](super::batch::Batch::ended)).
    pub(super) fn consumed(&mut self, ended: usize) {
        self.open.iter_mut().rev().take(ended + 1).for_each(|open| *open -= 1);
    }

    /// Returns the number of batches in flight, including parts of output that rank 0 has permitted but no stage has made yet.
    pub(super) fn batches(&self) -> usize {
        self.open.last().map_or(0, |&open| open.max(0) as usize)
    }

    /// Returns true if every batch of the source, and all output made from it, has reached the sink.
    pub(super) fn is_empty(&self) -> bool {
        self.open.iter().all(|&open| open == 0)
    }

    /// Returns the number of source batches of which all output has reached the sink, and the number of batches drawn from the source.
    pub(super) fn of_source(&self) -> (u64, u64) {
        let open = self.open.first().map_or(0, |&open| open.max(0) as u64);
        (self.drawn.saturating_sub(open), self.drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piece_before_its_grant_does_not_end_the_batch() {
        let mut in_flight = InFlight::new(1);
        in_flight.drawn();
        in_flight.consumed(0);
        assert_eq!((in_flight.batches(), in_flight.of_source()), (0, (0, 1)));
        assert!(!in_flight.is_empty());
        in_flight.granted(1, 3);
        assert_eq!(in_flight.batches(), 3);
        in_flight.consumed(1);
        assert_eq!((in_flight.is_empty(), in_flight.of_source()), (false, (1, 1)));
        in_flight.returned(1, 2);
        assert!(in_flight.is_empty());
    }

    #[test]
    fn batch_ends_after_all_pieces_arrive_in_any_order() {
        let mut in_flight = InFlight::new(2);
        in_flight.drawn();
        // The first stage makes two pieces of output from the batch, and the second stage makes two pieces from the first of these. The sink receives
        // everything made from the second piece of the first stage before the last piece made from the first one.
        in_flight.granted(1, 1);
        in_flight.consumed(2);
        in_flight.consumed(0);
        assert_eq!((in_flight.batches(), in_flight.is_empty()), (0, false));
        in_flight.granted(2, 1);
        in_flight.consumed(1);
        assert!(in_flight.is_empty());
    }
}
