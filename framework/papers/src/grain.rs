//! Grain (computing time between two messages) of a pipelined loop, from the time of an iteration. Equation numbers
//! are those of Siegell and Steenkiste (1997).

/// Returns the number of iterations in a block that takes about `grain` seconds on a rank, if an iteration takes `iteration` seconds (equation 3).
/// The result is at least 1, and it is 1 if the time of an iteration is 0 or NaN. The fixed grain of the paper of Siegell and Steenkiste is one and a
/// half time quanta of the operating system's scheduler.
///
/// ```
/// assert_eq!(armature_papers::block_of_grain(0.15, 0.011), 14);
/// ```
pub fn block_of_grain(grain: f64, iteration: f64) -> u64 {
    if iteration > 0.0 { ((grain / iteration + 0.5).floor() as u64).max(1) } else { 1 }
}

/// Returns the time of an iteration from several measurements on each rank: the longest over the ranks of the shortest time of each rank. Other
/// load only lengthens a measurement, and all ranks wait for the slowest one. Returns `None` without measurements.
///
/// ```
/// use armature_papers::iteration_time;
///
/// assert_eq!(iteration_time(&[vec![0.011, 0.010], vec![0.019, 0.012]]), Some(0.012));
/// assert_eq!(iteration_time(&[vec![]]), None);
/// ```
pub fn iteration_time(measured: &[Vec<f64>]) -> Option<f64> {
    let shortest = |times: &Vec<f64>| times.iter().copied().reduce(f64::min);
    measured.iter().filter_map(shortest).reduce(f64::max)
}
