//! How much of a simulation has been done, so that none goes on for ever.

use std::cell::Cell;
use std::rc::Rc;

use super::system::{Load, LoopSystem, Sharing};
use crate::error::{Error, ErrorKind, Result};

/// Most steps of a simulation: a pass of a rank, a switch of a load, a turn, an event. This number of them takes some seconds.
const MOST_STEPS: u64 = 1 << 26;
/// Steps that count for each number of a decision: what it takes to make one, about. Decisions are kept, and so all that are
/// take no more than some MiB.
const STEPS_FOR_A_NUMBER: u64 = 64;
/// Numbers of a decision beside those of each rank, about.
const NUMBERS: u64 = 16;

/// Steps that were made, of all processors of a simulation together.
#[derive(Clone, Debug, Default)]
pub(super) struct Effort(Rc<Cell<u64>>);

impl Effort {
    /// One more step; false if there have been too many.
    pub(super) fn step(&self) -> bool {
        self.spend(1)
    }

    /// A decision of `ranks` ranks is kept.
    pub(super) fn decision(&self, ranks: usize) {
        self.spend(STEPS_FOR_A_NUMBER.saturating_mul(NUMBERS.saturating_add(ranks as u64)));
    }

    fn spend(&self, steps: u64) -> bool {
        self.0.set(self.0.get().saturating_add(steps));
        self.0.get() <= MOST_STEPS
    }

    /// Checks that it takes no more steps than there may be to run a system, as far as that can be told before.
    ///
    /// # Errors
    /// [`ErrorKind::Loop`] if it does.
    pub(super) fn expect(system: &LoopSystem) -> Result<()> {
        let passes = system.passes as f64 * system.speeds.len() as f64;
        // No balancing is better than to have all processors at work all the time.
        let seconds =
            system.units as f64 * system.unit * system.passes as f64 / system.speeds.iter().sum::<f64>();
        let of_load = |&Load { off, on, .. }: &Load| {
            let periods = seconds / (off + on);
            match system.sharing {
                Sharing::Fluid => 2.0 * periods,
                Sharing::Turns(turn) => periods * (2.0 + on / turn),
            }
        };
        if passes + system.loads.iter().map(of_load).sum::<f64>() <= MOST_STEPS as f64 {
            Ok(())
        } else {
            too_many()
        }
    }

    /// # Errors
    /// [`ErrorKind::Loop`] if there have been too many steps.
    pub(super) fn check(&self) -> Result<()> {
        if self.0.get() <= MOST_STEPS { Ok(()) } else { too_many() }
    }
}

fn too_many() -> Result<()> {
    let message = format!(
        "the simulation takes more than {MOST_STEPS} steps: there are too many ranks or passes, or loads, turns, hooks or \
             periods are too short beside the time of a pass"
    );
    Err(Error::new(ErrorKind::Loop, message))
}
