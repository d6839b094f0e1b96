//! Type erasure: batches of items whose type is known only where user code runs, and their codecs.
//!
//! One virtual call and one downcast serve a whole batch; loops over its items are compiled for their type. Pipelines, farms and the other parallel
//! operations move batches without knowing the types of their items, and are compiled once.

use std::any::{Any, type_name};
use std::fmt;

use bytes::Bytes;

use super::{Item, weigh_some};
use crate::comm::Part;
use crate::error::{Error, ErrorKind, Result};
use crate::user_code;

/// A batch of items of one type (a `Vec<T>`), for code that does not know the type of the items.
pub(crate) trait Batch: Any + Send {
    fn len(&self) -> usize;
    fn split_off(&mut self, at: usize) -> Items;
    fn append(&mut self, items: Items) -> Result<()>;
    fn weigh(&self) -> usize;
}

/// Batch of items of any type. Code that uses the items knows their type, and converts the batch back to a `Vec` of it.
pub(crate) type Items = Box<dyn Batch>;

impl<T: Item> Batch for Vec<T> {
    fn len(&self) -> usize {
        self.len()
    }

    fn split_off(&mut self, at: usize) -> Items {
        Box::new(Vec::split_off(self, at.min(self.len())))
    }

    fn append(&mut self, items: Items) -> Result<()> {
        Vec::append(self, &mut typed(items)?);
        Ok(())
    }

    fn weigh(&self) -> usize {
        weigh_some(self)
    }
}

impl dyn Batch {
    pub(crate) fn downcast_ref<T: Any>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    pub(crate) fn downcast<T: Any>(self: Box<Self>) -> Result<Box<T>, Box<dyn Any>> {
        (self as Box<dyn Any>).downcast()
    }

    pub(crate) fn split_front(self: &mut Box<Self>, at: usize) -> Items {
        let rest = self.split_off(at);
        std::mem::replace(self, rest)
    }

    /// Splits the batch in front of the items at `places`, which ascend.
    pub(crate) fn split_at(
        mut self: Box<Self>,
        places: impl DoubleEndedIterator<Item = usize>,
    ) -> Vec<Items> {
        // The last items are split off first, so that each item is moved only once.
        let mut pieces: Vec<Items> = places.rev().map(|at| self.split_off(at)).collect();
        pieces.push(self);
        pieces.reverse();
        pieces
    }
}

impl fmt::Debug for dyn Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} items", self.len())
    }
}

pub(crate) fn typed<T: Item>(items: Items) -> Result<Vec<T>> {
    items.downcast::<Vec<T>>().map(|v| *v).map_err(|_| {
        let text = format!("a batch does not hold the items that its receiver takes ({})", type_name::<T>());
        Error::new(ErrorKind::Wire, text)
    })
}

/// Memory of the values of an item type: the size of a value, and whether values may own memory on the heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Size in bytes of a value of the type, without the memory that the value owns on the heap.
    pub(crate) size: usize,
    pub(crate) owns: bool,
}

impl Shape {
    pub(crate) fn of<T>() -> Self {
        Shape { size: size_of::<T>(), owns: std::mem::needs_drop::<T>() }
    }
}

/// Function that receives the encoded form of one item: its small data (the head of a message) and its large data (the parts of the message).
type Receive<'a> = dyn FnMut(&[u8], &[Part]) -> Result<()> + 'a;

/// Codec for batches of one type of items. Panics of user code, which may implement `Serialize`, are returned as errors.
pub(crate) trait Codec: Send + Sync {
    fn encode(&self, items: Items, head: &mut Vec<u8>, parts: &mut Vec<Part>) -> Result<()>;
    fn decode(&self, head: Bytes, parts: Vec<Part>, count: usize) -> Result<Items>;
    /// Encodes each item alone, passes the encoded item to `receive`, and decodes it again. Adds 1 to `done` for each item, so that the caller knows
    /// their number even after an error.
    fn encode_each(&self, items: Items, done: &mut u64, receive: &mut Receive<'_>) -> Result<Items>;
    fn item(&self) -> String;
    fn check(&self, items: &Items) -> Result<bool>;
    fn shape(&self) -> Shape;
}

impl<T: Item> Codec for super::Codec<T> {
    fn encode(&self, items: Items, head: &mut Vec<u8>, parts: &mut Vec<Part>) -> Result<()> {
        let items = typed::<T>(items)?;
        user_code::call(|| super::Codec::encode(self, items, head, parts))
    }

    fn decode(&self, head: Bytes, parts: Vec<Part>, count: usize) -> Result<Items> {
        let items = user_code::call(|| super::Codec::decode(self, head, parts, count))?;
        Ok(Box::new(items))
    }

    fn encode_each(&self, items: Items, done: &mut u64, receive: &mut Receive<'_>) -> Result<Items> {
        let mut back = Vec::with_capacity(items.len());
        for item in typed::<T>(items)? {
            let (mut head, mut parts) = (Vec::new(), Vec::new());
            user_code::call(|| super::Codec::encode(self, vec![item], &mut head, &mut parts))?;
            receive(&head, &parts)?;
            back.append(&mut user_code::call(|| super::Codec::decode(self, head.into(), parts, 1))?);
            *done += 1;
        }
        Ok(Box::new(back))
    }

    fn item(&self) -> String {
        super::Codec::item(self)
    }

    fn check(&self, items: &Items) -> Result<bool> {
        items.downcast_ref::<Vec<T>>().map_or(Ok(false), |items| super::Codec::check(self, items))
    }

    fn shape(&self) -> Shape {
        Shape::of::<T>()
    }
}
