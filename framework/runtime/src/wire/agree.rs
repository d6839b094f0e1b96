//! Check that the `Serialize` and `Deserialize` of a type agree: a value that is written must be read as the same value.
//!
//! The two implementations may disagree. In `enum Shape { Dot, #[serde(skip)] Cached, Line, Disc }`, serde's derive counts the skipped variant
//! when it writes, and does not count it when it reads, so that a line becomes a disc. The bytes do not show the mistake.
//!
//! Therefore items are *examined*: an item is written, read, and written again, and both writings are compared by their [`digest`]. For a derived
//! type, a mistake depends only on the variants, structs and omitted fields that an item contains (its [`Shape`](super::shapes::Shape)s), not on the
//! values of its fields. An item with a shape that is new to its type and process is always examined. For implementations written by hand the result
//! may also depend on values. For these, the first items are examined whatever they contain, and later items at increasing intervals.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Serialize, de::DeserializeOwned};

use super::digest::digest;
use super::shapes::{Shapes, Watch};
use super::value::{encode_into, get};
use super::watched::{REMEDY, Watched};
use crate::error::{Error, ErrorKind, Result};
use crate::user_code;

/// Number of first items of a type that are all examined; later items are examined if their number is a power of two. To examine an item means
/// to write it, read it and write it again, which takes about as long as two or three encodings. A smaller number finds fewer mistakes that
/// depend on values.
const FIRST: u64 = 64;
/// Maximum time, for each type and process, for examining items because of their number (the first 64, then powers of two), so that large items, of
/// which a megabyte takes some milliseconds, do not delay the program. The first item is always examined.
const MOST_TIME: Duration = Duration::from_millis(20);

/// State of the check that `Serialize` and `Deserialize` of a type agree, in this process.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    items: AtomicU64,
    /// Nanoseconds spent on examining items because of their number (the first 64, then powers of two), which [`MOST_TIME`] limits.
    spent: AtomicU64,
    /// Structs, enum variants and omitted fields that have occurred in an item. An item with one that is not in this set is always examined: decoded
    /// and encoded again.
    shapes: Mutex<Arc<Shapes>>,
}

/// State of the check for each type of items. An entry is small, and the number of entries is bounded by the number of item types of the
/// program.
static AGREEMENTS: Mutex<Option<HashMap<TypeId, &'static Agreement>>> = Mutex::new(None);

impl Agreement {
    pub(super) fn of<T: 'static>() -> &'static Self {
        let mut all = AGREEMENTS.lock().unwrap_or_else(PoisonError::into_inner);
        all.get_or_insert_default().entry(TypeId::of::<T>()).or_insert_with(|| Box::leak(Box::default()))
    }

    /// Starts the encoding of a batch of `count` items, which are numbered after all earlier items of the type.
    pub(super) fn batch(&self, count: usize) -> Batch<'_> {
        let number = self.items.fetch_add(count as u64, Relaxed);
        let watch = Watch::new(self.shapes.lock().unwrap_or_else(PoisonError::into_inner).clone());
        Batch { agreement: self, watch, number, due: self.due(number) }
    }

    /// Examines (encodes, decodes and encodes again) a sample of `items`, which stay on this rank, because items of their type could be sent between
    /// ranks in a larger job. Returns true if an item was examined.
    ///
    /// # Errors
    /// The errors of [`Batch::encode_into`]; a panic of the type's own code.
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
            user_code::call(|| batch.encode_into(item, &mut bytes))?;
            due = batch.due;
        }
        Ok(true)
    }

    /// Returns the number, at least `number`, of the next item that is examined (decoded and encoded again) whatever its structure: one of the first
    /// 64 items of the type, or an item whose number is a power of two. If [`MOST_TIME`] has been spent on such items, only item 0 is still examined
    /// whatever its structure.
    fn due(&self, number: u64) -> u64 {
        match number {
            0 => 0,
            _ if self.spent.load(Relaxed) >= MOST_TIME.as_nanos() as u64 => u64::MAX,
            1..FIRST => number,
            _ => number.checked_next_power_of_two().unwrap_or(u64::MAX),
        }
    }
}

/// Encoding of one batch of items, during which some of the items are examined: written, read and written again.
pub(super) struct Batch<'a> {
    agreement: &'a Agreement,
    watch: Watch,
    number: u64,
    due: u64,
}

impl Batch<'_> {
    /// Appends one item to `into`, and examines the item if necessary: writes, reads and writes it again.
    ///
    /// # Errors
    /// If the item cannot be encoded, or is read as another value.
    #[inline]
    pub(super) fn encode_into<T: Serialize + DeserializeOwned>(
        &mut self,
        item: &T,
        into: &mut Vec<u8>,
    ) -> Result<()> {
        let start = into.len();
        encode_into(&Watched { value: item, watch: &self.watch }, std::any::type_name::<T>(), into)?;
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
            // The item is not decoded as the same value. Items of its type are counted from 0 again, so that, if the process continues, the next item
            // is checked in the same way, and up to 63 more within the time limit.
            self.agreement.items.store(0, Relaxed);
            let left_out = new.iter().find(|shape| shape.is_left_out());
            let left_out = left_out.map_or(String::new(), |shape| format!("it writes {shape}, and "));
            let what = std::any::type_name::<T>();
            let text = format!("{what} is not received as it was sent: {left_out}{why}. {REMEDY}");
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

/// Checks that an item with the encoded form `bytes` is read as an equal value. Otherwise returns the difference as an error message.
fn there_and_back<T: Serialize + DeserializeOwned>(item: &T, bytes: &[u8]) -> Result<(), String> {
    let back: T = get(bytes).map_err(|why| format!("the encoded value cannot be decoded: {why}"))?;
    let number =
        |item| digest(item).map_err(|error| format!("the decoded value cannot be encoded again: {error}"));
    if number(item)? == number(&back)? {
        return Ok(());
    }
    let (sent, got) = (written_as(item), written_as(&back));
    let differs = sent.iter().zip(&got).find(|(sent, got)| sent != got);
    Err(differs.map_or("it is decoded with other values".to_string(), |(sent, got)| {
        format!("{sent} is decoded as {got}")
    }))
}

fn written_as<T: Serialize>(item: &T) -> Vec<String> {
    let watch = Watch::default();
    // Errors are ignored, because the item has been written without an error before.
    let _ = digest(&Watched { value: item, watch: &watch });
    watch.take_new().iter().map(ToString::to_string).collect()
}
