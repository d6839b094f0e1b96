//! What a rank did between two times.

use armature::observe::steps::Step;

use super::account::Account;
use super::machine::Action;

/// What a rank did after one time, up to another one. Of jobs on the border the part counts that lies inside.
pub(super) fn actions(account: &Account, (from, to): (f64, f64)) -> Vec<Action> {
    let after = |time: f64| account.steps.partition_point(|(at, _)| *at <= time);
    // What is done at the very begin is part of the first part.
    let first = if from <= 0.0 { 0 } else { after(from) };
    let last = after(to).max(first);
    let inside = |at: f64, took: f64| (at.min(to) - (at - took).max(from)).clamp(0.0, took);
    let mut actions = vec![Action::Begins; account.jobs_at(first)];
    actions.extend(account.steps[first..last].iter().map(|&(at, step)| match step {
        Step::Begins => Action::Begins,
        Step::Ended(took) => Action::Ended(inside(at, took.as_secs_f64())),
        Step::Worked(took) => Action::Worked(inside(at, took.as_secs_f64())),
        Step::Sent { to, number } => Action::Sent { to, number },
        Step::Received { from, number } => Action::Received { from, number },
    }));
    // Jobs that go on beyond.
    for &(at, step) in &account.steps[last..] {
        let (Step::Ended(took) | Step::Worked(took)) = step else { continue };
        let part = inside(at, took.as_secs_f64());
        if part <= 0.0 {
            break;
        }
        actions.push(match step {
            Step::Ended(_) => Action::Ended(part),
            _ => Action::Worked(part),
        });
    }
    actions
}
