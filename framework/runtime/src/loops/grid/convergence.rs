//! Checks of a loop over a grid that runs until it has converged. Before a sweep each rank sends its residual and waits for the verdict of rank 0:
//! whether another sweep follows. This module has no clock and no transport.

use crate::comm::endpoint::Endpoint;
use crate::comm::waiting::Limits;
use crate::error::{BoxError, Result};
use crate::loops::until::{CheckResult, OwnResidual, Until};
use crate::session::Announcement;
use crate::user_code;
use crate::wire::Codec;

pub(super) type IsDone<'d> = &'d mut dyn FnMut(f64) -> bool;

/// Convergence check as the caller of the loop has specified it: options, this rank's residual, and the condition that rank 0 evaluates.
pub(super) struct UntilDone<'j> {
    pub(super) until: Until,
    pub(super) mine: OwnResidual,
    pub(super) is_done: IsDone<'j>,
}

pub(super) struct Checks<'d> {
    until: Until,
    mine: OwnResidual,
    /// Number of sweeps that the loop has done before this run; `sweeps` is the number of sweeps of this run.
    before: u64,
    sweeps: u64,
    /// On rank 0, the residuals that ranks have sent for the present convergence check, and the user's condition.
    collected: Option<(Vec<Option<f64>>, IsDone<'d>)>,
    last: Option<CheckResult>,
}

impl<'d> Checks<'d> {
    /// Creates the convergence checks of a run of `sweeps` sweeps, before which the loop has done `before` sweeps. On rank 0, `root` is the number
    /// of ranks with rows and the user's condition.
    pub(super) fn new(
        until: Until,
        mine: OwnResidual,
        (before, sweeps): (u64, u64),
        root: Option<(usize, IsDone<'d>)>,
    ) -> Self {
        let collected = root.map(|(chain, is_done)| (vec![None; chain], is_done));
        Checks { until, mine, before, sweeps, collected, last: None }
    }

    /// Returns true if a convergence check is due before sweep `sweep` of the run, or after the last sweep.
    pub(super) fn is_due(&self, sweep: u64) -> bool {
        let passes = self.before + sweep;
        sweep > 0
            && passes.is_multiple_of(self.until.every)
            && self.last.is_none_or(|last| last.passes != passes)
    }

    pub(super) fn is_end(&self, sweep: u64) -> bool {
        sweep == self.sweeps
    }

    pub(super) fn take(&self) -> f64 {
        self.mine.take()
    }

    /// Adds, on rank 0, the residual of a rank before sweep `sweep`. Returns the verdict about convergence when all ranks with rows
    /// have sent their residuals.
    ///
    /// # Errors
    /// A panic of the user's condition.
    pub(super) fn collect(&mut self, rank: usize, sweep: u64, residual: f64) -> Result<Option<CheckResult>> {
        let Some((all, is_done)) = &mut self.collected else { return Ok(None) };
        if let Some(place) = all.get_mut(rank) {
            *place = Some(residual);
        }
        let Some(there) = all.iter().copied().collect::<Option<Vec<f64>>>() else { return Ok(None) };
        all.fill(None);
        let residual = there.into_iter().fold(self.until.nothing(), |sum, one| self.until.combine(sum, one));
        let is_converged = user_code::call(|| Ok::<_, BoxError>(is_done(residual)))?;
        Ok(Some(CheckResult { passes: self.before + sweep, residual, is_converged }))
    }

    pub(super) fn on_check_result(&mut self, check_result: CheckResult) {
        self.last = Some(check_result);
    }

    pub(super) fn missing(&self) -> Vec<usize> {
        let all = self.collected.as_ref().map_or(&[][..], |(all, _)| &all[..]);
        (0..all.len()).filter(|&rank| all[rank].is_none()).collect()
    }

    pub(super) fn last(&self) -> Option<CheckResult> {
        self.last
    }
}

/// Broadcasts the last verdict about convergence from rank 0, because ranks without rows take no part in the checks.
///
/// # Errors
/// The errors of [`Endpoint::broadcast`].
pub(super) fn share(
    endpoint: &mut Endpoint,
    name: &str,
    limits: Limits,
    last: Option<CheckResult>,
) -> Result<Option<CheckResult>> {
    let what = Announcement::new(format!("ends the loop {name:?}"));
    let root = (endpoint.rank() == 0).then_some((Vec::<u8>::new(), last));
    let (_, last) = endpoint.broadcast_items(what, limits, &Codec::of_type(), 1, root)?;
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_follows_the_last_residual_in_any_order() {
        let until = Until::at_most(100).every(5);
        let mut requested = Vec::new();
        let mut is_done = |residual: f64| {
            requested.push(residual);
            residual < 0.5
        };
        let mut checks = Checks::new(until, OwnResidual::new(until), (12, 90), Some((3, &mut is_done)));
        assert!([3, 8, 13].iter().all(|&sweep| checks.is_due(sweep)) && !checks.is_due(5));
        assert!(!Checks::new(until, OwnResidual::new(until), (10, 90), None).is_due(0), "it was before");
        for (order, sweep, least) in [([2, 0, 1], 3, 1.0), ([1, 2, 0], 8, 0.0)] {
            assert_eq!(checks.missing(), [0, 1, 2]);
            for (at, rank) in order.into_iter().enumerate() {
                let check_result = checks.collect(rank, sweep, least + rank as f64 / 10.0).unwrap();
                let residual = least + 0.2;
                let expected = CheckResult { passes: 12 + sweep, residual, is_converged: residual < 0.5 };
                assert_eq!(check_result, (at == 2).then_some(expected));
            }
        }
        assert_eq!(requested, [1.2, 0.2]);
    }
}
