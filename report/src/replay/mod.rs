//! How long a run would have taken if messages took no time: what ranks did is done once more, in the same order, on an ideal network.
//!
//! As in Dimemas, a rank computes for as long as it did, sends in no time, and has a message no sooner than its sender sends it; messages are
//! taken in in the order in which they were. Jobs of user code go on beside messages where they did. That gives T_ideal, by which POP tells
//! serialisation from transfer.

mod account;
mod cut;
mod machine;
#[cfg(test)]
mod tests;

pub use self::account::Account;
use crate::run::Run;

/// Clocks and rounding leave gaps of this length at most, in seconds.
const GAP: f64 = 1e-5;

/// How long what ranks did between two times would have taken on an ideal network, in seconds; `None` where the log does not have all of
/// their steps.
pub(crate) fn ideal_time(run: &Run, (from, to): (f64, f64)) -> Option<f64> {
    let is_known = |part: &(f64, f64)| part.0 <= from + GAP && to <= part.1 + GAP;
    if to <= from || !known_parts(run).iter().any(is_known) {
        return None;
    }
    let actions: Vec<_> = run.ranks.iter().map(|rank| cut::actions(&rank.account, (from, to))).collect();
    machine::replay(&actions)
}

/// The longest part of a run of which the log has all steps, if it has any.
pub(crate) fn known_part(run: &Run) -> Option<(f64, f64)> {
    let parts = known_parts(run).into_iter().map(|(from, to)| (from.max(0.0), to.min(run.seconds)));
    parts.filter(|(from, to)| from < to).max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)))
}

/// The parts of a run of which the log has the steps of all ranks.
fn known_parts(run: &Run) -> Vec<(f64, f64)> {
    let all = run.ranks.iter().map(|rank| rank.account.known());
    all.reduce(|a, b| common(&a, &b)).unwrap_or_default()
}

/// What two ascending lists of parts have in common.
fn common(a: &[(f64, f64)], b: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut both = Vec::new();
    while let (Some(one), Some(other)) = (a.peek(), b.peek()) {
        let part = (one.0.max(other.0), one.1.min(other.1));
        if part.0 < part.1 {
            both.push(part);
        }
        if one.1 < other.1 {
            a.next()
        } else {
            b.next()
        };
    }
    both
}
