//! Ends of a pipeline: the user's iterator as its source, and the user's function as its sink.

use std::marker::PhantomData;

use super::erased::{Items, typed};
use super::fill::{CLOCK_EVERY, Fill};
use super::machine::Position;
use super::machine::sequence_number::SequenceNumber;
use super::range::Range;
use super::sink::Sink;
use crate::comm::clock::Clock;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::user_code;
use crate::wire::Item;

/// Batch drawn from the user's iterator.
pub(crate) struct Drawn {
    pub(crate) items: Items,
    pub(crate) count: usize,
    pub(crate) ended: bool,
    /// Number of items that the iterator has not yielded yet, if it knows the number.
    pub(crate) left: Option<u64>,
}

/// Source of a pipeline that draws batches from the user's iterator.
pub(crate) trait ErasedSource: Send {
    /// Draws the next batch, whose first item has number `first`. The first call skips the items before number `first`, which an earlier start of the
    /// job has processed.
    fn draw(&mut self, fill: Fill, first: u64, clock: Clock) -> Result<Drawn>;

    /// Returns a batch without items; the iterator is not used.
    fn empty(&self) -> Drawn;
}

/// Skips the first `count` items of an iterator, which an earlier start of the job has processed.
pub(crate) fn skipped<I: Iterator>(mut iter: I, count: u64) -> Result<I> {
    let is_too_short = count > 0 && iter.nth(count as usize - 1).is_none();
    if is_too_short { Err(too_short(count)) } else { Ok(iter) }
}

pub(crate) fn try_skipped<T, I: Iterator<Item = Result<T, BoxError>>>(mut iter: I, count: u64) -> Result<I> {
    for number in 0..count {
        match iter.next() {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(user_code::described(error).on_item(number).at_rank(0)),
            None => return Err(too_short(count)),
        }
    }
    Ok(iter)
}

fn too_short(count: u64) -> Error {
    let text = format!(
        "the snapshot was taken after {count} items, but the source has fewer: it must yield the same items in each job"
    );
    Error::new(ErrorKind::Config, text)
}

/// User's iterator as the source of a pipeline. `make` creates it at the first draw, on the thread that draws, and receives the number of items to
/// skip.
pub(crate) struct SourceOf<M, I> {
    make: Option<M>,
    iter: Option<I>,
    ended: bool,
}

impl<M, I> SourceOf<M, I> {
    pub(crate) fn new(make: M) -> Self {
        SourceOf { make: Some(make), iter: None, ended: false }
    }
}

pub(crate) struct TrySourceOf<M, I>(SourceOf<M, I>);

impl<M, I> TrySourceOf<M, I> {
    pub(crate) fn new(make: M) -> Self {
        TrySourceOf(SourceOf::new(make))
    }
}

