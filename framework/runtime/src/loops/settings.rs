//! Options of parallel loops, and checks of their values.

use std::fmt;
use std::time::Duration;

use armature_planner::loops::{LoopOptions, Reach, distribute};

use crate::error::{Error, ErrorKind, Result};
use crate::persist::snapshot::Checkpoint;
use crate::session::{Announcement, Balance, Config};

/// Number of reports of a rank from which its first computing rate is calculated in loops over grids. Rows of a grid move only between sweeps, at
/// some cost, so the first rate must be reliable. Other loops use fewer reports, because a rank that has run out of units (rows or indices) must get
/// some at once.
const SETTLING: u32 = 4;
/// Default number of columns in a panel: the columns of a table that are filled between two moments at which
/// rows can move. Narrower panels need more messages, wider ones more memory: a thousand rows of 12-byte
/// values take 3 MB. To try a strip width (columns between two messages), a panel must contain several
/// strips.
const PANEL: usize = 256;

/// Options of a loop as a value. An option that is not set is chosen by the framework, often by measurement.
///
/// An option that a loop does not have is an error when the loop runs: `block_size` belongs to [`DoAllLoop`](super::DoAllLoop) and
/// [`ParallelFor`](super::ParallelFor), `strip_width` to [`DoAcrossLoop`](super::DoAcrossLoop) and [`TableLoop`](super::TableLoop),
/// `periodic` to [`StencilLoop`](super::StencilLoop), `panel_width` to [`TableLoop`](super::TableLoop), and `checkpoint` to all but
/// [`ParallelFor`](super::ParallelFor).
// The type `Settings` is `pub` only for the feature `experiments`, which exports it.
#[cfg_attr(not(feature = "experiments"), allow(unreachable_pub))]
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub(super) balance: Option<Balance>,
    pub(super) block_size: Option<u64>,
    pub(super) strip_width: Option<u64>,
    pub(super) shares: Option<Vec<f64>>,
    pub(super) speeds: Option<Vec<f64>>,
    pub(super) quantum: Option<Duration>,
    pub(super) forced: Option<u64>,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) is_periodic: bool,
    pub(super) panel_width: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopKind {
    DoAll,
    Indices,
    DoAcross,
    Stencil,
    Table,
}

impl fmt::Display for LoopKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LoopKind::DoAll => "DOALL loop",
            LoopKind::Indices => "loop over indices",
            LoopKind::DoAcross => "DOACROSS loop",
            LoopKind::Stencil => "stencil",
            LoopKind::Table => "table",
        })
    }
}

impl LoopKind {
    /// Returns the word for the passes of this kind of loop over a grid: "panels" (of columns) in a table, otherwise "sweeps".
    pub(super) fn passes(self) -> &'static str {
        match self {
            LoopKind::Table => "panels",
            _ => "sweeps",
        }
    }
}

