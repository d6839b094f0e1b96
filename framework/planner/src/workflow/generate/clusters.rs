//! Clusters of the papers.

use crate::error::Result;
use crate::workflow::cluster::{Cluster, Processor};

/// Kinds of machines: name, speed, memory in GB (Kulagina, Meyerhenke and Benoit, 2024 and 2025).
const KINDS: [(&str, f64, u64); 6] = [
    ("local", 4.0, 16),
    ("A1", 32.0, 32),
    ("A2", 6.0, 64),
    ("N1", 12.0, 16),
    ("N2", 8.0, 8),
    ("C2", 32.0, 192),
];

/// `of_each` processors of each of the papers' six kinds, whose memory is `memory_unit` units a GB, and whose buffer is ten times
/// their memory. Three of each make the small cluster of 2024, six the default one, ten the large one; twelve make the
/// default cluster of 2025.
///
/// ```
/// use armature_planner::workflow::generate::paper_cluster;
///
/// let cluster = paper_cluster(12, 1, 1.0)?;
/// assert_eq!(cluster.len(), 72);
/// assert_eq!(cluster.largest_memory(), 192);
/// # Ok::<(), armature_planner::Error>(())
/// ```
///
/// # Errors
/// As [`Cluster::new`].
pub fn paper_cluster(of_each: usize, memory_unit: u64, bandwidth: f64) -> Result<Cluster> {
    let processors = KINDS.iter().flat_map(|&(name, speed, memory)| {
        (0..of_each).map(move |n| Processor::new(format!("{name}-{n}"), speed, memory * memory_unit))
    });
    Cluster::new(processors.collect(), bandwidth)
}
