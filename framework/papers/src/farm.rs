//! Equations of the model of master/worker programs (farms) that no decision of the runtime uses. Equation numbers
//! are those of Cesar et al., *Modeling Master/Worker applications for automatic performance tuning*, Parallel
//! Computing 32 (2006).

use armature_planner::farm::{IterationModel, MessageCosts, Protocol};
use armature_planner::{Error, ErrorKind, Result};

/// Returns two numbers of workers, not rounded to integers: the one with the shortest predicted time of an iteration,
/// and the one with the smallest performance index Pi (time divided by efficiency). `equation` selects equation 7, 8
/// or 9 of the paper of Cesar et al.; the start-up time `mo` of a message must not depend on its size. The time of
/// equation 8 decreases with every worker, so the first number is infinite.
///
/// The paper mentions the optima without formulas; they follow from the derivatives.
pub fn real_optima(model: &IterationModel, equation: u8) -> (f64, f64) {
    let (mo, carry) = (model.messages.start_up.small, model.messages.per_byte * model.volume);
    let beta = model.out * carry;
    let (all, without) = (model.compute + carry, model.compute + carry - beta);
    let index = |fixed: f64, spread: f64| (-fixed + (fixed * fixed + 12.0 * mo * spread).sqrt()) / (6.0 * mo);
    match equation {
        7 => ((all / mo).sqrt(), index(mo + model.master, all)),
        8 => (f64::INFINITY, without / (2.0 * mo + beta + model.master)),
        _ => ((without / mo).sqrt(), index(mo + beta + model.master, without)),
    }
}

/// Computes the seconds of an iteration with unbalanced load: equation 6 of the paper of Cesar et al., or the larger
/// of the times of equations 4 and 5. `to` and `from` are the bytes that each worker receives and sends, `work` is
/// its computing time (s), and `master` the time of the master (s). The model assumes that the worker that starts
/// last also ends last.
///
/// # Errors
/// [`ErrorKind::Farm`] if `to`, `from` and `work` differ in length, or are empty.
pub fn unbalanced_time(
    messages: &MessageCosts,
    protocol: Protocol,
    to: &[f64],
    from: &[f64],
    work: &[f64],
    master: f64,
) -> Result<f64> {
    if to.is_empty() || to.len() != from.len() || to.len() != work.len() {
        let lengths = (to.len(), from.len(), work.len());
        let message =
            format!("bytes there, bytes back and work need one entry for each worker, but have {lengths:?}");
        return Err(Error::new(ErrorKind::Farm, message));
    }
    let (n, last) = (to.len() as f64, to.len() - 1);
    let lambda = messages.per_byte;
    let mo = messages.start_up.of(to.iter().chain(from).sum::<f64>() / n);
    let end = work[last] + lambda * from[last] + master;
    let sent = lambda * to.iter().sum::<f64>();
    Ok(match protocol {
        Protocol::Synchronous => (n + 1.0) * mo + sent + end,
        Protocol::Asynchronous => ((n + 1.0) * mo + lambda * to[last]).max(2.0 * mo + sent) + end,
    })
}

/// Returns the idle fraction of the workers in an iteration of `time` seconds: 1 − mean busy time / time. 0 is perfect balance.
pub fn idle_index(busy: &[f64], time: f64) -> f64 {
    1.0 - busy.iter().sum::<f64>() / busy.len() as f64 / time
}

/// Returns an upper bound of the idle fraction of n workers, 1/(1 + (µ/σ)√(2/n)), for tasks whose times have the mean µ and the standard deviation σ,
/// if all tasks of one worker are equal. The bound is 0 if σ is 0.
pub fn idle_bound(workers: usize, mean: f64, deviation: f64) -> f64 {
    if deviation <= 0.0 {
        return 0.0;
    }
    1.0 / (1.0 + mean / deviation * (2.0 / workers as f64).sqrt())
}

/// Returns an upper bound of the time of an iteration of M tasks on n workers: µM/n + σM/√(2n), where µ and σ are the mean and the standard deviation
/// of the time of a task. [`idle_bound`] follows from this bound.
pub fn time_bound(workers: usize, tasks: u64, mean: f64, deviation: f64) -> f64 {
    let (x, m) = (workers as f64, tasks as f64);
    mean * m / x + deviation * m / (2.0 * x).sqrt()
}
