//! Ends of a pipeline: the user's iterator as a source, and the user's function as a sink.

use std::marker::PhantomData;

use super::erased::{Items, typed};
use super::fill::{CLOCK_EVERY, Fill};
use super::machine::sequence_number::SequenceNumber;
use super::range::Range;
use crate::comm::clock::Clock;
use crate::error::{BoxError, Error, Result};
use crate::user_code;
use crate::wire::Item;

/// Batch drawn from the source.
pub(crate) struct Drawn {
    pub(crate) items: Items,
    pub(crate) count: usize,
    /// True if the stream has ended behind the batch.
    pub(crate) ended: bool,
    /// Number of remaining items, if the iterator knows it.
    pub(crate) left: Option<u64>,
}

/// Source that draws batches from the user's iterator.
pub(crate) trait ErasedSource: Send {
    /// Draws the next batch. `first` is the number of its first item, for errors.
    fn draw(&mut self, fill: Fill, first: u64, clock: Clock) -> Result<Drawn>;
}

/// Iterator as a source. It is created at the first draw, on the thread that draws.
pub(crate) struct SourceOf<M, I> {
    make: Option<M>,
    iter: Option<I>,
}

impl<M, I> SourceOf<M, I> {
    pub(crate) fn new(make: M) -> Self {
        SourceOf { make: Some(make), iter: None }
    }
}

/// Iterator that can fail as a source.
pub(crate) struct TrySourceOf<M, I>(SourceOf<M, I>);

impl<M, I> TrySourceOf<M, I> {
    pub(crate) fn new(make: M) -> Self {
        TrySourceOf(SourceOf::new(make))
    }
}

impl<M, I, T> ErasedSource for SourceOf<M, I>
where
    M: FnOnce() -> I + Send,
    I: Iterator<Item = T> + Send,
    T: Item,
{
    fn draw(&mut self, fill: Fill, first: u64, clock: Clock) -> Result<Drawn> {
        draw(self, fill, first, clock, |iter, items: &mut Vec<T>, want| {
            let full = items.len() + want;
            items.extend(iter.by_ref().take(want));
            Ok(items.len() < full)
        })
    }
}

impl<M, I, T> ErasedSource for TrySourceOf<M, I>
where
    M: FnOnce() -> I + Send,
    I: Iterator<Item = Result<T, BoxError>> + Send,
    T: Item,
{
    fn draw(&mut self, fill: Fill, first: u64, clock: Clock) -> Result<Drawn> {
        draw(&mut self.0, fill, first, clock, |iter, items: &mut Vec<T>, want| {
            for _ in 0..want {
                match iter.next() {
                    Some(item) => items.push(item.map_err(|e| user_code::described(e).at_rank(0))?),
                    None => return Ok(true),
                }
            }
            Ok(false)
        })
    }
}

/// Draws a batch. `more` draws a number of items and returns true if the stream has ended.
fn draw<M, I, T: Item>(
    source: &mut SourceOf<M, I>,
    fill: Fill,
    first: u64,
    clock: Clock,
    mut more: impl FnMut(&mut I, &mut Vec<T>, usize) -> Result<bool>,
) -> Result<Drawn>
where
    M: FnOnce() -> I,
    I: Iterator,
{
    let mut items: Vec<T> = Vec::with_capacity(fill.items);
    let ended = user_code::call(|| {
        if let Some(make) = source.make.take() {
            source.iter = Some(make());
        }
        let Some(iter) = &mut source.iter else { return Ok(true) };
        let Some(limit) = fill.time else { return more(iter, &mut items, fill.items) };
        // The first item may take long; from then on no item waits much longer than the limit.
        let mut start = None;
        while items.len() < fill.items {
            let want = items.len().clamp(1, CLOCK_EVERY).min(fill.items - items.len());
            if more(iter, &mut items, want)? {
                return Ok(true);
            }
            let now = clock.now();
            if now.saturating_sub(*start.get_or_insert(now)) > limit {
                break;
            }
        }
        Ok(false)
    })
    .map_err(|e| e.on_item(first + items.len() as u64))?;
    if ended {
        source.iter = None;
    }
    // Only an exact length is reported: an estimate would be taken for the length of the stream.
    let left = source.iter.as_ref().map_or(Some(0), |iter| match iter.size_hint() {
        (least, Some(most)) if least == most => Some(least as u64),
        _ => None,
    });
    let count = items.len();
    Ok(Drawn { items: Box::new(items), count, ended, left })
}

