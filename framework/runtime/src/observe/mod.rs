//! What a run tells about itself while it runs: typed events, one line each in a file of each rank.
//!
//! With `ARMATURE_EVENTS=DIR` (or [`Config::events`](crate::Config::events)) rank *n* writes `DIR/attempts/1/rank-<n>.jsonl`; the next
//! start of a job with the same directory writes to `attempts/2`. A line is a [`Record`] as JSON:
//!
//! ```json
//! {"at":2.25,"rank":0,"run":0,"event":{"kind":"switch","epoch":2,"mapping":"read@0 | scale@1,2 | write@0"}}
//! ```
//!
//! What each rank did with its time, sampled, is in `activity-<n>.jsonl` beside it: see [`activity`].
//!
//! [`read`] merges the files of the [newest attempt](newest_attempt), and a [`Follower`] reads them while they grow; `armature explain DIR` says in plain words what was decided and why.
//! Without a directory nothing is written, and no event is even made.

pub mod activity;
mod display;
mod event;
mod figure;
mod follow;
mod log;
mod merge;
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
pub mod words;

pub use crate::job_status::newest_attempt;
pub(crate) use display::Display;
pub use event::Event;
pub use follow::{Follower, News};
pub(crate) use log::{EventLog, Place};
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
