//! What a run tells about itself while it runs: typed events, one line each in a file of each rank.
//!
//! With `ARMATURE_EVENTS=DIR` (or [`Config::events`](crate::Config::events)) rank *n* writes `DIR/rank-<n>.jsonl`. A line
//! is a [`Record`] as JSON:
//!
//! ```json
//! {"at":2.25,"rank":0,"run":0,"event":{"kind":"switch","epoch":2,"mapping":"read@0 | scale@1,2 | write@0"}}
//! ```
//!
//! [`read`] merges the files of a directory; `armature explain DIR` says in plain words what was decided and why.
//! Without a directory nothing is written, and no event is even made.

mod event;
mod figure;
mod log;
mod merge;
mod progress;
mod reasons;
mod record;
mod sentence;
mod subject;
pub(crate) mod summary;
pub(crate) mod words;

pub use event::Event;
pub(crate) use log::{EventLog, Place};
pub use merge::{Log, read};
pub(crate) use progress::Display;
pub use record::Record;
pub use subject::{Input, Subject};
