//! Clusters on which the papers of Kulagina, Meyerhenke and Benoit plan workflows.

use armature_planner::Result;
use armature_planner::workflow::{Cluster, Processor};

/// Machine types: name, speed, memory in GB (Kulagina, Meyerhenke and Benoit, 2024 and 2025).
const KINDS: [(&str, f64, u64); 6] = [
    ("local", 4.0, 16),
    ("A1", 32.0, 32),
    ("A2", 6.0, 64),
    ("N1", 12.0, 16),
    ("N2", 8.0, 8),
    ("C2", 32.0, 192),
];

/// Returns a cluster with `of_each` processors of each of the six machine types of Kulagina, Meyerhenke and Benoit.
/// The memory is `memory_unit` units per GB, and the buffer of a processor is ten times its memory. Three of each
/// type are the small cluster of their paper of 2024, six its default cluster and ten its large cluster; twelve are
/// the default cluster of their paper of 2025.
///
/// ```
/// use armature_papers::workflow::generate::paper_cluster;
///
/// let cluster = paper_cluster(12, 1, 1.0)?;
/// assert_eq!(cluster.len(), 72);
/// assert_eq!(cluster.largest_memory(), 192);
/// # Ok::<(), armature_planner::Error>(())
/// ```
///
/// # Errors
/// See [`Cluster::new`].
pub fn paper_cluster(of_each: usize, memory_unit: u64, bandwidth: f64) -> Result<Cluster> {
    let processors = KINDS.iter().flat_map(|&(name, speed, memory)| {
        (0..of_each).map(move |n| Processor::new(format!("{name}-{n}"), speed, memory * memory_unit))
    });
    Cluster::new(processors.collect(), bandwidth)
}
