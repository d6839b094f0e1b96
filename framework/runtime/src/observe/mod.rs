//! Events of a run, which each rank writes to a file during the run, one line per event.
//!
//! With `ARMATURE_EVENTS=DIR` (or [`Config::events`](crate::Config::events)) rank *n* writes `DIR/attempts/1/rank-<n>.jsonl`; the next
//! start of a job with the same directory writes to `attempts/2`. A line is a [`Record`] as JSON:
//!
//! ```json
//! {"at":2.25,"rank":0,"run":0,"event":{"kind":"switch","epoch":2,"mapping":"read@0 | scale@1,2 | write@0"}}
//! ```
//!
//! Each rank's use of its time is in `activity-<n>.jsonl` in the same directory: see [`activity`].
//!
//! [`read`] merges the files of the [newest attempt](newest_attempt), and a [`Follower`] reads them while they grow; `armature explain DIR` explains
//! the decisions in plain words. Without a directory no event is created or written.

pub mod activity;
mod display;
mod event;
mod figure;
mod follow;
mod log;
mod merge;
pub mod number_format;
mod plan_event;
mod progress;
mod reasons;
mod record;
mod recorder;
mod sentence;
mod subject;
pub(crate) mod summary;
mod tally;
mod task_events;
mod task_of_event;

pub use crate::job_status::newest_attempt;
pub(crate) use display::Display;
pub use event::Event;
pub use follow::{Follower, NewRecords};
pub(crate) use log::{EventLog, LogOrigin};
pub use merge::{Log, read};
pub use plan_event::{PlanInForce, PlannedTask};
pub(crate) use progress::Progress;
pub use record::Record;
pub(crate) use recorder::{Doing, Recorder, shortest_part};
pub use subject::{Input, Subject};
pub(crate) use tally::{SharedTally, Tally};
pub use task_events::{
    Held, Planned, TaskBegan, TaskEnded, TaskHeld, TaskWait, ValueCame, ValueOnDisk, WaitedFor, WorkflowEnd,
    WorkflowStart,
};
