//! Headers of messages and records: numbers of fixed sizes in a fixed order, each little-endian.

/// Defines a header as the struct of its numbers, in the order and of the sizes that they have among the bytes. Nothing else says
/// where a number stands: a header's size is `SIZE`, and the place of a field is `offset_of!(Header, field)`.
macro_rules! header {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$doc:meta])* $field:ident: $number:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        // As the bytes are: `size_of` and `offset_of` are those of the bytes.
        #[repr(C, packed)]
        $vis struct $name { $($(#[$doc])* $vis $field: $number),* }

        impl $name {
            /// Bytes of it.
            $vis const SIZE: usize = size_of::<Self>();

            /// As bytes.
            #[inline]
            $vis fn to_bytes(self) -> [u8; Self::SIZE] {
                let mut bytes = [0; Self::SIZE];
                $(bytes[std::mem::offset_of!(Self, $field)..][..size_of::<$number>()]
                    .copy_from_slice(&{ self.$field }.to_le_bytes());)*
                bytes
            }

            /// From the first bytes of `bytes`; `None` if there are too few.
            #[inline]
            $vis fn read(bytes: &[u8]) -> Option<Self> {
                let mut rest = bytes.get(..Self::SIZE)?;
                Some($name { $($field: <$number>::from_le_bytes(*rest.split_off(..size_of::<$number>())?.first_chunk()?)),* })
            }
        }
    };
}
pub(crate) use header;

#[cfg(test)]
mod tests {
    header! {
        struct Example {
            wide: u64, narrow: u8, part: f64,
        }
    }

    #[test]
    fn numbers_lie_one_behind_the_other() {
        let example = Example { wide: 0x0102, narrow: 3, part: -0.5 };
        let bytes = example.to_bytes();
        assert_eq!(bytes, [2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0xe0, 0xbf]);
        assert_eq!(Example::read(&bytes), Some(example));
        assert_eq!(Example::read(&[&bytes[..], &[9]].concat()), Some(example), "what follows is another's");
        assert_eq!(Example::read(&bytes[..Example::SIZE - 1]), None);
    }
}
