//! The functions by which a program can tell that it runs under SimGrid SMPI, and use its time.
//!
//! They are looked up at run time, so one source serves real and simulated runs.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

// SAFETY: such a function is called by a rank of the simulation alone, with a positive number.
type ExecuteFlops = unsafe extern "C" fn(f64);
// SAFETY: such a function is called by a rank of the simulation alone; any number will do.
type Usleep = unsafe extern "C" fn(c_uint) -> c_int;
// SAFETY: such a function is called by a rank of the simulation alone. The host lives as long as the simulation.
type HostSelf = unsafe extern "C" fn() -> *mut c_void;
// SAFETY: such a function is called with a host that a [`HostSelf`] has returned.
type OfHost = unsafe extern "C" fn(*const c_void) -> f64;

/// SMPI's own functions, present only in a simulated process.
#[derive(Clone, Copy)]
struct Simulator {
    /// Advances this rank's time by what its argument, a number of operations, takes at its host's speed. This variant does not add the
    /// time that other ranks' code took on the real processor.
    execute_flops: ExecuteFlops,
    usleep: Usleep,
    host: HostSelf,
    /// Operations per second of a host, and the part of them that it offers now.
    speed: OfHost,
    available: OfHost,
}

/// Sends of fewer bytes are over when they have begun: the simulator has copied them (`smpi/send-is-detached-thresh`).
pub(crate) const DETACHED: usize = 65_536;

/// Work that was declared and whose time has not passed yet, in seconds; `None` while time passes with it.
///
/// A rank is one thread of the simulator, so its user code cannot run beside its communication. Instead its time is
/// put off: the rank does the work, reads clocks that are ahead by its cost, and goes on communicating until the
/// simulated time has caught up.
static AHEAD: Mutex<Option<f64>> = Mutex::new(None);

fn ahead() -> MutexGuard<'static, Option<f64>> {
    // Nothing panics while it is held.
    AHEAD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn simulator() -> Option<Simulator> {
    static SIMULATOR: OnceLock<Option<Simulator>> = OnceLock::new();
    *SIMULATOR.get_or_init(|| {
        let execute_flops = symbol(c"smpi_execute_flops_benched")?;
        let usleep = symbol(c"smpi_usleep")?;
        let host = symbol(c"sg_host_self")?;
        let (speed, available) = (symbol(c"sg_host_get_speed")?, symbol(c"sg_host_get_available_speed")?);
        // SAFETY: these are functions of SimGrid's public headers smpi/smpi.h and simgrid/host.h with exactly these
        // signatures; a host is an opaque pointer.
        unsafe {
            Some(Simulator {
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
    // SAFETY: this is dlsym of the system's C library.
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, name: *const std::ffi::c_char) -> *mut c_void;
    }
    // SAFETY: a null handle is RTLD_DEFAULT on Linux, and `name` ends with a zero byte.
    let address = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

#[cfg(not(target_os = "linux"))]
fn symbol(_: &CStr) -> Option<*mut c_void> {
    None
}

/// True if this process is a simulated rank.
pub(crate) fn simulated() -> bool {
    simulator().is_some()
}

/// The time of this rank: simulated under SMPI, MPI's wall clock otherwise. Ahead while work is put off.
pub(crate) fn now() -> Duration {
    Duration::try_from_secs_f64(::mpi::time() + ahead().unwrap_or(0.0)).unwrap_or_default()
}

/// Does `work` without letting the time pass that is declared in it; returns when that time will have passed.
pub(crate) fn put_off<R>(work: impl FnOnce() -> R) -> (R, Duration) {
    *ahead() = Some(0.0);
    let result = work();
    let done = now();
    *ahead() = None;
    (result, done)
}

/// Charges `flops` floating-point operations to this rank's simulated host; nothing on a real one.
#[inline]
pub(crate) fn charge(flops: f64) {
    if flops > 0.0
        && let Some(simulator) = simulator()
    {
        if let Some(ahead) = &mut *ahead() {
            // SAFETY: only ranks get here; each runs on a host, which lives as long as the simulation.
            let speed = unsafe {
                let host = (simulator.host)();
                (simulator.speed)(host) * (simulator.available)(host)
            };
            *ahead += flops / speed;
            return;
        }
        // SAFETY: the function takes any positive number of operations; only ranks call it.
        unsafe { (simulator.execute_flops)(flops) }
    }
}

/// Lets simulated time pass, or sleeps.
pub(crate) fn sleep(time: Duration) {
    match simulator() {
        Some(simulator) => {
            let micros = time.as_nanos().div_ceil(Duration::from_micros(1).as_nanos());
            let micros = c_uint::try_from(micros).unwrap_or(c_uint::MAX);
            // SAFETY: the function takes any number of microseconds.
            unsafe { (simulator.usleep)(micros) };
        }
        None => std::thread::sleep(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_binary_is_not_simulated_and_charging_costs_nothing() {
        assert!(!simulated());
        let start = std::time::Instant::now();
        charge(1e15);
        charge(f64::NAN);
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}
