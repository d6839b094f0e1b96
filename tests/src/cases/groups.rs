//! Skeletons (such as farms) that run at the same time on different groups of ranks.

use armature::farm::Farm;
use armature::loops::map;
use armature::{BoxError, Session};

use crate::Case;
use crate::check::ensure;

pub(super) const CASES: &[Case] = &[Case { name: "groups", run: groups }];

/// Splits the ranks in three ways: by their number, into a single group, and into groups that are split again. Each group runs farms and loops
/// independently of the others.
///
/// # Errors
/// Returns an error if a group has wrong members or a skeleton has a wrong result.
pub fn groups(session: &mut Session) -> Result<(), BoxError> {
    let (rank, size) = (session.rank(), session.size());
    for kinds in [1, 2, 3] {
        let colour = rank % kinds;
        let expected: Vec<usize> = (0..size).filter(|rank| rank % kinds == colour).collect();
        let members = session.split(Some(colour as u32), 0, |group| {
            ensure(group.size() == expected.len(), || format!("a group of {} ranks", group.size()))?;
            let members = group.all_gather(rank)?;
            // Groups run different numbers of skeletons, so that they finish at different times.
            for run in 0..=colour as u64 {
                let squares = map(group, "squares", 0..20 + run, |n| n * n)?;
                ensure(squares.into_iter().eq((0..20 + run).map(|n| n * n)), || "squares".to_string())?;
                let sums = Farm::new("sum", |n: u64| n + run).collect_on_all(group, 0..30)?;
                ensure(sums.into_iter().eq((0..30).map(|n| n + run)), || "sums".to_string())?;
            }
            Ok(members)
        })?;
        ensure(members == Some(expected), || format!("rank {rank}: a group of {members:?}"))?;
        session.barrier()?;
    }
    // All ranks except for rank 0 form a group in reverse order, which is divided into pairs.
    let backwards = session.split((rank > 0).then_some(7), -(rank as i64), |group| {
        let first = group.all_gather(rank)?;
        let inner = group.split(Some(group.rank() as u32 / 2), 0, |inner| Ok(inner.all_gather(rank)?))?;
        Ok((first, inner.map(|inner| inner.len())))
    })?;
    let expected: Vec<usize> = (1..size).rev().collect();
    match backwards {
        None => ensure(rank == 0, || format!("rank {rank} is in no group")),
        Some((first, inner)) => {
            let is_single = (size - 1) % 2 == 1 && rank == 1;
            ensure(first == expected && inner == Some(if is_single { 1 } else { 2 }), || {
                format!("rank {rank}: {first:?}, {inner:?}")
            })
        }
    }
}
