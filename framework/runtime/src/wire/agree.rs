//! Whether a type's `Serialize` and `Deserialize` agree: what one writes, the other must read as the same.
//!
//! They need not. In `enum Shape { Dot, #[serde(skip)] Cached, Line, Disc }`, serde's derive numbers variants with the
//! skipped one when it writes, and without it when it reads, so that a line becomes a disc. Nothing in the bytes tells.
//!
//! So items are *examined*: written, read, and written again; then both writings are compared by their [`digest`]. The
//! format has no names, so a derived type goes wrong by what is in an item and not by its values: by which variants,
//! structs and left-out fields it has (its [`Shape`](super::shapes::Shape)s). An item that is written with one that is new
//! to its type and process is always examined. What people write by hand may go wrong by values, too. For these the first
//! items are examined, whatever is in them, and then ever fewer.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Serialize, de::DeserializeOwned};

use super::digest::digest;
use super::shapes::{Shapes, Watch};
use super::value::{get, put};
use super::watched::{REMEDY, Watched};
use crate::error::{Error, ErrorKind, Result};
use crate::user_code;

/// Items of a type that are examined from the first on; after them, those with a power of two as their number are. One takes
/// about as long as two or three encodings of it; with fewer, less of what is wrong by values is found.
const FIRST: u64 = 64;
/// Examining items for no other reason than their number takes this time at most, for each type and process; but the first
/// item is always examined. It bounds what large items cost: a megabyte takes some milliseconds.
const MOST_TIME: Duration = Duration::from_millis(20);

/// What is known of a type in this process.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    /// Items so far.
    items: AtomicU64,
    /// Nanoseconds spent on examining items because of their number.
    spent: AtomicU64,
    /// What was written of items that were examined.
    shapes: Mutex<Arc<Shapes>>,
}

/// By type. An entry takes little, and there are no more than types of items in the program.
static AGREEMENTS: Mutex<Option<HashMap<TypeId, &'static Agreement>>> = Mutex::new(None);

impl Agreement {
    /// That of a type.
    pub(super) fn of<T: 'static>() -> &'static Self {
        let mut all = AGREEMENTS.lock().unwrap_or_else(PoisonError::into_inner);
        all.get_or_insert_default().entry(TypeId::of::<T>()).or_insert_with(|| Box::leak(Box::default()))
    }

    /// Begins with `count` more items.
    pub(super) fn batch(&self, count: usize) -> Batch<'_> {
        let number = self.items.fetch_add(count as u64, Relaxed);
        let watch = Watch::new(self.shapes.lock().unwrap_or_else(PoisonError::into_inner).clone());
        Batch { agreement: self, watch, number, due: self.due(number) }
    }

    /// Examines some of these items, which do not travel now: they might, on other ranks. Returns whether it has examined any.
    ///
    /// # Errors
    /// As [`Batch::put`]; a panic of the type's own code.
    pub(super) fn check<T: Serialize + DeserializeOwned>(&self, items: &[T]) -> Result<bool> {
        let first = self.items.fetch_add(items.len() as u64, Relaxed);
        let end = first + items.len() as u64;
        let mut due = self.due(first);
        if due >= end {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        while due < end {
            let mut batch = Batch { number: due, due, ..self.batch(0) };
            bytes.clear();
            let item = &items[(due - first) as usize];
            user_code::call(|| batch.put(item, &mut bytes))?;
            due = batch.due;
        }
        Ok(true)
    }

    /// The number of the next item, from this one on, that is to be examined whatever it is written as.
    fn due(&self, number: u64) -> u64 {
        match number {
            0 => 0,
            _ if self.spent.load(Relaxed) >= MOST_TIME.as_nanos() as u64 => u64::MAX,
            1..FIRST => number,
            _ => number.checked_next_power_of_two().unwrap_or(u64::MAX),
        }
    }
}

/// Items of one type on their way into bytes.
pub(super) struct Batch<'a> {
    agreement: &'a Agreement,
    watch: Watch,
    /// That of the next item.
    number: u64,
    due: u64,
}

impl Batch<'_> {
    /// Appends one item to `into`, and examines it if that is to be done.
    ///
    /// # Errors
    /// If it cannot be encoded, or does not come back as what it is.
    #[inline]
    pub(super) fn put<T: Serialize + DeserializeOwned>(
        &mut self,
        item: &T,
        into: &mut Vec<u8>,
    ) -> Result<()> {
        let start = into.len();
        put(&Watched { value: item, watch: &self.watch }, std::any::type_name::<T>(), into)?;
        let is_due = self.number == self.due;
        if is_due || self.watch.has_new() {
            self.examine(item, &into[start..], is_due)?;
        }
        self.number += 1;
        Ok(())
    }

    #[cold]
    fn examine<T: Serialize + DeserializeOwned>(
        &mut self,
        item: &T,
        bytes: &[u8],
        is_due: bool,
    ) -> Result<()> {
        let begin = Instant::now();
        let new = self.watch.take_new();
        there_and_back(item, bytes).map_err(|why| {
            // A process may go on after that; then its next items of the type are looked at like the first.
            self.agreement.items.store(0, Relaxed);
            let left_out = new.iter().find(|shape| shape.is_left_out());
            let left_out = left_out.map_or(String::new(), |shape| format!("it writes {shape}, and "));
            let what = std::any::type_name::<T>();
            let text = format!("{what} does not come back as it was sent: {left_out}{why}. {REMEDY}");
            Error::new(ErrorKind::Wire, text)
        })?;
        if !new.is_empty() {
            let mut known = self.agreement.shapes.lock().unwrap_or_else(PoisonError::into_inner);
            let shapes = Arc::make_mut(&mut known);
            new.into_iter().for_each(|shape| shapes.insert(shape));
            self.watch.known = known.clone();
        }
        if is_due {
            let spent = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.agreement.spent.fetch_add(spent, Relaxed);
            self.due = self.agreement.due(self.number + 1);
        }
        Ok(())
    }
}

/// Whether an item is read from its `bytes` as what it is; if not, why.
fn there_and_back<T: Serialize + DeserializeOwned>(item: &T, bytes: &[u8]) -> Result<(), String> {
    let back: T = get(bytes).map_err(|why| format!("what was written cannot be read: {why}"))?;
    let number = |item| digest(item).map_err(|error| format!("it cannot be written again: {error}"));
    if number(item)? == number(&back)? {
        return Ok(());
    }
    let (sent, got) = (written_as(item), written_as(&back));
    let differs = sent.iter().zip(&got).find(|(sent, got)| sent != got);
    Err(differs.map_or("it comes back with other values".to_string(), |(sent, got)| {
        format!("{sent} comes back as {got}")
    }))
}

/// What an item is written as, in words.
fn written_as<T: Serialize>(item: &T) -> Vec<String> {
    let watch = Watch::default();
    // It has just been written; and where not, the rest is not needed.
    let _ = digest(&Watched { value: item, watch: &watch });
    watch.take_new().iter().map(ToString::to_string).collect()
}
