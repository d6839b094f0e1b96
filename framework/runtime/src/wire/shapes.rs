//! What an item is written as: its structs, variants of enums and fields left out; and which of these are new.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;

/// Something with a name that serde was asked to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// The struct or enum.
    name: &'static str,
    /// The variant or field; empty for a struct.
    part: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A struct with this number of fields.
    Struct(usize),
    /// The variant with this number.
    Variant(u32),
    /// A field that was left out, as `skip_serializing_if` does.
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

/// Tells shapes apart by where their names lie, which takes no look at messages. The same name may lie in two places; then it
/// is two shapes, and the second is looked at like any new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Key {
    name: usize,
    part: usize,
    /// What it is and its number, with the lengths of the names.
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

/// A set of shapes that is asked for every struct and enum of every item: a table with a power of two of places, of which
/// half are free at least. A key stands at the place that its addresses give, or behind it.
#[derive(Clone, Debug)]
pub(super) struct Shapes {
    /// Those that are free have the key that is no shape's.
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

    /// The place of a key, or the free one where it belongs.
    #[inline]
    fn find(&self, key: Key) -> usize {
        // Variants of one enum have neighbouring numbers, and so neighbouring places.
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

/// Sees what is written.
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
            self.note(shape);
        }
    }

    #[cold]
    fn note(&self, shape: Shape) {
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

    /// Takes what is new, in the order in which it was written first.
    pub(super) fn take_new(&self) -> Vec<Shape> {
        self.has_new.set(false);
        self.new.take()
    }
}
