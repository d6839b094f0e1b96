//! The search as a pipeline of six stages over as many ranks as there are.
//!
//! Each stage is one of the functions of [`crate::stages`] with its declared cost. Rank 0 reads the query files
//! and writes the answers; `load` and `out` are serial, the four stages between them may be replicated.

use crate::build::{Skipped, not_text};
use crate::cost;
use crate::database::Database;
use crate::files::Listing;
use crate::index::Index;
use crate::record::{Bytes, Recorded, Tape};
use crate::stages::{self, Cut, Described, Loaded, Probed, Ranked};
use armature::pipeline::{Context, MappingChoice, Pipeline, Stage, StageResult, Summary};
use armature::{BoxError, Session};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What is asked of a database.
#[derive(Clone, Debug)]
pub struct Search {
    /// The database's file, which every rank that runs `ind` or `rank` opens.
    pub db: PathBuf,
    /// Answers for each query.
    pub k: usize,
    /// Whether an image that cannot be used ends the job.
    pub strict: bool,
    /// Which rank runs which stage.
    pub mapping: MappingChoice,
    /// Notes what every item costs; for a run on one rank.
    pub tape: Option<Tape>,
}

/// What came of a search, on rank 0.
#[derive(Clone, Debug)]
pub struct Found {
    /// Queries that were answered.
    pub answered: u64,
    /// Queries that could not be used; each has been reported on stderr.
    pub skipped: u64,
    /// How the run went.
    pub run: Summary,
}

/// Answers every image of `listing` (which rank 0 alone has) and writes the lines to `output`, in the order of the
/// images' names. Called on every rank; returns what was found on rank 0.
///
/// # Errors
/// A database that cannot be opened, output that cannot be written; with `strict`, an image that cannot be used; a
/// tape with more ranks than one.
pub fn search(
    session: &Session,
    listing: Option<&Listing>,
    search: &Search,
    output: &mut (dyn Write + Send),
) -> Result<Option<Found>, BoxError> {
    if search.tape.is_some() && session.size() > 1 {
        let ranks = session.size();
        return Err(format!(
            "a profile is recorded on one rank, so that stages do not disturb each other, not on {ranks}"
        )
        .into());
    }
    let refused: Vec<Skipped> = listing.map(not_text).unwrap_or_default();
    for image in &refused {
        unusable(&image.name, &image.reason, search.strict)?;
    }
    let files = || listing.into_iter().flat_map(|l| l.names().iter().map(|name| QueryFile::read(l, name)));
    let index = SharedIndex::new(&search.db);
    let (for_ind, for_rank, k, strict) = (index.clone(), index, search.k, search.strict);
    let tape = &search.tape;
    let run = Pipeline::source("files", files)
        .stage("load", move || Ok(Recorded::new(Load { strict }, 0, tape)))
        .serial()
        .stage("seg", || Ok(Recorded::new(Segment, 1, tape)))
        .stage("ext", || Ok(Recorded::new(Extract, 2, tape)))
        .stage("ind", move || Ok(Recorded::new(Probe { index: for_ind.get()? }, 3, tape)))
        .stage("rank", move || Ok(Recorded::new(Rank { index: for_rank.get()?, k }, 4, tape)))
        .stage("out", || Ok(Recorded::new(Format, 5, tape)))
        .serial()
        .try_for_each("write", |lines| Ok(output.write_all(lines.as_bytes())?))
        .mapping(search.mapping.clone())
        .run(session)?;
    Ok(run.map(|run| Found {
        answered: run.delivered,
        skipped: run.items - run.delivered + refused.len() as u64,
        run,
    }))
}

/// An image that cannot be used: an error if that was asked for, otherwise a line on stderr.
fn unusable(name: &str, reason: &str, strict: bool) -> Result<(), BoxError> {
    let name = stages::escaped(name);
    if strict {
        return Err(format!("cannot use {name}: {reason}").into());
    }
    eprintln!("skipped {name}: {reason}");
    Ok(())
}

/// A query file as rank 0 has read it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct QueryFile {
    name: String,
    #[serde(with = "armature::raw")]
    bytes: Vec<u8>,
    /// Why it could not be read.
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

/// Decodes images. Serial, but without state, so it may run anywhere.
struct Load {
    strict: bool,
}

impl Stage for Load {
    type In = QueryFile;
    type Out = Loaded;

    fn process(&mut self, file: QueryFile, cx: &mut Context) -> StageResult<Loaded> {
        let QueryFile { name, bytes, problem } = file;
        let loaded = match problem {
            Some(problem) => Err(problem),
            None => stages::load(name.clone(), &bytes).map_err(|e| e.to_string()),
        };
        match loaded {
            Ok(item) => {
                let flops = cost::load(bytes.len(), item.picture.width, item.picture.height);
                Ok(Some(cx.declare(flops, || item)))
            }
            Err(reason) => unusable(&name, &reason, self.strict).map(|()| None),
        }
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(Vec::new())
    }
}

/// Cuts images into regions.
struct Segment;

impl Stage for Segment {
    type In = Loaded;
    type Out = Cut;

    fn process(&mut self, item: Loaded, cx: &mut Context) -> StageResult<Cut> {
        let flops = cost::segment(item.picture.width, item.picture.height);
        Ok(Some(cx.declare(flops, || stages::seg(item))))
    }
}

/// Describes regions by their features.
struct Extract;

impl Stage for Extract {
    type In = Cut;
    type Out = Described;

    fn process(&mut self, item: Cut, cx: &mut Context) -> StageResult<Described> {
        Ok(Some(cx.declare(cost::describe(), || stages::ext(item))))
    }
}

/// Looks regions up in the index.
struct Probe {
    index: Arc<Index>,
}

impl Stage for Probe {
    type In = Described;
    type Out = Probed;

    fn process(&mut self, item: Described, cx: &mut Context) -> StageResult<Probed> {
        let index = &*self.index;
        let flops = cost::search(item.regions.len(), index.regions(), index.database().len());
        Ok(Some(cx.declare(flops, || stages::ind(item, index))))
    }
}

/// Compares a query with the candidates.
struct Rank {
    index: Arc<Index>,
    k: usize,
}

impl Stage for Rank {
    type In = Probed;
    type Out = Ranked;

    fn process(&mut self, item: Probed, cx: &mut Context) -> StageResult<Ranked> {
        let entries = self.index.database().entries();
        let regions = |&image: &u32| entries.get(image as usize).map_or(0, |e| e.regions.len());
        let flops = cost::rank(item.regions.len(), item.candidates.iter().map(regions).sum());
        Ok(Some(cx.declare(flops, || stages::rank(item, &self.index, self.k))))
    }
}

/// Formats answers. Serial, but without state, so it may run anywhere.
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

/// The index of a rank, opened by the first stage that needs it and shared by all.
#[derive(Clone)]
struct SharedIndex {
    db: PathBuf,
    index: Arc<Mutex<Option<Arc<Index>>>>,
}

impl SharedIndex {
    fn new(db: &Path) -> Self {
        SharedIndex { db: db.to_path_buf(), index: Arc::default() }
    }

    fn get(&self) -> Result<Arc<Index>, BoxError> {
        // The slot holds a whole index or none, also after a panic.
        let mut slot = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(index) => Ok(index.clone()),
            None => Ok(slot.insert(Arc::new(Index::new(Database::open(&self.db)?))).clone()),
        }
    }
}
