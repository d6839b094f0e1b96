//! Methods that run a pipeline on the ranks of a session.

use std::io::Write;
use std::path::Path;

use armature_text::shown;

use super::NAME;
use super::builder::Pipeline;
use super::choice::MappingChoice;
use super::collect::Collect;
use super::machine::Machine;
use super::machine::window::first_fill;
use super::messages::Report;
use super::observer::Observer;
use super::pipeline_def::PipelineDef;
use super::root::Root;
use super::run_spec::RunSpec;
use super::sink::{FileSink, Sink};
use super::snapshots::Snapshots;
use super::source_sink::{CommittingSink, Durability, NamedSink, SinkOf, TrySinkOf};
use super::stage_host::StageHost;
use super::summary::Summary;
use super::worker::PipelineWorker;
use crate::error::{BoxError, Result};
use crate::outcome::Outcome;
use crate::rank::driver::RankDriver;
use crate::rank::executor::Executor;
use crate::session::{Announcement, Balance, Parts, Session};
use crate::wire::{Codec, Item, Movable};

impl<'p, T: Item> Pipeline<'p, T> {
    /// Runs the pipeline to the end of its stream; rank 0 calls `f` with every item. `name` names this sink in errors and summaries. Every
    /// rank of the session calls this with the same pipeline.
    ///
    /// # Errors
    /// The first error or panic of the source, a stage or the sink, with rank, stage and item; an option that cannot be used; a mapping
    /// that does not fit the pipeline or the ranks; another rank's failure.
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// let total = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let mut total = 0;
    ///     let squares = Pipeline::source("numbers", || 1..=100u64).map("square", |x| x * x);
    ///     squares.for_each(session, "sum", |x| total += x)?;
    ///     Ok(total)
    /// })?;
    /// assert_eq!(total, 338_350);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn for_each(
        self,
        session: &mut Session,
        name: &str,
        f: impl FnMut(T) + Movable + 'p,
    ) -> Result<Outcome<(), Summary>> {
        let sink = NamedSink { name: name.to_string(), sink: Box::new(SinkOf::new(f)) };
        self.def.run(session, sink, "for_each").map(Outcome::of)
    }

    /// Runs the pipeline like [`for_each`](Pipeline::for_each), with a function that can fail. Its first error ends the job.
    ///
    /// # Errors
    /// The errors of [`for_each`](Pipeline::for_each).
    pub fn try_for_each(
        self,
        session: &mut Session,
        name: &str,
        f: impl FnMut(T) -> Result<(), BoxError> + Movable + 'p,
    ) -> Result<Outcome<(), Summary>> {
        let sink = NamedSink { name: name.to_string(), sink: Box::new(TrySinkOf::new(f)) };
        self.def.run(session, sink, "try_for_each").map(Outcome::of)
    }

    /// Runs the pipeline to the end of its stream with a sink that can commit its output, so that it survives a restart of the job. `make` creates
    /// the sink on rank 0 only. See [`snapshots`](Pipeline::snapshots).
    ///
    /// # Errors
    /// The errors of [`for_each`](Pipeline::for_each).
    pub fn run_into<S: Sink<In = T> + 'p>(
        self,
        session: &mut Session,
        name: &str,
        make: impl FnOnce() -> Result<S, BoxError> + Movable + 'p,
    ) -> Result<Outcome<(), Summary>> {
        let sink = NamedSink { name: name.to_string(), sink: Box::new(CommittingSink::new(make)) };
        self.def.run(session, sink, "run_into").map(Outcome::of)
    }

    /// Runs the pipeline to the end of its stream and writes its output to a file of rank 0: `f` appends each item. The output is written to a hidden
    /// file next to `path`, which is renamed to `path` when it is complete. With [snapshots](Pipeline::snapshots), each item is written exactly once,
    /// in any number of starts of the job.
    ///
    /// # Errors
    /// The errors of [`for_each`](Pipeline::for_each), and errors of the file system. `path` must name a regular file or none.
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("squares");
    /// armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let squares = Pipeline::source("numbers", || 1..4u64).map("square", |x| x * x);
    ///     squares.write_to(session, &path, |x, file| Ok(writeln!(file, "{x}")?))?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(std::fs::read_to_string(&path)?, "1\n4\n9\n");
    /// # Ok::<(), armature::BoxError>(())
    /// ```
    pub fn write_to(
        self,
        session: &mut Session,
        path: &Path,
        f: impl FnMut(T, &mut dyn Write) -> Result<(), BoxError> + Movable + 'p,
    ) -> Result<Outcome<(), Summary>> {
        let path = path.to_path_buf();
        let sink = CommittingSink::new(|| FileSink::new(path, f));
        let sink = NamedSink { name: "write".to_string(), sink: Box::new(sink) };
        self.def.run(session, sink, "write_to").map(Outcome::of)
    }

    /// Runs the pipeline to the end of its stream and returns all items on rank 0, in the order of the source, even if the pipeline is
    /// [unordered](Pipeline::unordered). Every rank of the session calls this with the same pipeline.
    ///
    /// # Errors
    /// The errors of [`for_each`](Pipeline::for_each).
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// let squares = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     Ok(Pipeline::source("numbers", || 0..5u64).map("square", |x| x * x).collect(session)?.into_parts())
    /// })?;
    /// let (squares, summary) = squares.unwrap();
    /// assert_eq!((squares, summary.delivered), (vec![0, 1, 4, 9, 16], 5));
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn collect(self, session: &mut Session) -> Result<Outcome<Vec<T>, Summary>> {
        self.collected(session, "collect")
    }

    /// Runs the pipeline like [`collect`](Pipeline::collect), but returns the items on every rank.
    ///
    /// # Errors
    /// The errors of [`for_each`](Pipeline::for_each).
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let squares = Pipeline::source("numbers", || 0..5u64).map("square", |x| x * x).collect_on_all(session)?;
    ///     assert_eq!(squares, [0, 1, 4, 9, 16]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn collect_on_all(self, session: &mut Session) -> Result<Vec<T>> {
        let name = self.def.name().to_string();
        let items = self.collected(session, "collect_on_all")?.on_root();
        let what = format!("the pipeline {name:?}");
        session.share(&what, &Codec::of_type(), items, |error| error.in_pipeline(&name))
    }

    fn collected(self, session: &mut Session, method: &str) -> Result<Outcome<Vec<T>, Summary>> {
        let collect = Collect::new();
        let sink = NamedSink { name: "collect".to_string(), sink: Box::new(collect.clone()) };
        let summary = self.def.run(session, sink, method)?;
        Ok(Outcome::new(summary.map(|summary| (collect.into_items(), summary))))
    }
}

