//! Every setting of a run, in one place.
//!
//! A program starts from [`Config::from_env`], which takes the `ARMATURE_*` variables listed in the table of
//! [`Config`], and sets on top what it wants fixed. A value that cannot be used is refused with a message that
//! names the variable, the value and what was expected.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

/// Settings of a run. What a setter says overrides the environment; the environment overrides the default.
///
/// | variable | setter | value | default |
/// |---|---|---|---|
/// | `ARMATURE_TRANSPORT` | [`transport`](Config::transport) | `auto`, `local`, `mpi` | `auto`: `mpi` where a launcher started the program, else `local` |
/// | `ARMATURE_RANKS` | [`ranks`](Config::ranks) | number of ranks, for `local` | 1 |
/// | `ARMATURE_BIND` | [`bind`](Config::bind) | `core`, `none`: bind ranks that the launcher left unbound | `none` |
/// | `ARMATURE_DRIVER` | [`driver`](Config::driver) | `auto`, `inline`, `threaded`: does user code have a thread of its own | `auto` |
/// | `ARMATURE_BATCH` | [`batch`](Config::batch) | `auto`, or items per message | `auto` |
/// | `ARMATURE_BATCH_MICROSECONDS` | [`batch_time`](Config::batch_time) | work that a batch may hold, in µs | 500 |
/// | `ARMATURE_WINDOW` | [`window`](Config::window) | `auto`, or batches in flight | `auto` |
/// | `ARMATURE_WINDOW_BYTES` | [`window_bytes`](Config::window_bytes) | bytes in flight, at most | 268435456 |
/// | `ARMATURE_REQUEST_AHEAD` | [`request_ahead`](Config::request_ahead) | batches a replica asks for before it needs them | 2 |
/// | `ARMATURE_IDLE_MICROSECONDS` | [`idle_sleep`](Config::idle_sleep) | longest sleep of an idle rank, in µs | 1000 |
/// | `ARMATURE_SPLIT_BYTES` | [`split_bytes`](Config::split_bytes) | messages above this are sent in pieces | 67108864 |
/// | `ARMATURE_PEER_SECONDS` | [`peer_limit`](Config::peer_limit) | silence of a rank that ends the job, in s | 120 |
/// | `ARMATURE_JOIN_SECONDS` | [`join_limit`](Config::join_limit) | how long ranks wait for one that is still busy with the program's own work, before a pipeline and after it, in s | 3600 |
/// | `ARMATURE_PROGRESS` | [`progress`](Config::progress) | `auto`, `on`, `off`: progress on stderr | `auto` |
/// | `ARMATURE_MONITOR` | [`monitor`](Config::monitor) | `on`, `off`: per-stage service times | `on` |
///
/// `RUST_LOG` sets what is logged (default `info` for the framework's own start-up and planning lines).
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) transport: TransportChoice,
    pub(crate) ranks: usize,
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
}

/// How the ranks of a job exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportChoice {
    /// MPI where an MPI launcher (or the simulator) started the program, otherwise threads.
    Auto,
    /// Ranks as threads of this process.
    Local,
    /// Ranks as MPI processes.
    Mpi,
}

/// Whether ranks that the launcher left unbound are bound to cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bind {
    /// Leave every rank where the operating system puts it.
    None,
    /// Give each rank a core of its own, where the node has as many cores as ranks.
    Core,
}

/// Which thread runs user code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Driver {
    /// A thread of its own, unless batches turn out to be so short that handing them over costs more.
    Auto,
    /// The thread that also communicates: least overhead; while user code runs the rank answers nobody.
    Inline,
    /// A thread of its own: heartbeats and messages go on while user code computes for seconds.
    Threaded,
}

/// How many items travel in one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchMode {
    /// Grown from one item while a batch stays short in time and bytes.
    Auto,
    /// Always this many (the last batch of a stream may be smaller).
    Fixed(usize),
}

/// Whether a run shows its progress on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// A bar on a terminal, a line every few seconds elsewhere.
    Auto,
    /// A line every few seconds, also for short runs.
    On,
    /// Nothing.
    Off,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            transport: TransportChoice::Auto,
            ranks: 1,
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
        }
    }
}

