//! Binds threads to cores, and measures the share of a core that a thread gets.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use armature::BoxError;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Returns the share of a core that a thread gets if it never rests: 1 if the thread is alone, one half if it competes with a load that never rests
/// either. A rank on this core can reach at most this fraction of its speed.
///
/// # Errors
/// Returns an error if the core does not exist or may not be used.
pub fn share(core: usize, time: Duration) -> Result<f64, BoxError> {
    // The share of the core is measured on another thread, so that the calling thread does not get bound to the core.
    let measure = move || -> Result<f64, String> {
        pin(core)?;
        let (start, before) = (Instant::now(), thread_time());
        spin(time);
        Ok((thread_time() - before).as_secs_f64() / start.elapsed().as_secs_f64())
    };
    let share = thread::spawn(measure).join().map_err(|_| "the thread that measures a core failed")?;
    Ok(share?)
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

pub(super) fn pin(core: usize) -> Result<(), String> {
    if core >= CpuSet::MAX_CPU {
        return Err(format!("there is no core {core}"));
    }
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|e| format!("cannot run on core {core}: {e}"))
}

/// Binds this process to a core if mpirun has started the process as one of several ranks. A rank program calls
/// this function before it starts MPI and threads. The ranks are divided evenly among the cores, the first ranks on
/// the first core. If `cores` is empty, the process is not bound.
///
/// # Errors
/// Returns an error if the core does not exist or may not be used.
pub fn pin_rank(cores: &[usize]) -> Result<(), BoxError> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
    let place = number("OMPI_COMM_WORLD_RANK").zip(number("OMPI_COMM_WORLD_SIZE"));
    if let Some((rank, size)) = place.filter(|_| !cores.is_empty()) {
        pin(cores[rank * cores.len() / size.max(1)])?;
    }
    Ok(())
}

/// Returns the first two cores that this process may use.
///
/// # Errors
/// Returns an error if there are fewer than two.
pub fn two_cores() -> Result<[usize; 2], BoxError> {
    let set = sched_getaffinity(None).map_err(|e| format!("cannot see the cores: {e}"))?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core));
    match (cores.next(), cores.next()) {
        (Some(first), Some(second)) => Ok([first, second]),
        _ => Err("this takes two cores".into()),
    }
}

pub(super) fn spin(time: Duration) {
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
    fn share_of_a_nonexistent_core_is_an_error() {
        assert!(share(CpuSet::MAX_CPU, Duration::ZERO).is_err());
    }
}
