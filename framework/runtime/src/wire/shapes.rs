//! Recording of the structs, enum variants and omitted fields ("shapes") that serde writes for an item and that no earlier item of its type
//! contained.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;

/// Struct, enum variant or omitted field that serde has written in an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    name: &'static str,
    /// Name of the variant or field; empty for a struct.
    part: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A struct; the value is its number of fields.
    Struct(usize),
    /// An enum variant; the value is its number in the enum.
    Variant(u32),
    /// A field that was omitted, for example by `skip_serializing_if`.
    LeftOut,
}

impl Shape {
    pub(super) fn is_left_out(&self) -> bool {
        self.kind == Kind::LeftOut
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { name, part, kind } = self;
        match kind {
            Kind::Struct(fields) => write!(f, "`{name}` with {fields} fields"),
            Kind::Variant(number) => write!(f, "`{name}::{part}` (variant {number})"),
            Kind::LeftOut => write!(f, "`{name}` without `{part}`"),
        }
    }
}

/// Hash table key of a struct, enum variant or omitted field. Keys contain the addresses of names, which are compared faster than their texts. A name
/// with two addresses has two keys; for an item with the second key, `Serialize` and `Deserialize` are compared once more than necessary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Key {
    name: usize,
    part: usize,
    /// Kind of the shape (struct, enum variant or omitted field), number of its fields or of the variant in its enum, and lengths of the names.
    rest: u64,
}

impl Shape {
    #[inline]
    fn key(&self) -> Key {
        let (kind, number) = match self.kind {
            Kind::Struct(fields) => (1, fields as u64),
            Kind::Variant(number) => (2, u64::from(number)),
            Kind::LeftOut => (3, 0),
        };
        let lengths = (self.name.len() as u64) << 16 ^ self.part.len() as u64;
        Key {
            name: self.name.as_ptr() as usize,
            part: self.part.as_ptr() as usize,
            rest: kind << 62 ^ lengths << 32 ^ number,
        }
    }
}

/// Set of shapes (structs, enum variants and omitted fields) that is queried for every struct and enum of every item: an open-addressing hash
/// table whose size is a power of two and of which at least half is free. The hash of a key is computed from the addresses of its names.
#[derive(Clone, Debug)]
pub(super) struct Shapes {
    /// Slots of the hash table; a free slot has the default key, which no shape has.
    places: Vec<Key>,
    count: usize,
}

impl Default for Shapes {
    fn default() -> Self {
        Shapes { places: vec![Key::default(); 8], count: 0 }
    }
}

impl Shapes {
    #[inline]
    fn contains(&self, key: Key) -> bool {
        self.places[self.find(key)] == key
    }

    #[inline]
    fn find(&self, key: Key) -> usize {
        // With this hash function, the variants of an enum are next to each other in the table, because their numbers are consecutive.
        let mut place = (key.name >> 3 ^ key.part >> 2).wrapping_add(key.rest as usize);
        loop {
            place &= self.places.len() - 1;
            if self.places[place] == key || self.places[place] == Key::default() {
                return place;
            }
            place += 1;
        }
    }

    pub(super) fn insert(&mut self, shape: Shape) {
        let key = shape.key();
        let place = self.find(key);
        if self.places[place] == key {
            return;
        }
        self.places[place] = key;
        self.count += 1;
        if 2 * self.count > self.places.len() {
            let larger = vec![Key::default(); 2 * self.places.len()];
            for key in
                std::mem::replace(&mut self.places, larger).into_iter().filter(|key| *key != Key::default())
            {
                let place = self.find(key);
                self.places[place] = key;
            }
        }
    }
}

/// Recorder of the structs, enum variants and omitted fields that serde writes for an item and that no earlier item contained (those are in
/// `known`).
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) known: Arc<Shapes>,
    new: RefCell<Vec<Shape>>,
    has_new: Cell<bool>,
}

impl Watch {
    pub(super) fn new(known: Arc<Shapes>) -> Self {
        Watch { known, new: RefCell::default(), has_new: Cell::new(false) }
    }

    #[inline]
    pub(super) fn see(&self, name: &'static str, part: &'static str, kind: Kind) {
        let shape = Shape { name, part, kind };
        if !self.known.contains(shape.key()) {
            self.record(shape);
        }
    }

    #[cold]
    fn record(&self, shape: Shape) {
        let mut new = self.new.borrow_mut();
        if new.iter().all(|seen| seen.key() != shape.key()) {
            new.push(shape);
            self.has_new.set(true);
        }
    }

    #[inline]
    pub(super) fn has_new(&self) -> bool {
        self.has_new.get()
    }

    pub(super) fn take_new(&self) -> Vec<Shape> {
        self.has_new.set(false);
        self.new.take()
    }
}
