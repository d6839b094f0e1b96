//! Storage of the data of neighbouring units (rows or indices) of a loop, and its encoding in messages.

use std::ops::Range;

use bytemuck::Pod;

use super::pack::{Packer, Unpacker};
use crate::error::Result;
use crate::wire::{Codec, Item, weigh_some};

/// Data of neighbouring units of a loop, which the framework stores and moves.
///
/// | storage | data of a unit | what user code gets |
/// |---|---|---|
/// | [`Rows<T>`] | a row of plain numbers (or structs), all of one width | `&mut [T]`, row after row |
/// | `Vec<U>` | one value of any type that serde knows | `&mut [U]` |
/// | `()` | none: all ranks have what they need | `()` |
/// | `(A, B)`, `(A, B, C)` | that of every member | a tuple with that of every member |
///
/// The trait is sealed: the table lists all implementations.
pub trait Units: sealed::Storage {
    /// View of the units (rows or indices) that user code gets.
    type Slices<'u>;

    /// Returns a view of the units in `units`, which are numbered from the first unit in this storage.
    #[doc(hidden)]
    fn slices(&mut self, units: Range<usize>) -> Self::Slices<'_>;
}

pub(super) mod sealed {
    use super::{Packer, Result, Unpacker};

    /// Operations by which the framework stores, moves and sends the data of neighbouring units (rows or indices).
    pub trait Storage: Sized + Send + 'static {
        /// Creates storage that contains no units (rows or indices).
        fn empty() -> Self;
        /// Checks that this storage holds the data of `units` units (rows or indices). If it does not, the error describes its actual size.
        fn check(&self, units: usize) -> Result<(), String>;
        /// Removes the data of the units (rows or indices) from position `at` on and returns them.
        fn split_off(&mut self, at: usize) -> Self;
        /// Appends the data of the units (rows or indices) in `other`, which follow those in this storage.
        fn append(&mut self, other: Self);
        /// Returns true if the data of `more` units (rows or indices) can be appended without copying the existing data to new memory.
        fn has_room(&self, more: usize) -> bool;
        /// Returns a copy of the data of all units (rows or indices) in this storage, to send it.
        fn copy(&self) -> Self;
        /// Returns the approximate size of the data of all units (rows or indices) in bytes.
        fn bytes(&self) -> usize;
        /// Checks that the data of the units (rows or indices) can be encoded in a message.
        fn check_travel(&self) -> Result<()>;
        /// Writes the data of the units (rows or indices) to a message.
        fn pack(self, into: &mut Packer) -> Result<()>;
        /// Reads the data of `units` units (rows or indices) from a message.
        fn unpack(from: &mut Unpacker, units: usize) -> Result<Self>;
    }
}

use sealed::Storage;

/// Rows of equal width, one after the other, such as the rows of a matrix.
///
/// ```
/// use armature::loops::Rows;
///
/// let mut rows = Rows::from_fn(10..12, 3, |index, row| row.fill(index as f64));
/// assert_eq!(rows.values(), [10.0, 10.0, 10.0, 11.0, 11.0, 11.0]);
/// rows.values_mut()[0] = 0.5;
/// assert_eq!((rows.width(), rows.into_values().len()), (3, 6));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows<T> {
    width: usize,
    values: Vec<T>,
}

impl<T: Pod> Rows<T> {
    /// Creates rows of `width` values each, one after the other. The loop checks that the number of rows is the number of units.
    pub fn new(width: usize, values: Vec<T>) -> Self {
        Rows { width, values }
    }

    /// Creates a row of zeros for each unit of the loop in `units`.
    pub fn zeroed(units: Range<u64>, width: usize) -> Self {
        let rows = usize::try_from(units.end.saturating_sub(units.start)).unwrap_or(usize::MAX);
        Rows { width, values: vec![T::zeroed(); rows.saturating_mul(width)] }
    }

    /// Creates a row for each unit of the loop in `units`; `fill` gets the number of the unit and a row of zeros.
    pub fn from_fn(units: Range<u64>, width: usize, mut fill: impl FnMut(u64, &mut [T])) -> Self {
        let mut rows = Rows::zeroed(units.clone(), width);
        if width > 0 {
            units.zip(rows.values.chunks_exact_mut(width)).for_each(|(unit, row)| fill(unit, row));
        }
        rows
    }

