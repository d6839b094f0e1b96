//! The functions by which a program can tell that it runs under SimGrid SMPI, and use its time.
//!
//! They are looked up at run time, so one source serves real and simulated runs.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_uint};
use std::sync::OnceLock;
use std::time::Duration;

/// SMPI's own functions, present only in a simulated process.
#[derive(Clone, Copy)]
struct Simulator {
    /// Advances this rank's time by so many operations at its host's speed. This variant does not add the
    /// time that other ranks' code took on the real processor.
    execute_flops: unsafe extern "C" fn(f64),
    usleep: unsafe extern "C" fn(c_uint) -> c_int,
}

fn simulator() -> Option<Simulator> {
    static SIMULATOR: OnceLock<Option<Simulator>> = OnceLock::new();
    *SIMULATOR.get_or_init(|| {
        let execute_flops = symbol(c"smpi_execute_flops_benched")?;
        let usleep = symbol(c"smpi_usleep")?;
        // SAFETY: these are functions of SimGrid's public header smpi/smpi.h with exactly these signatures.
        unsafe {
            Some(Simulator {
                execute_flops: std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn(f64)>(
                    execute_flops,
                ),
                usleep: std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn(c_uint) -> c_int>(
                    usleep,
                ),
            })
        }
    })
}

#[cfg(target_os = "linux")]
fn symbol(name: &CStr) -> Option<*mut std::ffi::c_void> {
    // SAFETY: this is dlsym of the system's C library.
    unsafe extern "C" {
        fn dlsym(handle: *mut std::ffi::c_void, name: *const std::ffi::c_char) -> *mut std::ffi::c_void;
    }
    // SAFETY: a null handle is RTLD_DEFAULT on Linux, and `name` ends with a zero byte.
    let address = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

#[cfg(not(target_os = "linux"))]
fn symbol(_: &CStr) -> Option<*mut std::ffi::c_void> {
    None
}

/// True if this process is a simulated rank.
pub(crate) fn simulated() -> bool {
    simulator().is_some()
}

/// The time of this rank: simulated under SMPI, MPI's wall clock otherwise.
pub(crate) fn now() -> Duration {
    Duration::try_from_secs_f64(::mpi::time()).unwrap_or_default()
}

/// Charges `flops` floating-point operations to this rank's simulated host; nothing on a real one.
#[inline]
pub(crate) fn charge(flops: f64) {
    if flops > 0.0
        && let Some(simulator) = simulator()
    {
        // SAFETY: the function takes any positive number of operations; only ranks call it.
        unsafe { (simulator.execute_flops)(flops) }
    }
}

/// Lets simulated time pass, or sleeps.
pub(crate) fn sleep(time: Duration) {
    match simulator() {
        Some(simulator) => {
            let micros = time.as_nanos().div_ceil(1000);
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