/// Sink of a run, with its name.
pub(super) struct NamedSink<'p> {
    pub(super) name: String,
    pub(super) sink: Box<dyn ErasedSink + 'p>,
}

/// Sink that takes batches at the end of the pipeline.
pub(crate) trait ErasedSink: Send {
    fn take(&mut self, items: Items, number: &SequenceNumber, range: &Range) -> Result<()>;
}

/// Function as a sink.
pub(crate) struct SinkOf<F, T>(F, PhantomData<fn(T)>);

impl<F, T> SinkOf<F, T> {
    pub(crate) fn new(call: F) -> Self {
        SinkOf(call, PhantomData)
    }
}

/// Function that can fail as a sink.
pub(crate) struct TrySinkOf<F, T>(F, PhantomData<fn(T)>);

impl<F, T> TrySinkOf<F, T> {
    pub(crate) fn new(call: F) -> Self {
        TrySinkOf(call, PhantomData)
    }
}

impl<F: FnMut(T) + Send, T: Item> ErasedSink for SinkOf<F, T> {
    fn take(&mut self, items: Items, _: &SequenceNumber, range: &Range) -> Result<()> {
        let items = typed::<T>(items)?;
        let mut started = 0;
        user_code::call(|| {
            items.into_iter().for_each(|item| {
                started += 1;
                (self.0)(item);
            });
            Ok::<_, Error>(())
        })
        .map_err(|e| e.on_item(range.number_of(started - 1)))
    }
}

impl<F, T> ErasedSink for TrySinkOf<F, T>
where
    F: FnMut(T) -> Result<(), BoxError> + Send,
    T: Item,
{
    fn take(&mut self, items: Items, _: &SequenceNumber, range: &Range) -> Result<()> {
        let items = typed::<T>(items)?;
        let mut started = 0;
        user_code::call(|| {
            items.into_iter().try_for_each(|item| {
                started += 1;
                (self.0)(item).map_err(|e| user_code::described(e).at_rank(0))
            })
        })
        .map_err(|e| e.on_item(range.number_of(started - 1)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_source_stops_at_its_end_and_numbers_its_errors() {
        let items = vec![Ok(1u8), Ok(2), Err("torn".into())];
        let mut source = TrySourceOf::new(|| items.into_iter());
        let fill = Fill { items: 2, time: None };
        let drawn = source.draw(fill, 0, Clock::wall()).unwrap();
        let items = drawn.items.downcast_ref::<Vec<u8>>().unwrap().len();
        assert_eq!((items, drawn.count, drawn.ended, drawn.left), (2, 2, false, Some(1)));
        let error = source.draw(fill, 2, Clock::wall()).err().unwrap();
        assert_eq!(error.to_string(), "rank 0: item 2: torn");
        let mut source = SourceOf::new(|| 0..5u8);
        let mut draw = || source.draw(fill, 0, Clock::wall()).map(|d| (d.count, d.ended, d.left)).unwrap();
        let counts = [draw(), draw(), draw(), draw()];
        let end = (0, true, Some(0));
        assert_eq!(counts, [(2, false, Some(3)), (2, false, Some(1)), (1, true, Some(0)), end]);
        let mut endless = SourceOf::new(|| (0..9u8).filter(|x| *x < 6));
        assert_eq!(endless.draw(fill, 0, Clock::wall()).unwrap().left, None);
    }

    #[test]
    fn a_slow_source_gives_small_batches() {
        let slow = || (0..100u8).inspect(|_| std::thread::sleep(Duration::from_millis(2)));
        let mut source = SourceOf::new(slow);
        let fill = Fill { items: 100, time: Some(Duration::from_millis(1)) };
        assert_eq!(source.draw(fill, 0, Clock::wall()).unwrap().count, 2);
    }

    #[test]
    fn a_panic_at_either_end_names_its_item() {
        let mut source = SourceOf::new(|| (0..9u8).inspect(|x| assert!(*x < 6, "enough")));
        let error = source.draw(Fill { items: 9, time: None }, 100, Clock::wall()).err().unwrap();
        assert_eq!((error.kind(), error.item()), (ErrorKind::Panic, Some(106)));
        let range = Range { dropped: vec![1], ..Range::new(10, 4) };
        let mut sink = SinkOf::new(|x: u8| assert!(x != 3, "three"));
        let error = sink.take(Box::new(vec![1u8, 2, 3]), &1.into(), &range).unwrap_err();
        assert_eq!((error.kind(), error.item()), (ErrorKind::Panic, Some(13)));
    }
}
