//! What a run did, to look at: a page of its own, figures, and traces for other viewers. Events go in, text comes out; nothing here reads a
//! file or knows MPI.
//!
//! - [`page()`] is one HTML file that needs no network, whatever the number of events: what is shown is down-sampled, and what is left out is
//!   said.
//! - [`diagnosis()`] is one sentence on what the ranks waited for.
//! - [`Live`] is the same while a run goes on, as a few lines of text.
//! - [`moment()`] says how a run stood at one time.
//! - [`figure()`] is one of the page's pictures as SVG, for papers.
//!
//! What comes from events is shown as text, whatever it contains.
//!
//! ```
//! use armature::observe::{Event, Log, Record};
//! use armature_report::{Job, Run, diagnosis, page};
//!
//! let event = Event::Finish { items: 3, seconds: 1.5 };
//! let log = Log { records: vec![Record { at: 1.5, rank: 0, run: 0, event }], notes: Vec::new() };
//! assert!(page(&log, &Job::default()).starts_with("<!doctype html>"));
//! let run = &Run::all(&log.records)[0];
//! assert!(diagnosis(run).contains("not known"));
//! ```

mod account;
mod bins;
mod charts;
mod diagnosis;
mod durations;
mod efficiency;
mod figure;
mod live;
mod mapping;
mod moment;
mod pace;
mod page;
mod run;
#[cfg(test)]
mod situation;
mod svg;
mod tables;
mod trace;
mod workflow;

pub use diagnosis::diagnosis;
pub use efficiency::{Efficiencies, Extent, csv, efficiencies, tree};
pub use figure::{Figure, figure};
pub use live::Live;
pub use mapping::Mapping;
pub use moment::moment;
pub use page::{Job, page};
pub use run::{Arrangement, Decision, HeldAt, Kind, Line, Outcome, Part, Rank, Run, Skeleton, TaskRun};
pub use trace::{chrome, perfetto};
pub use workflow::critical_path_told;
