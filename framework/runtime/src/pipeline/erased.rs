//! Stages that process batches whose type of items is not known at compile time ([erased](crate::wire::erased) batches).

use std::cell::Cell;
use std::marker::PhantomData;

use super::fill::Fill;
use super::machine::sequence_number::SequenceNumber;
use super::produced_counts::ProducedCounts;
use super::range::Range;
use super::stage::Stage;
use crate::comm::clock::Clock;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::user_code;
use crate::wire::Item;
pub(crate) use crate::wire::erased::{Codec, Items, typed};

/// Request to an expanding stage (one that makes several items from one) for the next part of its output for a batch.
pub(crate) struct Expand<'a> {
    pub(crate) number: &'a SequenceNumber,
    /// Input items of the batch; `None` if the stage has received them with the request for the first part of the output.
    pub(crate) items: Option<Items>,
    pub(crate) range: &'a Range,
    pub(crate) fill: Fill,
    pub(crate) clock: Clock,
}

/// Part of the output of an expanding stage (one that makes several items from one) for one batch.
pub(crate) struct Expanded {
    pub(crate) items: Items,
    pub(crate) produced: ProducedCounts,
    pub(crate) is_last: bool,
    /// Number of input items that the stage started while it made this part of its output.
    pub(crate) started: usize,
    /// Number of input items that the stage finished without any output while it made this part of its output.
    pub(crate) dropped: usize,
}

/// Stage that processes whole batches, whatever the type of its items.
pub(crate) trait ErasedStage: Send {
    /// Processes a batch, and records in `range` which items the stage drops. An error names the item in which it occurred.
    fn run(&mut self, items: Items, range: &mut Range, cx: &mut Context) -> Result<Items>;

    /// Makes the next part of the output for a batch. Called only for stages that [produce several items from
    /// one](super::stage_def::StageDef::expands).
    fn expand(&mut self, _: Expand<'_>, _: &mut Context) -> Result<Expanded> {
        Err(Error::new(ErrorKind::Wire, "a stage that returns one item for each item cannot expand a batch"))
    }

    /// Appends the item that the stage emits at the end of the stream to the items of the last batch.
    fn finish(&mut self, items: Items, _: &mut Range, _: &mut Context) -> Result<Items> {
        Ok(items)
    }

    /// Returns the state of the stage, so that the stage can continue on another rank; `None` for a stage that is a function, whose captured
    /// variables cannot be sent.
    fn save(&self) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn restore(&mut self, state: &[u8], rank: usize) -> Result<()> {
        let text = format!("a function has no state, but received {} bytes of state", state.len());
        Err(Error::new(ErrorKind::Wire, text).at_rank(rank))
    }
}

impl<S: Stage> ErasedStage for S {
    fn run(&mut self, items: Items, range: &mut Range, cx: &mut Context) -> Result<Items> {
        let items = typed::<S::In>(items)?;
        let total = items.len();
        let mut out: Vec<S::Out> = Vec::with_capacity(total);
        let mut removed: Vec<u32> = Vec::new();
        let first = range.first;
        let outcome = user_code::call(|| {
            // A batch without dropped items, which is the usual case, is processed in a faster loop: the positions of its items are
            // consecutive numbers.
            if range.is_full() {
                each(self, items.into_iter().zip(0..), first, cx, &mut out, &mut removed)
            } else {
                each(self, items.into_iter().zip(range.places()), first, cx, &mut out, &mut removed)
            }
        });
        outcome.map_err(|e| e.on_item(cx.number))?;
        range.remove_places(removed);
        Ok(Box::new(out))
    }

    fn finish(&mut self, items: Items, range: &mut Range, cx: &mut Context) -> Result<Items> {
        cx.number = range.first + u64::from(range.count);
        let rank = cx.place.rank;
        let place = |error| user_code::described(error).at_rank(rank);
        let Some(last) = user_code::call(|| Stage::finish(self, cx).map_err(place))? else {
            return Ok(items);
        };
        let mut items = typed::<S::Out>(items)?;
        items.push(last);
        // The item that a stage emits at the end of the stream was made from no source item. Its position is behind the positions of all source items
        // of the batch.
        range.produced.get_or_insert_default().add(range.count, 1);
        Ok(Box::new(items))
    }

    fn save(&self) -> Result<Option<Vec<u8>>> {
        user_code::call(|| Ok::<_, Error>(Stage::save(self)))
    }

    fn restore(&mut self, state: &[u8], rank: usize) -> Result<()> {
        user_code::call(|| Stage::restore(self, state)).map_err(|e| e.at_rank(rank))
    }
}

