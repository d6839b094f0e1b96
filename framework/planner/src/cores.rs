//! Groups of processors that compute on the same cores.

use serde::{Deserialize, Serialize};

use crate::range::{self, POSITIVE};

/// Processors of a [`Platform`](crate::Platform) that share fewer cores than there are processors: ranks of a node that are bound to one core, or
/// that the scheduler places on any free core.
///
/// A processor that has a core runs at its speed in the platform. All processors of the group together have `cores` cores, whichever processors are
/// busy. An idle processor of the group therefore adds no capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedCores {
    /// Numbers of the processors of the group. A processor is in at most one group.
    pub processors: Vec<usize>,
    /// Number of cores of the group; more than 0. The number may exceed the physical cores if processors spend part of an item's time waiting for
    /// an external resource.
    pub cores: f64,
}

impl SharedCores {
    /// Describes the first error in the groups of shared cores of a platform; `None` if the groups are valid.
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
