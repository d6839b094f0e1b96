//! Reads settings from environment variables.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::choices::{Balance, BatchMode, Bind, Driver, Progress, TransportChoice};
use super::variables::{SETTINGS, remark, unknown};
use super::{Config, MAX_BATCH, MAX_SPLIT};
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of ranks that are threads.
pub(super) const MAX_RANKS: usize = 4096;
/// Maximum mean time between failures in hours: a century, beyond which the period of checkpoints hardly changes.
const MAX_HOURS: f64 = 876_000.0;

const TRANSPORTS: &[(&str, TransportChoice)] =
    &[("auto", TransportChoice::Auto), ("local", TransportChoice::Local), ("mpi", TransportChoice::Mpi)];
const BINDS: &[(&str, Bind)] = &[("core", Bind::Core), ("none", Bind::None)];
const DRIVERS: &[(&str, Driver)] =
    &[("auto", Driver::Auto), ("inline", Driver::Inline), ("threaded", Driver::Threaded)];
const PROGRESS: &[(&str, Progress)] =
    &[("auto", Progress::Auto), ("on", Progress::On), ("off", Progress::Off)];
pub(super) const BALANCES: &[(&str, Balance)] =
    &[("off", Balance::Off), ("once", Balance::Once), ("live", Balance::Live)];
const ON_OFF: &[(&str, bool)] = &[("on", true), ("off", false)];

impl Config {
    /// Returns the default settings, overridden by the `ARMATURE_*` variables of this process. A variable with this prefix that is not a setting is
    /// ignored; rank 0 logs a warning when a session starts.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the value of a variable is invalid.
    pub fn from_env() -> Result<Self> {
        let text = |text: OsString| text.to_string_lossy().into_owned();
        let mut config = Config::from_lookup(|name| std::env::var_os(name).map(text))?;
        let is_set = std::env::vars_os().filter(|(_, value)| !value.is_empty());
        config.handle_signals = true;
        if let (None, Some(end)) = (config.end_time, std::env::var_os("SLURM_JOB_END_TIME")) {
            config.end_time = text(end).trim().parse().ok().and_then(since_1970);
        }
        config.unknown = unknown(is_set.map(|(name, _)| text(name)));
        Ok(config)
    }

    /// Sets one setting, by the name of its variable. Use it for settings that do not come from the environment.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if there is no such setting, or the value is invalid.
    ///
    /// ```
    /// use armature::Config;
    ///
    /// let config = Config::new().set("ARMATURE_BATCH", "64")?;
    /// assert!(config.set("ARMATURE_BATCH", "some").is_err());
    /// assert!(Config::new().set("ARMATURE_BATHC", "64").unwrap_err().message().contains("did you mean ARMATURE_BATCH?"));
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn set(self, name: &str, value: &str) -> Result<Self> {
        if !SETTINGS.contains(&name) {
            return Err(Error::new(ErrorKind::Config, remark(name)));
        }
        self.read(|asked| (asked == name).then(|| value.to_string()))
    }

