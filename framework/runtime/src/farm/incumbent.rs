//! Best value known to the ranks of a farm, which prunes a branch-and-bound search.

use std::any::type_name;
use std::cmp::Ordering;
use std::fmt;
use std::sync::atomic::{self, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::user_code;
use crate::wire::{self, Item};

/// The best value that the ranks of a farm know, such as the length of the shortest tour so far in a branch-and-bound search.
///
/// Every rank creates the incumbent and attaches it to its farm by [`Farm::incumbent`](super::Farm::incumbent). A task on any rank may
/// improve it and read it at any time. An improvement reaches the other ranks while the farm runs.
///
/// ```
/// use armature::farm::{Farm, Incumbent};
///
/// // What is the largest sum of some of these numbers that is less than 100? A task is a sum, and the place of the next number.
/// let numbers = [41u32, 37, 29, 23, 17, 11];
/// let largest = armature::run(&armature::Config::new().ranks(3), |session| {
///     let best = Incumbent::maximum(0);
///     let mut farm = Farm::exploring("sums", |&(sum, next): &(u32, usize), more| {
///         best.improve(sum);
///         let Some((number, rest)) = numbers[next..].split_first() else { return };
///         // Sums that cannot be larger than the largest sum so far are skipped.
///         if sum + number + rest.iter().sum::<u32>() > best.get() {
///             more.extend([sum + number, sum].into_iter().filter(|&sum| sum < 100).map(|sum| (sum, next + 1)));
///         }
///     })
///     .incumbent(&best);
///     farm.explore(session, [(0, 0)], |()| ())?;
///     Ok(best.get())
/// })?;
/// assert_eq!(largest, 98);
/// # Ok::<(), armature::Error>(())
/// ```
///
/// # Pruning
/// A rank may not know the latest value, and which value a task reads differs from run to run. Use the value only to skip work that cannot
/// improve it: a task may skip solutions that are not better than the incumbent, and must pass every other solution to
/// [`improve`](Incumbent::improve). The best value is then that of the serial program on every number of ranks, although the number of
/// tasks and the other results differ.
///
/// If the solution is needed besides its value, make it a part of the incumbent, such as `(length, tour)`: tuples are compared by their first
/// element first. Results of tasks are not a safe place for the solution if the farm has [retries](super::Farm::retries). A task may fail or
/// its rank may die after it has improved the incumbent, and then the next attempt skips the solution, because it is not better than the
/// incumbent. If several solutions are optimal, a run may find any of them.
///
/// # Reads and improvements
/// [`get`](Incumbent::get) returns the value of this rank, and never waits for a message. [`improve`](Incumbent::improve) changes the value
/// of this rank at once. Clones of an incumbent share one value.
///
/// An improvement is added to the chunks and results that ranks exchange anyway, at most once for each receiver. If a rank has no message to send,
/// because its tasks are long, it sends the value in a separate message as soon as its communicating thread wakes up
/// ([`Config::idle_sleep`](crate::Config::idle_sleep)). Separate messages follow each other at intervals of at least 10 ms and at least 1 ms for each
/// receiver, so that they take about 1 % of the time of a rank even if the value improves all the time. Rank 0 and sub-masters forward improvements
/// to all ranks that hold tasks.
///
/// A rank receives messages during a task only if tasks run on a separate thread. With [`Driver::Inline`](crate::Driver::Inline), and if
/// chunks are so short that they run between messages, the value of other ranks arrives between two chunks.
///
/// # After a run
/// Every rank has the best value of all ranks, except of ranks that died before they sent it. If the sink has ended the run early, rank 0
/// has the best value that was found before the end, and the other ranks have the best value that reached them.
///
/// The value stays for the next run of the farm. If ranks begin a run with different values, the best value reaches a rank with its first
/// chunk. Results from a [journal](super::Farm::journal) are not computed again and do not improve the incumbent. The sink receives them and
/// should improve it:
///
/// ```
/// use armature::farm::{Farm, Incumbent};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("distances.journal");
///
/// for _ in 0..2 {
///     // All results of the second job are from the journal.
///     let shortest = armature::run(&armature::Config::new().ranks(2), |session| {
///         let best = Incumbent::minimum(f64::INFINITY);
///         let mut farm = Farm::new("distances", |x: f64| (x - 0.3).abs()).journal(&path, "").incumbent(&best);
///         farm.for_each(session, (0..10).map(f64::from), |_, distance| {
///             best.improve(distance);
///         })?;
///         Ok(best.get())
///     })?;
///     assert_eq!(shortest, 0.3);
/// }
/// # Ok::<(), armature::Error>(())
/// ```
pub struct Incumbent<T> {
    pub(super) shared: Arc<Shared<T>>,
}

impl<T: PartialOrd + Clone> Incumbent<T> {
    /// Creates an incumbent whose first value is `start`; a smaller value is an improvement.
    pub fn minimum(start: T) -> Self {
        Incumbent::new(start, Ordering::Less)
    }

    /// Creates an incumbent whose first value is `start`; a larger value is an improvement.
    pub fn maximum(start: T) -> Self {
        Incumbent::new(start, Ordering::Greater)
    }

    fn new(start: T, better: Ordering) -> Self {
        Incumbent {
            shared: Arc::new(Shared { better, version: AtomicU64::new(1), value: Mutex::new(start) }),
        }
    }

    /// Returns the best value that this rank knows.
    pub fn get(&self) -> T {
        self.with(T::clone)
    }

    /// Passes the best value that this rank knows to `read`, without a copy. `read` must not use the incumbent itself, and should be short:
    /// the value does not change meanwhile.
    ///
    /// ```
    /// use armature::farm::Incumbent;
    ///
    /// let best = Incumbent::minimum((f64::INFINITY, Vec::new()));
    /// best.improve((12.5, vec![0, 2, 1]));
    /// assert_eq!(best.with(|(length, _)| *length), 12.5);
    /// ```
    pub fn with<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.shared.lock())
    }

    /// Replaces the value if `value` is better. Returns true if `value` was better than every value that this rank knew. A value without an
    /// order, such as a NaN, is never better.
    ///
    /// ```
    /// use armature::farm::Incumbent;
    ///
    /// let best = Incumbent::minimum(f64::INFINITY);
    /// assert!(best.improve(3.5) && !best.improve(3.5) && !best.improve(f64::NAN));
    /// assert_eq!(best.get(), 3.5);
    /// ```
    pub fn improve(&self, value: T) -> bool {
        self.shared.improve(value).is_some()
    }
}

