//! Parallel evaluation of a function on independent arguments.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Calls `answer` for each element of `questions` on several threads, and returns the results in the order of the questions. The number of threads
/// affects only the time; 0 uses all cores.
pub fn answers<Q: Sync, A: Send>(questions: &[Q], threads: usize, answer: impl Fn(&Q) -> A + Sync) -> Vec<A> {
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = if threads == 0 { cores() } else { threads }.min(questions.len());
    if threads <= 1 {
        return questions.iter().map(answer).collect();
    }
    let next = AtomicUsize::new(0);
    let answered = Mutex::new(Vec::with_capacity(questions.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(question) = questions.get(number) else { break };
                    let answer = answer(question);
                    answered.lock().unwrap_or_else(PoisonError::into_inner).push((number, answer));
                }
            });
        }
    });
    let mut answered = answered.into_inner().unwrap_or_else(PoisonError::into_inner);
    answered.sort_by_key(|&(number, _)| number);
    answered.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_inputs() {
        let questions: Vec<usize> = (0..100).collect();
        let squares: Vec<usize> = questions.iter().map(|n| n * n).collect();
        for threads in [0, 1, 3, 200] {
            assert_eq!(answers(&questions, threads, |n| n * n), squares);
        }
        assert!(answers(&[] as &[usize], 4, |n| *n).is_empty());
    }
}
