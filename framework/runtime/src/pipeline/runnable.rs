//! A complete pipeline and its options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use armature_planner::pipeline::Dispatch;

use super::choice::MappingChoice;
use super::erased::Codec;
use super::source_sink::{ErasedSink, ErasedSource};
use super::stage_def::StageDef;
use crate::error::{Error, ErrorKind, Result};
use crate::session::{Balance, BatchMode, Config};

/// A complete pipeline. Set its options, then [`run`](Runnable::run) it.
#[must_use = "a pipeline does nothing until it is run"]
pub struct Runnable<'p, C = ()> {
    pub(super) def: PipelineDef<'p>,
    /// Result of the pipeline: `()`, or the collected items.
    pub(super) collect: C,
}

/// Definition of the pipeline.
pub(crate) struct PipelineDef<'p> {
    pub(crate) source_name: String,
    pub(crate) source: Box<dyn ErasedSource + 'p>,
    pub(crate) stages: Vec<StageDef<'p>>,
    pub(crate) codecs: Vec<Arc<dyn Codec>>,
    pub(crate) sink_name: String,
    pub(crate) sink: Box<dyn ErasedSink + 'p>,
    pub(crate) ordered: bool,
    pub(crate) mapping: MappingChoice,
    pub(crate) remaps: Vec<(u64, MappingChoice)>,
    pub(crate) dispatch: Dispatch,
    pub(crate) options: Options,
    /// Error of an option that has no meaning at its place.
    pub(crate) misuse: Option<&'static str>,
}

/// Options of the pipeline that override the settings of the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    name: Option<String>,
    balance: Option<Balance>,
    batch: Option<BatchMode>,
    batch_time: Option<Duration>,
    window: Option<usize>,
    window_bytes: Option<usize>,
    request_ahead: Option<usize>,
    monitor: Option<bool>,
}

impl<C> Runnable<'_, C> {
    /// Sets the name of the pipeline in summaries and messages. The default is the name of its source.
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// let summary = armature::run(&armature::Config::new().ranks(1), |session| {
    ///     let pipeline = Pipeline::source("numbers", || 0..100u64).map("square", |x| x * x).for_each("drop", |_| ());
    ///     Ok(pipeline.name("squares").run(session)?)
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
    ///     let pipeline = Pipeline::source("numbers", || 0..100u64).map("square", |x| x * x).for_each("drop", |_| ());
    ///     Ok(pipeline.mapping(MappingChoice::Text("square@1,2".into())).run(session)?)
    /// })?.unwrap();
    /// assert_eq!((summary.mapping_text.as_str(), summary.ranks[0].stages[0].items), ("square@1,2", 0));
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn mapping(mut self, mapping: MappingChoice) -> Self {
        self.def.mapping = mapping;
        self
    }

    /// Requests another mapping as soon as `items` items have reached the sink. The stream continues during the change.
    ///
    /// The option may be given several times. It is for experiments and tests, and for streams whose changes are known in advance;
    /// otherwise the framework changes the mapping when another one is better ([`Balance::Live`](crate::Balance::Live)).
    ///
    /// ```
    /// use armature::pipeline::{MappingChoice, Pipeline};
    ///
    /// let summary = armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let pipeline = Pipeline::source("numbers", || 0..100u64).map("square", |x| x * x).for_each("drop", |_| ());
    ///     Ok(pipeline.mapping(MappingChoice::Serial).remap_after(10, MappingChoice::Text("square@1".into())).run(session)?)
    /// })?.unwrap();
    /// assert_eq!(summary.delivered, 100);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn remap_after(mut self, items: u64, mapping: MappingChoice) -> Self {
        self.def.remaps.push((items, mapping));
        self
    }

    /// Sets how items are sent to the replicas of a stage. The default is on demand.
    ///
    /// ```
    /// use armature::pipeline::{Dispatch, MappingChoice, Pipeline};
    ///
    /// let summary = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let pipeline = Pipeline::source("numbers", || 0..100u64).map("square", |x| x * x).for_each("drop", |_| ());
    ///     Ok(pipeline.mapping(MappingChoice::Text("square@1,2".into())).dispatch(Dispatch::RoundRobin).batch(armature::BatchMode::Fixed(10)).run(session)?)
    /// })?.unwrap();
    /// let items: Vec<u64> = summary.ranks.iter().map(|rank| rank.stages[0].items).collect();
    /// assert_eq!(items, [0, 50, 50]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn dispatch(mut self, dispatch: Dispatch) -> Self {
        self.def.dispatch = dispatch;
        self
    }

    /// Sets whether the mapping changes while the stream runs. The default is [`Config::balance`](crate::Config::balance); without it, a
    /// planned mapping changes whenever that pays and a given one never changes.
    pub fn balance(mut self, balance: Balance) -> Self {
        self.def.options.balance = Some(balance);
        self
    }

    /// Sets the number of items per message. By default it is `ARMATURE_BATCH`, or grows from 1.
    pub fn batch(mut self, batch: BatchMode) -> Self {
        self.def.options.batch = Some(batch);
        self
    }

    /// Sets the total work of a batch at all stages, for batches whose size is chosen automatically. The default is
    /// `ARMATURE_BATCH_MICROSECONDS`, or 500 µs.
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

    /// Sets the number of batches that a replica requests in advance, at least 1; one less (but at least one) if a batch takes the replica
    /// 10 ms or more. The default is `ARMATURE_REQUEST_AHEAD`, or 2.
    pub fn request_ahead(mut self, batches: usize) -> Self {
        self.def.options.request_ahead = Some(batches);
        self
    }

    /// Sets whether the service times of stages are measured. The default is `ARMATURE_MONITOR`, or true.
    pub fn monitor(mut self, on: bool) -> Self {
        self.def.options.monitor = Some(on);
        self
    }

    /// Returns the names of the stages in order.
    pub fn stage_names(&self) -> Vec<&str> {
        self.def.stage_names()
    }
}

