//! Time lines of the ranks: sorted by loss, with similar ranks in groups.

use super::{ActivityRow, Lane};
use crate::account::{KINDS, Shares, shares};
use crate::bins::{Bins, MAX_PAGE_BINS, MIN_ROW_BINS, bin_count, named_calls};
use crate::run::Run;
use crate::tables::shown_of;
use crate::units::ranges;

/// Number of ranks up to which each rank has its own row.
const SINGLE: usize = 12;
/// Maximum number of groups of similar ranks.
const GROUPS: usize = 16;
/// Maximum difference between the shares of computing of similar ranks, as a fraction of the time. It is doubled until there are at most [`GROUPS`]
/// groups.
const ALIKE: f64 = 0.03;

/// Ranks with similar shares of computing and loss.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    /// Ranks of the group in ascending order.
    pub ranks: Vec<usize>,
    /// Mean of the accounts of the ranks' time.
    pub mean: Shares,
}

/// Returns the ranks in groups with similar shares of time, those that lost most time first. In a run of at most [`SINGLE`] ranks, each rank is a
/// group.
pub(crate) fn groups(run: &Run) -> Vec<Group> {
    let mut order: Vec<(usize, Shares)> =
        (0..run.ranks.len()).map(|rank| (rank, shares(run, rank, (0.0, run.seconds)))).collect();
    order.sort_by(|a, b| loss(&b.1).total_cmp(&loss(&a.1)).then(a.0.cmp(&b.0)));
    let mut tolerance = if order.len() <= SINGLE { 0.0 } else { ALIKE };
    loop {
        let groups = grouped(&order, tolerance);
        if groups.len() <= GROUPS || order.len() <= SINGLE {
            return groups;
        }
        tolerance *= 2.0;
    }
}

/// Combines ranks, sorted by their loss, whose shares of loss and of computing differ by at most `tolerance`; with a tolerance of 0 each rank is a
/// group.
fn grouped(order: &[(usize, Shares)], tolerance: f64) -> Vec<Group> {
    let mut groups: Vec<(Shares, Vec<(usize, Shares)>)> = Vec::new();
    for &(rank, shares) in order {
        let is_alike = |first: &Shares| {
            tolerance > 0.0
                && loss(first) - loss(&shares) <= tolerance
                && (useful(first) - useful(&shares)).abs() <= tolerance
        };
        match groups.last_mut() {
            Some((first, its)) if is_alike(first) => its.push((rank, shares)),
            _ => groups.push((shares, vec![(rank, shares)])),
        }
    }
    let group = |(_, its): (Shares, Vec<(usize, Shares)>)| {
        let sum = its.iter().fold(Shares::default(), |sum, (_, shares)| sum.plus(*shares));
        let mean = sum.divided_by(its.len() as f64);
        let mut ranks: Vec<usize> = its.into_iter().map(|(rank, _)| rank).collect();
        ranks.sort_unstable();
        Group { ranks, mean }
    };
    groups.into_iter().map(group).collect()
}

/// Returns the share of the time in which a rank computed on a core.
fn useful(shares: &Shares) -> f64 {
    let total = shares.total();
    if total > 0.0 { shares.useful() / total } else { 0.0 }
}

/// Returns the share of the time without useful work; a parked rank has no work to lose.
fn loss(shares: &Shares) -> f64 {
    let total = shares.total();
    if total > 0.0 { (total - shares.useful() - shares.parked) / total } else { 1.0 }
}

