//! What can be set of a loop.

use std::time::Duration;

use armature_planner::loops::{LoopOptions, Reach, distribute};

use crate::error::{Error, ErrorKind, Result};
use crate::persist::snapshot::Checkpoint;
use crate::session::{Announcement, Balance, Config};

/// Reports that ranks begin with in loops over grids. There rows move between sweeps only, at some cost, while in other
/// loops a rank that has run out of units gets units at once.
const SETTLING: u32 = 4;
/// In those others a movement that saves ten times its cost before the pass ends needs no threshold. A tenth, because the cost
/// is that of packing and unpacking, and what is saved is as sure as the rates of ranks are.
const AT_ONCE: f64 = 0.1;

/// How a loop is run. The defaults measure and choose; every choice can be made by hand.
///
/// ```
/// use armature::Balance;
/// use armature::loops::{LoopOptions, Settings};
///
/// // Two thirds of the units stay on rank 0.
/// let fixed = Settings::new().balance(Balance::Off).shares([2.0, 1.0]);
/// // Units move for a gain of 5 %, in blocks of 8.
/// let eager = Settings::new().block(8).options(LoopOptions { threshold: 0.05, ..LoopOptions::default() });
/// # let _ = (fixed, eager);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub(super) options: LoopOptions,
    pub(super) balance: Option<Balance>,
    pub(super) block: Option<u64>,
    pub(super) synchronous: bool,
    pub(super) shares: Option<Vec<f64>>,
    pub(super) quantum: Option<Duration>,
    pub(super) forced: Option<u64>,
    pub(super) checkpoint: Option<Checkpoint>,
}

impl Settings {
    /// The defaults.
    pub fn new() -> Self {
        Settings::default()
    }

    /// How it is decided what moves. Where units may go, and the scheduler's quantum, are not taken from here: the first
    /// follows from the loop, the second is measured unless it is [set](Settings::quantum).
    pub fn options(mut self, options: LoopOptions) -> Self {
        self.options = options;
        self
    }

    /// Whether units move at all, once at most, or whenever that pays. Without it,
    /// [`Config::balance`](crate::Config::balance) says so, and by default they move whenever that pays.
    pub fn balance(mut self, balance: Balance) -> Self {
        self.balance = Some(balance);
        self
    }

    /// Units that are done between two hooks; of a pipelined loop, iterations between two messages. Without it, chosen
    /// from measured times. 0 counts as 1.
    pub fn block(mut self, block: u64) -> Self {
        self.block = Some(block.max(1));
        self
    }

    /// Every rank waits at an interaction until rank 0 has decided, so that decisions take effect one interaction
    /// earlier; over grids rank 0 waits for all reports, and the others for its next border. It is there to be compared
    /// with.
    pub fn synchronous(mut self) -> Self {
        self.synchronous = true;
        self
    }

    /// The part of the units that each rank has at first, in any unit; equal parts without it.
    pub fn shares(mut self, shares: impl Into<Vec<f64>>) -> Self {
        self.shares = Some(shares.into());
        self
    }

    /// How long the operating system lets a process run while others wait; measured without it.
    pub fn quantum(mut self, quantum: Duration) -> Self {
        self.quantum = Some(quantum);
        self
    }

    /// Keeps the units in files at the end of a pass now and then, while computing goes on. A job that is started again
    /// with the same directory goes on from there, on any number of ranks, and ends with the same bytes.
    pub fn checkpoint(mut self, checkpoint: Checkpoint) -> Self {
        self.checkpoint = Some(checkpoint);
        self
    }

    /// Not for programs: at each interaction units move at random, by this seed, whatever is measured.
    #[doc(hidden)]
    pub fn forced(mut self, seed: u64) -> Self {
        self.forced = Some(seed);
        self
    }

