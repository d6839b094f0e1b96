//! Processors that compute on the same cores.

use serde::{Deserialize, Serialize};

use crate::range::{self, POSITIVE};

/// Processors of a [`Platform`](crate::Platform) that have fewer cores together than they are: ranks of a node that
/// are bound to one core, or that run wherever there is room.
///
/// Each of them is as fast as the platform says while it has a core; all of them together have `cores` cores, whichever
/// of them are at work. One that does nothing is no capacity of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedCores {
    /// The processors, each in one group at most.
    pub processors: Vec<usize>,
    /// Cores that they have together; more than 0. More than there really are where processors spend part of an item's
    /// time waiting for something outside.
    pub cores: f64,
}

impl SharedCores {
    /// What is wrong with groups of a platform of `processors` processors.
    pub(crate) fn fault(groups: &[SharedCores], processors: usize) -> Option<String> {
        let mut seen = vec![false; processors];
        for group in groups {
            let cores = group.cores;
            if !range::is_positive(cores) {
                let processors = &group.processors;
                return Some(format!(
                    "processors {processors:?} share {cores} cores, which must be {POSITIVE}"
                ));
            }
            for &p in &group.processors {
                match seen.get_mut(p) {
                    Some(seen) if !*seen => *seen = true,
                    Some(_) => return Some(format!("processor {p} shares cores in two groups")),
                    None => {
                        return Some(format!(
                            "processor {p} shares cores, but there are {processors} processors, numbered from 0"
                        ));
                    }
                }
            }
        }
        None
    }
}
