//! Settings of a run.
//!
//! A program starts with [`Config::from_env`], which reads the `ARMATURE_*` variables in the table of [`Config`], and then sets the values
//! that it wants to fix. A value that cannot be used is refused with a message that names the variable, the value and the expected values.

mod args;
mod choices;
mod read;
#[cfg(feature = "clap")]
mod run_args;
#[cfg(test)]
mod table_tests;
mod variables;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

pub use args::{exit_code, main};
pub use choices::{Balance, BatchMode, Bind, Driver, Progress, TransportChoice};
#[cfg(feature = "clap")]
pub use run_args::RunArgs;

use super::commands::Commands;
use super::platform::JobPlatform;
#[cfg(feature = "mpi")]
use crate::comm::mpi::{Communicator, EmbeddedCommunicator};
use crate::comm::waiting::Limits;
use crate::error::{Error, ErrorKind, Result};

/// Settings of a run. A setter overrides the environment, and the environment overrides the default.
///
/// A configuration determines how ranks run, wait and report. Options of a skeleton are methods of the skeleton. The variables for skeletons in this
/// table apply to every skeleton whose own option is not set.
///
/// | variable | setter | value | default |
/// |---|---|---|---|
/// | `ARMATURE_TRANSPORT` | [`transport`](Config::transport) | `auto`, `local`, `mpi` | `auto`: `mpi` where a launcher started the program, else `local` |
/// | `ARMATURE_RANKS` | [`ranks`](Config::ranks) | number of ranks, for `local` | 1 |
/// | `ARMATURE_BIND` | [`bind`](Config::bind) | `core`, `none`: bind ranks that the launcher left unbound | `none` |
/// | `ARMATURE_DRIVER` | [`driver`](Config::driver) | `auto`, `inline`, `threaded`: thread of user code | `auto` |
/// | `ARMATURE_BATCH` | [`batch`](crate::pipeline::Pipeline::batch) | `auto`, or items per message | `auto` |
/// | `ARMATURE_BATCH_MICROSECONDS` | [`batch_time`](crate::pipeline::Pipeline::batch_time) | work that a batch may hold, in µs | 500 |
/// | `ARMATURE_WINDOW` | [`window`](crate::pipeline::Pipeline::window) | `auto`, or batches in flight | `auto` |
/// | `ARMATURE_WINDOW_BYTES` | [`window_bytes`](crate::pipeline::Pipeline::window_bytes) | bytes in flight, at most | 268435456 |
/// | `ARMATURE_REQUEST_AHEAD` | [`request_ahead`](crate::pipeline::Pipeline::request_ahead) | batches that a replica requests in advance | 2 |
/// | `ARMATURE_IDLE_MICROSECONDS` | [`idle_sleep`](Config::idle_sleep) | longest sleep of an idle rank, in µs | 1000 |
/// | `ARMATURE_SPLIT_BYTES` | [`split_bytes`](Config::split_bytes) | messages above this are sent in pieces | 67108864 |
/// | `ARMATURE_PEER_SECONDS` | [`peer_limit`](Config::peer_limit) | silence of a rank that ends the job, in s | 120 |
/// | `ARMATURE_JOIN_SECONDS` | [`join_limit`](Config::join_limit) | how long ranks wait for a rank that is in the program's own code, between skeletons, in s | 3600 |
/// | `ARMATURE_PROGRESS` | [`progress`](Config::progress) | `auto`, `on`, `off`: progress on stderr | `auto` |
/// | `ARMATURE_MONITOR` | [`monitor`](crate::pipeline::Pipeline::monitor) | `on`, `off`: per-stage service times | `on` |
/// | `ARMATURE_BALANCE` | [`balance`](Config::balance) | `off`, `once`, `live`: changes of a pipeline's mapping, a farm's number of workers and a loop's units during a run | `live` for everything but a mapping that was given |
/// | `ARMATURE_EVENTS` | [`events`](Config::events) | directory for logs of events, one subdirectory for each start of a job | no log |
/// | `ARMATURE_CHECK_BUILD` | [`check_build`](Config::check_build) | `on`, `off`: refusal of a job whose ranks run different builds | `on` |
/// | `ARMATURE_CHECK_ARGUMENTS` | [`check_arguments`](Config::check_arguments) | `on`, `off`: refusal of a job whose ranks have different command lines | `on` |
/// | `ARMATURE_JOB_STATUS` | [`job_status`](Config::job_status) | file for the [state of the job](crate::job_status) | none |
/// | `ARMATURE_CHECKPOINT_OVERHEAD` | [`checkpoint_overhead`](Config::checkpoint_overhead) | part of the time that checkpoints may take, in per cent | 1 |
/// | `ARMATURE_MTBF_HOURS` | [`mean_time_between_failures`](Config::mean_time_between_failures) | mean time between failures of the job, in hours | 24 |
/// | `ARMATURE_RUN` | [`run_directory`](Config::run_directory) | directory in which a file `stop` asks the job to stop | none |
/// | `ARMATURE_END_TIME` | [`end_time`](Config::end_time) | time at which the batch system ends the job, in seconds since the start of 1970 | none, or `SLURM_JOB_END_TIME` |
/// | `ARMATURE_PLATFORM` | [`platform`](Config::platform) | speeds, memory and bandwidths of the hosts as JSON, which `armature run` sets | none |
///
/// `RUST_LOG` sets what is logged (default `info` for the framework's own start-up and planning lines).
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) transport: TransportChoice,
    /// Number of ranks that are threads; `None` if it was not set.
    pub(crate) ranks: Option<usize>,
    pub(crate) bind: Bind,
    pub(crate) driver: Driver,
    pub(crate) batch: BatchMode,
    pub(crate) batch_time: Duration,
    pub(crate) window: Option<usize>,
    pub(crate) window_bytes: usize,
    pub(crate) request_ahead: usize,
    pub(crate) idle_sleep: Duration,
    pub(crate) split_bytes: usize,
    pub(crate) peer_limit: Duration,
    pub(crate) join_limit: Duration,
    pub(crate) progress: Progress,
    pub(crate) monitor: bool,
    pub(crate) balance: Option<Balance>,
    pub(crate) events: Option<PathBuf>,
    pub(crate) check_build: bool,
    pub(crate) check_arguments: bool,
    pub(crate) job_status: Option<PathBuf>,
    pub(crate) checkpoint_overhead: f64,
    pub(crate) mean_time_between_failures: Duration,
    pub(crate) run_directory: Option<PathBuf>,
    pub(crate) end_time: Option<SystemTime>,
    pub(crate) platform: Option<JobPlatform>,
    pub(crate) handle_signals: bool,
    pub(crate) commands: Option<Commands>,
    #[cfg(feature = "mpi")]
    pub(crate) communicator: Option<EmbeddedCommunicator>,
    /// Maximum of [`Session::threads`](crate::Session::threads) in a group of ranks, 0 if the ranks share cores; `None` outside of groups.
    pub(crate) cores: Option<usize>,
    pub(crate) unknown: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            transport: TransportChoice::Auto,
            ranks: None,
            bind: Bind::None,
            driver: Driver::Auto,
            batch: BatchMode::Auto,
            batch_time: Duration::from_micros(500),
            window: None,
            window_bytes: 256 << 20,
            request_ahead: 2,
            idle_sleep: Duration::from_millis(1),
            split_bytes: 64 << 20,
            peer_limit: Duration::from_secs(120),
            join_limit: Duration::from_secs(3600),
            progress: Progress::Auto,
            monitor: true,
            balance: None,
            events: None,
            check_build: true,
            check_arguments: true,
            job_status: None,
            checkpoint_overhead: 0.01,
            mean_time_between_failures: Duration::from_secs(24 * 3600),
            run_directory: None,
            end_time: None,
            platform: None,
            handle_signals: false,
            commands: None,
            #[cfg(feature = "mpi")]
            communicator: None,
            cores: None,
            unknown: Vec::new(),
        }
    }
}

