//! Reports of a run: an HTML page, SVG figures, text, and traces for external viewers. Functions turn events into text; this crate reads no files
//! and does not use MPI.
//!
//! - [`page()`] renders one HTML file that needs no network. Its size is limited for any number of events: data is down-sampled, and the page
//!   states what is omitted.
//! - [`compare()`] renders a page that compares two runs.
//! - [`diagnosis()`] returns a sentence that names the cause of waiting.
//! - [`Live`] shows a running job as a few lines of text.
//! - [`moment()`] describes the state of a run at one time.
//! - [`figure()`] renders one picture of the page as SVG, for papers.
//!
//! Text from events is escaped, so that it cannot act as markup.
//!
//! ```
//! use armature::observe::{Event, Log, Record};
//! use armature_report::{Job, Run, diagnosis, page};
//!
//! let event = Event::Finish { items: 3, seconds: 1.5 };
//! let log = Log::new(vec![Record { at: 1.5, rank: 0, run: 0, event }]);
//! assert!(page(&log, &Job::default()).starts_with("<!doctype html>"));
//! let run = &Run::all(&log.records)[0];
//! assert!(diagnosis(run).contains("unknown"));
//! ```

mod account;
mod bins;
mod charts;
mod completion_rate;
mod diagnosis;
mod durations;
mod efficiency;
mod figure;
mod head;
mod live;
mod mapping;
mod moment;
mod page;
mod picture;
mod run;
mod runs;
#[cfg(test)]
mod situation;
mod svg;
mod tables;
mod trace;
mod units;
mod workflow;

pub use diagnosis::diagnosis;
pub use efficiency::{Efficiencies, Extent, csv, efficiencies, tree};
pub use figure::{Figure, figure};
pub use live::{Live, View};
pub use mapping::Mapping;
pub use moment::moment;
pub use page::{Attempt, Job, compare, page};
pub use run::{Arrangement, ChangeResult, Decision, HeldAt, Kind, Line, Part, Rank, Run, Skeleton, TaskRun};
pub use trace::{chrome, perfetto};
pub use workflow::critical_path_text;