    /// Returns the number of values in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns all values, row after row.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Returns all values, row after row, for changes.
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// Returns all values, row after row, as a vector.
    pub fn into_values(self) -> Vec<T> {
        self.values
    }
}

fn has_room<T>(values: &Vec<T>, more: usize) -> bool {
    values.capacity() - values.len() >= more
}

impl<T: Pod + Send> Storage for Rows<T> {
    fn empty() -> Self {
        Rows { width: 0, values: Vec::new() }
    }

    fn check(&self, units: usize) -> Result<(), String> {
        match units.checked_mul(self.width) {
            Some(values) if values == self.values.len() => Ok(()),
            _ => Err(format!("{} values as {units} rows of {}", self.values.len(), self.width)),
        }
    }

    fn split_off(&mut self, at: usize) -> Self {
        Rows { width: self.width, values: self.values.split_off(at * self.width) }
    }

    fn append(&mut self, mut other: Self) {
        if self.values.is_empty() {
            *self = other;
        } else {
            self.values.append(&mut other.values);
        }
    }

    fn has_room(&self, more: usize) -> bool {
        has_room(&self.values, more.saturating_mul(self.width))
    }

    fn copy(&self) -> Self {
        Rows { width: self.width, values: self.values.clone() }
    }

    fn bytes(&self) -> usize {
        size_of_val(self.values.as_slice())
    }

    fn check_travel(&self) -> Result<()> {
        Ok(())
    }

    fn pack(self, into: &mut Packer) -> Result<()> {
        into.number(self.width as u64);
        into.items(&Codec::<T>::plain(), self.values)
    }

    fn unpack(from: &mut Unpacker, units: usize) -> Result<Self> {
        let width = from.count()?;
        let Some(values) = width.checked_mul(units) else {
            return Err(from.error(format!("{units} rows of {width} values do not fit into memory")));
        };
        Ok(Rows { width, values: from.items(&Codec::<T>::plain(), values)? })
    }
}

impl<T: Pod + Send> Units for Rows<T> {
    type Slices<'u> = &'u mut [T];

    fn slices(&mut self, units: Range<usize>) -> &mut [T] {
        &mut self.values[units.start * self.width..units.end * self.width]
    }
}

impl<U: Item + Clone> Storage for Vec<U> {
    fn empty() -> Self {
        Vec::new()
    }

    fn check(&self, units: usize) -> Result<(), String> {
        if self.len() == units { Ok(()) } else { Err(format!("{} values for {units} units", self.len())) }
    }

    fn split_off(&mut self, at: usize) -> Self {
        self.split_off(at)
    }

    fn append(&mut self, mut other: Self) {
        self.append(&mut other);
    }

    fn has_room(&self, more: usize) -> bool {
        has_room(self, more)
    }

    fn copy(&self) -> Self {
        self.clone()
    }

    fn bytes(&self) -> usize {
        weigh_some(self)
    }

    fn check_travel(&self) -> Result<()> {
        Codec::<U>::of_type().check(self).map(drop)
    }

    fn pack(self, into: &mut Packer) -> Result<()> {
        into.items(&Codec::<U>::of_type(), self)
    }

    fn unpack(from: &mut Unpacker, units: usize) -> Result<Self> {
        from.items(&Codec::<U>::of_type(), units)
    }
}

impl<U: Item + Clone> Units for Vec<U> {
    type Slices<'u> = &'u mut [U];

    fn slices(&mut self, units: Range<usize>) -> &mut [U] {
        &mut self[units]
    }
}

impl Storage for () {
    fn empty() -> Self {}

    fn check(&self, _: usize) -> Result<(), String> {
        Ok(())
    }

    fn split_off(&mut self, _: usize) -> Self {}

    fn append(&mut self, (): ()) {}

    fn has_room(&self, _: usize) -> bool {
        true
    }

    fn copy(&self) -> Self {}

    fn bytes(&self) -> usize {
        0
    }

    fn check_travel(&self) -> Result<()> {
        Ok(())
    }

    fn pack(self, _: &mut Packer) -> Result<()> {
        Ok(())
    }

