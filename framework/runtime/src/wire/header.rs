//! Headers of messages and of records in files: numbers of fixed sizes in a fixed order, each little-endian.

/// Defines a header as a struct whose fields have the order and sizes of the numbers in the encoded form. The size of a header is `SIZE`,
/// and the offset of a field is `offset_of!(Header, field)`; no other code defines the layout.
macro_rules! header {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$doc:meta])* $field:ident: $number:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        // The struct is packed like the encoded form, so that `size_of` and `offset_of` are valid for the encoded bytes.
        #[repr(C, packed)]
        $vis struct $name { $($(#[$doc])* $vis $field: $number),* }

        impl $name {
            $vis const SIZE: usize = size_of::<Self>();

            #[inline]
            $vis fn to_bytes(self) -> [u8; Self::SIZE] {
                let mut bytes = [0; Self::SIZE];
                $(bytes[std::mem::offset_of!(Self, $field)..][..size_of::<$number>()]
                    .copy_from_slice(&{ self.$field }.to_le_bytes());)*
                bytes
            }

            /// Reads the header from the start of `bytes`; `None` if there are too few bytes.
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
    fn header_fields_are_contiguous_little_endian() {
        let example = Example { wide: 0x0102, narrow: 3, part: -0.5 };
        let bytes = example.to_bytes();
        assert_eq!(bytes, [2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0xe0, 0xbf]);
        assert_eq!(Example::read(&bytes), Some(example));
        assert_eq!(Example::read(&[&bytes[..], &[9]].concat()), Some(example), "what follows is another's");
        assert_eq!(Example::read(&bytes[..Example::SIZE - 1]), None);
    }
}
