//! Image search as a pipeline of six stages on the MPI ranks of a job.
//!
//! Each stage is a function of [`crate::stages`] with its declared cost. Rank 0 reads the query files and writes the answers. `load` and `out` are
//! serial; the four stages between them may be replicated.
//!
//! Hosts may have different databases under the same path. To prevent answers from two databases, every item carries the fingerprint (a checksum) of
//! rank 0's database, and a stage with another database rejects the item.

use crate::cost;
use crate::database::Database;
use crate::files::{Listing, Skipped};
use crate::fingerprint::Fingerprint;
use crate::index::Index;
use crate::record::{Bytes, CostRecorder, RecordingStage};
use crate::stages::{self, Cut, Described, Loaded, Probed, Ranked};
use armature::pipeline::{Context, MappingChoice, Pipeline, Stage, StageResult, Summary};
use armature::{BoxError, Session};
use armature_apps::names;
use armature_apps::output::{Destination, SnapshotArgs, fingerprint, run_into};
use armature_apps::terminal::eprint_line;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Parameters of an image search.
#[derive(Clone, Debug)]
pub struct Search {
    /// Path of the database file, which every rank that runs the stage `ind` (index) or `rank` (ranking) opens.
    pub db: PathBuf,
    /// Number of answers (similar images) per query.
    pub k: usize,
    /// True if an unusable query image ends the job with an error; otherwise the image is skipped.
    pub strict: bool,
    /// Mapping (assignment of the stages of the search to ranks).
    pub mapping: MappingChoice,
    /// Directory and interval of snapshots, from which a restarted job continues the search.
    pub snapshots: SnapshotArgs,
    /// Recorder of the cost of every query image, for a run on one rank.
    pub recorder: Option<CostRecorder>,
}

/// Data of an image search that only rank 0 has.
#[derive(Debug)]
pub struct Root<'a> {
    /// Query images.
    pub listing: &'a Listing,
    /// Output for the lines with the answers, in the order of the images' names. When the reader of standard output has closed it, rank 0 reads no
    /// more images.
    pub output: &'a mut Destination,
}

/// Result of an image search, on rank 0.
#[derive(Clone, Debug)]
pub struct Found {
    /// Number of answered queries, including queries that earlier jobs answered before this search continued from their snapshot.
    pub answered: u64,
    /// Number of unusable queries. Each of them was reported on stderr, by the job that found it.
    pub skipped: u64,
    /// Summary of the pipeline's run, with the final mapping (assignment of stages to ranks) and the work of each rank.
    pub run: Summary,
}

/// Finds the most similar database images for each query image that `root` lists. All ranks call this function, but only rank 0 passes a `root` and
/// receives the result.
///
/// # Errors
/// The database cannot be opened or differs from that of rank 0; the output cannot be written; with `strict`, an image is unusable; or costs are to
/// be recorded on more than one rank.
pub fn search(
    session: &mut Session,
    root: Option<Root<'_>>,
    search: &Search,
) -> Result<Option<Found>, BoxError> {
    if search.recorder.is_some() && session.size() > 1 {
        let ranks = session.size();
        return Err(format!(
            "a profile is recorded on one rank, so that stages do not disturb each other, not on {ranks}"
        )
        .into());
    }
    let mut discarded = Destination::default();
    let (queries, output) = match root {
        Some(Root { listing, output }) => {
            let database = Fingerprint::read(&search.db)?;
            for image in listing.skipped() {
                report_unusable(image, search.strict)?;
            }
            (Some((listing, database, output.reader())), output)
        }
        None => (None, &mut discarded),
    };
    let left_out = queries.as_ref().map_or(0, |(listing, ..)| listing.skipped().len());
    let files = |first: u64| {
        queries.iter().flat_map(move |(listing, database, reader)| {
            let names = listing.names().iter().skip(first as usize).take_while(|_| !reader.has_closed());
            names.map(|name| QueryItem { database: *database, item: QueryFile::read(listing, name) })
        })
    };
    let index = SharedIndex::new(&search.db);
    let (for_ind, for_rank, k, strict) = (index.clone(), index, search.k, search.strict);
    let recorder = &search.recorder;
    let job = Pipeline::source_at("files", files)
        .stage("load", move || Ok(RecordingStage::new(LoadStage { strict }, 0, recorder)))
        .serial()
        .stage("seg", || Ok(RecordingStage::new(Segment, 1, recorder)))
        .stage("ext", || Ok(RecordingStage::new(Extract, 2, recorder)))
        .stage("ind", move || Ok(RecordingStage::new(Probe { opened: for_ind.get()? }, 3, recorder)))
        .stage("rank", move || Ok(RecordingStage::new(Rank { opened: for_rank.get()?, k }, 4, recorder)))
        .stage("out", || Ok(RecordingStage::new(Format, 5, recorder)))
        .serial()
        .mapping(search.mapping.clone());
    let identity = || queries.as_ref().map(|(listing, database, _)| search.identity(listing, *database));
    let job = search.snapshots.add_to(job, || identity().unwrap_or_default());
    let mut answered = 0;
    let run = run_into(job, (session, "write"), (output, &mut answered), |lines, answered, output| {
        *answered += 1;
        Ok(output.write_all(lines.as_bytes())?)
    })?;
    Ok(run.map(|run| {
        let skipped = run.items_before + run.items - answered + left_out as u64;
        Found { answered, skipped, run }
    }))
}