impl Config {
    /// Returns the default settings, without those of the environment.
    pub fn new() -> Self {
        Config::default()
    }

    /// Sets whether ranks are threads or MPI processes.
    pub fn transport(mut self, choice: TransportChoice) -> Self {
        self.transport = choice;
        self
    }

    /// Sets the number of ranks of the `local` transport. An MPI launcher determines the number of its ranks; rank 0 warns if it differs.
    pub fn ranks(mut self, ranks: usize) -> Self {
        self.ranks = Some(ranks);
        self
    }

    /// Sets whether ranks that the launcher left unbound are bound to cores.
    pub fn bind(mut self, bind: Bind) -> Self {
        self.bind = bind;
        self
    }

    /// Sets which thread runs user code.
    pub fn driver(mut self, driver: Driver) -> Self {
        self.driver = driver;
        self
    }

    /// Sets the longest sleep of an idle rank between two polls for messages.
    pub fn idle_sleep(mut self, limit: Duration) -> Self {
        self.idle_sleep = limit;
        self
    }

    /// Sets the size in bytes above which messages are sent in pieces.
    pub fn split_bytes(mut self, bytes: usize) -> Self {
        self.split_bytes = bytes;
        self
    }

    /// Sets how long another rank may be silent before the job ends. Only time in which this rank itself polls for messages counts. For a
    /// rank whose user code has been short, and therefore runs on the thread that communicates, the limit is
    /// [`join_limit`](Config::join_limit).
    pub fn peer_limit(mut self, limit: Duration) -> Self {
        self.peer_limit = limit;
        self
    }