/// Adds methods for options to a builder: those of every loop, and those listed by name. The type needs a method `change` that applies a
/// function to its [`Settings`].
macro_rules! loop_options {
    (common) => {
        /// Sets whether units (rows or indices) move between ranks: never, at most once, or whenever that pays. The default is
        /// [`Config::balance`](crate::Config::balance), and without it whenever that pays.
        pub fn balance(self, balance: crate::Balance) -> Self {
            self.change(|settings| settings.balance = Some(balance))
        }

        /// Sets the share of the units (rows or indices) with which each rank begins: one positive number per rank, in any scale. The default is
        /// equal shares.
        pub fn shares(self, shares: impl Into<Vec<f64>>) -> Self {
            self.change(|settings| settings.shares = Some(shares.into()))
        }
    };
    (block_size) => {
        /// Sets the number of units (rows or indices) that a rank computes between two polls for messages, at least 1. By default it follows measured
        /// times.
        pub fn block_size(self, units: u64) -> Self {
            self.change(|settings| settings.block_size = Some(units))
        }
    };
    (strip_width) => {
        /// Sets the number of columns that a rank computes between two messages to the rank below, at least 1. By default it follows measured times.
        pub fn strip_width(self, columns: u64) -> Self {
            self.change(|settings| settings.strip_width = Some(columns))
        }
    };
    (checkpoint) => {
        /// Writes the units (rows or indices with their data) to files at the ends of some passes, while computing continues. A job that is started
        /// again with the same directory resumes there, on any number of ranks, and ends with the same bytes. A pass of a
        /// [table](crate::loops::Table) is a panel of columns; results derived from its rows are saved with it.
        pub fn checkpoint(self, checkpoint: crate::loops::Checkpoint) -> Self {
            self.change(|settings| settings.checkpoint = Some(checkpoint))
        }
    };
    (panel_width) => {
        /// Sets the number of columns of a table that are filled between two moments at which rows can move, and that a rank keeps of its
        /// rows: at least 1, by default 256. With the number of columns of the table or more, the whole table is kept and can be collected,
        /// but no row moves while the table is filled.
        pub fn panel_width(self, columns: u64) -> Self {
            self.change(|settings| settings.panel_width = Some(columns))
        }
    };
    (periodic) => {
        /// Makes the rows a ring: the last row is above the first. There are then no fixed edges: each row of the grid is a unit, and the
        /// row of a grid with a single row is its own neighbour. A step gets whole rows, so the step decides whether columns are a ring
        /// too.
        ///
        /// ```
        /// use armature::BoxError;
        /// use armature::loops::{OldGrid, Shape, Stencil, StencilLoop};
        ///
        /// /// What is in a row goes a row down in each step.
        /// struct Falls;
        ///
        /// impl Stencil for Falls {
        ///     type Value = u64;
        ///
        ///     fn row(&mut self, index: u64, values: &mut [u64]) -> Result<(), BoxError> {
        ///         values.fill(index);
        ///         Ok(())
        ///     }
        ///
        ///     fn step(&mut self, old: OldGrid<'_, u64>, new: &mut [u64]) -> Result<(), BoxError> {
        ///         new.copy_from_slice(&old.values[..new.len()]);
        ///         Ok(())
        ///     }
        /// }
        ///
        /// let rows = armature::run(&armature::Config::new().ranks(2), |session| {
        ///     let mut falls = StencilLoop::new("falls", Shape { rows: 5, columns: 1 }, Falls).periodic();
        ///     falls.run(session, 2)?;
        ///     Ok(falls.collect(session)?)
        /// })?;
        /// assert_eq!(rows.unwrap(), [3, 4, 0, 1, 2]);
        /// # Ok::<(), armature::Error>(())
        /// ```
        pub fn periodic(self) -> Self {
            self.change(|settings| settings.is_periodic = true)
        }
    };
}
pub(super) use loop_options;

impl Settings {
    /// Checks that this kind of loop has all options that are set.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] with the names of the option and of the kind of loop.
    pub(super) fn check(&self, kind: LoopKind) -> Result<()> {
        use LoopKind::{DoAcross, DoAll, Indices, Stencil, Table};
        let options: [(&str, bool, &[LoopKind]); 5] = [
            ("block_size", self.block_size.is_some(), &[DoAll, Indices]),
            ("strip_width", self.strip_width.is_some(), &[DoAcross, Table]),
            ("checkpoint", self.checkpoint.is_some(), &[DoAll, DoAcross, Stencil, Table]),
            ("periodic", self.is_periodic, &[Stencil]),
            ("panel_width", self.panel_width.is_some(), &[Table]),
        ];
        match options.into_iter().find(|(_, is_set, kinds)| *is_set && !kinds.contains(&kind)) {
            Some((option, ..)) => {
                let text = format!("the option {option} is set, which a {kind} does not have");
                Err(Error::new(ErrorKind::Config, text))
            }
            None => self.check_sizes(kind),
        }
    }

    fn check_sizes(&self, kind: LoopKind) -> Result<()> {
        let sizes = [
            ("block_size", self.block_size),
            ("strip_width", self.strip_width),
            ("panel_width", self.panel_width),
        ];
        match sizes.into_iter().find(|(_, size)| *size == Some(0)) {
            Some((option, _)) => {
                let text = format!("the option {option} of a {kind} is 0, expected at least 1");
                Err(Error::new(ErrorKind::Config, text))
            }
            None => Ok(()),
        }
    }

    /// Adds the options that must be equal on all ranks to `what`, the announcement by which ranks check that they run the same loop. Only rank 0
    /// uses the other options.
    pub(super) fn announced(&self, what: Announcement) -> Announcement {
        let sizes = [
            ("block_size", self.block_size),
            ("strip_width", self.strip_width),
            ("panel_width", self.panel_width),
            ("forced", self.forced),
        ];
        let is_set = sizes.into_iter().filter_map(|(name, size)| Some((name, size?)));
        let what = is_set.fold(what, |what, (name, size)| what.with(name, size));
        let what = match &self.checkpoint {
            Some(Checkpoint { dir, identity, .. }) => what
                .with("checkpoint directory", format_args!("{dir:?}"))
                .with_checksum("checkpoint identity", Some(identity)),
            None => what,
        };
        let shares = self.shares.as_ref().map_or("equal".to_string(), |shares| format!("{shares:?}"));
        what.with("shares", shares).with("periodic", self.is_periodic)
    }

