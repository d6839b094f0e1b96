//! Options of a pipeline.

use std::time::Duration;

use armature_planner::pipeline::Dispatch;

use super::builder::Pipeline;
use super::choice::MappingChoice;
use crate::persist::snapshot::Checkpoint;
use crate::session::{Balance, BatchMode};

impl<T> Pipeline<'_, T> {
    /// Sets the name of the pipeline in summaries and messages. The default is the name of its source.
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// let summary = armature::run(&armature::Config::new().ranks(1), |session| {
    ///     let pipeline = Pipeline::source("numbers", || 0..100u64).map("square", |x| x * x);
    ///     Ok(pipeline.name("squares").for_each(session, "drop", drop)?.into_summary())
    /// })?.unwrap();
    /// assert_eq!(summary.name, "squares");
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn name(mut self, name: &str) -> Self {
        self.def.options.name = Some(name.to_string());
        self
    }

    /// Sets which ranks run which stages. The default is [`MappingChoice::Auto`].
    ///
    /// ```
    /// use armature::pipeline::{MappingChoice, Pipeline};
    ///
    /// let summary = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let pipeline = Pipeline::source("numbers", || 0..100u64).map("square", |x| x * x);
    ///     Ok(pipeline.mapping(MappingChoice::Text("square@1,2".into())).for_each(session, "drop", drop)?.into_summary())
    /// })?.unwrap();
    /// assert_eq!((summary.mapping_text.as_str(), summary.ranks[0].stages[0].items), ("square@1,2", 0));
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn mapping(mut self, mapping: MappingChoice) -> Self {
        self.def.mapping = mapping;
        self
    }

    /// Sets how items are sent to the replicas of a stage. By default a replica requests its next items when it needs them (on demand).
    ///
    /// ```
    /// use armature::pipeline::{Dispatch, MappingChoice, Pipeline};
    ///
    /// let summary = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let pipeline = Pipeline::source("numbers", || 0..100u64).map("square", |x| x * x);
    ///     let pipeline = pipeline.mapping(MappingChoice::Text("square@1,2".into())).dispatch(Dispatch::RoundRobin);
    ///     Ok(pipeline.batch(armature::BatchMode::Fixed(10)).for_each(session, "drop", drop)?.into_summary())
    /// })?.unwrap();
    /// let items: Vec<u64> = summary.ranks.iter().map(|rank| rank.stages[0].items).collect();
    /// assert_eq!(items, [0, 50, 50]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn dispatch(mut self, dispatch: Dispatch) -> Self {
        self.def.dispatch = dispatch;
        self
    }

    /// Sets whether the mapping changes while the stream runs. The default is [`Config::balance`](crate::Config::balance). If that is not
    /// set either, a planned mapping changes when the predicted gain exceeds the cost of the change, and a given mapping never changes.
    pub fn balance(mut self, balance: Balance) -> Self {
        self.def.options.balance = Some(balance);
        self
    }

    /// Sets the number of items per message. By default it is `ARMATURE_BATCH`, or grows from 1.
    pub fn batch(mut self, batch: BatchMode) -> Self {
        self.def.options.batch = Some(batch);
        self
    }

    /// Sets the computing time of a batch, summed over all stages, from which the number of items per batch is computed unless it is fixed.
    /// The default is `ARMATURE_BATCH_MICROSECONDS`, or 500 µs.
    pub fn batch_time(mut self, time: Duration) -> Self {
        self.def.options.batch_time = Some(time);
        self
    }

    /// Sets the number of batches in flight between source and sink, at least 1. By default it is `ARMATURE_WINDOW`, or follows Little's
    /// law.
    pub fn window(mut self, batches: usize) -> Self {
        self.def.options.window = Some(batches);
        self
    }

    /// Sets the maximum number of bytes in flight between source and sink; one batch is always allowed. The default is
    /// `ARMATURE_WINDOW_BYTES`, or 256 MiB. A batch of unknown size counts as the largest so far.
    pub fn window_bytes(mut self, bytes: usize) -> Self {
        self.def.options.window_bytes = Some(bytes);
        self
    }

    /// Sets the number of batches that a replica requests in advance, at least 1. If a batch takes the replica 10 ms or more, the replica requests
    /// one batch less, but at least one. The default is `ARMATURE_REQUEST_AHEAD`, or 2.
    pub fn request_ahead(mut self, batches: usize) -> Self {
        self.def.options.request_ahead = Some(batches);
        self
    }

    /// Writes snapshots, from which a later start of the job continues: on more or fewer ranks, after a crash, a time limit or a request to stop.
    ///
    /// A snapshot holds the number of source items that are done, the states of the serial stages, and the state of the sink. The source must
    /// therefore yield the same items in each job, and each serial stage must be able to [save](super::Stage::save) its state or be
    /// [stateless](Pipeline::stateless). With [`write_to`](Pipeline::write_to) and [`run_into`](Pipeline::run_into), each item reaches the output
    /// exactly once. The function of [`for_each`](Pipeline::for_each) receives the items since the last snapshot again.
    ///
    /// The directory, which only rank 0 accesses, may be used by one job at a time. The last two snapshots are kept; if the newest one is damaged,
    /// the job continues from the one before it. Snapshots of another pipeline or with another identity are refused. When the stream has ended, a
    /// last snapshot records that; then the same job has nothing to do.
    ///
    /// ```
    /// use armature::pipeline::{Checkpoint, Pipeline};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let (kept, path) = (dir.path().join("kept"), dir.path().join("squares"));
    /// let squares = || Pipeline::source("numbers", || 1..4u64).map("square", |x| x * x);
    /// let run = |ranks| {
    ///     armature::run(&armature::Config::new().ranks(ranks), |session| {
    ///         let squares = squares().snapshots(Checkpoint::new(&kept, "1..4"));
    ///         Ok(squares.write_to(session, &path, |x, file| Ok(writeln!(file, "{x}")?))?.into_summary())
    ///     })
    /// };
    /// assert_eq!(run(2)?.unwrap().items, 3);
    /// // The job is done, so the second start computes nothing.
    /// assert_eq!(run(3)?.unwrap().items, 0);
    /// assert_eq!(std::fs::read_to_string(&path)?, "1\n4\n9\n");
    /// # Ok::<(), armature::BoxError>(())
    /// ```
    pub fn snapshots(mut self, checkpoint: Checkpoint) -> Self {
        self.def.snapshots = Some(checkpoint);
        self
    }

    /// Sets whether the service times of stages are measured. The default is `ARMATURE_MONITOR`, or true.
    pub fn monitor(mut self, on: bool) -> Self {
        self.def.options.monitor = Some(on);
        self
    }
}