/// Counter of the items that a loop has processed. The loop owns the counter, which stores its value in a cell of the caller when it is dropped, even
/// by a panic. A counter that the loop only borrows would be written to memory at every item, which prevents vectorisation.
struct Count<'a> {
    items: usize,
    count: &'a Cell<usize>,
}

impl Count<'_> {
    #[inline]
    fn another(&mut self) {
        self.items += 1;
    }
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.count.set(self.items);
    }
}

/// Stage with a function that returns one item for each item and cannot fail. The loop over a batch is therefore as tight as the function permits,
/// and the memory of the batch is reused if the types permit it. Created by [`map`](super::Pipeline::map).
pub(crate) struct Function<F, I, O> {
    call: F,
    types: PhantomData<fn(I) -> O>,
}

impl<F, I, O> Function<F, I, O> {
    pub(crate) fn new(call: F) -> Self {
        Function { call, types: PhantomData }
    }
}

impl<F, I, O> ErasedStage for Function<F, I, O>
where
    F: FnMut(I) -> O + Send,
    I: Item,
    O: Item,
{
    fn run(&mut self, items: Items, range: &mut Range, _: &mut Context) -> Result<Items> {
        let items = typed::<I>(items)?;
        let started = Cell::new(0);
        let mut count = Count { items: 0, count: &started };
        let out: Result<Vec<O>> = user_code::call(|| {
            let each = move |item| {
                count.another();
                (self.call)(item)
            };
            Ok::<_, Error>(items.into_iter().map(each).collect())
        });
        let out = out.map_err(|e| e.on_item(range.number_of(started.get() - 1)))?;
        Ok(Box::new(out))
    }
}

/// Stage with a function that modifies items in place, so that no item is moved. Created by [`update`](super::Pipeline::update).
pub(crate) struct Update<F, T> {
    call: F,
    types: PhantomData<fn(T)>,
}

impl<F, T> Update<F, T> {
    pub(crate) fn new(call: F) -> Self {
        Update { call, types: PhantomData }
    }
}

impl<F: FnMut(&mut T) + Send, T: Item> ErasedStage for Update<F, T> {
    fn run(&mut self, items: Items, range: &mut Range, _: &mut Context) -> Result<Items> {
        let mut items = typed::<T>(items)?;
        let started = Cell::new(0);
        let mut count = Count { items: 0, count: &started };
        user_code::call(|| {
            items.iter_mut().for_each(move |item| {
                count.another();
                (self.call)(item);
            });
            Ok::<_, Error>(())
        })
        .map_err(|e| e.on_item(range.number_of(started.get() - 1)))?;
        Ok(Box::new(items))
    }
}

