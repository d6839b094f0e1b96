//! Time and declared work: wall time on real ranks, simulated time under SimGrid.
//!
//! Nothing else in the runtime reads a clock, so that one program runs on both.

use std::time::{Duration, Instant};

/// A rank's clock. Cheap to copy; readings of different ranks are not comparable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// Wall time since the clock was made.
    Wall(Instant),
    /// The simulator's time.
    #[cfg(feature = "mpi")]
    Simulated,
}

impl Clock {
    /// A wall clock that starts now.
    pub(crate) fn wall() -> Self {
        Clock::Wall(Instant::now())
    }

    /// Time since this clock's start.
    #[inline]
    pub(crate) fn now(&self) -> Duration {
        match self {
            Clock::Wall(start) => start.elapsed(),
            #[cfg(feature = "mpi")]
            Clock::Simulated => crate::comm::mpi::simgrid::now(),
        }
    }

    /// Time that the calling thread has computed for, so that what passes between two readings without the thread having
    /// a core does not count. Under the simulator no rank shares its host, and this is the clock's time.
    ///
    /// Where both are read, [`now`](Clock::now) is read first at the begin and last at the end: a thread that shares its core
    /// often loses it while it reads its CPU time, and that time would be missing from what the work took.
    #[inline]
    pub(crate) fn cpu(&self) -> Duration {
        if self.is_simulated() {
            return self.now();
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        // Neither is negative.
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
    }

    /// Does `work` as if another thread did it: under the simulator the time that is declared in it does not pass
    /// here. Returns when it is done.
    pub(crate) fn put_off<R>(&self, work: impl FnOnce() -> R) -> (R, Duration) {
        #[cfg(feature = "mpi")]
        if self.is_simulated() {
            return crate::comm::mpi::simgrid::put_off(work);
        }
        let result = work();
        (result, self.now())
    }

    /// True under the simulator, where computing costs nothing unless it is declared.
    pub(crate) fn is_simulated(&self) -> bool {
        !matches!(self, Clock::Wall(_))
    }
}

/// The clock of a [`Session`](crate::Session), for user code that runs while the session is busy: in a sink, say.
///
/// It goes by simulated time under a simulator, and belongs to the rank that it was taken on.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(pub(crate) Clock);

impl Stopwatch {
    /// Time since the rank started; the same as [`Session::elapsed`](crate::Session::elapsed).
    pub fn elapsed(&self) -> Duration {
        self.0.now()
    }
}

/// Does `work` and accounts for it: on a real machine the work takes the time it takes; under the
/// simulator, where computing is free, `flops` floating-point operations are charged to this rank's host.
///
/// `flops` is what the work would cost on any host; it is ignored on a real machine.
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
