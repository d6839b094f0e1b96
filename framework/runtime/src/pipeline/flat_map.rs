//! Expanding stage of a pipeline: produces any number of items from one.
//!
//! The output for a batch leaves the stage in pieces (parts) that are about as large as batches. If the output does not fit into one piece, the next
//! piece is made only when rank 0 permits another batch in flight, so a stage that produces a million items from one does not fill the memory.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use super::erased::{ErasedStage, Expand, Expanded, Items, typed};
use super::fill::CLOCK_EVERY;
use super::machine::sequence_number::SequenceNumber;
use super::produced_counts::ProducedCounts;
use super::range::Range;
use crate::context::Context;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::user_code;
use crate::wire::{self, Item};

/// Maximum size in bytes of the first part of the output that a stage makes from a batch of several items: four times the maximum size of a batch of
/// the source, so that output that is slightly larger than a batch need not be divided.
const MOST_AT_FIRST: usize = 512 << 10;
/// Maximum size in bytes of the later parts of the output that a stage makes from a batch: the maximum size of a batch of the source. Larger parts
/// are not transferred faster.
const MOST_BYTES: usize = 128 << 10;

/// Stage with a function from an item to an iterator, both of which can fail. Created by [`flat_map`](super::Pipeline::flat_map) and
/// [`try_flat_map`](super::Pipeline::try_flat_map).
pub(crate) struct FlatMap<F, T, I: IntoIterator, K> {
    call: F,
    kind: PhantomData<fn() -> K>,
    /// Batches for which the stage has made some but not all of its output.
    started: BTreeMap<SequenceNumber, Rest<T, I::IntoIter>>,
}

/// Input items of a batch from which the stage has not made all output yet.
struct Rest<T, I> {
    items: std::vec::IntoIter<T>,
    places: Box<dyn Iterator<Item = u32> + Send>,
    /// Input item whose iterator still yields items: its position in the batch, and the iterator.
    open: Option<(u32, I)>,
}

/// Kind of iterator that a user's function returns: over items, or over results that contain items.
pub(crate) trait Kind<X> {
    type Item: Item;

    fn take(
        iterator: &mut impl Iterator<Item = X>,
        most: usize,
        items: &mut Vec<Self::Item>,
    ) -> Result<(), BoxError>;
}

#[derive(Debug)]
pub(crate) struct Plain;

#[derive(Debug)]
pub(crate) struct Fallible;

impl<U: Item> Kind<U> for Plain {
    type Item = U;

    // The items are taken without a check of each of them for an error, which would make short iterators a fifth slower.
    fn take(iterator: &mut impl Iterator<Item = U>, most: usize, items: &mut Vec<U>) -> Result<(), BoxError> {
        items.extend(iterator.take(most));
        Ok(())
    }
}

impl<U: Item> Kind<Result<U, BoxError>> for Fallible {
    type Item = U;

    fn take(
        iterator: &mut impl Iterator<Item = Result<U, BoxError>>,
        most: usize,
        items: &mut Vec<U>,
    ) -> Result<(), BoxError> {
        for item in iterator.take(most) {
            items.push(item?);
        }
        Ok(())
    }
}

impl<F, T, I: IntoIterator, K> FlatMap<F, T, I, K> {
    pub(crate) fn new(call: F) -> Self {
        FlatMap { call, kind: PhantomData, started: BTreeMap::new() }
    }
}

impl<F, T, I, K> ErasedStage for FlatMap<F, T, I, K>
where
    F: FnMut(T) -> Result<I, BoxError> + Send,
    I: IntoIterator,
    I::IntoIter: Send,
    K: Kind<I::Item>,
    T: Item,
{
    fn run(&mut self, _: Items, _: &mut Range, _: &mut Context) -> Result<Items> {
        Err(Error::new(ErrorKind::Wire, "an expanding stage cannot process a whole batch at once"))
    }

    fn expand(&mut self, mut expand: Expand<'_>, cx: &mut Context) -> Result<Expanded> {
        let most_bytes = if expand.items.is_some() { MOST_AT_FIRST } else { MOST_BYTES };
        let mut rest = match expand.items.take() {
            Some(items) => Rest::new(typed::<T>(items)?, expand.range),
            None => self.started.remove(expand.number).ok_or_else(|| {
                Error::new(ErrorKind::Wire, format!("holds no items of batch {}", expand.number))
            })?,
        };
        let expanded =
            user_code::call(|| piece::<_, _, I, K>(&mut self.call, &mut rest, (&expand, most_bytes), cx));
        let expanded = expanded.map_err(|error| error.on_item(cx.number))?;
        if !expanded.is_last {
            self.started.insert(expand.number.clone(), rest);
        }
        Ok(expanded)
    }
}