impl Config {
    /// The defaults, without a look at the environment.
    pub fn new() -> Self {
        Config::default()
    }

    /// The defaults with the `ARMATURE_*` variables of this process on top.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] when a variable holds a value that cannot be used.
    pub fn from_env() -> Result<Self> {
        Config::from_lookup(|name| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned()))
    }

    /// As [`from_env`](Config::from_env), and takes `--ranks N` (or `--ranks=N`) out of this program's arguments;
    /// returns what is left of them, without the program's name. For programs without a command line of their own.
    ///
    /// # Errors
    /// As [`from_env`](Config::from_env), and when `--ranks` has no usable value.
    pub fn from_args() -> Result<(Self, Vec<String>)> {
        Config::from_env()?.take_args(std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()))
    }

    fn take_args(mut self, args: impl IntoIterator<Item = String>) -> Result<(Self, Vec<String>)> {
        let (mut args, mut rest) = (args.into_iter(), Vec::new());
        while let Some(arg) = args.next() {
            let value = match arg.split_once('=') {
                Some(("--ranks", value)) => value.to_string(),
                _ if arg == "--ranks" => args.next().unwrap_or_default(),
                _ => {
                    rest.push(arg);
                    continue;
                }
            };
            self.ranks = number("--ranks", &value, 1, 4096)?;
        }
        Ok((self, rest))
    }

    /// As [`from_env`](Config::from_env), over any source of variables.
    pub(crate) fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut c = Config::default();
        let read = |name: &str| lookup(name).filter(|v| !v.is_empty());
        if let Some(v) = read("ARMATURE_TRANSPORT") {
            c.transport = choose(
                "ARMATURE_TRANSPORT",
                &v,
                &[
                    ("auto", TransportChoice::Auto),
                    ("local", TransportChoice::Local),
                    ("mpi", TransportChoice::Mpi),
                ],
            )?;
        }
        if let Some(v) = read("ARMATURE_RANKS") {
            c.ranks = number("ARMATURE_RANKS", &v, 1, 4096)?;
        }
        if let Some(v) = read("ARMATURE_BIND") {
            c.bind = choose("ARMATURE_BIND", &v, &[("core", Bind::Core), ("none", Bind::None)])?;
        }
        if let Some(v) = read("ARMATURE_DRIVER") {
            c.driver = choose(
                "ARMATURE_DRIVER",
                &v,
                &[("auto", Driver::Auto), ("inline", Driver::Inline), ("threaded", Driver::Threaded)],
            )?;
        }
        if let Some(v) = read("ARMATURE_BATCH") {
            c.batch = match v.as_str() {
                "auto" => BatchMode::Auto,
                _ => BatchMode::Fixed(number("ARMATURE_BATCH", &v, 1, MAX_BATCH)?),
            };
        }
        if let Some(v) = read("ARMATURE_BATCH_MICROSECONDS") {
            c.batch_time = micros("ARMATURE_BATCH_MICROSECONDS", &v)?;
        }
        if let Some(v) = read("ARMATURE_WINDOW") {
            c.window = match v.as_str() {
                "auto" => None,
                _ => Some(number("ARMATURE_WINDOW", &v, 1, 1 << 20)?),
            };
        }
        if let Some(v) = read("ARMATURE_WINDOW_BYTES") {
            c.window_bytes = number("ARMATURE_WINDOW_BYTES", &v, 1, usize::MAX)?;
        }
        if let Some(v) = read("ARMATURE_REQUEST_AHEAD") {
            c.request_ahead = number("ARMATURE_REQUEST_AHEAD", &v, 1, 1024)?;
        }
        if let Some(v) = read("ARMATURE_IDLE_MICROSECONDS") {
            c.idle_sleep = micros("ARMATURE_IDLE_MICROSECONDS", &v)?;
        }
        if let Some(v) = read("ARMATURE_SPLIT_BYTES") {
            c.split_bytes = number("ARMATURE_SPLIT_BYTES", &v, 1, MAX_SPLIT)?;
        }
        if let Some(v) = read("ARMATURE_PEER_SECONDS") {
            c.peer_limit = Duration::from_secs(number("ARMATURE_PEER_SECONDS", &v, 1, 1 << 31)? as u64);
        }
        if let Some(v) = read("ARMATURE_JOIN_SECONDS") {
            c.join_limit = Duration::from_secs(number("ARMATURE_JOIN_SECONDS", &v, 1, 1 << 31)? as u64);
        }
        if let Some(v) = read("ARMATURE_PROGRESS") {
            c.progress = choose(
                "ARMATURE_PROGRESS",
                &v,
                &[("auto", Progress::Auto), ("on", Progress::On), ("off", Progress::Off)],
            )?;
        }
        if let Some(v) = read("ARMATURE_MONITOR") {
            c.monitor = choose("ARMATURE_MONITOR", &v, &[("on", true), ("off", false)])?;
        }
        Ok(c)
    }

    /// How the ranks exist: threads, or MPI processes.
    pub fn transport(mut self, choice: TransportChoice) -> Self {
        self.transport = choice;
        self
    }

    /// Ranks of the `local` transport; an MPI launcher has its own say.
    pub fn ranks(mut self, ranks: usize) -> Self {
        self.ranks = ranks;
        self
    }

    /// Whether to bind ranks that the launcher left unbound.
    pub fn bind(mut self, bind: Bind) -> Self {
        self.bind = bind;
        self
    }

    /// Which thread runs user code.
    pub fn driver(mut self, driver: Driver) -> Self {
        self.driver = driver;
        self
    }

    /// Items per message.
    pub fn batch(mut self, batch: BatchMode) -> Self {
        self.batch = batch;
        self
    }

    /// The work that an automatically sized batch may hold at all stages together.
    pub fn batch_time(mut self, time: Duration) -> Self {
        self.batch_time = time;
        self
    }

    /// Batches in flight between source and sink; `None` sizes the window by Little's law.
    pub fn window(mut self, batches: Option<usize>) -> Self {
        self.window = batches;
        self
    }

    /// Bytes in flight between source and sink, at most (one batch is always allowed).
    pub fn window_bytes(mut self, bytes: usize) -> Self {
        self.window_bytes = bytes;
        self
    }

    /// Batches that a replica asks for before it needs them.
    pub fn request_ahead(mut self, batches: usize) -> Self {
        self.request_ahead = batches;
        self
    }

    /// The longest that an idle rank sleeps before it looks for messages again.
    pub fn idle_sleep(mut self, limit: Duration) -> Self {
        self.idle_sleep = limit;
        self
    }

    /// Messages above this many bytes are sent in pieces.
    pub fn split_bytes(mut self, bytes: usize) -> Self {
        self.split_bytes = bytes;
        self
    }

    /// How long another rank may give no sign of life before the job is ended.
    pub fn peer_limit(mut self, limit: Duration) -> Self {
        self.peer_limit = limit;
        self
    }

    /// How long ranks wait for one that is still busy with the program's own work and gives no sign of life because
    /// of that: before it has come to the pipeline, and after the last one.
    pub fn join_limit(mut self, limit: Duration) -> Self {
        self.join_limit = limit;
        self
    }

    /// Whether progress is shown on stderr.
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Whether per-stage service times are measured.
    pub fn monitor(mut self, on: bool) -> Self {
        self.monitor = on;
        self
    }

    /// Checks what setters were given; called at the start of a run.
    pub(crate) fn validate(&self) -> Result<()> {
        let bad = |what: &str| Err(Error::new(ErrorKind::Config, what));
        match self {
            Config { ranks: 0, .. } => bad("ranks is 0, expected at least 1"),
            Config { batch: BatchMode::Fixed(n), .. } if *n == 0 || *n > MAX_BATCH => {
                bad(&format!("batch is {n} items, expected 1 to {MAX_BATCH}"))
            }
            Config { window: Some(0), .. } => bad("window is 0 batches, expected at least 1"),
            Config { request_ahead: 0, .. } => bad("request_ahead is 0, expected at least 1"),
            Config { split_bytes, .. } if *split_bytes == 0 || *split_bytes > MAX_SPLIT => {
                bad(&format!("split_bytes is {split_bytes}, expected 1 to {MAX_SPLIT}"))
            }
            _ => Ok(()),
        }
    }
}

