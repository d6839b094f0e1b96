//! Initial state of a rank in a grid loop with checkpoints.

use super::state::{LoopState, Passes};
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::loops::events::log_resumed;
use crate::loops::grid::checkpoint::Resumed;
use crate::loops::grid::neighbours::Position;
use crate::persist::snapshot::{Route, SnapshotCoordinator, StartingPoint, load, starting_point};
use crate::session::Config;

impl LoopState {
    /// Looks for a checkpoint and reads this rank's part of it: rows and, in a table, results of user code.
    pub(super) fn resume(
        &mut self,
        endpoint: &mut Endpoint,
        position: Position,
        config: &Config,
        passes: &Passes<'_>,
        has_rows: bool,
    ) -> Result<Resumed> {
        let Some(checkpoint) = &self.settings.checkpoint else { return Ok(Resumed::default()) };
        let (first, units) = (self.first(endpoint.size())?, self.units());
        if position.rank >= position.chain {
            return Ok(Resumed::default());
        }
        if has_rows {
            let text = "a checkpoint is set, but this is not the first run of the loop; a checkpoint belongs to its \
                        first run";
            return Err(Error::new(ErrorKind::Config, text));
        }
        let StartingPoint { store, found, writer } = starting_point(
            endpoint,
            (position.chain, Route::Chain),
            checkpoint,
            &self.name,
            units,
            config.join_limit,
        )?;
        log_resumed(position.rank, &self.name, checkpoint, found.as_ref());
        let before = found.as_ref().map_or(0, |found| found.pass);
        let sweeps = passes.sweeps;
        if before > sweeps {
            let text =
                format!("the checkpoint was written after {before} sweeps, but the run has only {sweeps}");
            return Err(Error::new(ErrorKind::Config, text));
        }
        let mut earlier = Vec::new();
        if let Some(manifest) = found {
            if let Some(findings) = &passes.findings {
                earlier = findings.load(checkpoint, &manifest, position)?;
            }
            let start = first[..position.rank].iter().sum::<u64>();
            // The rows above and below this rank's rows are needed for its halo rows.
            let wanted = start.saturating_sub(1)..(start + first[position.rank] + 1).min(units);
            let mut found = load(&checkpoint.dir, &manifest, &wanted)?;
            if self.settings.is_periodic && position.across().is_some() {
                let ends = [units - 1..units, 0..1];
                for end in ends.into_iter().filter(|end| !wanted.contains(&end.start)) {
                    found.extend(load(&checkpoint.dir, &manifest, &end)?);
                }
            }
            let bytes = self.width() * self.value.1;
            found.iter().try_for_each(|piece| piece.check(checkpoint, bytes))?;
            self.found = found;
        }
        let now = endpoint.clock().now();
        let snapshots = store
            .map(|store| SnapshotCoordinator::new(store, (checkpoint, config), position.chain, before, now));
        Ok(Resumed { snapshots, writer: Some(writer), before, found: earlier })
    }
}