    /// Sets how long ranks wait for a rank that is silent because it runs code of the program, before or after a skeleton (farm, loop,
    /// pipeline or workflow). The limit also holds within a skeleton while user code runs on the thread that communicates, unless
    /// [`Driver::Inline`](crate::Driver::Inline) was chosen. The death of a process on the same host is detected earlier.
    pub fn join_limit(mut self, limit: Duration) -> Self {
        self.join_limit = limit;
        self
    }

    /// Returns the times without a message after which a rank counts as dead while ranks wait for each other between two skeletons (farms,
    /// loops, pipelines or workflows).
    pub(crate) fn limits(&self) -> Limits {
        Limits { join: self.join_limit, peer: self.peer_limit }
    }

    /// Sets speeds, memory and bandwidths of the hosts. Speeds are the first estimates of the planners, memory is the limit of each rank for values
    /// of workflows. The platform of rank 0 counts for all ranks.
    pub fn platform(mut self, platform: JobPlatform) -> Self {
        self.platform = Some(platform);
        self
    }

    #[cfg(any(feature = "farm", feature = "loops", feature = "pipeline", feature = "workflow"))]
    pub(crate) fn speeds(&self) -> Option<Vec<f64>> {
        self.platform.as_ref()?.speeds()
    }

    /// Sets whether progress is shown on stderr.
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Sets whether skeletons change the distribution of their work while they run. The option `balance` of a skeleton takes precedence.
    pub fn balance(mut self, balance: Balance) -> Self {
        self.balance = Some(balance);
        self
    }

    /// Sets the directory for [events](crate::observe), or `None` for no log. Each session writes to a new subdirectory, `attempts/1`, `attempts/2`,
    /// …, and locks the directory meanwhile. [`run`](crate::run()) returns an error if a rank cannot write there, or another job has held the lock
    /// for ten seconds.
    pub fn events(mut self, directory: Option<PathBuf>) -> Self {
        self.events = directory;
        self
    }

    /// Sets whether a job is refused if its ranks run different builds; `true` by default. The setting of rank 0 counts.
    ///
    /// Two builds of one program may lay out the fields of a struct or number the variants of an enum differently, and then read each
    /// other's messages as other values. Set this to `false` only for builds that are known to agree, for example builds of one
    /// source for two architectures of one byte order. Rank 0 then logs a warning that names the ranks with another build.
    pub fn check_build(mut self, check: bool) -> Self {
        self.check_build = check;
        self
    }

    /// Sets whether a job is refused if its ranks were started with different command lines; `true` by default. The setting of rank 0 counts.
    ///
    /// The name of the program, `argv[0]`, is not compared. Set this to `false` for a program whose ranks have different arguments
    /// on purpose, such as a log file for each rank.
    pub fn check_arguments(mut self, check: bool) -> Self {
        self.check_arguments = check;
        self
    }

