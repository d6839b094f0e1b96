//! Memory for rows, in large pages where possible.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use bytemuck::allocation::zeroed_vec;
use memmap2::{Advice, MmapMut};

/// Size of a large page in bytes, on most machines.
const PAGE: usize = 2 << 20;

/// Values in one piece of memory, initially zero. The memory is in large pages if it fills at least one and if the system provides large pages on
/// request.
///
/// A strip of a grid touches another small page in each row. With some thousands of rows the processor's translation buffer may not hold all these
/// pages: in strips of 8 columns a rank was a quarter slower per row with 2666 rows of 32 KB than with 2000 rows, so that a movement gained less than
/// predicted. In strips of 16 columns it was not slower.
#[derive(Debug)]
pub(super) struct HugePages<T>(Held<T>);

#[derive(Debug)]
enum Held<T> {
    Few(Vec<T>),
    /// Mapped memory, and the number of bytes in it that hold values.
    Many(MmapMut, usize, PhantomData<T>),
}

impl<T: Pod> HugePages<T> {
    pub(super) fn none() -> Self {
        HugePages(Held::Few(Vec::new()))
    }

    pub(super) fn zeroed(count: usize) -> Self {
        let many = count.checked_mul(size_of::<T>()).filter(|&bytes| bytes >= PAGE).and_then(large);
        HugePages(match many {
            Some(memory) => Held::Many(memory, count * size_of::<T>(), PhantomData),
            None => Held::Few(zeroed_vec(count)),
        })
    }
}

/// Maps at least `bytes` bytes of memory, in whole large pages; `None` if the system has no memory.
fn large(bytes: usize) -> Option<MmapMut> {
    // Only whole large pages are mapped, so that the system aligns the memory to large pages.
    let memory = MmapMut::map_anon(bytes.checked_next_multiple_of(PAGE)?).ok()?;
    // If the system refuses large pages, the memory is used with small pages.
    if let Err(error) = memory.advise(Advice::HugePage) {
        log::debug!("no large pages: {error}");
    }
    Some(memory)
}

impl<T: Pod> Deref for HugePages<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Held::Few(values) => values,
            Held::Many(memory, bytes, _) => bytemuck::cast_slice(&memory[..*bytes]),
        }
    }
}

impl<T: Pod> DerefMut for HugePages<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Held::Few(values) => values,
            Held::Many(memory, bytes, _) => bytemuck::cast_slice_mut(&mut memory[..*bytes]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_allocations_are_zeroed_and_writable() {
        for (count, is_many) in [(0, false), (7, false), (PAGE / 8, true), (PAGE / 8 + 1, true)] {
            let mut huge_pages = HugePages::<u64>::zeroed(count);
            assert_eq!(matches!(huge_pages.0, Held::Many(..)), is_many);
            assert_eq!(
                (huge_pages.len(), huge_pages.iter().max().copied()),
                (count, (count > 0).then_some(0))
            );
            huge_pages.iter_mut().zip(1..).for_each(|(value, number)| *value = number);
            assert!(huge_pages.iter().copied().eq(1..=count as u64));
        }
    }

    #[test]
    fn huge_pages_are_requested() {
        let huge_pages = HugePages::<u8>::zeroed(2 * PAGE + 1);
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let number = |hex: &str| usize::from_str_radix(hex, 16).ok();
        let ends = |line: &str| -> Option<std::ops::Range<usize>> {
            let (begin, end) = line.split(' ').next()?.split_once('-')?;
            Some(number(begin)?..number(end)?)
        };
        let is_ours = |line: &&str| ends(line).is_some_and(|ends| ends.contains(&huge_pages.as_ptr().addr()));
        let flags = maps.lines().skip_while(|line| !is_ours(line)).find(|line| line.starts_with("VmFlags:"));
        // Linux lists the flag `hg` in the `VmFlags` of the memory only if it supports transparent huge pages.
        let can_be_had = std::path::Path::new("/sys/kernel/mm/transparent_hugepage/enabled").exists();
        assert_eq!(flags.unwrap().contains(" hg"), can_be_had, "{flags:?}");
    }

    #[test]
    fn values_of_any_size_have_the_right_length() {
        assert_eq!(HugePages::<[u8; 3]>::zeroed(PAGE).len(), PAGE);
        assert_eq!(HugePages::<()>::zeroed(5).len(), 5);
    }
}