    fn unpack(_: &mut Unpacker, _: usize) -> Result<Self> {
        Ok(())
    }
}

impl Units for () {
    type Slices<'u> = ();

    fn slices(&mut self, _: Range<usize>) {}
}

macro_rules! tuples {
    ($($name:ident $at:tt),*) => {
        impl<$($name: Storage),*> Storage for ($($name,)*) {
            fn empty() -> Self {
                ($($name::empty(),)*)
            }

            fn check(&self, units: usize) -> Result<(), String> {
                $(self.$at.check(units)?;)*
                Ok(())
            }

            fn split_off(&mut self, at: usize) -> Self {
                ($(self.$at.split_off(at),)*)
            }

            fn append(&mut self, other: Self) {
                $(self.$at.append(other.$at);)*
            }

            fn has_room(&self, more: usize) -> bool {
                $(self.$at.has_room(more))&&*
            }

            fn copy(&self) -> Self {
                ($(self.$at.copy(),)*)
            }

            fn bytes(&self) -> usize {
                0 $(+ self.$at.bytes())*
            }

            fn check_travel(&self) -> Result<()> {
                $(self.$at.check_travel()?;)*
                Ok(())
            }

            fn pack(self, into: &mut Packer) -> Result<()> {
                $(self.$at.pack(into)?;)*
                Ok(())
            }

            fn unpack(from: &mut Unpacker, units: usize) -> Result<Self> {
                Ok(($($name::unpack(from, units)?,)*))
            }
        }

        impl<$($name: Units),*> Units for ($($name,)*) {
            type Slices<'u> = ($($name::Slices<'u>,)*);

            fn slices(&mut self, units: Range<usize>) -> Self::Slices<'_> {
                ($(self.$at.slices(units.clone()),)*)
            }
        }
    };
}

tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);

#[cfg(test)]
mod tests {
    use super::*;

    type Both = (Rows<f32>, Vec<String>);

    fn both(units: Range<u64>) -> Both {
        let names = units.clone().map(|unit| format!("unit {unit}")).collect();
        (Rows::from_fn(units, 2, |unit, row| row.fill(unit as f32)), names)
    }

    #[test]
    fn storage_is_split_and_appended() {
        let mut front = both(3..9);
        let back = front.split_off(4);
        assert_eq!((&front, &back), (&both(3..7), &both(7..9)));
        let (rows, names) = front.slices(1..3);
        assert_eq!(
            (&*rows, &*names),
            (&[4.0, 4.0, 5.0, 5.0][..], &["unit 4".to_string(), "unit 5".into()][..])
        );
        assert!(front.has_room(2) && !front.has_room(100) && !back.has_room(1) && ().has_room(100));
        front.append(back);
        assert_eq!(front, both(3..9));
        let mut nothing = Both::empty();
        assert_eq!(nothing.check(0), Ok(()));
        nothing.append(both(1..2));
        assert_eq!(nothing, both(1..2));
    }

    #[test]
    fn storage_of_the_wrong_size_is_detected() {
        assert_eq!(both(0..3).check(3), Ok(()));
        assert_eq!(both(0..3).check(4).unwrap_err(), "6 values as 4 rows of 2");
        assert_eq!((Rows::<u8>::zeroed(0..4, 0), vec![1]).check(4).unwrap_err(), "1 values for 4 units");
        assert!(Rows::<u8>::new(usize::MAX, vec![]).check(4).is_err());
        assert_eq!(().check(17), Ok(()));
    }

    #[test]
    fn packed_storage_round_trips() {
        let send = |units: &Both, count| {
            let mut packer = Packer::default();
            units.copy().pack(&mut packer).unwrap();
            ().pack(&mut packer).unwrap();
            let (head, parts) = packer.finish();
            let mut unpacker = Unpacker::new(head.into(), parts);
            let got = Both::unpack(&mut unpacker, count)?;
            unpacker.end().map(|()| got)
        };
        for units in [0..0, 4..5, 0..40_000] {
            let count = units.clone().count();
            assert_eq!(send(&both(units.clone()), count).unwrap(), both(units));
        }
        assert!(send(&both(0..3), 2).is_err() && send(&both(0..3), 4).is_err());
    }
}