    pub(super) fn panel(&self, columns: usize) -> usize {
        self.panel_width.map_or(PANEL, |width| usize::try_from(width).unwrap_or(usize::MAX)).min(columns)
    }

    pub(super) fn balance_of(&self, config: &Config) -> Balance {
        self.balance.or(config.balance).unwrap_or(Balance::Live)
    }

    /// Returns the planner's options. `reach` tells between which pairs of ranks units (rows or indices) can move: all pairs, or neighbours only.
    pub(super) fn planner(&self, reach: Reach, balance: Balance) -> LoopOptions {
        let enabled = balance != Balance::Off;
        let mut options = LoopOptions { reach, enabled, ..LoopOptions::default() };
        if reach == Reach::Neighbours {
            options.settling = Some(SETTLING);
        }
        if let Some(quantum) = self.quantum {
            options.period.quantum = quantum.as_secs_f64();
        }
        options
    }

    /// Returns the number of units (rows or indices) with which each of `ranks` ranks begins: at least one unit for each rank, if there are enough.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the shares are not one positive number for each rank.
    pub(super) fn first(&self, units: u64, ranks: usize) -> Result<Vec<u64>> {
        let Some(shares) = &self.shares else {
            let speeds = self.speeds.clone().unwrap_or_else(|| vec![1.0; ranks]);
            return Ok(distribute(units, &speeds, 1));
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
    fn shares_are_proportions() {
        assert_eq!(Settings::new().first(7, 3).unwrap(), [3, 2, 2]);
        assert_eq!(Settings::new().first(2, 3).unwrap(), [1, 1, 0]);
        assert_eq!(Settings::new().shares([2.0, 1.0]).first(9, 2).unwrap(), [6, 3]);
        let mut expecting = Settings::new();
        expecting.speeds = Some(vec![1.0, 2.0]);
        assert_eq!(expecting.first(9, 2).unwrap(), [3, 6]);
        assert_eq!(expecting.shares([2.0, 1.0]).first(9, 2).unwrap(), [6, 3], "the program decides");
        for wrong in [vec![1.0], vec![1.0, 0.0], vec![1.0, f64::NAN]] {
            let error = Settings::new().shares(wrong).first(9, 2).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.message().contains("each of 2 ranks"), "{error}");
        }
    }

    #[test]
    fn unsupported_option_of_a_loop_is_an_error() {
        use LoopKind::{DoAcross, DoAll, Indices, Stencil, Table};
        let block = Settings::new().block_size(3);
        let strip = Settings::new().strip_width(3);
        let kept = Settings::new().checkpoint(Checkpoint::new("kept", ""));
        for (settings, option, without) in [
            (&block, "block_size", &[DoAcross, Stencil, Table][..]),
            (&strip, "strip_width", &[DoAll, Indices, Stencil]),
            (&kept, "checkpoint", &[Indices]),
            (&Settings::new().periodic(), "periodic", &[DoAll, Indices, DoAcross, Table]),
            (&Settings::new().panel_width(9), "panel_width", &[DoAll, Indices, DoAcross, Stencil]),
        ] {
            for kind in [DoAll, Indices, DoAcross, Stencil, Table] {
                let refused = settings.check(kind).err();
                assert_eq!(refused.is_some(), without.contains(&kind), "{option} of a {kind}");
                if let Some(error) = refused {
                    let text = format!("the option {option} is set, which a {kind} does not have");
                    assert_eq!((error.kind(), error.to_string()), (ErrorKind::Config, text));
                }
            }
        }
        let nothing = Settings::new().strip_width(0).check(DoAcross).unwrap_err();
        assert_eq!(
            nothing.to_string(),
            "the option strip_width of a DOACROSS loop is 0, expected at least 1"
        );
        assert!(Settings::new().block_size(0).check(Indices).is_err());
        assert!([DoAll, Indices, DoAcross, Stencil].iter().all(|kind| Settings::new().check(*kind).is_ok()));
    }

    #[test]
    fn loop_settings_override_the_environment() {
        let config = Config::new().balance(Balance::Off);
        assert_eq!(Settings::new().balance_of(&Config::new()), Balance::Live);
        assert_eq!(Settings::new().balance_of(&config), Balance::Off);
        assert_eq!(Settings::new().balance(Balance::Once).balance_of(&config), Balance::Once);
        assert!(!Settings::new().planner(Reach::Neighbours, Balance::Off).enabled);
        let [grids, units] =
            [Reach::Neighbours, Reach::Anywhere].map(|reach| Settings::new().planner(reach, Balance::Live));
        assert_eq!((grids.settling, units.settling), (Some(4), None), "rows of grids move between sweeps");
    }
}
