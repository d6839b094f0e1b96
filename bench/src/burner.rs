//! A competing load: a process that keeps one core busy, all the time or in a square wave.
//!
//! The load is this binary, started again with the hidden command `burn`. It stays in the session of its parent, as the
//! ranks of an experiment do: where the kernel groups processes by session (autogroup), a load in a session of its own
//! would take more than its half of the core. It ends when its [`Burner`] is dropped, and also if its parent is killed:
//! it reads a pipe of which the parent has the other end.
//!
//! ```no_run
//! # fn main() -> armature_bench::Outcome {
//! use std::time::Duration;
//! use armature_bench::burner::{Load, share};
//!
//! let burner = Load::on_core(1).wave(Duration::from_secs(1), 0.5).start()?;
//! // ... what has to live with it; at best it keeps this much of the core:
//! let bound = share(1, Duration::from_secs(2))?;
//! drop(burner);
//! # Ok(())
//! # }
//! ```

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng, rngs::StdRng};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::Outcome;

/// A load to be started.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The core, by the system's number.
    pub core: usize,
    /// From one rising edge to the next.
    pub period: Duration,
    /// The part of each period that is busy, from 0 to 1; with 1 there are no edges.
    pub duty: f64,
    /// Decides where in its period the load begins.
    pub seed: u64,
}

impl Load {
    /// A load that never rests.
    pub fn on_core(core: usize) -> Self {
        Load { core, period: Duration::from_secs(1), duty: 1.0, seed: 0 }
    }

    /// The load comes and goes: busy for `duty` of each `period`.
    pub fn wave(self, period: Duration, duty: f64) -> Self {
        Load { period, duty, ..self }
    }

    /// Another seed for the place in the period where the load begins.
    pub fn seed(self, seed: u64) -> Self {
        Load { seed, ..self }
    }

    /// Starts the load; it is on its core when this returns. For programs that hand `burn` to [`main`].
    ///
    /// # Errors
    /// If this binary cannot be started again, or the core does not exist or may not be used.
    pub fn start(self) -> Outcome<Burner> {
        let this = std::env::current_exe().map_err(|e| format!("cannot find this binary: {e}"))?;
        self.start_from(&this)
    }

    /// As [`start`](Load::start), from another binary that has the command `burn`: a test is not the program itself.
    ///
    /// # Errors
    /// As [`start`](Load::start).
    pub fn start_from(self, binary: &Path) -> Outcome<Burner> {
        let mut child = Command::new(binary)
            .arg("burn")
            .args(self.words())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start a load from {}: {e}", binary.display()))?;
        let output = child.stdout.take();
        let burner = Burner { child };
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output).read_line(&mut line)?;
        }
        if line == READY {
            Ok(burner)
        } else {
            Err(format!("the load on core {} did not start: expected `ready`, got `{line}`", self.core)
                .into())
        }
    }

    fn words(self) -> [String; 4] {
        let Load { core, period, duty, seed } = self;
        [core.to_string(), period.as_micros().to_string(), duty.to_string(), seed.to_string()]
    }

    fn parse(words: &[String]) -> Outcome<Self> {
        let [core, period, duty, seed] = words else {
            return Err("expected burn CORE PERIOD_MICROSECONDS DUTY SEED".into());
        };
        let load = Load {
            core: core.parse()?,
            period: Duration::from_micros(period.parse()?),
            duty: duty.parse()?,
            seed: seed.parse()?,
        };
        if load.period.is_zero() || !(0.0..=1.0).contains(&load.duty) {
            return Err(format!("a period above 0 and a duty from 0 to 1 are needed, not {load:?}").into());
        }
        Ok(load)
    }
}

/// What a load says when it is on its core.
const READY: &str = "ready\n";

/// A load that runs; it ends when this is dropped.
#[derive(Debug)]
pub struct Burner {
    child: Child,
}