    /// Adds to an announcement what all ranks must have set in the same way. All else is rank 0's to decide.
    pub(super) fn announced(&self, what: Announcement) -> Announcement {
        let keeps = self.checkpoint.as_ref().map(|checkpoint| checkpoint.fingerprint.as_slice());
        what.with("shares", format_args!("{:?}", self.shares))
            .with("blocks of", format_args!("{:?}", self.block))
            .with("synchronous", self.synchronous)
            .with("movements forced by", format_args!("{:?}", self.forced))
            .with("checkpoints of", format_args!("{keeps:?}"))
    }

    /// Whether units move.
    pub(super) fn balance_of(&self, config: &Config) -> Balance {
        self.balance.or(config.balance).unwrap_or(Balance::Live)
    }

    /// The planner's options for a loop of this reach.
    pub(super) fn planner(&self, reach: Reach, balance: Balance) -> LoopOptions {
        let mut options = LoopOptions { reach, ..self.options.clone() };
        match reach {
            Reach::Neighbours => options.settling = options.settling.or(Some(SETTLING)),
            Reach::Anywhere => options.at_once = options.at_once.or(Some(AT_ONCE)),
        }
        options.enabled &= balance != Balance::Off;
        if let Some(quantum) = self.quantum {
            options.period.quantum = quantum.as_secs_f64();
        }
        options
    }

    /// How many of `units` each of `ranks` has at first. Each has at least one, where there are enough.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if shares were given that are not one positive number for each rank.
    pub(super) fn first(&self, units: u64, ranks: usize) -> Result<Vec<u64>> {
        let Some(shares) = &self.shares else {
            return Ok(distribute(units, &vec![1.0; ranks], 1));
        };
        let usable = shares.iter().all(|share| *share > 0.0 && share.is_finite());
        if shares.len() != ranks || !usable {
            let text = format!(
                "shares of a loop must be one positive number for each of {ranks} ranks, not {shares:?}"
            );
            return Err(Error::new(ErrorKind::Config, text));
        }
        Ok(distribute(units, shares, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_taken_as_parts() {
        assert_eq!(Settings::new().first(7, 3).unwrap(), [3, 2, 2]);
        assert_eq!(Settings::new().first(2, 3).unwrap(), [1, 1, 0]);
        assert_eq!(Settings::new().shares([2.0, 1.0]).first(9, 2).unwrap(), [6, 3]);
        for wrong in [vec![1.0], vec![1.0, 0.0], vec![1.0, f64::NAN]] {
            let error = Settings::new().shares(wrong).first(9, 2).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.message().contains("each of 2 ranks"), "{error}");
        }
    }

    #[test]
    fn the_loop_itself_says_more_than_the_environment() {
        let config = Config::new().balance(Balance::Off);
        assert_eq!(Settings::new().balance_of(&Config::new()), Balance::Live);
        assert_eq!(Settings::new().balance_of(&config), Balance::Off);
        assert_eq!(Settings::new().balance(Balance::Once).balance_of(&config), Balance::Once);
        assert!(!Settings::new().planner(Reach::Neighbours, Balance::Off).enabled);
        let at_once = |settings: &Settings, reach| settings.planner(reach, Balance::Live).at_once;
        let never = Settings::new().options(LoopOptions { at_once: Some(0.0), ..LoopOptions::default() });
        assert_eq!(at_once(&Settings::new(), Reach::Neighbours), None, "rows of grids move between sweeps");
        assert_eq!(
            (at_once(&Settings::new(), Reach::Anywhere), at_once(&never, Reach::Anywhere)),
            (Some(0.1), Some(0.0))
        );
        let settling = |settings: &Settings, reach| settings.planner(reach, Balance::Live).settling;
        let set = Settings::new().options(LoopOptions { settling: Some(2), ..LoopOptions::default() });
        assert_eq!(settling(&Settings::new(), Reach::Neighbours), Some(4));
        assert_eq!(
            (settling(&Settings::new(), Reach::Anywhere), settling(&set, Reach::Neighbours)),
            (None, Some(2))
        );
    }
}