impl<'p> PipelineDef<'p> {
    fn run(mut self, session: &mut Session, sink: NamedSink<'p>, method: &str) -> Result<Option<Summary>> {
        let Parts { endpoint, config, sharing, probed, .. } = session.parts();
        let settings = self.settings(config).map_err(|error| error.at_rank(endpoint.rank()));
        let config = &settings.inspect_err(|error| endpoint.report(error))?;
        self.check_snapshots(&sink, method).inspect_err(|error| endpoint.report(error))?;
        let run = endpoint.begin_work(&self.announcement(&sink.name, method), config.join_limit)?;
        let (rank, size, clock) = (endpoint.rank(), endpoint.size(), endpoint.clock());
        let names: Vec<String> = self.stage_names().into_iter().map(String::from).collect();
        let mut kinds = vec![self.source_name.clone()];
        kinds.extend(names.iter().cloned());
        kinds.push(sink.name.clone());
        let expanding: Vec<bool> = self.stages.iter().map(|stage| stage.expands).collect();
        // Speeds given by the user are those of ranks while all ranks compute, so they already include the sharing of cores.
        let sharing = if config.speeds().is_some() { &Vec::new() } else { sharing };
        let run_spec = if rank == 0 { Some(RunSpec::of(&mut self, size, sharing, probed)?) } else { None };
        let commits = sink.sink.durability() == Durability::Committed;
        let snapshots = match self.snapshots.clone().filter(|_| rank == 0) {
            Some(checkpoint) => {
                if !commits {
                    log::warn!(
                        "the sink {} has no commit: after a restart it receives the items since the last snapshot again",
                        shown(&sink.name)
                    );
                }
                let opened = Snapshots::open(endpoint, &self, &checkpoint, config);
                Some(opened.inspect_err(|error| endpoint.report(error))?)
            }
            None => None,
        };
        let balanced = config.balance.map_or(self.mapping == MappingChoice::Auto, |b| b != Balance::Off);
        let logs = config.events.is_some();
        let stage_host =
            StageHost::new(self, sink, endpoint.place(), clock, (config.monitor || balanced || logs, logs));
        let (codecs, activity) = (stage_host.codecs(), stage_host.activity());
        let waker = endpoint.transport().waker();
        std::thread::scope(|scope| {
            let executor = Executor::new(scope, rank, config.driver, waker, clock, stage_host)?;
            let observer = Observer::new((rank, run), activity, (names.clone(), expanding.clone()));
            let fill = first_fill(config.batch, config.batch_time);
            let machine = Machine::new(rank, codecs, (names, expanding), fill, config.request_ahead);
            let driver = RankDriver::of_kinds(endpoint, executor, config, NAME, kinds);
            let result = match run_spec {
                Some(run_spec) => {
                    Root::new((machine, observer), run_spec, (config, snapshots, commits), endpoint).and_then(
                        |mut root| {
                            let (host, end) = driver.run(endpoint, &mut root)?;
                            Ok(Some(root.finish(&host, &end)))
                        },
                    )
                }
                None => {
                    let mut worker = PipelineWorker::new(machine, observer, config.events.clone());
                    driver.run(endpoint, &mut worker).and_then(|(host, end)| {
                        endpoint.send_ready(0, Report::Total(worker.finish(&host, &end)))?;
                        Ok(None)
                    })
                }
            };
            // An error is reported to the other ranks inside the thread scope. The end of the scope waits for the compute thread, which may
            // be in user code for a long time.
            result.inspect_err(|error| endpoint.report(error))
        })
        .and_then(|summary| endpoint.check_run_stopped().map(|()| summary))
    }

    /// Returns the description of the run, by which ranks check that they run the same pipeline. It omits the mapping and the kind of dispatch,
    /// because rank 0 sends them to the other ranks.
    fn announcement(&self, sink: &str, method: &str) -> Announcement {
        let mut names = vec![self.source_name.as_str()];
        names.extend(self.stage_names());
        names.push(sink);
        let mut what = Announcement::new(format!("runs the pipeline {names:?}"));
        what = what.with("name", format_args!("{:?}", self.name()));
        for (at, codec) in self.codecs.iter().enumerate() {
            what = what.with(&format!("after {:?} items of type", names[at]), codec.item());
        }
        for stage in &self.stages {
            let place = match (stage.serial, stage.at_root) {
                (_, true) => "on rank 0",
                (true, false) => "on one rank",
                (false, false) => "on any ranks",
            };
            what = what.with(&format!("the stage {:?}", stage.name), place);
        }
        what = what.with("method", method);
        what = what.with("snapshots", if self.snapshots.is_some() { "on" } else { "off" });
        what.with("order", if self.ordered { "that of the source" } else { "any" })
    }
}
