//! Distribution of units (iterations of a loop) over ranks, and the time that another distribution would save.

use std::cmp::Ordering;

/// Divides `units` (iterations of a loop) in proportion to the `rates` of the ranks, in whole units by the largest remainder (among equal remainders
/// the lower rank is preferred). Each rank gets at least `least` units, so that its rate stays measurable; if there are too few units, `least` is
/// ignored. Rates that are not positive and finite count as 0; if all do, the shares are equal. The paper of Siegell and Steenkiste does not describe
/// rounding and minimum shares; both rules are guesses.
///
/// ```
/// use armature_planner::loops::distribute;
///
/// assert_eq!(distribute(1000, &[0.5, 1.0, 1.0, 1.0], 1), [143, 286, 286, 285]);
/// // A rank that does nothing keeps a unit, or it would never be seen to do something again.
/// assert_eq!(distribute(10, &[0.0, 2.0, 1.0], 1), [1, 6, 3]);
/// assert_eq!(distribute(2, &[1.0, 1.0, 9.0], 1), [0, 0, 2]);
/// ```
pub fn distribute(units: u64, rates: &[f64], least: u64) -> Vec<u64> {
    let mut rates: Vec<f64> =
        rates.iter().map(|&rate| if rate > 0.0 && rate.is_finite() { rate } else { 0.0 }).collect();
    let largest = rates.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        rates.fill(1.0);
    } else {
        rates.iter_mut().for_each(|rate| *rate /= largest);
    }
    let least = match least.checked_mul(rates.len() as u64) {
        Some(needed) if needed <= units => least,
        _ => 0,
    };
    let mut shares = vec![least; rates.len()];
    let (above, left) = above_least(units, &rates, least);
    let total: f64 = above.iter().map(|&rank| rates[rank]).sum();
    let mut assigned = 0;
    let mut remainders: Vec<(f64, usize)> = Vec::with_capacity(above.len());
    for &rank in &above {
        let quota = left as f64 * rates[rank] / total;
        // A rank gets at most the units (loop iterations) that are left, because rounding errors could otherwise assign more units than there are.
        shares[rank] = (quota.floor() as u64).min(left - assigned);
        assigned += shares[rank];
        remainders.push((quota - quota.floor(), rank));
    }
    remainders.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    // The number of units (loop iterations) that remain after rounding down is smaller than the number of ranks, unless there are more units than a
    // floating-point number can count exactly.
    let (rest, ranks) = (left - assigned, remainders.len() as u64);
    for (&(_, rank), place) in remainders.iter().zip(0..) {
        shares[rank] += rest / ranks + u64::from(place < rest % ranks);
    }
    shares
}

/// Returns the ranks whose share by their rates is at least `least`, and the number of units (loop iterations) that they divide. The minimum shares
/// of the other ranks reduce this number, which may put more ranks below the minimum.
fn above_least(units: u64, rates: &[f64], least: u64) -> (Vec<usize>, u64) {
    let mut above: Vec<usize> = (0..rates.len()).collect();
    loop {
        let left = units - least * (rates.len() - above.len()) as u64;
        let total: f64 = above.iter().map(|&rank| rates[rank]).sum();
        let before = above.len();
        let has_enough = |&rank: &usize| left as f64 * rates[rank] / total >= least as f64;
        // The fastest rank always takes part in the division of the units (loop iterations), because rounding could otherwise leave all ranks below
        // the minimum share.
        let fastest = above.iter().copied().max_by(|&a, &b| rates[a].total_cmp(&rates[b]).then(b.cmp(&a)));
        above.retain(|rank| Some(*rank) == fastest || has_enough(rank));
        if above.len() == before {
            return (above, left);
        }
    }
}

/// Returns the seconds of a pass, in which every rank does each of its units (loop iterations) once. The result is infinite if a rank with a rate of
/// 0 has units. Ranks with a rate of NaN are ignored.
///
/// ```
/// assert_eq!(armature_planner::loops::pass_time(&[250, 250], &[50.0, 100.0]), 5.0);
/// ```
pub fn pass_time(units: &[u64], rates: &[f64]) -> f64 {
    let time = |(&units, &rate): (&u64, &f64)| if units == 0 { 0.0 } else { units as f64 / rate };
    units.iter().zip(rates).map(time).fold(0.0, f64::max)
}

/// Returns the fraction of the time that a change from the distribution `current` of the units (loop iterations per rank) to `target` saves, `1 −
/// t_new / t_cur` (`rfract` in the paper of Siegell and Steenkiste); negative if the target takes longer.
///
/// If ranks with a rate of 0 must keep a unit, both times are infinite. Fewer units on such ranks then save all of the time (1), more units give
/// −1, and for equal numbers the other ranks are compared. This rule is a guess, as the available copy of the paper of Siegell and Steenkiste gives
/// none.
///
/// ```
/// use armature_planner::loops::{distribute, reduction};
///
/// // One of P ranks drops to half its speed: 1 − P / (P − 1/2) / 2 is saved. When it is free again, only 1 / 2P is.
/// let (loaded, free) = ([50.0, 100.0, 100.0, 100.0], [100.0; 4]);
/// let target = distribute(1000, &loaded, 1);
/// assert!((reduction(&[250; 4], &target, &loaded) - 0.428).abs() < 1e-9);
/// assert!((reduction(&target, &[250; 4], &free) - 0.126).abs() < 1e-3);
/// ```
pub fn reduction(current: &[u64], target: &[u64], rates: &[f64]) -> f64 {
    let (before, after) = (pass_time(current, rates), pass_time(target, rates));
    if before.is_finite() && after.is_finite() {
        return if before > 0.0 { 1.0 - after / before } else { 0.0 };
    }
    let on_stalled = |units: &[u64]| -> u64 {
        units.iter().zip(rates).filter(|(_, rate)| **rate <= 0.0).map(|(units, _)| units).sum()
    };
    match on_stalled(target).cmp(&on_stalled(current)) {
        Ordering::Less => 1.0,
        Ordering::Greater => -1.0,
        Ordering::Equal => {
            let moving: Vec<f64> =
                rates.iter().map(|&rate| if rate > 0.0 { rate } else { f64::INFINITY }).collect();
            let (before, after) = (pass_time(current, &moving), pass_time(target, &moving));
            if before > 0.0 { 1.0 - after / before } else { 0.0 }
        }
    }
}
