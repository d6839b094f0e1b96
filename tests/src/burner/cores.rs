//! Which core a thread runs on, and how much of it.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use armature::BoxError;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// The share of a core that a thread keeps that never rests: 1 where it is alone, a half beside a load that never
/// rests either. It is the physical bound of what a rank on that core can do.
///
/// # Errors
/// If the core does not exist or may not be used.
pub fn share(core: usize, time: Duration) -> Result<f64, BoxError> {
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
pub(super) fn pin(core: usize) -> Result<(), String> {
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
pub fn pin_rank(cores: &[usize]) -> Result<(), BoxError> {
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
pub fn two_cores() -> Result<[usize; 2], BoxError> {
    let set = sched_getaffinity(None).map_err(|e| format!("cannot see the cores: {e}"))?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core));
    match (cores.next(), cores.next()) {
        (Some(first), Some(second)) => Ok([first, second]),
        _ => Err("this takes two cores".into()),
    }
}

/// Keeps the core busy for so long.
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
    fn there_is_no_share_of_a_core_that_does_not_exist() {
        assert!(share(CpuSet::MAX_CPU, Duration::ZERO).is_err());
    }
}