    /// Sets the file to which the job writes its current state and, at last, how it has ended, for [the program that started
    /// it](crate::job_status).
    pub fn job_status(mut self, file: Option<PathBuf>) -> Self {
        self.job_status = file;
        self
    }

    /// Sets the maximum part of the time that checkpoints and snapshots without a fixed period may take: a number above 0 and at most 1.
    /// Checkpoints are written less often if their measured cost is higher.
    pub fn checkpoint_overhead(mut self, part: f64) -> Self {
        self.checkpoint_overhead = part;
        self
    }

    /// Sets the mean time between two failures of the job, above 0. The mean time determines how often checkpoints and snapshots without a fixed
    /// period are written: the optimum of Young and Daly, √(2 µ C) for the mean time µ between failures and the measured cost C of a checkpoint.
    pub fn mean_time_between_failures(mut self, time: Duration) -> Self {
        self.mean_time_between_failures = time;
        self
    }

    /// Sets the directory of the run, or `None` for none. Rank 0 looks in it about once a second for a file `stop`, which
    /// [asks the job to stop](Config::handle_signals), and removes the file.
    pub fn run_directory(mut self, directory: Option<PathBuf>) -> Self {
        self.run_directory = directory;
        self
    }

    /// Sets the time at which the batch system ends the job, or `None` if it does not. The setting of rank 0 counts. The default is `None`; for
    /// settings of the [environment](Config::from_env) it is `SLURM_JOB_END_TIME`.
    ///
    /// [Farms](crate::farm) with a journal and [workflows](crate::workflow) begin no task that, by the times of earlier tasks, cannot end five
    /// seconds before this time. When no task can begin any more, the run stops as after a [signal](Config::handle_signals): its journal is complete,
    /// and the same command continues it in another job. A time that has passed at the start of the run is ignored.
    pub fn end_time(mut self, end: Option<SystemTime>) -> Self {
        self.end_time = end;
        self
    }

    /// Sets whether SIGTERM, SIGUSR1 and SIGUSR2 ask the job to stop. The default is `true` for settings of the
    /// [environment](Config::from_env), and `false` for [`Config::new`], because a program that contains armature as a part may handle signals
    /// itself. If only some ranks handle signals, a signal to one of them stops the job.
    ///
    /// After the first signal, the running skeleton writes its journal or checkpoint and ends before its work is done, and
    /// [`run`](crate::run()) returns an error of the kind [`Stopped`](ErrorKind::Stopped) on every rank. A second signal, more than a second
    /// later, ends the process at once. Between runs the signals have their default action.
    pub fn handle_signals(mut self, handle: bool) -> Self {
        self.handle_signals = handle;
        self
    }

    /// Allows commands as tasks of [workflows](crate::workflow), and sets how they are started. By default only closures are allowed.
    /// The method requires the feature `workflow`.
    #[cfg(feature = "workflow")]
    pub fn commands(mut self, commands: Commands) -> Self {
        self.commands = Some(commands);
        self
    }

    /// Makes the ranks of this communicator the ranks of the session, in its order, instead of all processes of the job: for a program that
    /// has initialised MPI itself, with thread level FUNNELED or more. Each rank of the communicator runs the same session; other processes
    /// of the job are not affected.
    ///
    /// Only the ranks of the communicator compare their [builds](Config::check_build) and [command lines](Config::check_arguments), so
    /// other programs of the job may differ.
    ///
    /// The communicator is not used for messages. It is freed with the configuration; `duplicate` it to keep one. Set it on the thread that
    /// calls [`run`](crate::run).
    ///
    /// ```no_run
    /// use armature::mpi::{Threading, initialize_with_threading, topology::Color, traits::*};
    ///
    /// let (universe, _level) = initialize_with_threading(Threading::Funneled).unwrap();
    /// let world = universe.world();
    /// // Two sessions side by side, each on half of the ranks.
    /// let half = world.split_by_color(Color::with_value(world.rank() % 2)).unwrap();
    /// // A communicator must stay on its thread, so its size is read before the run.
    /// let ranks = world.size() as usize;
    /// armature::run(&armature::Config::new().communicator(half), |session| {
    ///     assert!(session.size() <= ranks.div_ceil(2));
    ///     Ok(())
    /// })?;
    /// // The run has not finalised MPI.
    /// world.barrier();
    /// # Ok::<(), armature::Error>(())
    /// ```
    #[cfg(feature = "mpi")]
    pub fn communicator(mut self, communicator: Communicator) -> Self {
        self.communicator = Some(EmbeddedCommunicator::new(communicator));
        self
    }

