//! Collection of the items of a pipeline as its result.

use std::sync::{Arc, Mutex, PoisonError};

use super::erased::{Items, typed};
use super::machine::sequence_number::SequenceNumber;
use super::range::Range;
use super::source_sink::ErasedSink;
use crate::error::Result;
use crate::wire::Item;

/// Batches that have reached the sink.
type Batches<T> = Arc<Mutex<Vec<(SequenceNumber, Vec<T>)>>>;

/// End of a pipeline that keeps all items for [`run`](super::Runnable::run) to return. Created by [`collect`](super::Pipeline::collect).
#[derive(Debug)]
pub struct Collect<T> {
    batches: Batches<T>,
    pub(super) on_all_ranks: bool,
}

impl<T: Item> Collect<T> {
    pub(super) fn new() -> Self {
        Collect { batches: Batches::default(), on_all_ranks: false }
    }

    pub(super) fn sink(&self) -> impl ErasedSink + use<T> {
        Sink(self.batches.clone())
    }

    /// Returns all items in the order of the source. Batches may have arrived in another order.
    pub(super) fn into_items(self) -> Vec<T> {
        let mut batches = std::mem::take(&mut *self.batches.lock().unwrap_or_else(PoisonError::into_inner));
        batches.sort_by(|(a, _), (b, _)| a.cmp(b));
        batches.into_iter().flat_map(|(_, items)| items).collect()
    }
}

struct Sink<T>(Batches<T>);

impl<T: Item> ErasedSink for Sink<T> {
    fn take(&mut self, items: Items, number: &SequenceNumber, _: &Range) -> Result<()> {
        let items = typed::<T>(items)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((number.clone(), items));
        Ok(())
    }
}