impl Search {
    fn identity(&self, listing: &Listing, database: Fingerprint) -> String {
        let (queries, Search { k, strict, .. }) = (fingerprint(listing.names()), self);
        format!("k {k}, strict {strict}, {queries} queries, database of {database}")
    }
}

fn report_unusable(image: &Skipped, strict: bool) -> Result<(), BoxError> {
    let Skipped { name, reason } = image;
    if strict {
        return Err(format!("cannot use {name}: {reason}").into());
    }
    eprint_line(format_args!("skipped {name}: {reason}"));
    Ok(())
}

/// Item of the pipeline with the fingerprint of the database on rank 0, from which the answers of the item must come.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct QueryItem<T> {
    database: Fingerprint,
    item: T,
}

impl<T> QueryItem<T> {
    fn map<U>(self, stage: impl FnOnce(T) -> U) -> QueryItem<U> {
        QueryItem { database: self.database, item: stage(self.item) }
    }
}

impl<T: Bytes> Bytes for QueryItem<T> {
    fn bytes(&self) -> usize {
        size_of::<Fingerprint>() + self.item.bytes()
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct QueryFile {
    name: String,
    #[serde(with = "armature::raw")]
    bytes: Vec<u8>,
    problem: Option<String>,
}

impl QueryFile {
    fn read(listing: &Listing, name: &str) -> Self {
        let name = name.to_string();
        match listing.read(&name) {
            Ok(bytes) => QueryFile { name, bytes, problem: None },
            Err(e) => QueryFile { name, bytes: Vec::new(), problem: Some(e.to_string()) },
        }
    }
}

impl Bytes for QueryFile {
    fn bytes(&self) -> usize {
        self.name.len() + self.bytes.len()
    }
}

/// Stage that decodes images. It is serial (one rank runs it at a time) but has no state, and can therefore migrate to any rank.
struct LoadStage {
    strict: bool,
}

impl Stage for LoadStage {
    type In = QueryItem<QueryFile>;
    type Out = QueryItem<Loaded>;

    fn process(&mut self, asked: QueryItem<QueryFile>, cx: &mut Context) -> StageResult<QueryItem<Loaded>> {
        let QueryItem { database, item: QueryFile { name, bytes, problem } } = asked;
        let loaded = match problem {
            Some(problem) => Err(problem),
            None => stages::load(name.clone(), &bytes).map_err(|e| e.to_string()),
        };
        match loaded {
            Ok(item) => {
                let flops = cost::load(bytes.len(), item.picture.width, item.picture.height);
                Ok(Some(cx.declare(flops, || QueryItem { database, item })))
            }
            Err(reason) => report_unusable(&Skipped::new(&name, reason), self.strict).map(|()| None),
        }
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(Vec::new())
    }
}

struct Segment;

impl Stage for Segment {
    type In = QueryItem<Loaded>;
    type Out = QueryItem<Cut>;

    fn process(&mut self, asked: QueryItem<Loaded>, cx: &mut Context) -> StageResult<QueryItem<Cut>> {
        let flops = cost::segment(asked.item.picture.width, asked.item.picture.height);
        Ok(Some(cx.declare(flops, || asked.map(stages::seg))))
    }
}

struct Extract;

impl Stage for Extract {
    type In = QueryItem<Cut>;
    type Out = QueryItem<Described>;

    fn process(&mut self, asked: QueryItem<Cut>, cx: &mut Context) -> StageResult<QueryItem<Described>> {
        Ok(Some(cx.declare(cost::describe(), || asked.map(stages::ext))))
    }
}

struct Probe {
    opened: Arc<Opened>,
}

impl Stage for Probe {
    type In = QueryItem<Described>;
    type Out = QueryItem<Probed>;

    fn process(&mut self, asked: QueryItem<Described>, cx: &mut Context) -> StageResult<QueryItem<Probed>> {
        let index = self.opened.index_for(asked.database)?;
        let flops = cost::search(asked.item.regions.len(), index.regions(), index.database().len());
        Ok(Some(cx.declare(flops, || asked.map(|item| stages::ind(item, index)))))
    }
}

struct Rank {
    opened: Arc<Opened>,
    k: usize,
}

impl Stage for Rank {
    type In = QueryItem<Probed>;
    type Out = Ranked;

    fn process(&mut self, asked: QueryItem<Probed>, cx: &mut Context) -> StageResult<Ranked> {
        let index = self.opened.index_for(asked.database)?;
        let (item, entries) = (asked.item, index.database().entries());
        let regions = |&image: &u32| entries.get(image as usize).map_or(0, |e| e.regions.len());
        let flops = cost::rank(item.regions.len(), item.candidates.iter().map(regions).sum());
        Ok(Some(cx.declare(flops, || stages::rank(item, index, self.k))))
    }
}

/// Stage that formats the lines with the answers. It is serial (one rank runs it at a time) but has no state, and can therefore migrate to any rank.
struct Format;

impl Stage for Format {
    type In = Ranked;
    type Out = String;

    fn process(&mut self, item: Ranked, cx: &mut Context) -> StageResult<String> {
        Ok(Some(cx.declare(cost::out(item.matches.len()), || stages::out(&item))))
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(Vec::new())
    }
}

struct Opened {
    db: PathBuf,
    fingerprint: Fingerprint,
    index: Index,
}

impl Opened {
    fn new(db: &Path) -> Result<Self, BoxError> {
        let (database, fingerprint) = Database::open_with_fingerprint(db)?;
        Ok(Opened { db: db.to_path_buf(), fingerprint, index: Index::new(database) })
    }

    /// Returns the search index if the database on this rank is that of rank 0.
    fn index_for(&self, asked: Fingerprint) -> Result<&Index, BoxError> {
        if self.fingerprint == asked {
            return Ok(&self.index);
        }
        let (db, here) = (names::path(&self.db), self.fingerprint);
        Err(format!("the database {db} on this rank ({here}) differs from that on rank 0 ({asked})").into())
    }
}

/// Database of a rank, opened by the first stage on the rank that needs it and shared by all stages on the rank.
#[derive(Clone)]
struct SharedIndex {
    db: PathBuf,
    opened: Arc<Mutex<Option<Arc<Opened>>>>,
}

impl SharedIndex {
    fn new(db: &Path) -> Self {
        SharedIndex { db: db.to_path_buf(), opened: Arc::default() }
    }

    fn get(&self) -> Result<Arc<Opened>, BoxError> {
        // A mutex that a panic has poisoned is used as well, because it contains a complete index or none.
        let mut slot = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(opened) => Ok(opened.clone()),
            None => Ok(slot.insert(Arc::new(Opened::new(&self.db)?)).clone()),
        }
    }
}