impl PipelineDef<'_> {
    pub(crate) fn stage_names(&self) -> Vec<&str> {
        self.stages.iter().map(|s| s.name.as_str()).collect()
    }

    /// Returns the name of the pipeline.
    pub(crate) fn name(&self) -> &str {
        self.options.name.as_ref().unwrap_or(&self.source_name)
    }

    /// Returns the settings of the run with the options of this pipeline.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a value that cannot be used, and for an option that has no meaning at its place.
    pub(crate) fn settings(&self, config: &Config) -> Result<Config> {
        if let Some(option) = self.misuse {
            let source = &self.source_name;
            let text = format!(
                "the option {option} stands behind the source {source:?}: it belongs behind the stage that it declares"
            );
            return Err(Error::new(ErrorKind::Config, text).in_pipeline(self.name()));
        }
        let (own, config) = (&self.options, config.clone());
        let settings = Config {
            balance: own.balance.or(config.balance),
            batch: own.batch.unwrap_or(config.batch),
            batch_time: own.batch_time.unwrap_or(config.batch_time),
            window: own.window.or(config.window),
            window_bytes: own.window_bytes.unwrap_or(config.window_bytes),
            request_ahead: own.request_ahead.unwrap_or(config.request_ahead),
            monitor: own.monitor.unwrap_or(config.monitor),
            ..config
        };
        settings.validate().map(|()| settings).map_err(|error| error.in_pipeline(self.name()))
    }
}

impl<C> fmt::Debug for Runnable<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runnable")
            .field("name", &self.def.name())
            .field("source", &self.def.source_name)
            .field("stages", &self.stage_names())
            .field("sink", &self.def.sink_name)
            .field("mapping", &self.def.mapping)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::error::ErrorKind;
    use crate::pipeline::{MappingChoice, Pipeline};
    use crate::session::{Balance, BatchMode, Config, run};

    #[test]
    fn a_pipeline_says_more_than_the_environment() {
        let config = Config::new().set("ARMATURE_BATCH", "7").unwrap().set("ARMATURE_WINDOW", "9").unwrap();
        let pipeline = Pipeline::source("numbers", || 0..9u8).for_each("out", drop);
        let settings = pipeline.def.settings(&config).unwrap();
        assert_eq!((settings.batch, settings.window, settings.monitor), (BatchMode::Fixed(7), Some(9), true));
        let pipeline =
            pipeline.batch(BatchMode::Fixed(3)).window(2).window_bytes(100).request_ahead(5).monitor(false);
        let settings = pipeline.balance(Balance::Once).def.settings(&config).unwrap();
        assert_eq!(
            (settings.batch, settings.window, settings.monitor),
            (BatchMode::Fixed(3), Some(2), false)
        );
        assert_eq!((settings.window_bytes, settings.request_ahead), (100, 5));
        assert_eq!(settings.balance, Some(Balance::Once));
    }

    #[test]
    fn what_means_nothing_is_an_error_on_every_number_of_ranks() {
        for ranks in [1, 3] {
            let refused = |option: &str| {
                let error = run(&Config::new().ranks(ranks), |session| {
                    let source = Pipeline::source("numbers", || 0..9u8);
                    let whole =
                        |p: Pipeline<'static, u8>| p.map("same", |x| x).for_each("out", drop).name("nine");
                    let pipeline = match option {
                        "serial" => whole(source.serial()),
                        "at_root" => whole(source.at_root()),
                        "batch" => whole(source).batch(BatchMode::Fixed(0)),
                        "window" => whole(source).window(0),
                        _ => whole(source).request_ahead(0),
                    };
                    Ok(pipeline.mapping(MappingChoice::Serial).run(session)?)
                });
                let error = error.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Config, "{error}");
                assert!(error.to_string().contains("pipeline nine: "), "{error}");
                assert!(error.message().contains(option), "{error}");
            };
            ["serial", "at_root", "batch", "window", "request_ahead"].into_iter().for_each(refused);
        }
    }
}
