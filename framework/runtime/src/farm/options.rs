//! Options of a farm, such as retries and limits, as set by its builder.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use armature_planner::farm::Chunking;

use super::incumbent::AnyIncumbent;
use crate::error::{Error, ErrorKind, Result};
use crate::persist::identity::RunIdentity;
use crate::session::{Balance, Config};

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) chunking: Chunking,
    pub(crate) ordered: bool,
    pub(crate) retries: u32,
    pub(crate) fail_fast: bool,
    pub(crate) dedicated: bool,
    pub(crate) second_copies: bool,
    pub(crate) ahead: Option<u32>,
    pub(crate) task_limit: Option<Duration>,
    pub(crate) silence: Option<Duration>,
    pub(crate) journal: Option<(PathBuf, RunIdentity)>,
    pub(crate) workers: Option<usize>,
    pub(crate) sub_masters: Option<usize>,
    pub(crate) balance: Option<Balance>,
    pub(crate) window_bytes: Option<usize>,
    pub(crate) incumbent: Option<Arc<dyn AnyIncumbent>>,
}

/// A worker that runs tasks on a separate thread counts as dead after this time without a message, by default.
const SILENCE: Duration = Duration::from_secs(10);

impl Default for Options {
    fn default() -> Self {
        Options {
            chunking: Chunking::Auto,
            ordered: true,
            retries: 0,
            fail_fast: false,
            dedicated: false,
            second_copies: false,
            ahead: None,
            task_limit: None,
            silence: None,
            workers: None,
            sub_masters: None,
            balance: None,
            window_bytes: None,
            journal: None,
            incumbent: None,
        }
    }
}

impl Options {
    pub(crate) fn silence(&self, config: &Config) -> Duration {
        self.silence.unwrap_or(SILENCE.min(config.peer_limit))
    }

    /// # Errors
    /// [`ErrorKind::Config`], with the name of the option, if options of the farm cannot be used together.
    pub(crate) fn check(&self) -> Result<()> {
        let text = if self.workers == Some(0) {
            "workers is 0, expected at least 1"
        } else if self.task_limit.is_some() && self.sub_masters.is_some_and(|count| count > 0) {
            "sub_masters and task_limit are both set, but a farm with a task limit has no sub-masters"
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Config, text))
    }
}
