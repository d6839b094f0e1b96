//! The two applications of Beard and Chamberlain (2015), whose runs estimate the service rate of one stage.
//!
//! A [`Watch`] around the stage records when items arrive and leave, and passes the same times to two estimators: the
//! paper's heuristic and the framework's own. The heuristic ignores periods in which the stage was idle. Each rank
//! that hosts the stage prints a line for every estimate, and a summary line at the end.

use std::sync::Arc;
use std::time::Instant;

use armature::pipeline::{Context, MappingChoice, Pipeline, Stage, StageResult};
use armature::{BoxError, Config, Progress};
use armature_papers::{RateEstimator, RateOptions, Sample};
use armature_planner::estimate::ServiceTime;
use matmul_stream::blocks::Blocks;
use matmul_stream::matrix::{Matrix, Shape};
use matmul_stream::pipeline::{Dot, Factors};
use matmul_stream::reduce::Reducer;
use rabin_karp::patterns::Patterns;
use rabin_karp::pipeline::{Hash, Search, Verify, texts};
use rabin_karp::text::{Part, Repeated};

use crate::RunResult;

/// Seconds between two items above which the stage counts as idle; longer than several polls for messages.
const IDLE_GAP: f64 = 20e-6;
/// Number of sampling periods between two printed estimates of the framework's own estimator.
const READING_INTERVAL: u64 = 64;

/// Application in which the service rate of one stage is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum App {
    /// Matrix product by single dot products. The service rate of the stage `reduce` is estimated.
    Product,
    /// Search for "foobar" in a text that only repeats this word. The service rate of the stage `verify` is
    /// estimated.
    Search,
}

impl App {
    /// Both applications with the numbers of replicas of Beard and Chamberlain: application, name, mapping of stages
    /// to ranks, number of ranks.
    pub const ALL: [(App, &'static str, &'static str, usize); 2] = [
        (App::Product, "product", "dot@1,2,3,4,5 | reduce@0", 6),
        (App::Search, "search", "hash@1,2,3,4 | verify@5,6", 7),
    ];

    fn of(name: &str) -> RunResult<Self> {
        let found = App::ALL.iter().find(|(_, known, ..)| *known == name);
        Ok(found.ok_or_else(|| format!("there is no application {name}"))?.0)
    }

    /// Returns the busy seconds of the stage after which a sampling period of the heuristic ends.
    fn period(self) -> f64 {
        match self {
            // The stage stores a dot product within some tens of nanoseconds. A period has about a hundred of them.
            App::Product => 5e-6,
            // The stage verifies a segment of the text within a tenth of a millisecond. A period has several segments.
            App::Search => 500e-6,
        }
    }
}

/// Records when items arrive at a stage and leave it.
#[derive(Debug)]
pub struct Watch {
    rank: usize,
    heuristic: RateEstimator,
    robust: ServiceTime,
    last: Option<Instant>,
    items: u64,
    busy: f64,
    all_items: u64,
    all_busy: f64,
    used: u64,
    /// Number of sampling periods that were discarded because the stage was idle.
    held_up: u64,
    converged: u64,
    lines: String,
}

impl Watch {
    fn new(app: App) -> RunResult<Self> {
        // The tolerance is that of the experiment `rate-estimator`. Sampling periods that count only busy time need not
        // be as many as periods of wall-clock time, and the tolerance can be larger than the default.
        let options = RateOptions { tolerance: 1e-5, ..RateOptions::default() };
        Ok(Watch {
            rank: 0,
            heuristic: RateEstimator::new(app.period(), options)?,
            robust: ServiceTime::default(),
            last: None,
            items: 0,
            busy: 0.0,
            all_items: 0,
            all_busy: 0.0,
            used: 0,
            held_up: 0,
            converged: 0,
            lines: String::new(),
        })
    }

    fn time<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        if self.last.is_some_and(|last| (start - last).as_secs_f64() > IDLE_GAP) && self.items > 0 {
            // A period in which the stage was idle is no valid sample of the heuristic.
            self.held_up += 1;
            self.robust.add(self.items, self.busy);
            (self.items, self.busy) = (0, 0.0);
        }
        let result = work();
        let end = Instant::now();
        self.last = Some(end);
        let busy = (end - start).as_secs_f64();
        (self.items, self.busy) = (self.items + 1, self.busy + busy);
        (self.all_items, self.all_busy) = (self.all_items + 1, self.all_busy + busy);
        if self.busy >= self.heuristic.period() {
            self.sample();
        }
        result
    }

    fn sample(&mut self) {
        let period = self.heuristic.period();
        let items = self.items as f64 * period / self.busy;
        self.robust.add(self.items, self.busy);
        self.used += 1;
        if let Some(estimate) = self.heuristic.add(Sample { items, period, blocked: false }) {
            self.converged += 1;
            self.lines += &format!("estimate heuristic {} {}\n", self.rank, estimate.rate);
        }
        if self.used.is_multiple_of(READING_INTERVAL)
            && let Some(estimate) = self.robust.estimate().filter(|estimate| estimate.settled)
        {
            self.lines += &format!("estimate framework {} {}\n", self.rank, 1.0 / estimate.value);
        }
        (self.items, self.busy) = (0, 0.0);
    }

    fn rate(&self) -> f64 {
        self.all_items as f64 / self.all_busy
    }
}

