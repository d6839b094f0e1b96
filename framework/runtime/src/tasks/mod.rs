//! Life of a task in farms and workflows: its attempts, the deaths attributed to it, and the last activity of dead ranks. `README.md` in this
//! directory describes the states and the invariants.

mod attempts;
mod last_activity;

pub(crate) use attempts::{Attempts, Blame, Deaths, Suspicion};
pub(crate) use last_activity::{FlightRecords, LastActivity};
