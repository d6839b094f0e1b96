//! Clock of a rank (wall time, or simulated time under SimGrid), and the cost of work that a program declares for simulated runs.
//!
//! No other code of the runtime reads a clock, so that one program runs on real and on simulated ranks.

use std::time::{Duration, Instant};

/// Clock of a rank. A clock is cheap to copy; the clocks of different ranks are not comparable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    Wall(Instant),
    #[cfg(feature = "mpi")]
    Simulated,
}

impl Clock {
    pub(crate) fn wall() -> Self {
        Clock::Wall(Instant::now())
    }

    #[cfg(test)]
    pub(crate) fn stopped() -> Self {
        // A wall clock whose start is in the future shows zero, because elapsed time is never negative.
        Clock::Wall(Instant::now() + Duration::from_secs(86_400))
    }

    #[inline]
    pub(crate) fn now(&self) -> Duration {
        match self {
            Clock::Wall(start) => start.elapsed(),
            #[cfg(feature = "mpi")]
            Clock::Simulated => crate::comm::mpi::simgrid::now(),
        }
    }

    /// Returns the CPU time of the calling thread, which does not include time in which the thread has no core. Under the simulator ranks do not
    /// share hosts, and the result is the time of the clock.
    ///
    /// An interval that is measured by both clocks begins with a call of [`now`](Clock::now) before that of `cpu`, and ends with the calls in the
    /// opposite order. A thread that shares its core often loses the core while it reads its CPU time, and in another order the measurement would
    /// lack this loss.
    #[inline]
    pub(crate) fn cpu(&self) -> Duration {
        if self.is_simulated() {
            return self.now();
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        // The conversions of the CPU time are exact, because its seconds and nanoseconds are non-negative.
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
    }

    /// Runs `work` as if another thread ran it: under the simulator, time that `work` declares does not pass on this rank. Returns the result and the
    /// time at which the work is complete.
    pub(crate) fn postpone<R>(&self, work: impl FnOnce() -> R) -> (R, Duration) {
        #[cfg(feature = "mpi")]
        if self.is_simulated() {
            return crate::comm::mpi::simgrid::postpone(work);
        }
        let result = work();
        (result, self.now())
    }

    /// Returns true under the simulator, where computation takes time only if it is declared.
    pub(crate) fn is_simulated(&self) -> bool {
        !matches!(self, Clock::Wall(_))
    }
}

/// Clock of a [`Session`](crate::Session), for user code that runs while a farm, pipeline, loop or workflow borrows the session, for example in a
/// sink.
///
/// Under a simulator the clock shows simulated time. It is valid on the rank on which it was obtained.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(pub(crate) Clock);

impl Stopwatch {
    /// Returns the time since the rank started, like [`Session::elapsed`](crate::Session::elapsed).
    pub fn elapsed(&self) -> Duration {
        self.0.now()
    }
}

/// Runs `work` and accounts for its cost. On a real machine the work takes its actual time. Under the simulator, where computation takes no
/// time, `flops` floating-point operations are charged to the host of this rank.
///
/// `flops` is the cost of the work on any host; it is ignored on a real machine.
///
/// ```
/// let sum: u64 = armature::declare(1_000.0, || (0..1_000u64).sum());
/// assert_eq!(sum, 499_500);
/// ```
pub fn declare<R>(flops: f64, work: impl FnOnce() -> R) -> R {
    #[cfg(feature = "mpi")]
    crate::comm::mpi::simgrid::charge(flops);
    #[cfg(not(feature = "mpi"))]
    let _ = flops;
    work()
}