impl<T> Clone for Incumbent<T> {
    fn clone(&self) -> Self {
        Incumbent { shared: self.shared.clone() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Incumbent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Incumbent").field(&self.shared.value).finish()
    }
}

/// One rank's copy of the incumbent (best value known so far), with the version of this value.
pub(super) struct Shared<T> {
    /// Result of comparing a better value with a worse one: `Less` if the incumbent is a minimum, and `Greater` if it is a maximum.
    better: Ordering,
    /// Version of the incumbent's value (the best value known so far): 1 for the first value, and one more with each improvement.
    version: AtomicU64,
    value: Mutex<T>,
}

impl<T> Shared<T> {
    /// Locks the value, even if a panic has poisoned the lock: user code under the lock only reads the value, so it is intact.
    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: PartialOrd> Shared<T> {
    fn improve(&self, value: T) -> Option<u64> {
        let mut current = self.lock();
        if value.partial_cmp(&current) != Some(self.better) {
            return None;
        }
        let old = std::mem::replace(&mut *current, value);
        let version = self.version.fetch_add(1, atomic::Ordering::Release) + 1;
        drop(current);
        // The old value is dropped after the lock is released, because dropping a user type may run user code.
        drop(old);
        Some(version)
    }
}

/// Incumbent (best value known so far) of any type, as the farm sends it in messages.
pub(super) trait AnyIncumbent: Send + Sync {
    fn describe(&self) -> String;

    fn version(&self) -> u64;

    /// Returns the current value of the incumbent in encoded form, and its version.
    ///
    /// # Errors
    /// If the value cannot be encoded.
    fn encode(&self) -> Result<(Vec<u8>, u64)>;

    /// Merges the value of another rank's incumbent. Returns the version of the value if it is better than the current value.
    ///
    /// # Errors
    /// If the value cannot be decoded.
    fn merge(&self, bytes: &[u8]) -> Result<Option<u64>>;
}

impl<T: Item + PartialOrd + Clone> AnyIncumbent for Shared<T> {
    fn describe(&self) -> String {
        let direction = if self.better == Ordering::Less { "minimum" } else { "maximum" };
        format!("{direction} of type {}", type_name::<T>())
    }

    fn version(&self) -> u64 {
        self.version.load(atomic::Ordering::Acquire)
    }

    fn encode(&self) -> Result<(Vec<u8>, u64)> {
        user_code::call(|| {
            let current = self.lock();
            let (value, version) = (current.clone(), self.version());
            drop(current);
            Ok::<_, crate::Error>((wire::to_bytes(&value)?, version))
        })
    }

    fn merge(&self, bytes: &[u8]) -> Result<Option<u64>> {
        user_code::call(|| Ok::<_, crate::Error>(self.improve(wire::from_bytes(bytes)?)))
    }
}

impl fmt::Debug for dyn AnyIncumbent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_better_values_are_accepted() {
        let (shortest, largest) = (Incumbent::minimum(9.0), Incumbent::maximum((1u32, 'a')));
        assert!(!shortest.improve(9.0) && !shortest.improve(f64::NAN) && shortest.improve(-1.0));
        assert!(!largest.improve((0, 'z')) && largest.improve((1, 'b')) && largest.clone().improve((2, 'a')));
        assert_eq!((shortest.get(), largest.get()), (-1.0, (2, 'a')));
        assert_eq!((shortest.shared.version(), largest.shared.version()), (2, 3));
    }

    #[test]
    fn encoded_value_is_merged_if_better() {
        let (one, other) = (Incumbent::maximum(3u64), Incumbent::maximum(5u64));
        let (bytes, version) = other.shared.encode().unwrap();
        assert_eq!((one.shared.merge(&bytes).unwrap(), one.get(), version), (Some(2), 5, 1));
        assert_eq!(one.shared.merge(&bytes).unwrap(), None, "the ranks are equal");
        assert!(one.shared.merge(&bytes[1..]).is_err() && one.get() == 5);
    }

    #[test]
    fn concurrent_improvements_are_merged() {
        let best = Incumbent::minimum(u32::MAX);
        std::thread::scope(|scope| {
            for first in 0..4 {
                let best = &best;
                scope.spawn(move || {
                    for value in (0..1_000).rev() {
                        best.improve(4 * value + first);
                        assert!(best.get() <= 4 * value + first);
                    }
                });
            }
        });
        assert_eq!(best.get(), 0);
    }
}
