//! Competing load: a process that keeps one core busy, continuously or in a square wave.
//!
//! The load is a program with the command `burn`: either `armature-burner`, or the binary of the experiments, which
//! starts itself again. The load stays in the session of its parent, like the ranks that it competes with. Where
//! the kernel groups processes by session (autogroup), a load in a separate session would get more than half of the
//! core. The load ends when its [`Burner`] is dropped, and also when its parent is killed, because the load reads a
//! pipe whose other end belongs to the parent.
//!
//! A [`Wave`] can also slow down hosts of a simulated cluster periodically ([`Wave::simgrid`]).
//!
//! ```no_run
//! # fn main() -> Result<(), armature::BoxError> {
//! use std::time::Duration;
//! use armature_tests::burner::{Load, Wave, share};
//!
//! let wave = Wave::new(Duration::from_secs(1), 0.5)?.seeded(7);
//! let burner = Load::on_core(1).wave(wave).start()?;
//! // … the program under test; its share of the core is at most:
//! let bound = share(1, Duration::from_secs(2))?;
//! drop(burner);
//! # Ok(())
//! # }
//! ```

mod cores;
mod wave;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use armature::BoxError;

pub use cores::{pin_rank, share, two_cores};
pub use wave::Wave;

/// Load (a process) that competes with a program for a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    core: usize,
    wave: Wave,
}

impl Load {
    /// Returns a load that never rests, on the core with this number.
    pub fn on_core(core: usize) -> Self {
        Load { core, wave: Wave::ALWAYS_BUSY }
    }

    /// Makes the load busy and idle alternately, as `wave` describes.
    pub fn wave(self, wave: Wave) -> Self {
        Load { wave, ..self }
    }

    /// Starts the process of the load, and returns when it runs on its core. The calling program must pass its command `burn` to [`main`].
    ///
    /// # Errors
    /// Returns an error if this binary cannot be started again, or if the core does not exist or may not be used.
    pub fn start(self) -> Result<Burner, BoxError> {
        let this = std::env::current_exe().map_err(|e| format!("cannot find this binary: {e}"))?;
        self.start_from(&this)
    }

    /// Starts the process of the load like [`start`](Load::start), but from another program that has the command `burn`, which test programs do not
    /// have.
    ///
    /// # Errors
    /// Returns an error under the conditions of [`start`](Load::start).
    pub fn start_from(self, binary: &Path) -> Result<Burner, BoxError> {
        let mut child = Command::new(binary)
            .arg("burn")
            .args(self.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start a load from {}: {e}", binary.display()))?;
        let output = child.stdout.take();
        let burner = Burner { child, since: Instant::now() };
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output).read_line(&mut line)?;
        }
        if line == READY {
            Ok(burner)
        } else {
            let core = self.core;
            Err(format!("the load on core {core} did not start: expected `ready`, got `{line}`").into())
        }
    }

    fn arguments(self) -> Vec<String> {
        [self.core.to_string()].into_iter().chain(self.wave.arguments()).collect()
    }

    fn parse(arguments: &[String]) -> Result<Self, BoxError> {
        let [core, wave @ ..] = arguments else { return Err("expected burn CORE PERIOD BUSY PHASE".into()) };
        let core = core.parse().map_err(|_| format!("expected the number of a core, not `{core}`"))?;
        Ok(Load { core, wave: Wave::parse(wave)? })
    }
}

/// Line that the process of a load prints when it is bound to its core.
const READY: &str = "ready\n";

/// Running process of a load, which ends when this `Burner` is dropped.
#[derive(Debug)]
pub struct Burner {
    child: Child,
    since: Instant,
}

impl Burner {
    /// Returns the process ID of the running load.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the CPU time that the load has used, in whole clock ticks of the system (usually 10 ms).
    ///
    /// # Errors
    /// Returns an error if the system does not report the CPU time.
    pub fn cpu_time(&self) -> Result<Duration, BoxError> {
        let path = format!("/proc/{}/stat", self.id());
        let text = std::fs::read_to_string(&path).map_err(|e| format!("cannot read {path}: {e}"))?;
        let ticks =
            ticks(&text).ok_or_else(|| format!("{path}: expected the line of proc(5), got `{text}`"))?;
        Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
    }

    /// Returns the share of a core that the load has had since its start. A steady load that competes with a rank
    /// that never rests gets one half.
    ///
    /// # Errors
    /// Returns an error under the conditions of [`cpu_time`](Burner::cpu_time).
    pub fn part(&self) -> Result<f64, BoxError> {
        let time = self.since.elapsed();
        Ok(self.cpu_time()?.as_secs_f64() / time.as_secs_f64())
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the CPU time of a process in clock ticks: fields 14 (user mode) and 15 (system mode) of `/proc/PID/stat`, counted after the name, which
/// may contain spaces.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11).map(|field| field.parse::<u64>());
    Some(fields.next()?.ok()? + fields.next()?.ok()?)
}

/// Runs the process of a load: `burn CORE PERIOD BUSY PHASE`, the last three in nanoseconds. The process ends at
/// the end of its standard input.
///
/// # Errors
/// Returns an error if the arguments are wrong, or if the core does not exist or may not be used.
pub fn main(arguments: &[String]) -> Result<(), BoxError> {
    let load = Load::parse(arguments)?;
    cores::pin(load.core)?;
    thread::spawn(|| {
        // The parent process never writes to this pipe, so that the read ends when the parent has ended.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    print!("{READY}");
    std::io::Write::flush(&mut std::io::stdout())?;
    let start = Instant::now();
    loop {
        match load.wave.state_at(start.elapsed()) {
            (true, left) => cores::spin(left),
            (false, left) => thread::sleep(left.min(Duration::from_secs(3600))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_arguments_round_trip() {
        let load = Load::on_core(3).wave(Wave::new(Duration::from_millis(20), 0.25).unwrap().seeded(7));
        assert_eq!(Load::parse(&load.arguments()).unwrap(), load);
        assert_eq!(Load::parse(&Load::on_core(1).arguments()).unwrap(), Load::on_core(1));
    }

    #[test]
    fn cpu_ticks_are_parsed_with_any_process_name() {
        let stat = "7 (a) b ) R 1 1 1 0 -1 4194304 100 0 0 0 250 31 5 6 20 0 2 0 99 0 0";
        assert_eq!(ticks(stat), Some(281));
        assert_eq!(ticks("7 (burner) R 1 1 1"), None);
    }

    #[test]
    fn malformed_load_arguments_are_refused() {
        for arguments in ["", "0 1000 1", "x 1000 1 0", "0 1000 2000 0", "0 0 0 0"] {
            let arguments: Vec<String> = arguments.split_whitespace().map(str::to_string).collect();
            assert!(Load::parse(&arguments).is_err(), "{arguments:?}");
        }
    }
}