    /// Reads the settings like [`from_env`](Config::from_env), from any source of variables instead of the environment.
    pub(crate) fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        Config::default().read(lookup)
    }

    fn read(self, lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut c = self;
        let read = |name: &str| lookup(name).filter(|v| !v.is_empty());
        if let Some(v) = read("ARMATURE_TRANSPORT") {
            c.transport = choose("ARMATURE_TRANSPORT", &v, TRANSPORTS)?;
        }
        if let Some(v) = read("ARMATURE_RANKS") {
            c.ranks = Some(number("ARMATURE_RANKS", &v, 1, MAX_RANKS)?);
        }
        if let Some(v) = read("ARMATURE_BIND") {
            c.bind = choose("ARMATURE_BIND", &v, BINDS)?;
        }
        if let Some(v) = read("ARMATURE_DRIVER") {
            c.driver = choose("ARMATURE_DRIVER", &v, DRIVERS)?;
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
            c.progress = choose("ARMATURE_PROGRESS", &v, PROGRESS)?;
        }
        if let Some(v) = read("ARMATURE_MONITOR") {
            c.monitor = choose("ARMATURE_MONITOR", &v, ON_OFF)?;
        }
        if let Some(v) = read("ARMATURE_BALANCE") {
            c.balance = Some(choose("ARMATURE_BALANCE", &v, BALANCES)?);
        }
        if let Some(v) = read("ARMATURE_EVENTS") {
            c.events = Some(directory("ARMATURE_EVENTS", &v)?);
        }
        if let Some(v) = read("ARMATURE_CHECK_BUILD") {
            c.check_build = choose("ARMATURE_CHECK_BUILD", &v, ON_OFF)?;
        }
        if let Some(v) = read("ARMATURE_CHECK_ARGUMENTS") {
            c.check_arguments = choose("ARMATURE_CHECK_ARGUMENTS", &v, ON_OFF)?;
        }
        if let Some(v) = read("ARMATURE_JOB_STATUS") {
            c.job_status = Some(PathBuf::from(v));
        }
        if let Some(v) = read("ARMATURE_CHECKPOINT_OVERHEAD") {
            c.checkpoint_overhead = percent("ARMATURE_CHECKPOINT_OVERHEAD", &v)?;
        }
        if let Some(v) = read("ARMATURE_MTBF_HOURS") {
            c.mean_time_between_failures = hours("ARMATURE_MTBF_HOURS", &v)?;
        }
        if let Some(v) = read("ARMATURE_RUN") {
            c.run_directory = Some(directory("ARMATURE_RUN", &v)?);
        }
        if let Some(v) = read("ARMATURE_END_TIME") {
            c.end_time = since_1970(number("ARMATURE_END_TIME", &v, 1, u32::MAX as usize)? as u64);
        }
        if let Some(v) = read("ARMATURE_PLATFORM") {
            c.platform = Some(v.parse().map_err(|error| {
                let text = format!("ARMATURE_PLATFORM does not describe processors as JSON: {error}");
                Error::new(ErrorKind::Config, text)
            })?);
        }
        Ok(c)
    }
}

pub(super) fn choose<T: Copy>(name: &str, value: &str, choices: &[(&str, T)]) -> Result<T> {
    choices.iter().find(|(word, _)| *word == value).map(|(_, v)| *v).ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        Error::new(ErrorKind::Config, format!("{name}={value}: expected one of {}", words.join(", ")))
    })
}

pub(super) fn number(name: &str, value: &str, low: usize, high: usize) -> Result<usize> {
    value.parse().ok().filter(|n| (low..=high).contains(n)).ok_or_else(|| {
        Error::new(ErrorKind::Config, format!("{name}={value}: expected a whole number from {low} to {high}"))
    })
}

