//! Creation of values from unaligned bytes, with one copy.
#![allow(unsafe_code)]

/// Copies `bytes` to values of type `P`. An incomplete value at the end is omitted; zero-sized types yield no values.
///
/// The new memory is written only once: it is not zeroed before the values are copied.
pub(super) fn copy<P: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Vec<P> {
    let count = bytes.len().checked_div(size_of::<P>()).unwrap_or(0);
    let mut values: Vec<P> = Vec::with_capacity(count);
    // SAFETY: the vector has room for `count` values, `bytes` is at least as long, and the two memory areas do not overlap. Afterwards `count`
    // values are initialised, because every bit pattern is a value of `P`.
    unsafe {
        values.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), count * size_of::<P>());
        values.set_len(count);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_at_any_alignment() {
        let values = [1_u64, u64::MAX, 3];
        let mut bytes = vec![9; 1];
        bytes.extend_from_slice(bytemuck::cast_slice(&values));
        assert_eq!(copy::<u64>(&bytes[1..]), values);
        assert_eq!(copy::<[u64; 2]>(&bytes[1..]), [[1, u64::MAX]], "half a value is left out");
        assert_eq!(copy::<u8>(&bytes[..1]), [9]);
        assert!(copy::<u32>(&[]).is_empty());
        assert!(copy::<[u64; 0]>(&bytes).is_empty());
    }
}