    /// Returns warnings about settings that have no effect in this job; `launched` is the number of ranks that an MPI launcher has started.
    pub(crate) fn remarks(&self, launched: Option<usize>) -> Vec<String> {
        let mut remarks: Vec<String> = self.unknown.iter().map(|name| variables::remark(name)).collect();
        if let (Some(asked), Some(launched)) = (self.ranks, launched)
            && asked != launched
        {
            remarks.push(format!(
                "--ranks, ARMATURE_RANKS or the program sets {asked} ranks, but the MPI launcher has started \
                 {launched}, which are used; the setting applies only without a launcher"
            ));
        }
        remarks
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let bad = |what: &str| Err(Error::new(ErrorKind::Config, what));
        match self {
            Config { ranks: Some(0), .. } => bad("ranks is 0, expected at least 1"),
            Config { batch: BatchMode::Fixed(n), .. } if *n == 0 || *n > MAX_BATCH => {
                bad(&format!("batch is {n} items, expected 1 to {MAX_BATCH}"))
            }
            #[cfg(feature = "mpi")]
            Config { transport: TransportChoice::Local, communicator: Some(_), .. } => bad(
                "a communicator is set and the transport is local, expected mpi or auto: the ranks are processes of \
                 the communicator",
            ),
            Config { window: Some(0), .. } => bad("window is 0 batches, expected at least 1"),
            Config { request_ahead: 0, .. } => bad("request_ahead is 0, expected at least 1"),
            Config { checkpoint_overhead: part, .. } if !(*part > 0.0 && *part <= 1.0) => {
                bad(&format!("checkpoint_overhead is {part}, expected a number above 0 and at most 1"))
            }
            Config { mean_time_between_failures: Duration::ZERO, .. } => {
                bad("mean_time_between_failures is 0 s, expected a longer time")
            }
            Config { split_bytes, .. } if *split_bytes == 0 || *split_bytes > MAX_SPLIT => {
                bad(&format!("split_bytes is {split_bytes}, expected 1 to {MAX_SPLIT}"))
            }
            _ => Ok(()),
        }
    }
}

/// Maximum number of items in a batch. The number is sent as 32 bits.
const MAX_BATCH: usize = 1 << 20;
/// Maximum of `split_bytes`: MPI counts bytes with a C `int`.
const MAX_SPLIT: usize = i32::MAX as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_settings_are_reported() {
        let asked = Config { unknown: vec!["ARMATURE_RANK".into()], ..Config::new().ranks(4) };
        assert_eq!(asked.remarks(None).len(), 1);
        assert!(asked.remarks(Some(4))[0].contains("did you mean ARMATURE_RANKS?"));
        let text = &asked.remarks(Some(2))[1];
        assert!(text.contains("the program sets 4 ranks") && text.contains("has started 2, which"), "{text}");
        assert!(Config::new().remarks(Some(2)).is_empty());
    }

    #[test]
    fn invalid_setter_values_fail_validation() {
        assert!(Config::new().ranks(0).validate().is_err());
        assert!(Config { batch: BatchMode::Fixed(0), ..Config::new() }.validate().is_err());
        for part in [0.0, -1.0, 1.5, f64::NAN] {
            assert!(Config::new().checkpoint_overhead(part).validate().is_err());
        }
        assert!(Config::new().mean_time_between_failures(Duration::ZERO).validate().is_err());
        assert!(Config::new().validate().is_ok());
    }
}