/// A batch's count travels as 32 bits.
const MAX_BATCH: usize = 1 << 20;
/// MPI counts bytes in a C `int`.
const MAX_SPLIT: usize = i32::MAX as usize;

fn choose<T: Copy>(name: &str, value: &str, choices: &[(&str, T)]) -> Result<T> {
    choices.iter().find(|(word, _)| *word == value).map(|(_, v)| *v).ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        Error::new(ErrorKind::Config, format!("{name}={value}: expected one of {}", words.join(", ")))
    })
}

fn number(name: &str, value: &str, low: usize, high: usize) -> Result<usize> {
    value.parse().ok().filter(|n| (low..=high).contains(n)).ok_or_else(|| {
        Error::new(ErrorKind::Config, format!("{name}={value}: expected a whole number from {low} to {high}"))
    })
}

fn micros(name: &str, value: &str) -> Result<Duration> {
    Ok(Duration::from_micros(number(name, value, 0, 60_000_000)? as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> Result<Config> {
        Config::from_lookup(move |asked| (asked == name).then(|| value.to_string()))
    }

    #[test]
    fn every_variable_is_read() {
        assert_eq!(with("ARMATURE_TRANSPORT", "local").unwrap().transport, TransportChoice::Local);
        assert_eq!(with("ARMATURE_RANKS", "6").unwrap().ranks, 6);
        assert_eq!(with("ARMATURE_BIND", "core").unwrap().bind, Bind::Core);
        assert_eq!(with("ARMATURE_DRIVER", "inline").unwrap().driver, Driver::Inline);
        assert_eq!(with("ARMATURE_BATCH", "64").unwrap().batch, BatchMode::Fixed(64));
        assert_eq!(with("ARMATURE_WINDOW", "9").unwrap().window, Some(9));
        assert_eq!(with("ARMATURE_WINDOW_BYTES", "1024").unwrap().window_bytes, 1024);
        assert_eq!(with("ARMATURE_REQUEST_AHEAD", "3").unwrap().request_ahead, 3);
        assert_eq!(with("ARMATURE_SPLIT_BYTES", "17").unwrap().split_bytes, 17);
        assert_eq!(with("ARMATURE_PEER_SECONDS", "5").unwrap().peer_limit, Duration::from_secs(5));
        assert_eq!(with("ARMATURE_JOIN_SECONDS", "7").unwrap().join_limit, Duration::from_secs(7));
        assert_eq!(with("ARMATURE_PROGRESS", "off").unwrap().progress, Progress::Off);
        assert!(!with("ARMATURE_MONITOR", "off").unwrap().monitor);
        let c = with("ARMATURE_IDLE_MICROSECONDS", "20").unwrap();
        assert_eq!(c.idle_sleep, Duration::from_micros(20));
        let c = with("ARMATURE_BATCH_MICROSECONDS", "70").unwrap();
        assert_eq!(c.batch_time, Duration::from_micros(70));
    }

    #[test]
    fn bad_values_are_refused_with_name_value_and_expectation() {
        let e = with("ARMATURE_RANKS", "many").unwrap_err();
        assert_eq!(e.to_string(), "ARMATURE_RANKS=many: expected a whole number from 1 to 4096");
        let e = with("ARMATURE_BIND", "socket").unwrap_err();
        assert_eq!(e.to_string(), "ARMATURE_BIND=socket: expected one of core, none");
        assert!(with("ARMATURE_SPLIT_BYTES", "0").is_err());
    }

    #[test]
    fn ranks_are_taken_out_of_the_arguments() {
        let take = |args: &[&str]| Config::new().take_args(args.iter().map(ToString::to_string));
        let (config, rest) = take(&["in.txt", "--ranks", "6", "-v"]).unwrap();
        assert_eq!((config.ranks, rest), (6, vec!["in.txt".to_string(), "-v".to_string()]));
        assert_eq!(take(&["--ranks=3"]).unwrap().0.ranks, 3);
        let error = take(&["--ranks"]).unwrap_err();
        assert_eq!(error.to_string(), "--ranks=: expected a whole number from 1 to 4096");
    }

    #[test]
    fn setters_are_checked_at_the_start() {
        assert!(Config::new().ranks(0).validate().is_err());
        assert!(Config::new().batch(BatchMode::Fixed(0)).validate().is_err());
        assert!(Config::new().validate().is_ok());
    }
}
