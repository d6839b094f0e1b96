//! A competing load: a process that keeps one core busy, all the time or in a square wave.
//!
//! The load is a program with the command `burn`: `armature-burner`, or the experiments' own binary started again. It stays
//! in the session of its parent, as the ranks beside it do: where the kernel groups processes by session (autogroup), a
//! load in a session of its own would take more than its half of the core. It ends when its [`Burner`] is dropped, and
//! also if its parent is killed: it reads a pipe of which the parent has the other end.
//!
//! The same [`Wave`] makes hosts of a simulated cluster slow and fast again ([`Wave::simgrid`]).
//!
//! ```no_run
//! # fn main() -> Result<(), armature::BoxError> {
//! use std::time::Duration;
//! use armature_tests::burner::{Load, Wave, share};
//!
//! let wave = Wave::new(Duration::from_secs(1), 0.5)?.seeded(7);
//! let burner = Load::on_core(1).wave(wave).start()?;
//! // ... what has to live with it; at best it keeps this much of the core:
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

/// A load to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    core: usize,
    wave: Wave,
}

impl Load {
    /// A load that never rests, on the core of this number of the system's.
    pub fn on_core(core: usize) -> Self {
        Load { core, wave: Wave::STEADY }
    }

    /// The load comes and goes.
    pub fn wave(self, wave: Wave) -> Self {
        Load { wave, ..self }
    }

    /// Starts the load; it is on its core when this returns. For programs that hand `burn` to [`main`].
    ///
    /// # Errors
    /// If this binary cannot be started again, or the core does not exist or may not be used.
    pub fn start(self) -> Result<Burner, BoxError> {
        let this = std::env::current_exe().map_err(|e| format!("cannot find this binary: {e}"))?;
        self.start_from(&this)
    }

    /// As [`start`](Load::start), from another binary that has the command `burn`: a test is not the program itself.
    ///
    /// # Errors
    /// As [`start`](Load::start).
    pub fn start_from(self, binary: &Path) -> Result<Burner, BoxError> {
        let mut child = Command::new(binary)
            .arg("burn")
            .args(self.words())
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

    fn words(self) -> Vec<String> {
        [self.core.to_string()].into_iter().chain(self.wave.words()).collect()
    }

    fn parse(words: &[String]) -> Result<Self, BoxError> {
        let [core, wave @ ..] = words else { return Err("expected burn CORE PERIOD BUSY PHASE".into()) };
        let core = core.parse().map_err(|_| format!("expected the number of a core, not `{core}`"))?;
        Ok(Load { core, wave: Wave::parse(wave)? })
    }
}

/// What a load says when it is on its core.
const READY: &str = "ready\n";

/// A load that runs; it ends when this is dropped.
#[derive(Debug)]
pub struct Burner {
    child: Child,
    since: Instant,
}

impl Burner {
    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time that it has had, in whole ticks of the system (10 ms as a rule).
    ///
    /// # Errors
    /// If the system does not say.
    pub fn cpu_time(&self) -> Result<Duration, BoxError> {
        let path = format!("/proc/{}/stat", self.id());
        let text = std::fs::read_to_string(&path).map_err(|e| format!("cannot read {path}: {e}"))?;
        let ticks =
            ticks(&text).ok_or_else(|| format!("{path}: expected the line of proc(5), got `{text}`"))?;
        Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
    }

    /// The part of a core that it has had since it was started: a half beside a rank that never rests, if all is well.
    ///
    /// # Errors
    /// As [`cpu_time`](Burner::cpu_time).
    pub fn part(&self) -> Result<f64, BoxError> {
        let time = self.since.elapsed();
        Ok(self.cpu_time()?.as_secs_f64() / time.as_secs_f64())
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        // Either fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ticks in user and in system mode, from the text of /proc/PID/stat: the 14th and 15th field, counted behind the name.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11).map(|field| field.parse::<u64>());
    Some(fields.next()?.ok()? + fields.next()?.ok()?)
}

/// The process of a load: `burn CORE PERIOD BUSY PHASE`, the last three in nanoseconds. Ends when its standard input does.
///
/// # Errors
/// If the arguments are wrong, or the core does not exist or may not be used.
pub fn main(words: &[String]) -> Result<(), BoxError> {
    let load = Load::parse(words)?;
    cores::pin(load.core)?;
    thread::spawn(|| {
        // Nobody writes: this returns when the parent closes its end or is gone, however that came.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    print!("{READY}");
    std::io::Write::flush(&mut std::io::stdout())?;
    let start = Instant::now();
    loop {
        match load.wave.at(start.elapsed()) {
            (true, left) => cores::spin(left),
            // Woken early it looks again.
            (false, left) => thread::sleep(left.min(Duration::from_secs(3600))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_comes_back_from_its_arguments() {
        let load = Load::on_core(3).wave(Wave::new(Duration::from_millis(20), 0.25).unwrap().seeded(7));
        assert_eq!(Load::parse(&load.words()).unwrap(), load);
        assert_eq!(Load::parse(&Load::on_core(1).words()).unwrap(), Load::on_core(1));
    }

    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "7 (a) b ) R 1 1 1 0 -1 4194304 100 0 0 0 250 31 5 6 20 0 2 0 99 0 0";
        assert_eq!(ticks(stat), Some(281));
        assert_eq!(ticks("7 (burner) R 1 1 1"), None);
    }

    #[test]
    fn nonsense_is_refused() {
        for words in ["", "0 1000 1", "x 1000 1 0", "0 1000 2000 0", "0 0 0 0"] {
            let words: Vec<String> = words.split_whitespace().map(str::to_string).collect();
            assert!(Load::parse(&words).is_err(), "{words:?}");
        }
    }
}