/// Returns the lane of the ranks' time lines for one of `runs` runs on a page, and sentences on what is omitted.
pub(super) fn lane(run: &Run, groups: &[Group], runs: usize) -> (Lane, Vec<String>) {
    let room = (MAX_PAGE_BINS / runs.max(1) / MIN_ROW_BINS).saturating_sub(groups.len());
    let members: usize =
        groups.iter().filter(|group| group.ranks.len() > 1).map(|group| group.ranks.len()).sum();
    let shown = members.min(room);
    let count = bin_count(run, groups.len() + shown, runs);
    let (calls, (calls_of, calls_kept)) = named_calls(run, count, runs);
    let mut names = Vec::new();
    let mut places = std::collections::HashMap::new();
    let mut row = |ranks: &[usize], mean: &Shares, group: Option<usize>| {
        let mut flat = Vec::new();
        if let [rank] = ranks {
            for call in &calls[*rank] {
                let place = *places.entry(call.name.clone()).or_insert_with(|| {
                    names.push(call.name.clone());
                    names.len() - 1
                });
                flat.extend([call.bin as f64, place as f64, super::rounded(call.seconds)]);
            }
        }
        ActivityRow {
            name: name(ranks),
            about: about(run, ranks, mean),
            useful: (100.0 * useful(mean)).round() as u32,
            group,
            ranks: ranks.len(),
            cells: Bins::of(run, ranks, count).encoded(),
            calls: flat,
        }
    };
    let (mut rows, mut left) = (Vec::new(), shown);
    for group in groups {
        let place = rows.len();
        rows.push(row(&group.ranks, &group.mean, None));
        if group.ranks.len() > 1 {
            let some = &group.ranks[..group.ranks.len().min(left)];
            left -= some.len();
            let whole = (0.0, run.seconds);
            rows.extend(some.iter().map(|&rank| row(&[rank], &shares(run, rank, whole), Some(place))));
        }
    }
    let width = if run.seconds > 0.0 { run.seconds / count as f64 } else { 1.0 };
    let omitted = vec![
        shown_of(members, shown, "ranks in the opened groups"),
        shown_of(calls_of, calls_kept, "names of calls, those of the longest"),
    ];
    (Lane::Activity { title: "Ranks".into(), width, bins: count, names, rows }, omitted)
}

fn name(ranks: &[usize]) -> String {
    match ranks {
        [rank] => format!("rank {rank}"),
        ranks => format!("{} ranks", ranks.len()),
    }
}

/// Describes a row: the ranks, their hosts, and their shares of the time.
fn about(run: &Run, ranks: &[usize], mean: &Shares) -> String {
    let on = run.on_hosts(ranks.iter().copied());
    let who = match ranks {
        [rank] => format!("rank {rank}{on}"),
        ranks => format!("ranks {}{on}, mean", ranges(ranks)),
    };
    let Some(rounded) = mean.rounded(100) else { return format!("{who}: no activity in the log") };
    let parts: Vec<String> = KINDS
        .iter()
        .zip(rounded)
        .filter(|(_, share)| *share > 0)
        .map(|(kind, share)| format!("{kind} {share} %"))
        .collect();
    format!("{who}; whole run: {}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::situation::Situation;

    #[test]
    fn ranks_are_sorted_by_loss_and_alike_ranks_are_grouped() {
        let few = Situation::new(10.0).rank(9.0, 0.0).rank(2.0, 0.0).rank(9.0, 0.0).run();
        let ranks: Vec<Vec<usize>> = groups(&few).into_iter().map(|group| group.ranks).collect();
        assert_eq!(ranks, [vec![1], vec![0], vec![2]]);

        let parked = Situation::new(10.0).parked().rank(9.9, 0.0).rank(2.0, 0.0).run();
        let ranks: Vec<Vec<usize>> = groups(&parked).into_iter().map(|group| group.ranks).collect();
        assert_eq!(ranks, [vec![2], vec![1], vec![0]]);

        let many = (0..1000).fold(Situation::new(10.0), |run, n| match n {
            7 => run.rank(1.0, 0.0),
            n => run.rank(9.0 + 0.1 * f64::from(n % 3), 0.0),
        });
        let groups = groups(&many.run());
        assert_eq!((groups.len(), groups[0].ranks.as_slice()), (2, &[7][..]));
        assert_eq!(groups[1].ranks.len(), 999);

        let spread = (0..1000).fold(Situation::new(10.0), |run, n| run.rank(f64::from(n) * 0.01, 0.0));
        assert!(super::groups(&spread.run()).len() <= GROUPS);
    }

    #[test]
    fn lane_of_a_thousand_ranks_has_a_bounded_size() {
        let run =
            (0..1000).fold(Situation::new(10.0), |run, n| run.rank(f64::from(n % 100) * 0.1, 0.0)).run();
        let (lane, omitted) = lane(&run, &groups(&run), 1);
        let Lane::Activity { rows, bins, .. } = &lane else { unreachable!() };
        assert!(rows.len() * bins <= MAX_PAGE_BINS, "{} rows of {bins} bins", rows.len());
        assert!(omitted[0].ends_with("of 1000 ranks in the opened groups."), "{omitted:?}");
        assert!(serde_json::to_string(&lane).unwrap().len() < 2_500_000);
    }
}