impl<M, I, T> ErasedSource for SourceOf<M, I>
where
    M: FnOnce(u64) -> Result<I> + Send,
    I: Iterator<Item = T> + Send,
    T: Item,
{
    fn empty(&self) -> Drawn {
        empty::<T, _, _>(self)
    }

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
    M: FnOnce(u64) -> Result<I> + Send,
    I: Iterator<Item = Result<T, BoxError>> + Send,
    T: Item,
{
    fn empty(&self) -> Drawn {
        empty::<T, _, _>(&self.0)
    }

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

/// Draws a batch. `more` draws the given number of items and returns true if the iterator has ended.
fn draw<M, I, T: Item>(
    source: &mut SourceOf<M, I>,
    fill: Fill,
    first: u64,
    clock: Clock,
    mut more: impl FnMut(&mut I, &mut Vec<T>, usize) -> Result<bool>,
) -> Result<Drawn>
where
    M: FnOnce(u64) -> Result<I>,
    I: Iterator,
{
    let mut items: Vec<T> = Vec::with_capacity(fill.items);
    let ended = user_code::call(|| {
        if let Some(make) = source.make.take() {
            source.iter = Some(make(first)?);
        }
        let Some(iter) = &mut source.iter else { return Ok(true) };
        let Some(limit) = fill.time else { return more(iter, &mut items, fill.items) };
        // The time limit of a batch counts from its first item, because the iterator may wait long for that item.
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
        (source.iter, source.ended) = (None, true);
    }
    let count = items.len();
    Ok(Drawn { items: Box::new(items), count, ended, left: source.left() })
}

impl<M, I: Iterator> SourceOf<M, I> {
    /// Returns the number of remaining items only if the iterator knows it exactly, because rank 0 takes it for the length of the stream.
    fn left(&self) -> Option<u64> {
        match self.iter.as_ref().map(Iterator::size_hint) {
            Some((least, Some(most))) if least == most => Some(least as u64),
            None if self.ended => Some(0),
            _ => None,
        }
    }
}

fn empty<T: Item, M, I: Iterator>(source: &SourceOf<M, I>) -> Drawn {
    Drawn { items: Box::new(Vec::<T>::new()), count: 0, ended: source.ended, left: source.left() }
}

pub(super) struct NamedSink<'p> {
    pub(super) name: String,
    pub(super) sink: Box<dyn ErasedSink + 'p>,
}

/// Effect of a restart of the job on the items that a sink has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The sink commits its items, so that a job that continues from a snapshot does not pass them to the sink again.
    Committed,
    /// After a restart of the job, the sink receives the items since the last snapshot again.
    None,
    /// The sink keeps its items in memory, so a restart loses the items before the last snapshot.
    InMemory,
}

pub(crate) trait ErasedSink: Send {
    fn take(&mut self, items: Items, number: &SequenceNumber, range: &Range) -> Result<()>;

    fn durability(&self) -> Durability {
        Durability::None
    }

    /// Makes all output of the sink durable, which is everything made from the first `items` source items. Returns the state of the sink.
    fn commit(&mut self, _items: u64) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn resume(&mut self, _: &Position) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// User's implementation of [`Sink`], which is created on rank 0 when it is first used.
pub(crate) struct CommittingSink<M, S> {
    make: Option<M>,
    sink: Option<S>,
}

impl<M: FnOnce() -> Result<S, BoxError> + Send, S: Sink> CommittingSink<M, S> {
    pub(crate) fn new(make: M) -> Self {
        CommittingSink { make: Some(make), sink: None }
    }

    fn call<R>(&mut self, call: impl FnOnce(&mut S) -> Result<R, BoxError>) -> Result<R> {
        let place = |error| user_code::described(error).at_rank(0);
        user_code::call(|| {
            if let Some(make) = self.make.take() {
                self.sink = Some(make().map_err(place)?);
            }
            let Some(sink) = &mut self.sink else {
                return Err(Error::new(ErrorKind::User, "the sink could not be created").at_rank(0));
            };
            call(sink).map_err(place)
        })
    }
}

impl<M: FnOnce() -> Result<S, BoxError> + Send, S: Sink> ErasedSink for CommittingSink<M, S> {
    fn take(&mut self, items: Items, _: &SequenceNumber, range: &Range) -> Result<()> {
        let items = typed::<S::In>(items)?;
        let mut begun = 0;
        self.call(|sink| {
            items.into_iter().try_for_each(|item| {
                begun += 1;
                sink.take(item)
            })
        })
        .map_err(|e| e.on_item(range.number_of(begun - 1)))
    }

    fn durability(&self) -> Durability {
        Durability::Committed
    }

    fn commit(&mut self, items: u64) -> Result<Vec<u8>> {
        self.call(|sink| sink.commit(items))
    }

    fn resume(&mut self, position: &Position) -> Result<()> {
        self.call(|sink| sink.resume(position.items, &position.sink))
    }

    fn finish(&mut self) -> Result<()> {
        self.call(Sink::finish)
    }
}

pub(crate) struct SinkOf<F, T>(F, PhantomData<fn(T)>);

impl<F, T> SinkOf<F, T> {
    pub(crate) fn new(call: F) -> Self {
        SinkOf(call, PhantomData)
    }
}

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

    #[test]
    fn source_stops_at_its_end_and_numbers_its_errors() {
        let items = vec![Ok(1u8), Ok(2), Err("torn".into())];
        let mut source = TrySourceOf::new(|_| Ok(items.into_iter()));
        let fill = Fill { items: 2, time: None };
        let drawn = source.draw(fill, 0, Clock::wall()).unwrap();
        let items = drawn.items.downcast_ref::<Vec<u8>>().unwrap().len();
        assert_eq!((items, drawn.count, drawn.ended, drawn.left), (2, 2, false, Some(1)));
        let error = source.draw(fill, 2, Clock::wall()).err().unwrap();
        assert_eq!(error.to_string(), "rank 0: item 2: torn");
        let mut source = SourceOf::new(|first| skipped(0..5u8, first));
        let mut draw = || source.draw(fill, 0, Clock::wall()).map(|d| (d.count, d.ended, d.left)).unwrap();
        let counts = [draw(), draw(), draw(), draw()];
        let end = (0, true, Some(0));
        assert_eq!(counts, [(2, false, Some(3)), (2, false, Some(1)), (1, true, Some(0)), end]);
        let mut endless = SourceOf::new(|_| Ok((0..9u8).filter(|x| *x < 6)));
        assert_eq!(endless.draw(fill, 0, Clock::wall()).unwrap().left, None);
    }

    #[test]
    fn slow_source_gives_small_batches() {
        let slow = |_| Ok((0..100u8).inspect(|_| std::thread::sleep(Duration::from_millis(2))));
        let mut source = SourceOf::new(slow);
        let fill = Fill { items: 100, time: Some(Duration::from_millis(1)) };
        assert_eq!(source.draw(fill, 0, Clock::wall()).unwrap().count, 2);
    }

    #[test]
    fn source_and_sink_panics_name_the_item() {
        let mut source = SourceOf::new(|_| Ok((0..9u8).inspect(|x| assert!(*x < 6, "enough"))));
        let error = source.draw(Fill { items: 9, time: None }, 100, Clock::wall()).err().unwrap();
        assert_eq!((error.kind(), error.item()), (ErrorKind::Panic, Some(106)));
        let range = Range { dropped: vec![1], ..Range::new(10, 4) };
        let mut sink = SinkOf::new(|x: u8| assert!(x != 3, "three"));
        let error = sink.take(Box::new(vec![1u8, 2, 3]), &1.into(), &range).unwrap_err();
        assert_eq!((error.kind(), error.item()), (ErrorKind::Panic, Some(13)));
    }
}
