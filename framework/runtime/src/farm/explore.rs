//! Worker side of explorations, which are farms whose tasks create tasks. A rank searches a part of the tree of tasks depth first for a limited
//! time, and returns the tasks that it has not run.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::builder::Farm;
use super::traffic::ENOUGH_BYTES;
use super::worker::Worker;
use crate::context::Context;
use crate::error::{BoxError, Result};
use crate::user_code;
use crate::wire::{Item, Movable};

/// Time for which a rank searches before it returns the tasks that it has not run. If ranks are busy, sending the remaining tasks takes some tenths
/// of a millisecond, which would dominate a much shorter time. With a much longer time, an idle rank would wait for the only rank that has tasks.
const LONG: Duration = Duration::from_millis(10);
/// Time for which a rank searches while few tasks wait on rank 0, as at the start and at the end.
const SHORT: Duration = Duration::from_millis(1);
/// Collects the tasks that a task or a sink creates.
#[derive(Debug)]
pub struct More<I> {
    tasks: Vec<I>,
}

impl<I> More<I> {
    pub(super) fn new() -> Self {
        More { tasks: Vec::new() }
    }

    /// Adds a task, which the farm runs later.
    pub fn push(&mut self, task: I) {
        self.tasks.push(task);
    }

    pub(super) fn take(&mut self) -> Vec<I> {
        std::mem::take(&mut self.tasks)
    }
}

impl<I> Extend<I> for More<I> {
    fn extend<T: IntoIterator<Item = I>>(&mut self, tasks: T) {
        self.tasks.extend(tasks);
    }
}

/// A task of an [`Exploration`] as it is sent to a rank, with the time limit of the rank's search below it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Part<I> {
    pub(super) task: I,
    number: u64,
    /// True if a rank may have died in a task from which this task descends: each task of such a subtree runs separately, so that the task that
    /// ends processes is found.
    alone: bool,
    budget: Duration,
}

impl<I> Part<I> {
    pub(super) fn new(task: I, alone: bool) -> Self {
        Part { task, number: 0, alone, budget: Duration::ZERO }
    }

    #[cfg(test)]
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Prepares the task for dispatch with the number `number`. `scarce` is true while few tasks wait on rank 0; the rank that gets the task then
    /// searches for a shorter time. Returns true if ranks may have died in the task.
    pub(super) fn take(&mut self, number: u64, scarce: bool) -> bool {
        self.number = number;
        self.budget = match (self.alone, scarce) {
            (true, _) => Duration::ZERO,
            (false, true) => SHORT,
            (false, false) => LONG,
        };
        self.alone
    }
}

/// Results of a rank's depth-first search from one task of an [`Exploration`] on.
#[derive(Debug, Serialize, Deserialize)]
pub struct Explored<I, O> {
    pub(super) number: u64,
    /// Results of the first task and of the completed tasks that descend from it, in the order of the serial program.
    pub(super) results: Vec<O>,
    /// Tasks that the search did not reach, in the order of the serial program.
    pub(super) rest: Vec<I>,
    pub(super) alone: bool,
}

/// A farm whose tasks create more tasks, such as the nodes of a search tree or the pages that are linked from a page.
///
/// An exploring farm is created by [`Farm::exploring`] and run by [`explore`](Farm::explore) or [`explore_in_order`](Farm::explore_in_order). The
/// farm has the options of every farm; [`unordered`](Farm::unordered) has no effect. In the [`Summary`](super::Summary), in a
/// [`FailedTask`](super::FailedTask) and on the display, a task that a rank received counts as one task, together with the tasks below it that the
/// rank ran before it returned the rest.
pub type Exploration<'f, I, O> = Farm<'f, Part<I>, Explored<I, O>>;

impl<'f, I: Item, O: Item> Farm<'f, Part<I>, Explored<I, O>> {
    /// Creates a farm whose tasks create tasks. `f` gets a task, returns its result, and adds further tasks to the [`More`].
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// // Every way to pay 100 in coins, none larger than the one before: what is left, and the largest coin that may come.
    /// let coins = [1u32, 2, 5, 10, 20, 50];
    /// let found = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let mut farm = Farm::exploring("coins", |&(left, largest): &(u32, u32), more| {
    ///         more.extend(coins.iter().filter(|&&c| c <= largest && c <= left).map(|&c| (left - c, c)));
    ///         u64::from(left == 0)
    ///     });
    ///     let mut ways = 0;
    ///     farm.explore(session, [(100, 50)], |way| ways += way)?;
    ///     Ok(ways)
    /// })?;
    /// assert_eq!(found, 4_562);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn exploring<F>(name: &str, mut f: F) -> Self
    where
        F: FnMut(&I, &mut More<I>) -> O + Movable + Clone + 'f,
        I: 'f,
        O: 'f,
    {
        Farm::try_exploring(name, move |task, more| Ok(f(task, more)))
    }

    /// Like [`exploring`](Farm::exploring), for a function that can fail. Tasks that it added to the [`More`] before it failed are not run.
    ///
    /// A rank first runs the tasks that its task has added itself. If one of them fails, the rank returns it to rank 0, which dispatches it as
    /// a new task: it is attempted once more than [`retries`](Farm::retries) allows.
    pub fn try_exploring<F>(name: &str, f: F) -> Self
    where
        F: FnMut(&I, &mut More<I>) -> Result<O, BoxError> + Movable + Clone + 'f,
        I: 'f,
        O: 'f,
    {
        Farm::exploring_with_setup(name, move || Ok(f.clone()))
    }

