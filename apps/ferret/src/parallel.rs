//! Parallel calls of a function on all cores, with the results in the order of the calls.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Returns the results of `work(0)` to `work(count - 1)` in this order, computed on one thread per core.
///
/// # Panics
/// If `work` panics.
pub(crate) fn map<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(count.max(1));
    let next = AtomicUsize::new(0);
    let (results, arrived) = mpsc::channel();
    let mut numbered: Vec<(usize, T)> = thread::scope(|scope| {
        for _ in 0..threads {
            let results = results.clone();
            let (next, work) = (&next, &work);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count || results.send((number, work(number))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        arrived.into_iter().collect()
    });
    numbered.sort_unstable_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_keep_the_order_of_the_items() {
        assert_eq!(super::map(100, |i| i * i), (0..100).map(|i| i * i).collect::<Vec<_>>());
        assert!(super::map(0, |i| i).is_empty());
    }
}
