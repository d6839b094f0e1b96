//! Limit of the number of simulation steps, so that every simulation ends.

use std::cell::Cell;
use std::rc::Rc;

use armature_planner::{Error, ErrorKind, Result};

use super::system::{Load, LoopSystem, Sharing};

/// Maximum number of steps of a simulation. This many steps take some seconds. A step is a pass of a rank, a switch of a
/// competing load on or off, a turn on a shared processor, or an event.
const MOST_STEPS: u64 = 1 << 26;
/// Number of simulation steps that are counted for each stored number of a balancing decision. A number takes about
/// as long to compute as this many steps, and a decision stores a number for each rank. The limit of steps therefore
/// also bounds the memory of the stored decisions, to some MiB.
const STEPS_FOR_A_NUMBER: u64 = 64;
/// Approximate count of numbers that a stored balancing decision has in addition to one number for each rank.
const NUMBERS: u64 = 16;

/// Number of simulation steps so far, shared by all processors of a simulation.
#[derive(Clone, Debug, Default)]
pub(super) struct Effort(Rc<Cell<u64>>);

impl Effort {
    pub(super) fn step(&self) -> bool {
        self.spend(1)
    }

    /// Counts a stored balancing decision about `ranks` ranks as several simulation steps.
    pub(super) fn decision(&self, ranks: usize) {
        self.spend(STEPS_FOR_A_NUMBER.saturating_mul(NUMBERS.saturating_add(ranks as u64)));
    }

    fn spend(&self, steps: u64) -> bool {
        self.0.set(self.0.get().saturating_add(steps));
        self.0.get() <= MOST_STEPS
    }

    /// Checks that the simulation of a system does not need too many steps, as far as their number can be predicted.
    ///
    /// # Errors
    /// [`ErrorKind::Loop`] if the predicted number exceeds [`MOST_STEPS`].
    pub(super) fn expect(system: &LoopSystem) -> Result<()> {
        let passes = system.passes as f64 * system.speeds.len() as f64;
        // Shortest possible run time of the loop: all processors work all the time.
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

    pub(super) fn check(&self) -> Result<()> {
        if self.0.get() <= MOST_STEPS { Ok(()) } else { too_many() }
    }
}

fn too_many() -> Result<()> {
    let message = format!(
        "the simulation takes more than {MOST_STEPS} steps: there are too many ranks or passes, or loads, turns, hooks or \
             periods are too short compared with the time of a pass"
    );
    Err(Error::new(ErrorKind::Loop, message))
}
