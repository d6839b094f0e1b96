//! Binding of a rank's threads to cores.

use std::collections::BTreeSet;

use rustix::thread::{CpuSet, sched_setaffinity};

use super::hardware::Core;
use crate::error::{Error, ErrorKind, Result};

pub(crate) fn current_binding() -> Option<BTreeSet<usize>> {
    let threads = armature_host::allowed_threads(&armature_host::Here);
    (!threads.is_empty()).then(|| threads.into_iter().collect())
}

/// Binds the calling thread, and threads that it starts from now on, to the processing units `units`.
///
/// # Errors
/// If there are no units, or this process may use none of the units.
pub(crate) fn bind_current_thread(units: &[usize]) -> Result<()> {
    let mut mask = CpuSet::new();
    for &unit in units {
        if unit >= CpuSet::MAX_CPU {
            let message =
                format!("cannot bind to processing unit {unit}: expected a number below {}", CpuSet::MAX_CPU);
            return Err(Error::new(ErrorKind::Config, message));
        }
        mask.set(unit);
    }
    sched_setaffinity(None, &mask)
        .map_err(|e| Error::new(ErrorKind::Config, format!("cannot bind to processing units {units:?}: {e}")))
}

/// Returns true if the launcher has bound the ranks of a node individually, so that they may use different sets of processing units. `masks` are the
/// units that each rank may use.
///
/// If all ranks may use the same units, these were set for all ranks together, by the batch system for example. Dividing them among the ranks does
/// not contradict a binding.
pub(crate) fn launcher_has_bound(masks: &[BTreeSet<usize>]) -> bool {
    masks.windows(2).any(|pair| pair[0] != pair[1])
}

/// Returns the processing units to which the `local`-th of `ranks` ranks on a node should be bound.
///
/// Each rank gets an equal share of contiguous cores with all their hardware threads. `None` means that the binding of the rank stays unchanged.
/// This is the case if the launcher has bound the rank already (`bound`), and if there are more ranks than cores: ranks that share cores must be
/// free to move, because otherwise one busy core would delay several ranks.
///
/// `cores` are the cores that the ranks of the node share.
pub(crate) fn cores_of_rank(ranks: usize, local: usize, cores: &[Core], bound: bool) -> Option<Vec<usize>> {
    if bound || ranks == 0 || local >= ranks || ranks > cores.len() {
        return None;
    }
    let own = &cores[local * cores.len() / ranks..(local + 1) * cores.len() / ranks];
    Some(own.iter().flat_map(|core| core.processing_units.iter().copied()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(count: usize) -> Vec<Core> {
        (0..count).map(|core| Core { package: 0, processing_units: vec![core, core + count] }).collect()
    }

    #[test]
    fn ranks_get_disjoint_core_ranges_of_equal_size() {
        for (ranks, count) in [(1, 1), (1, 4), (2, 4), (3, 8), (5, 8), (8, 8)] {
            let mut seen = BTreeSet::new();
            for local in 0..ranks {
                let units = cores_of_rank(ranks, local, &cores(count), false).unwrap();
                assert!(units.len() / 2 >= count / ranks && units.len() / 2 <= count.div_ceil(ranks));
                units.into_iter().for_each(|unit| assert!(seen.insert(unit), "unit {unit} given twice"));
            }
            assert_eq!(seen.len(), 2 * count, "{ranks} ranks, {count} cores");
        }
    }

    #[test]
    fn more_ranks_than_cores_are_not_bound() {
        assert_eq!(cores_of_rank(3, 0, &cores(2), false), None);
    }

    #[test]
    fn binding_of_the_launcher_is_kept() {
        assert_eq!(cores_of_rank(2, 0, &cores(2), true), None);
        let mask = |units: &[usize]| units.iter().copied().collect::<BTreeSet<_>>();
        assert!(launcher_has_bound(&[mask(&[0]), mask(&[1])]));
        assert!(!launcher_has_bound(&[mask(&[0, 1]), mask(&[0, 1])]));
        assert!(!launcher_has_bound(&[mask(&[0])]));
    }

    #[test]
    fn binding_affects_only_the_thread_and_its_children() {
        let before = current_binding().unwrap();
        let one = *before.first().unwrap();
        let bound = std::thread::spawn(move || {
            bind_current_thread(&[one]).unwrap();
            (current_binding().unwrap(), std::thread::spawn(current_binding).join().unwrap().unwrap())
        });
        assert_eq!(bound.join().unwrap(), (BTreeSet::from([one]), BTreeSet::from([one])));
        assert_eq!(current_binding().unwrap(), before);
    }

    #[test]
    fn binding_to_no_units_is_an_error() {
        let error = bind_current_thread(&[]).unwrap_err();
        assert!(error.message().contains("cannot bind to processing units []"), "{error}");
        assert!(bind_current_thread(&[CpuSet::MAX_CPU]).is_err());
    }
}