impl<T, I: Iterator> Rest<T, I> {
    fn new(items: Vec<T>, range: &Range) -> Self {
        let places: Box<dyn Iterator<Item = u32> + Send> = match &range.produced {
            None if range.dropped.is_empty() => Box::new(0..range.count),
            _ => Box::new(range.places().collect::<Vec<_>>().into_iter()),
        };
        Rest { items: items.into_iter(), places, open: None }
    }

    fn is_finished(&self) -> bool {
        self.items.len() == 0
            && self.open.as_ref().is_none_or(|(_, open)| matches!(open.size_hint(), (_, Some(0))))
    }
}

/// Makes one part of the stage's output: produces items from the rest of a batch until a limit of items, bytes or time is reached, or the batch is
/// finished. Returns the first error of the user's function or of an iterator, if there is one.
fn piece<F, T, I, K>(
    call: &mut F,
    rest: &mut Rest<T, I::IntoIter>,
    (expand, most_bytes): (&Expand<'_>, usize),
    cx: &mut Context,
) -> Result<Expanded, BoxError>
where
    F: FnMut(T) -> Result<I, BoxError>,
    I: IntoIterator,
    K: Kind<I::Item>,
{
    let (fill, clock) = (expand.fill, expand.clock);
    let mut items: Vec<K::Item> = Vec::new();
    let mut produced = ProducedCounts::default();
    let mut last: Option<u32> = None;
    let (mut started, mut dropped) = (0, 0);
    // The time limit of this part of the output counts from its first item, because user code may take long until it produces that item.
    let mut start: Option<Duration> = None;
    let mut read_clock_at = 1;
    let is_last = loop {
        let (place, iterator) = match &mut rest.open {
            Some(open) => open,
            None => {
                let (Some(item), Some(place)) = (rest.items.next(), rest.places.next()) else { break true };
                cx.number = expand.range.first + u64::from(place);
                started += 1;
                dropped += 1;
                rest.open.insert((place, call(item)?.into_iter()))
            }
        };
        let (place, before, wanted) = (*place, items.len(), read_clock_at - items.len());
        cx.number = expand.range.first + u64::from(place);
        K::take(iterator, wanted, &mut items)?;
        let count = items.len() - before;
        if count > 0 {
            if last.replace(place) != Some(place) {
                // An input item counts as dropped from its start until its first output item. If it was started in an earlier part of the output,
                // `dropped` does not include it, and is zero.
                dropped -= dropped.min(1);
            }
            produced.add(place, count as u32);
        }
        if count < wanted {
            rest.open = None;
            continue;
        }
        if matches!(iterator.size_hint(), (_, Some(0))) {
            rest.open = None;
        }
        let is_timed_out = fill.time.is_some_and(|limit| {
            let now = clock.now();
            now.saturating_sub(*start.get_or_insert(now)) > limit
        });
        if items.len() >= fill.items || is_timed_out || wire::weigh_some(&items) >= most_bytes {
            break rest.is_finished();
        }
        read_clock_at = (items.len() + items.len().clamp(1, CLOCK_EVERY)).min(fill.items);
    };
    Ok(Expanded { items: Box::new(items), produced, is_last, started, dropped })
}

#[cfg(test)]
mod tests {
    use super::super::fill::Fill;
    use super::*;
    use crate::comm::clock::Clock;

    /// Part of a stage's output: items, number of items made from the input item at each position, true for the last part, and numbers of started and
    /// dropped input items.
    type PieceContent = (Vec<u64>, Vec<(u32, u32)>, bool, usize, usize);

    fn plain<I>(mut f: impl FnMut(u64) -> I + Send) -> impl ErasedStage
    where
        I: IntoIterator<Item: Item, IntoIter: Send>,
    {
        FlatMap::<_, _, _, Plain>::new(move |x: u64| Ok(f(x)))
    }

    fn next(
        stage: &mut dyn ErasedStage,
        items: Option<Vec<u64>>,
        range: &Range,
        fill: usize,
    ) -> Result<PieceContent> {
        let number = &7.into();
        let items = items.map(|items| Box::new(items) as Items);
        let fill = Fill { items: fill, time: None };
        let expand = Expand { number, items, range, fill, clock: Clock::wall() };
        let Expanded { items, produced, is_last, started, dropped } =
            stage.expand(expand, &mut Context::for_test())?;
        let produced = produced.by_place().collect();
        Ok((*items.downcast().unwrap(), produced, is_last, started, dropped))
    }

    #[test]
    fn batch_is_expanded_piece_by_piece() {
        // The size hint of an iterator with a filter does not show whether another item follows.
        let mut stage = plain(|x| (0..x).filter(|_| true));
        let range = Range { dropped: vec![1], ..Range::new(100, 5) };
        let mut next = |items| next(&mut stage, items, &range, 3).unwrap();
        // The input items at positions 0, 2, 3 and 4 of the batch produce no item, one item, five items and no item.
        assert_eq!(next(Some(vec![0, 1, 5, 0])), (vec![0, 0, 1], vec![(2, 1), (3, 2)], false, 3, 1));
        assert_eq!(next(None), (vec![2, 3, 4], vec![(3, 3)], false, 0, 0));
        assert_eq!(next(None), (vec![], vec![], true, 1, 1));
    }

    #[test]
    fn exact_size_iterator_marks_its_last_piece() {
        let mut stage = plain(|x| vec![x; x as usize]);
        let mut next = |items, fill| next(&mut stage, Some(items), &Range::new(0, 2), fill).unwrap();
        assert_eq!(next(vec![1, 2], 3), (vec![1, 2, 2], vec![(0, 1), (1, 2)], true, 2, 0));
        assert_eq!(next(vec![0, 0], 3), (vec![], vec![], true, 2, 2));
        assert_eq!(next(vec![], 3), (vec![], vec![], true, 0, 0));
    }

    #[test]
    fn endless_iterator_is_drawn_one_piece_at_a_time() {
        let mut stage = plain(|x| (0..).map(move |_| vec![x; 1 << 16]));
        let (number, range) = (&7.into(), &Range::new(0, 1));
        let mut piece = |items: Option<Items>, fill| {
            let expand = Expand { number, items, range, fill, clock: Clock::wall() };
            let expanded = stage.expand(expand, &mut Context::for_test()).unwrap();
            assert!(!expanded.is_last);
            expanded.items.downcast::<Vec<Vec<u64>>>().unwrap().len()
        };
        let none = Fill { items: 100_000, time: None };
        assert_eq!(piece(Some(Box::new(vec![3_u64])), none), 1, "one of them is as wide as a piece may be");
        assert_eq!(piece(None, Fill { items: 1, time: None }), 1);
    }

    #[test]
    fn errors_name_the_source_item() {
        let mut stage = FlatMap::<_, _, _, Fallible>::new(|x: u64| {
            let odd = |n| if n == 3 { Err("three".into()) } else { Ok(n) };
            if x == 8 { Err("eight".into()) } else { Ok((0..x).map(odd)) }
        });
        let mut first = |items| next(&mut stage, Some(items), &Range::new(100, 2), 100).err().unwrap();
        for (items, text) in [(vec![2, 9], "three"), (vec![3, 8], "eight")] {
            let error = first(items);
            assert_eq!((error.kind(), error.item(), error.message()), (ErrorKind::User, Some(101), text));
        }
        let mut stage = plain(|x| (0..x).inspect(|n| assert!(*n < 3, "three")));
        let error = next(&mut stage, Some(vec![2, 9]), &Range::new(100, 2), 100).err().unwrap();
        assert_eq!((error.kind(), error.item()), (ErrorKind::Panic, Some(101)));
        let error = next(&mut stage, None, &Range::new(100, 2), 100).err().unwrap();
        assert_eq!(error.to_string(), "holds no items of batch 7");
        let error = stage.run(Box::new(vec![1_u64]), &mut Range::new(0, 1), &mut Context::for_test()).err();
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Wire));
    }
}
