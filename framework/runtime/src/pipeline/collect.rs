//! Sink that collects the items of a pipeline as the pipeline's result.

use std::sync::{Arc, Mutex, PoisonError};

use super::erased::{Items, typed};
use super::machine::sequence_number::SequenceNumber;
use super::range::Range;
use super::source_sink::{Durability, ErasedSink};
use crate::error::Result;
use crate::wire::Item;

type Batches<T> = Vec<(SequenceNumber, Vec<T>)>;

/// Sink that keeps all batches of items. The caller keeps a clone of the sink, from which it takes the items at the end.
#[derive(Debug)]
pub(super) struct Collect<T>(Arc<Mutex<Batches<T>>>);

impl<T> Clone for Collect<T> {
    fn clone(&self) -> Self {
        Collect(self.0.clone())
    }
}

impl<T> Collect<T> {
    pub(super) fn new() -> Self {
        Collect(Arc::default())
    }

    pub(super) fn into_items(self) -> Vec<T> {
        let mut batches = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        batches.sort_by(|(a, _), (b, _)| a.cmp(b));
        batches.into_iter().flat_map(|(_, items)| items).collect()
    }
}

impl<T: Item> ErasedSink for Collect<T> {
    fn durability(&self) -> Durability {
        Durability::InMemory
    }

    fn take(&mut self, items: Items, number: &SequenceNumber, _: &Range) -> Result<()> {
        let items = typed::<T>(items)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((number.clone(), items));
        Ok(())
    }
}
