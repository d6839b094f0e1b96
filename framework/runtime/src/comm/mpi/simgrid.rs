//! SimGrid SMPI functions that show that a program runs in the simulator, and that control simulated time.
//!
//! The functions are looked up at run time, so that one program supports real and simulated runs.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

// SAFETY: only a rank of the simulation calls a function of this type, with a positive number of operations.
type ExecuteFlops = unsafe extern "C" fn(f64);
// SAFETY: only a rank of the simulation calls a function of this type, which takes any number of microseconds.
type Usleep = unsafe extern "C" fn(c_uint) -> c_int;
// SAFETY: only a rank of the simulation calls a function of this type. The returned host lives as long as the simulation.
type HostSelf = unsafe extern "C" fn() -> *mut c_void;
// SAFETY: a function of this type takes no arguments and can be called at any time.
type GetClock = unsafe extern "C" fn() -> f64;
// SAFETY: a function of this type is called only with the name of an option of SimGrid that exists, which ends with a zero byte.
type IsSet = unsafe extern "C" fn(*const c_char) -> c_int;
// SAFETY: a function of this type is called only with a host that a [`HostSelf`] has returned.
type OfHost = unsafe extern "C" fn(*const c_void) -> f64;

/// Functions of SMPI, which exist only in a simulated process.
#[derive(Clone, Copy)]
struct Simulator {
    /// Function that advances the time of this rank by the duration of the given number of operations at the speed of its host. It does not add the
    /// time for which the code of other ranks ran on the real processor.
    execute_flops: ExecuteFlops,
    usleep: Usleep,
    /// Function that returns the simulated time in seconds; `None` if the real time of computations counts, which only `MPI_Wtime` includes.
    clock: Option<GetClock>,
    host: HostSelf,
    /// Function that returns the operations per second of a host; `available` is the function that returns the fraction of them that the host offers
    /// at present.
    speed: OfHost,
    available: OfHost,
}

/// Size in bytes below which a send is complete when it has started, because the simulator has copied its data (`smpi/send-is-detached-thresh`).
pub(crate) const DETACHED: usize = 65_536;

/// Declared work in seconds whose simulated time has not passed yet; `None` if work is not deferred.
///
/// A rank is one thread of the simulator, so its user code cannot run concurrently with its communication. Instead the simulated time of the work is
/// deferred: the rank does the work, reads a clock that is ahead by the cost of the work, and continues to communicate until simulated time has
/// caught up.
static AHEAD: Mutex<Option<f64>> = Mutex::new(None);

fn ahead() -> MutexGuard<'static, Option<f64>> {
    // A poisoned lock is ignored: a panic cannot leave an invalid value behind the lock.
    AHEAD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn simulator() -> Option<Simulator> {
    static SIMULATOR: OnceLock<Option<Simulator>> = OnceLock::new();
    *SIMULATOR.get_or_init(|| {
        let execute_flops = symbol(c"smpi_execute_flops_benched")?;
        let usleep = symbol(c"smpi_usleep")?;
        let host = symbol(c"sg_host_self")?;
        let (speed, available) = (symbol(c"sg_host_get_speed")?, symbol(c"sg_host_get_available_speed")?);
        let (clock, is_set) = (symbol(c"simgrid_get_clock")?, symbol(c"sg_cfg_get_boolean")?);
        // SAFETY: the looked-up functions are declared in SimGrid's public headers smpi/smpi.h, simgrid/host.h, simgrid/engine.h and xbt/config.h
        // with exactly these signatures; a host is an opaque pointer. SMPI has defined the option before it starts ranks.
        unsafe {
            let is_set = std::mem::transmute::<*mut c_void, IsSet>(is_set);
            let is_measured = is_set(c"smpi/simulate-computation".as_ptr()) != 0;
            Some(Simulator {
                clock: (!is_measured).then(|| std::mem::transmute::<*mut c_void, GetClock>(clock)),
                execute_flops: std::mem::transmute::<*mut c_void, ExecuteFlops>(execute_flops),
                usleep: std::mem::transmute::<*mut c_void, Usleep>(usleep),
                host: std::mem::transmute::<*mut c_void, HostSelf>(host),
                speed: std::mem::transmute::<*mut c_void, OfHost>(speed),
                available: std::mem::transmute::<*mut c_void, OfHost>(available),
            })
        }
    })
}