    /// Like [`try_exploring`](Farm::try_exploring), with set-up on each rank: a rank calls `make` once, before its first task, as with
    /// [`with_setup`](Farm::with_setup). `make` returns the function for tasks.
    ///
    /// ```
    /// use armature::farm::{Farm, More};
    ///
    /// let found = armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let mut farm = Farm::exploring_with_setup("sums", || {
    ///         // Each rank has room for the digits of one number, which it uses again and again.
    ///         let mut digits = Vec::new();
    ///         Ok(move |number: &u32, more: &mut More<u32>| {
    ///             digits.clear();
    ///             digits.extend(number.to_string().bytes().map(|digit| u32::from(digit - b'0')));
    ///             more.extend((digits.len() < 3).then(|| 10 * number + digits[0] + 1));
    ///             Ok(digits.iter().sum::<u32>())
    ///         })
    ///     });
    ///     Ok(farm.explore_in_order(session, [1, 2])?.on_root())
    /// })?;
    /// assert_eq!(found.unwrap(), [1, 3, 5, 2, 5, 8]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn exploring_with_setup<F>(
        name: &str,
        mut make: impl FnMut() -> Result<F, BoxError> + Movable + 'f,
    ) -> Self
    where
        F: FnMut(&I, &mut More<I>) -> Result<O, BoxError> + Send + 'f,
        I: 'f,
        O: 'f,
    {
        Farm::worker(name, move || Ok(Explorer { call: make()?, types: std::marker::PhantomData }))
    }
}

struct Explorer<F, I, O> {
    call: F,
    types: std::marker::PhantomData<fn(I) -> O>,
}

impl<F, I, O> Worker for Explorer<F, I, O>
where
    F: FnMut(&I, &mut More<I>) -> Result<O, BoxError> + Send,
    I: Item,
    O: Item,
{
    type In = Part<I>;
    type Out = Explored<I, O>;

    fn work(&mut self, part: Part<I>, cx: &mut Context) -> Result<Explored<I, O>, BoxError> {
        let Part { task, number, alone, budget } = part;
        // If a rank may have died while it ran this task, all tasks that descend from it are returned to rank 0, which sends each one alone: the
        // rank may have died in any of them.
        let alone = alone || cx.is_suspect;
        let begin = cx.clock.now();
        let mut open = More::new();
        let mut results = vec![(self.call)(&task, &mut open)?];
        open.tasks.reverse();
        // Tasks of some nanoseconds produce more results within the search time `budget` than one message should contain.
        let most = (ENOUGH_BYTES as usize / size_of::<O>().max(1)).max(1);
        while !alone && results.len() < most && cx.clock.now().saturating_sub(begin) < budget {
            let Some(task) = open.tasks.pop() else { break };
            let below = open.tasks.len();
            match user_code::call(|| (self.call)(&task, &mut open)) {
                Ok(result) => results.push(result),
                Err(error) => {
                    log::debug!("a task created by task {number} failed and is retried: {}", error.message());
                    open.tasks.truncate(below);
                    open.tasks.push(task);
                    break;
                }
            }
            open.tasks[below..].reverse();
        }
        open.tasks.reverse();
        Ok(Explored { number, results, rest: open.tasks, alone })
    }
}

impl<F, I, O> fmt::Debug for Explorer<F, I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Explorer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explore(
        part: Part<String>,
        is_suspect: bool,
        torn: &str,
    ) -> Result<Explored<String, String>, BoxError> {
        let call = |path: &String, more: &mut More<String>| {
            if path.len() < 3 {
                more.extend(["a", "b"].map(|step| format!("{path}{step}")));
            }
            if path == torn { Err("torn".into()) } else { Ok(path.clone()) }
        };
        let mut explorer = Explorer { call, types: std::marker::PhantomData };
        explorer.work(part, &mut Context { is_suspect, ..Context::for_test() })
    }

    fn part(task: &str, budget: Duration) -> Part<String> {
        Part { budget, ..Part::new(task.to_string(), false) }
    }

    #[test]
    fn tasks_are_executed_in_serial_order() {
        let all = explore(part("", Duration::MAX), false, "none").unwrap();
        let serial =
            ["", "a", "aa", "aaa", "aab", "ab", "aba", "abb", "b", "ba", "baa", "bab", "bb", "bba", "bbb"];
        assert_eq!((all.results, all.rest), (serial.map(String::from).to_vec(), vec![]));
    }

    #[test]
    fn unexplored_tasks_are_returned_at_the_deadline() {
        let some = explore(part("", Duration::ZERO), false, "none").unwrap();
        assert_eq!(
            (some.results, some.rest, some.alone),
            (vec![String::new()], vec!["a".into(), "b".into()], false)
        );
        let again = explore(part("", Duration::MAX), true, "none").unwrap();
        assert_eq!(
            (again.results.len(), again.rest.len(), again.alone),
            (1, 2, true),
            "after a death each is alone"
        );
    }

    #[test]
    fn failing_task_is_returned_without_its_children() {
        let some = explore(part("", Duration::MAX), false, "ab").unwrap();
        assert_eq!(some.results, ["", "a", "aa", "aaa", "aab"]);
        assert_eq!(some.rest, ["ab", "b"]);
        assert_eq!(explore(part("ab", Duration::MAX), false, "ab").unwrap_err().to_string(), "torn");
    }
}