fn since_1970(seconds: u64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Reads a percentage and returns it as a fraction, above 0 and at most 1.
pub(super) fn percent(name: &str, value: &str) -> Result<f64> {
    Ok(above_zero(name, value, 100.0)? / 100.0)
}

pub(super) fn hours(name: &str, value: &str) -> Result<Duration> {
    Ok(Duration::from_secs_f64(above_zero(name, value, MAX_HOURS)? * 3600.0))
}

fn above_zero(name: &str, value: &str, high: f64) -> Result<f64> {
    value.parse().ok().filter(|n| *n > 0.0 && *n <= high).ok_or_else(|| {
        Error::new(ErrorKind::Config, format!("{name}={value}: expected a number above 0 and at most {high}"))
    })
}

fn micros(name: &str, value: &str) -> Result<Duration> {
    Ok(Duration::from_micros(number(name, value, 0, 60_000_000)? as u64))
}

/// Reads the path of a directory, which need not exist yet.
pub(super) fn directory(name: &str, value: &str) -> Result<PathBuf> {
    if value.is_empty() {
        return Err(Error::new(ErrorKind::Config, format!("{name}=: expected a directory")));
    }
    Ok(PathBuf::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> Result<Config> {
        Config::from_lookup(move |asked| (asked == name).then(|| value.to_string()))
    }

    #[test]
    fn every_variable_is_parsed() {
        assert_eq!(with("ARMATURE_TRANSPORT", "local").unwrap().transport, TransportChoice::Local);
        assert_eq!(with("ARMATURE_RANKS", "6").unwrap().ranks, Some(6));
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
        assert_eq!(with("ARMATURE_BALANCE", "once").unwrap().balance, Some(Balance::Once));
        assert_eq!(with("ARMATURE_EVENTS", "log").unwrap().events, Some(PathBuf::from("log")));
        assert!(!with("ARMATURE_CHECK_BUILD", "off").unwrap().check_build);
        assert!(!with("ARMATURE_CHECK_ARGUMENTS", "off").unwrap().check_arguments);
        assert_eq!(with("ARMATURE_JOB_STATUS", "v").unwrap().job_status, Some(PathBuf::from("v")));
        assert!(
            (with("ARMATURE_CHECKPOINT_OVERHEAD", "2.5").unwrap().checkpoint_overhead - 0.025).abs() < 1e-12
        );
        let c = with("ARMATURE_MTBF_HOURS", "0.5").unwrap();
        assert_eq!(c.mean_time_between_failures, Duration::from_secs(1800));
        assert_eq!(with("ARMATURE_RUN", "r").unwrap().run_directory, Some(PathBuf::from("r")));
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(9);
        assert_eq!(with("ARMATURE_END_TIME", "9").unwrap().end_time, Some(end));
        assert!(with("ARMATURE_END_TIME", "soon").is_err());
        let platform =
            with("ARMATURE_PLATFORM", r#"{"processors": [{"host": "a", "count": 3}]}"#).unwrap().platform;
        assert_eq!(platform.unwrap().processors[0].count, 3);
        assert!(with("ARMATURE_PLATFORM", "a").unwrap_err().to_string().contains("processors as JSON"));
        let c = with("ARMATURE_IDLE_MICROSECONDS", "20").unwrap();
        assert_eq!(c.idle_sleep, Duration::from_micros(20));
        let c = with("ARMATURE_BATCH_MICROSECONDS", "70").unwrap();
        assert_eq!(c.batch_time, Duration::from_micros(70));
    }

    #[test]
    fn every_read_variable_is_listed_and_documented() {
        let asked = std::cell::RefCell::new(Vec::new());
        Config::from_lookup(|name| {
            asked.borrow_mut().push(name.to_string());
            None
        })
        .unwrap();
        assert_eq!(*asked.borrow(), super::super::variables::SETTINGS);
        for name in asked.into_inner() {
            assert!(
                include_str!("mod.rs").contains(&format!("/// | `{name}` | ")),
                "{name} is not in the table"
            );
        }
    }

    #[test]
    fn bad_values_are_refused_with_name_value_and_expectation() {
        let e = with("ARMATURE_RANKS", "many").unwrap_err();
        assert_eq!(e.to_string(), "ARMATURE_RANKS=many: expected a whole number from 1 to 4096");
        let e = with("ARMATURE_BIND", "socket").unwrap_err();
        assert_eq!(e.to_string(), "ARMATURE_BIND=socket: expected one of core, none");
        assert!(with("ARMATURE_SPLIT_BYTES", "0").is_err());
        let e = with("ARMATURE_CHECKPOINT_OVERHEAD", "0").unwrap_err();
        assert_eq!(
            e.to_string(),
            "ARMATURE_CHECKPOINT_OVERHEAD=0: expected a number above 0 and at most 100"
        );
        assert!(with("ARMATURE_MTBF_HOURS", "nan").is_err());
    }
}