/// Calls a function for each of `items` with the item's position in the batch. The first source item of the batch has number `first`.
#[inline]
fn each<S: Stage>(
    stage: &mut S,
    items: impl Iterator<Item = (S::In, u32)>,
    first: u64,
    cx: &mut Context,
    out: &mut Vec<S::Out>,
    removed: &mut Vec<u32>,
) -> Result<()> {
    for (item, place) in items {
        cx.number = first + u64::from(place);
        match stage.process(item, cx) {
            Ok(Some(result)) => out.push(result),
            Ok(None) => removed.push(place),
            Err(error) => return Err(user_code::described(error).at_rank(cx.place.rank)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::stage::Closure;
    use super::*;

    #[test]
    fn item_numbers_are_unaffected_by_dropped_items() {
        let mut range = Range::new(100, 6);
        let mut odd = Closure::new(|x: u32| Ok((x % 2 == 1).then_some(x)));
        let mut cx = Context::for_test();
        let items = odd.run(Box::new(vec![0u32, 1, 2, 3, 4, 5]), &mut range, &mut cx).unwrap();
        assert_eq!(*items.downcast_ref::<Vec<u32>>().unwrap(), [1, 3, 5]);
        assert_eq!(range.dropped, [0, 2, 4]);
        let mut not3 = Closure::new(|x: u32| Ok((x != 3).then_some(x)));
        let items = not3.run(items, &mut range, &mut cx).unwrap();
        assert_eq!(range.dropped, [0, 2, 3, 4]);
        let mut bad = Closure::new(|x: u32| if x == 5 { Err("five".into()) } else { Ok(Some(x)) });
        let error = bad.run(items, &mut range, &mut cx).unwrap_err();
        assert_eq!(error.to_string(), "rank 0: item 105: five");
    }

    #[test]
    fn dropping_an_item_keeps_its_siblings() {
        let produced = |of: &[(u32, u32)]| {
            let mut produced = ProducedCounts::default();
            of.iter().for_each(|&(place, items)| produced.add(place, items));
            Some(produced)
        };
        let mut range = Range { produced: produced(&[(1, 3), (4, 2)]), ..Range::new(100, 6) };
        assert_eq!((range.live(), range.number_of(2), range.number_of(3)), (5, 101, 104));
        let mut odd = Closure::new(|x: u32| Ok((x % 2 == 1).then_some(x)));
        let mut cx = Context::for_test();
        let items = odd.run(Box::new(vec![1u32, 3, 4, 6, 8]), &mut range, &mut cx).unwrap();
        assert_eq!(*items.downcast_ref::<Vec<u32>>().unwrap(), [1, 3]);
        assert_eq!((range.produced, range.dropped), (produced(&[(1, 2)]), vec![]));
    }

    #[test]
    fn dropping_many_items_takes_linear_time() {
        let count = 1 << 20;
        let mut range = Range::new(0, count);
        let mut even = Closure::new(|x: u32| Ok(x.is_multiple_of(2).then_some(x)));
        let mut thirds = Closure::new(|x: u32| Ok(x.is_multiple_of(3).then_some(x)));
        let mut cx = Context::for_test();
        let items: Items = Box::new((0..count).collect::<Vec<u32>>());
        let items = even.run(items, &mut range, &mut cx).unwrap();
        // This test would run for hours if the time to drop items grew with the square of the batch size.
        let items = thirds.run(items, &mut range, &mut cx).unwrap();
        let sixths: Vec<u32> = (0..count).filter(|x| x.is_multiple_of(6)).collect();
        assert_eq!(*items.downcast_ref::<Vec<u32>>().unwrap(), sixths);
        assert_eq!((range.live(), cx.number), (sixths.len(), u64::from(count) - 2));
        assert!(range.dropped.is_sorted() && range.places().eq(sixths));
    }

    struct Stuck;

    impl Stage for Stuck {
        type In = u8;
        type Out = u8;

        fn process(&mut self, item: u8, _: &mut Context) -> super::super::stage::StageResult<u8> {
            Ok(Some(item))
        }

        fn save(&self) -> Option<Vec<u8>> {
            panic!("not now")
        }

        fn restore(&mut self, _: &[u8]) -> Result<(), crate::BoxError> {
            panic!("not here")
        }
    }

    #[test]
    fn panic_in_save_or_restore_is_an_error() {
        let kind = |e: Error| (e.kind(), e.message().to_string());
        let saved = ErasedStage::save(&Stuck).map_err(kind);
        assert_eq!(saved, Err((ErrorKind::Panic, "not now".to_string())));
        let restored = ErasedStage::restore(&mut Stuck, &[], 1).map_err(kind);
        assert_eq!(restored, Err((ErrorKind::Panic, "not here".to_string())));
    }

    #[test]
    fn function_panic_names_its_item() {
        let mut range = Range { dropped: vec![0], ..Range::new(10, 4) };
        let mut f = Function::new(|x: u8| u64::from(100 / (3 - x)));
        let out = f.run(Box::new(vec![1u8, 2]), &mut Range::new(0, 2), &mut Context::for_test());
        assert_eq!(*out.unwrap().downcast_ref::<Vec<u64>>().unwrap(), [50, 100]);
        let error = f.run(Box::new(vec![1u8, 3, 2]), &mut range, &mut Context::for_test()).unwrap_err();
        assert_eq!((error.kind(), error.item()), (ErrorKind::Panic, Some(12)));
        let mut u = Update::new(|x: &mut u8| *x = 12 / (3 - *x));
        let out = u.run(Box::new(vec![0u8, 1, 2]), &mut range, &mut Context::for_test()).unwrap();
        assert_eq!(*out.downcast_ref::<Vec<u8>>().unwrap(), [4, 6, 12]);
        let error = u.run(Box::new(vec![1u8, 3, 2]), &mut range, &mut Context::for_test()).unwrap_err();
        assert_eq!((error.kind(), error.item()), (ErrorKind::Panic, Some(12)));
        let error = u.restore(&[1, 2], 3).unwrap_err();
        assert_eq!(error.to_string(), "rank 3: a function has no state, but received 2 bytes of state");
    }

    #[test]
    fn stage_panic_names_its_item() {
        let mut range = Range::new(10, 3);
        let mut stage = Closure::new(|x: u8| {
            assert!(x < 2, "too big");
            Ok(Some(x))
        });
        let error = stage.run(Box::new(vec![0u8, 1, 2]), &mut range, &mut Context::for_test()).unwrap_err();
        assert_eq!((error.kind(), error.item()), (ErrorKind::Panic, Some(12)));
    }
}
