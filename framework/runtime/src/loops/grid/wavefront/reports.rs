//! Progress and state of a rank of a DOACROSS loop (a wavefront over a grid), for the display of the running job.

use bytemuck::Pod;

use super::{Phase, Wavefront};

impl<T: Pod + Send> Wavefront<T> {
    pub(super) fn part(&self) -> f64 {
        match &self.phase {
            Phase::Sweeping(()) => (self.column - self.inner.start) as f64 / self.inner.len() as f64,
            _ => 0.0,
        }
    }

    pub(super) fn waiting(&self) -> String {
        let from = |rank: Option<usize>| rank.map_or(String::new(), |rank| format!(" from rank {rank}"));
        match &self.phase {
            Phase::Moving(migration) => migration.waiting_for(),
            Phase::Sweeping(()) if self.above_until <= self.column => {
                format!("for strip {} of sweep {}{}", self.done, self.sweep, from(self.position.above()))
            }
            Phase::Sweeping(()) => format!(
                "for columns {}.. of sweep {}{}",
                self.below_until,
                self.sweep.saturating_sub(1),
                from(self.position.below())
            ),
            Phase::Closing => {
                format!("for columns {}.. of the last sweep{}", self.below_until, from(self.position.below()))
            }
            Phase::Between | Phase::MovementDone => "for nothing".to_string(),
        }
    }
}