impl Burner {
    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        // Either fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process of a load: `burn CORE PERIOD_MICROSECONDS DUTY SEED`. Ends when its standard input does.
///
/// # Errors
/// If the arguments are wrong, or the core does not exist or may not be used.
pub fn main(words: &[String]) -> Outcome {
    let load = Load::parse(words)?;
    pin(load.core)?;
    thread::spawn(|| {
        // Nobody writes: this returns when the parent closes its end or is gone, however that came.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    print!("{READY}");
    std::io::Write::flush(&mut std::io::stdout())?;
    let busy = load.period.mul_f64(load.duty);
    let phase = load.period.mul_f64(StdRng::seed_from_u64(load.seed).random());
    let start = Instant::now();
    loop {
        let period = load.period.as_nanos();
        let at = Duration::from_nanos((((start.elapsed() + phase).as_nanos()) % period) as u64);
        if load.duty >= 1.0 {
            spin(Duration::from_secs(1));
        } else if at < busy {
            spin(busy - at);
        } else {
            thread::sleep(load.period - at);
        }
    }
}

/// The share of a core that a thread keeps that never rests: 1 where it is alone, a half beside a load that never
/// rests either. It is the physical bound of what a rank on that core can do.
///
/// # Errors
/// If the core does not exist or may not be used.
pub fn share(core: usize, time: Duration) -> Outcome<f64> {
    // On a thread of its own, so that the caller stays where it is.
    let measure = move || -> Result<f64, String> {
        pin(core)?;
        let (start, before) = (Instant::now(), thread_time());
        spin(time);
        Ok((thread_time() - before).as_secs_f64() / start.elapsed().as_secs_f64())
    };
    let share = thread::spawn(measure).join().map_err(|_| "the thread that measures a core failed")?;
    Ok(share?)
}

/// CPU time of the calling thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Puts the calling thread on a core.
fn pin(core: usize) -> Result<(), String> {
    if core >= CpuSet::MAX_CPU {
        return Err(format!("there is no core {core}"));
    }
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|e| format!("cannot run on core {core}: {e}"))
}

/// Puts this process, if mpirun has started it as one of several ranks, on its core. For rank programs, before they start
/// MPI and threads. The cores are shared out in equal parts, the first ranks to the first core; with none it stays free.
///
/// # Errors
/// If the core does not exist or may not be used.
pub fn pin_rank(cores: &[usize]) -> Outcome {
    let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
    let place = number("OMPI_COMM_WORLD_RANK").zip(number("OMPI_COMM_WORLD_SIZE"));
    if let Some((rank, size)) = place.filter(|_| !cores.is_empty()) {
        pin(cores[rank * cores.len() / size.max(1)])?;
    }
    Ok(())
}

/// The first two cores that this process may use.
///
/// # Errors
/// If there are not two.
pub fn two_cores() -> Outcome<[usize; 2]> {
    let set = sched_getaffinity(None).map_err(|e| format!("cannot see the cores: {e}"))?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core));
    match (cores.next(), cores.next()) {
        (Some(first), Some(second)) => Ok([first, second]),
        _ => Err("this takes two cores".into()),
    }
}

/// Keeps the core busy for so long.
fn spin(time: Duration) {
    let start = Instant::now();
    let mut x = 1u64;
    while start.elapsed() < time {
        for _ in 0..1000 {
            x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_comes_back_from_its_arguments() {
        let load = Load::on_core(3).wave(Duration::from_millis(20), 0.25).seed(7);
        let back = Load::parse(&load.words()).unwrap();
        assert_eq!((back.core, back.period, back.duty, back.seed), (3, Duration::from_millis(20), 0.25, 7));
    }

    #[test]
    fn nonsense_is_refused() {
        for words in ["", "0 1000 1", "0 0 1 0", "0 1000 1.5 0", "0 1000 NaN 0", "x 1000 1 0"] {
            let words: Vec<String> = words.split_whitespace().map(str::to_string).collect();
            assert!(Load::parse(&words).is_err(), "{words:?}");
        }
        assert!(share(CpuSet::MAX_CPU, Duration::ZERO).is_err());
    }
}