/// Stage whose service rate is measured; it prints its statistics when it is dropped.
#[derive(Debug)]
struct Watched<S> {
    stage: S,
    watch: Watch,
}

impl<S: Stage> Stage for Watched<S> {
    type In = S::In;
    type Out = S::Out;

    fn process(&mut self, item: S::In, cx: &mut Context) -> StageResult<S::Out> {
        self.watch.rank = cx.rank();
        self.watch.time(|| self.stage.process(item, cx))
    }
}

impl<S> Drop for Watched<S> {
    fn drop(&mut self) {
        let Watch { rank, used, held_up, converged, all_items, .. } = self.watch;
        // A single write keeps the output lines of different ranks apart.
        println!(
            "{}watched rank {rank} items {all_items} used {used} held_up {held_up} converged {converged} rate {}",
            self.watch.lines,
            self.watch.rate()
        );
    }
}

fn product(size: u64) -> (Shape, Factors) {
    let shape = Shape { rows: size, inner: size, columns: size };
    (shape, Factors { a: Matrix::generated(size, 1), b: Matrix::generated(size, 2) })
}

fn search(size: u64) -> RunResult<(Search, [Part; 1])> {
    let patterns = Arc::new(Patterns::new([b"foobar".to_vec()], 64)?);
    let text = Part::Generated(vec![Repeated { text: b"foobar".to_vec(), size }]);
    Ok((Search { patterns, segment: 64 << 10, count: true, shared: false }, [text]))
}

/// Runs the watched stage alone on items in memory. Returns its items per second, and the bytes of an item.
///
/// # Errors
/// Errors of the stages.
pub fn alone(app: App, seconds: f64) -> RunResult<(f64, f64)> {
    let mut cx = Context::for_test();
    let mut watch = Watch::new(app)?;
    let bytes;
    match app {
        App::Product => {
            let (shape, Factors { a, b }) = product(128);
            let mut parts = Vec::new();
            for item in Blocks::new(shape, 1, &a, &b) {
                parts.extend(Dot.process(item?, &mut cx)?);
            }
            bytes = size_of::<f32>() as f64;
            while watch.all_busy < seconds {
                let mut reducer = Reducer::new(shape.columns);
                for part in parts.clone() {
                    watch.time(|| reducer.process(part, &mut cx).map(drop))?;
                }
            }
        }
        App::Search => {
            let (search, parts) = search(8 << 20)?;
            let mut hash = Hash::new(search.patterns.clone());
            let mut verify = Verify::new(search.patterns.clone(), search.count);
            let mut proposed = Vec::new();
            for text in texts(&search, &parts, Default::default(), 0) {
                proposed.extend(hash.process(text?, &mut cx)?);
            }
            bytes = proposed.first().map_or(0, rabin_karp::pipeline::Proposed::bytes) as f64;
            while watch.all_busy < seconds {
                for item in proposed.clone() {
                    watch.time(|| verify.process(item, &mut cx).map(drop))?;
                }
            }
        }
    }
    Ok((watch.rate(), bytes))
}

/// Runs the rank program with the arguments `APPLICATION SIZE` and the numbers of replicas of Beard and Chamberlain.
/// Each rank that hosts the stage prints lines `estimate ESTIMATOR RANK RATE` and `watched rank RANK …`.
///
/// # Errors
/// If the arguments are wrong, or there are too few ranks.
pub fn main(arguments: &[String]) -> RunResult {
    let [name, size] = arguments else { return Err("expected APPLICATION SIZE".into()) };
    let (app, size) = (App::of(name)?, size.parse()?);
    let mapping = App::ALL.iter().find(|(known, ..)| *known == app).map(|(_, _, mapping, _)| *mapping);
    let mapping = MappingChoice::Text(mapping.unwrap_or_default().into());
    let watch = move || Watch::new(app);
    let config = Config::from_env()?.progress(Progress::Off);
    armature::run(&config, |session| -> Result<(), BoxError> {
        match app {
            App::Product => {
                let (shape, Factors { a, b }) = product(size);
                let mut rows = 0;
                Pipeline::try_source("read", || Blocks::new(shape, 1, &a, &b))
                    .stage("dot", || Ok(Dot))
                    .stage("reduce", move || {
                        Ok(Watched { stage: Reducer::new(shape.columns), watch: watch()? })
                    })
                    .serial()
                    .mapping(mapping.clone())
                    .for_each(session, "write", |_| rows += 1)?;
                if session.is_root() && rows != size {
                    return Err(format!("{rows} rows of {size} came").into());
                }
            }
            App::Search => {
                let (search, parts) = search(size)?;
                let (for_hash, for_verify) = (search.patterns.clone(), search.patterns.clone());
                let read = texts(&search, &parts, Default::default(), 0);
                let mut matches = 0;
                Pipeline::try_source("read", move || read)
                    .stage("hash", move || Ok(Hash::new(for_hash.clone())))
                    .stage("verify", move || {
                        Ok(Watched { stage: Verify::new(for_verify.clone(), true), watch: watch()? })
                    })
                    .mapping(mapping.clone())
                    .for_each(session, "reduce", |found| matches += found.count)?;
                if session.is_root() && matches != size / 6 {
                    return Err(format!("{matches} matches came instead of {}", size / 6).into());
                }
            }
        }
        Ok(())
    })?;
    Ok(())
}
