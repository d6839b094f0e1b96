//! What is between source and sink, counted on rank 0.

/// Batches that have been drawn or made and have not reached the sink.
///
/// A piece may reach the sink before rank 0 has heard that more are to come, and without order the last before the first. So
/// batches are counted at each level: what the source gave, the pieces that the first expanding stage makes of these, the pieces
/// that the next one makes of those, and so on. There is one more piece than room was granted for, of each batch of the level above.
/// A batch of a level is over when the last piece of it has come; only when nothing is open at any level, there is nothing left.
#[derive(Debug)]
pub(super) struct InFlight {
    drawn: u64,
    /// By level. Less than nothing for a moment, where a piece has come and the next one has not been asked for.
    open: Vec<i64>,
}

impl InFlight {
    /// Nothing yet, of a stream with `levels` expanding stages.
    pub(super) fn new(levels: usize) -> Self {
        InFlight { drawn: 0, open: vec![0; levels + 1] }
    }

    /// Another batch was drawn.
    pub(super) fn drawn(&mut self) {
        self.drawn += 1;
        self.open.iter_mut().for_each(|open| *open += 1);
    }

    /// There is room for more pieces of a level, from 1.
    pub(super) fn granted(&mut self, level: usize, pieces: u64) {
        self.open.iter_mut().skip(level).for_each(|open| *open += pieces as i64);
    }

    /// Room for them was not needed.
    pub(super) fn given_back(&mut self, level: usize, pieces: u64) {
        self.open.iter_mut().skip(level).for_each(|open| *open -= pieces as i64);
    }

    /// A batch has reached the sink, and with it `ended` levels have [ended](super::batch::Batch::ended).
    pub(super) fn consumed(&mut self, ended: usize) {
        self.open.iter_mut().rev().take(ended + 1).for_each(|open| *open -= 1);
    }

    /// Batches and pieces that are on their way, and those that there is room for.
    pub(super) fn batches(&self) -> usize {
        self.open.last().map_or(0, |&open| open.max(0) as usize)
    }

    /// Whether all that was drawn has reached the sink, with all that was made of it.
    pub(super) fn is_empty(&self) -> bool {
        self.open.iter().all(|&open| open == 0)
    }

    /// Batches of the source that have reached the sink as a whole, and batches drawn.
    pub(super) fn of_source(&self) -> (u64, u64) {
        let open = self.open.first().map_or(0, |&open| open.max(0) as u64);
        (self.drawn.saturating_sub(open), self.drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_that_comes_before_the_question_for_more_is_not_the_end() {
        let mut in_flight = InFlight::new(1);
        in_flight.drawn();
        in_flight.consumed(0);
        assert_eq!((in_flight.batches(), in_flight.of_source()), (0, (0, 1)));
        assert!(!in_flight.is_empty());
        in_flight.granted(1, 3);
        assert_eq!(in_flight.batches(), 3);
        in_flight.consumed(1);
        assert_eq!((in_flight.is_empty(), in_flight.of_source()), (false, (1, 1)));
        in_flight.given_back(1, 2);
        assert!(in_flight.is_empty());
    }

    #[test]
    fn the_last_piece_may_come_first_while_pieces_of_another_are_still_to_be_asked_for() {
        let mut in_flight = InFlight::new(2);
        in_flight.drawn();
        // Two pieces at the first level. The second comes whole, of the first the first part only.
        in_flight.granted(1, 1);
        in_flight.consumed(2);
        in_flight.consumed(0);
        assert_eq!((in_flight.batches(), in_flight.is_empty()), (0, false));
        in_flight.granted(2, 1);
        in_flight.consumed(1);
        assert!(in_flight.is_empty());
    }
}