#[cfg(target_os = "linux")]
fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the declaration is that of dlsym in the system's C library.
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    // SAFETY: a null handle is RTLD_DEFAULT on Linux, and `name` ends with a zero byte.
    let address = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

#[cfg(not(target_os = "linux"))]
fn symbol(_: &CStr) -> Option<*mut c_void> {
    None
}

pub(crate) fn simulated() -> bool {
    simulator().is_some()
}

/// Time that passes on this rank with each reading of the clock. It is the default of SMPI's `MPI_Wtime`: every measured duration is positive, and a
/// rank that polls until a time is reached does not poll forever.
const READING: Duration = Duration::from_nanos(10);

/// Time in nanoseconds that this rank has last read, without deferred work. It is ahead of the simulator's time while the rank reads its clock without
/// waiting.
static LAST_READ: AtomicU64 = AtomicU64::new(0);

/// Returns the time of this rank: simulated time under SMPI, MPI's wall clock otherwise. While work is deferred, the time includes the cost
/// of that work.
///
/// Under SMPI, `MPI_Wtime` reads two clocks of the processor and switches to other ranks, which took half of the time of a simulated workflow. It is
/// therefore called only if the real time of computations counts.
pub(crate) fn now() -> Duration {
    let seconds = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let time = match simulator().and_then(|simulator| simulator.clock) {
        Some(clock) => {
            // SAFETY: the function can be called at any time.
            let time = seconds(unsafe { clock() });
            let time = time.max(Duration::from_nanos(LAST_READ.load(Relaxed)) + READING);
            LAST_READ.store(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
            time
        }
        None => seconds(::mpi::time()),
    };
    time + seconds(ahead().unwrap_or(0.0))
}

/// Does `work` without advancing simulated time by the cost declared in it. Returns the result and the time at which the work is complete.
pub(crate) fn postpone<R>(work: impl FnOnce() -> R) -> (R, Duration) {
    *ahead() = Some(0.0);
    let result = work();
    let done = now();
    *ahead() = None;
    (result, done)
}

/// Charges `flops` floating-point operations to the simulated host of this rank; does nothing on a real host.
#[inline]
pub(crate) fn charge(flops: f64) {
    if flops > 0.0
        && let Some(simulator) = simulator()
    {
        if let Some(ahead) = &mut *ahead() {
            // SAFETY: only simulated ranks reach this line; each of them runs on a host, which lives as long as the simulation.
            let speed = unsafe {
                let host = (simulator.host)();
                (simulator.speed)(host) * (simulator.available)(host)
            };
            *ahead += flops / speed;
            return;
        }
        // SAFETY: SimGrid's function takes any positive number of operations; only simulated ranks call it.
        unsafe { (simulator.execute_flops)(flops) }
    }
}

/// Waits for the given time: under the simulator simulated time passes, on a real host the thread sleeps.
pub(crate) fn sleep(time: Duration) {
    match simulator() {
        Some(simulator) => {
            let micros = time.as_nanos().div_ceil(Duration::from_micros(1).as_nanos());
            let micros = c_uint::try_from(micros).unwrap_or(c_uint::MAX);
            // SAFETY: `usleep` takes any number of microseconds.
            unsafe { (simulator.usleep)(micros) };
        }
        None => std::thread::sleep(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charge_is_a_no_op_outside_the_simulator() {
        assert!(!simulated());
        let start = std::time::Instant::now();
        charge(1e15);
        charge(f64::NAN);
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}
