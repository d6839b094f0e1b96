//! Bulk data of a message: bytes, or numbers that keep the alignment of their memory.

use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit, allocation::try_cast_vec};
use bytes::Bytes;

/// Contiguous bulk data of a message, which the message layer does not inspect.
///
/// The memory of a vector can become a vector of another type without a copy only if both types have the same alignment, because memory is freed with
/// the alignment with which it was allocated. Therefore values aligned to four or eight bytes are sent as vectors of words of that size, and received
/// into such vectors. All other values are sent as bytes.
///
/// A clone shares the memory, so that keeping a part until the message is acknowledged does not cost a copy.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Bytes(Bytes),
    Words32(Arc<Vec<u32>>),
    Words64(Arc<Vec<u64>>),
}

/// Owner of a vector's memory, which is accessed as bytes.
struct Memory<V>(V);

impl<P: NoUninit> AsRef<[u8]> for Memory<Vec<P>> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl<P: NoUninit> AsRef<[u8]> for Memory<Arc<Vec<P>>> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl Part {
    pub(crate) fn of<P: NoUninit + Send>(values: Vec<P>) -> Self {
        let values = match try_cast_vec::<P, u8>(values) {
            Ok(bytes) => return Part::Bytes(bytes.into()),
            Err((_, values)) => values,
        };
        let values = match try_cast_vec::<P, u64>(values) {
            Ok(words) => return Part::Words64(words.into()),
            Err((_, values)) => values,
        };
        match try_cast_vec::<P, u32>(values) {
            Ok(words) => Part::Words32(words.into()),
            Err((_, values)) => Part::Bytes(Bytes::from_owner(Memory(values))),
        }
    }

    /// Returns the content of this bulk data as values; returns the bulk data itself if its alignment or size does not match `P`. The memory becomes
    /// the vector without a copy if no clone shares it; otherwise the values are copied.
    pub(crate) fn into_values<P: AnyBitPattern>(self) -> Result<Vec<P>, Part> {
        match self {
            Part::Bytes(bytes) if align_of::<P>() > 1 => Err(Part::Bytes(bytes)),
            Part::Bytes(bytes) => {
                try_cast_vec(Vec::from(bytes)).map_err(|(_, bytes)| Part::Bytes(bytes.into()))
            }
            Part::Words32(words) => {
                try_cast_vec(Arc::unwrap_or_clone(words)).map_err(|(_, words)| Part::Words32(words.into()))
            }
            Part::Words64(words) => {
                try_cast_vec(Arc::unwrap_or_clone(words)).map_err(|(_, words)| Part::Words64(words.into()))
            }
        }
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        match self {
            Part::Bytes(bytes) => bytes,
            Part::Words32(words) => Bytes::from_owner(Memory(words)),
            Part::Words64(words) => Bytes::from_owner(Memory(words)),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Part::Bytes(bytes) => bytes,
            Part::Words32(words) => bytemuck::cast_slice(words),
            Part::Words64(words) => bytemuck::cast_slice(words),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes().len()
    }
}

impl From<Bytes> for Part {
    fn from(bytes: Bytes) -> Self {
        Part::Bytes(bytes)
    }
}

/// Parts are equal if their bytes are equal, even if one is stored as bytes and the other as words: a small part is received as bytes, however it
/// was sent.
impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Part {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts a vector to a part and back, and checks that its memory does not move. Returns the element type of the vector in which the part is
    /// stored.
    fn there_and_back<P: bytemuck::Pod + Send + PartialEq + std::fmt::Debug>(value: P) -> &'static str {
        let values = vec![value; 10];
        let place = values.as_ptr();
        let part = Part::of(values);
        assert_eq!((part.bytes().as_ptr(), part.len()), (place.cast(), 10 * size_of::<P>()));
        let kind = match &part {
            Part::Bytes(_) => "bytes",
            Part::Words32(_) => "u32",
            Part::Words64(_) => "u64",
        };
        let back = part.into_values::<P>().unwrap();
        assert_eq!((back.as_ptr(), &back[..]), (place, &[value; 10][..]));
        kind
    }

    #[test]
    fn values_round_trip_without_a_copy() {
        assert_eq!(there_and_back(1_u8), "bytes");
        assert_eq!(there_and_back([1_i8; 5]), "bytes");
        assert_eq!(there_and_back(1_i32), "u32");
        assert_eq!(there_and_back([1_f32; 7]), "u32");
        assert_eq!(there_and_back([1_u64; 3]), "u64");
        // The expected element type depends on the machine: on some, `f64` is aligned to four bytes, or `usize` has four bytes.
        assert_eq!(there_and_back(1_f64), if align_of::<f64>() == align_of::<u64>() { "u64" } else { "u32" });
        assert_eq!(there_and_back(1_usize), if size_of::<usize>() == 8 { "u64" } else { "u32" });
    }

    #[test]
    fn other_alignments_are_stored_as_bytes() {
        let values = vec![1_u16, 2];
        let place = values.as_ptr().cast();
        let part = Part::of(values);
        assert_eq!(part.bytes().as_ptr(), place);
        let part = part.into_values::<u16>().unwrap_err();
        assert_eq!(part.bytes().as_ptr(), place, "not copied by the attempt");
        assert!(matches!(part, Part::Bytes(_)));
        assert!(matches!(Part::of(vec![1_u128]), Part::Bytes(_)));
    }

    #[test]
    fn conversion_never_changes_alignment_or_length() {
        assert!(Part::of(vec![0_u32; 4]).into_values::<u64>().is_err());
        assert!(Part::of(vec![0_u64; 4]).into_values::<u32>().is_err());
        assert!(Part::of(vec![0_u64; 4]).into_values::<u8>().is_err());
        assert!(Part::Bytes(Bytes::from(vec![0; 8])).into_values::<u64>().is_err());
        assert!(Part::of(vec![0_u64; 4]).into_values::<[u64; 3]>().is_err());
        // The vector contains 9 words, which are 3 arrays of 3 words, but its capacity of 10 words is no multiple of 3, so the memory cannot become
        // arrays.
        let mut roomy = Vec::with_capacity(10);
        roomy.resize(9, 0_u64);
        assert!(Part::of(roomy).into_values::<[u64; 3]>().is_err());
    }

    #[test]
    fn clone_shares_memory_and_converts_by_copy() {
        let part = Part::of(vec![7_u64; 3]);
        let kept = part.clone();
        assert_eq!(part.bytes().as_ptr(), kept.bytes().as_ptr());
        let copied = part.into_values::<u64>().unwrap();
        assert_ne!(copied.as_ptr().cast(), kept.bytes().as_ptr());
        let place = kept.bytes().as_ptr();
        let taken = kept.into_values::<u64>().unwrap();
        assert_eq!((taken.as_ptr().cast(), &taken), (place, &copied), "nobody else holds it");
    }

    #[test]
    fn into_bytes_does_not_copy() {
        let part = Part::of(vec![7_u64; 3]);
        let place = part.bytes().as_ptr();
        let bytes = part.into_bytes();
        assert_eq!((bytes.as_ptr(), bytes.len()), (place, 24));
        assert_eq!(Part::from(bytes), Part::of(vec![7_u64; 3]));
    }
}
