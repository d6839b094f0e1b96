//! Where batches wait in front of a block or the sink; in order where that matters.

use std::collections::VecDeque;

use super::parcel::Parcel;

/// Batches that have arrived over one edge and are not yet being worked on.
///
/// An ordered inbox is the resequencer: it gives out batch n only after batch n - 1. What it holds is bounded
/// by the source's window.
#[derive(Debug)]
pub(crate) struct Inbox {
    ordered: bool,
    /// Number of the batch that an ordered inbox gives out next.
    next: u64,
    /// Ordered: slot i is for batch `next + i`. Unordered: a plain queue, every slot filled.
    slots: VecDeque<Option<Parcel>>,
    held: usize,
    most: usize,
    /// Batches asked for and not yet delivered (pull only).
    pub(crate) asked: usize,
}

/// No window is larger, so a batch that is so far ahead is garbage; it must not make the resequencer grow.
const MOST_AHEAD: usize = 1 << 21;

impl Inbox {
    /// An empty inbox; an ordered one starts with batch number `next`.
    pub(crate) fn new(ordered: bool, next: u64) -> Self {
        Inbox { ordered, next, slots: VecDeque::new(), held: 0, most: 0, asked: 0 }
    }

    /// Takes a batch in. Returns false for one that was here before or is beyond any window, which cannot happen
    /// unless a rank is out of step.
    #[must_use]
    pub(crate) fn put(&mut self, parcel: Parcel) -> bool {
        self.asked = self.asked.saturating_sub(1);
        if self.ordered {
            let Some(at) = parcel.number.checked_sub(self.next) else { return false };
            let at = at as usize;
            if at >= MOST_AHEAD {
                return false;
            }
            if self.slots.len() <= at {
                self.slots.resize_with(at + 1, || None);
            }
            if self.slots[at].replace(parcel).is_some() {
                return false;
            }
        } else {
            self.slots.push_back(Some(parcel));
        }
        self.held += 1;
        self.most = self.most.max(self.held);
        true
    }

    /// Gives out the next batch, if it is there.
    pub(crate) fn take(&mut self) -> Option<Parcel> {
        if !matches!(self.slots.front(), Some(Some(_))) {
            return None;
        }
        self.held -= 1;
        self.next += 1;
        self.slots.pop_front().flatten()
    }

    /// Batches here now, and the most there have been.
    pub(crate) fn queued(&self) -> (usize, usize) {
        (self.held, self.most)
    }

    /// The batch that an ordered inbox waits for while later ones are here already.
    pub(crate) fn gap(&self) -> Option<u64> {
        (self.ordered && self.held > 0 && matches!(self.slots.front(), Some(None))).then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::erased::Range;
    use super::super::parcel::Payload;
    use super::*;

    fn parcel(number: u64) -> Parcel {
        let payload = Payload::Items(Box::new(Vec::<u8>::new()));
        Parcel { number, range: Range::default(), service: Duration::ZERO, widest: 0, payload }
    }

    fn drain(inbox: &mut Inbox) -> Vec<u64> {
        std::iter::from_fn(|| inbox.take()).map(|p| p.number).collect()
    }

    #[test]
    fn an_ordered_inbox_restores_any_order() {
        let mut inbox = Inbox::new(true, 5);
        for n in [7, 6, 9] {
            assert!(inbox.put(parcel(n)));
        }
        assert_eq!((drain(&mut inbox), inbox.gap()), (vec![], Some(5)));
        assert!(inbox.put(parcel(5)));
        assert_eq!((drain(&mut inbox), inbox.gap()), (vec![5, 6, 7], Some(8)));
        assert!(inbox.put(parcel(8)));
        assert_eq!((drain(&mut inbox), inbox.gap(), inbox.queued()), (vec![8, 9], None, (0, 4)));
    }

    #[test]
    fn a_batch_that_comes_twice_is_noticed() {
        let mut inbox = Inbox::new(true, 0);
        assert!(inbox.put(parcel(1)) && !inbox.put(parcel(1)));
        assert!(inbox.put(parcel(0)));
        drain(&mut inbox);
        assert!(!inbox.put(parcel(0)), "it has been given out already");
        assert!(!inbox.put(parcel(1 << 40)), "no window is that large");
    }

    #[test]
    fn an_unordered_inbox_is_a_queue() {
        let mut inbox = Inbox::new(false, 0);
        for n in [3, 1, 2] {
            assert!(inbox.put(parcel(n)));
        }
        assert_eq!(drain(&mut inbox), [3, 1, 2]);
    }
}
