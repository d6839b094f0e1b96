//! Definition of a pipeline, independent of the types of its items.

use std::sync::Arc;
use std::time::Duration;

use armature_planner::pipeline::Dispatch;

use super::choice::MappingChoice;
use super::erased::Codec;
use super::source_sink::ErasedSource;
use super::stage_def::StageDef;
use crate::error::{Error, ErrorKind, Result};
use crate::persist::snapshot::Checkpoint;
use crate::session::{Balance, BatchMode, Config};

pub(crate) struct PipelineDef<'p> {
    pub(crate) source_name: String,
    pub(crate) source: Box<dyn ErasedSource + 'p>,
    pub(crate) stages: Vec<StageDef<'p>>,
    /// Encodings of the items between the stages: `codecs[0]` for the items of the source, `codecs[n]` for those of stage n - 1.
    pub(crate) codecs: Vec<Arc<dyn Codec>>,
    pub(crate) ordered: bool,
    pub(crate) mapping: MappingChoice,
    pub(crate) remaps: Vec<(u64, MappingChoice)>,
    pub(crate) dispatch: Dispatch,
    pub(crate) options: Options,
    pub(crate) snapshots: Option<Checkpoint>,
    /// Name of an option for stages that the program has set before it added a stage, which makes the run fail.
    pub(crate) misuse: Option<&'static str>,
}

/// Options of a pipeline that override the settings of the session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(super) name: Option<String>,
    pub(super) balance: Option<Balance>,
    pub(super) batch: Option<BatchMode>,
    pub(super) batch_time: Option<Duration>,
    pub(super) window: Option<usize>,
    pub(super) window_bytes: Option<usize>,
    pub(super) request_ahead: Option<usize>,
    pub(super) monitor: Option<bool>,
}

impl PipelineDef<'_> {
    pub(crate) fn stage_names(&self) -> Vec<&str> {
        self.stages.iter().map(|s| s.name.as_str()).collect()
    }

    pub(crate) fn name(&self) -> &str {
        self.options.name.as_ref().unwrap_or(&self.source_name)
    }

    /// Returns the settings of the session with this pipeline's options in place of the session's.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a value that cannot be used, and for an option for stages that was set before any stage was added.
    pub(crate) fn settings(&self, config: &Config) -> Result<Config> {
        if let Some(option) = self.misuse {
            let source = &self.source_name;
            let text = format!(
                "the option {option} follows the source {source:?}, expected it after the stage that it configures"
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

#[cfg(test)]
mod tests {
    use crate::error::ErrorKind;
    use crate::pipeline::{MappingChoice, Pipeline};
    use crate::session::{Balance, BatchMode, Config, run};

    #[test]
    fn pipeline_options_override_the_environment() {
        let config = Config::new().set("ARMATURE_BATCH", "7").unwrap().set("ARMATURE_WINDOW", "9").unwrap();
        let pipeline = Pipeline::source("numbers", || 0..9u8);
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
    fn options_without_meaning_are_errors_on_any_rank_count() {
        for ranks in [1, 3] {
            let refused = |option: &str| {
                let error = run(&Config::new().ranks(ranks), |session| {
                    let source = Pipeline::source("numbers", || 0..9u8);
                    let whole = |p: Pipeline<'static, u8>| p.map("same", |x| x).name("nine");
                    let pipeline = match option {
                        "serial" => whole(source.serial()),
                        "at_root" => whole(source.at_root()),
                        "batch" => whole(source).batch(BatchMode::Fixed(0)),
                        "window" => whole(source).window(0),
                        _ => whole(source).request_ahead(0),
                    };
                    Ok(pipeline.mapping(MappingChoice::Serial).for_each(session, "out", drop).map(drop)?)
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
