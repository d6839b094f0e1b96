//! Tasks that make tasks: the worker's side. A rank searches a part of the tree by itself for a while, into the depth, and hands
//! the rest back.

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

/// For how long a rank goes on by itself. What it hands back has to be sent, which takes some tenths of a millisecond where ranks
/// are busy: a much shorter time would be spent on that. In a much longer one a rank that has nothing waits for the only one that has.
const LONG: Duration = Duration::from_millis(10);
/// The same while few tasks wait, as at the begin and at the end.
const SHORT: Duration = Duration::from_millis(1);
/// Takes the tasks that a task, or a sink, makes.
#[derive(Debug)]
pub struct More<I> {
    tasks: Vec<I>,
}

impl<I> More<I> {
    pub(super) fn new() -> Self {
        More { tasks: Vec::new() }
    }

    /// One more task.
    pub fn push(&mut self, task: I) {
        self.tasks.push(task);
    }

    /// What was made, in its order.
    pub(super) fn take(&mut self) -> Vec<I> {
        std::mem::take(&mut self.tasks)
    }
}

impl<I> Extend<I> for More<I> {
    fn extend<T: IntoIterator<Item = I>>(&mut self, tasks: T) {
        self.tasks.extend(tasks);
    }
}

/// A task of an [`Exploration`] on its way to a rank, with how far that may go from there.
#[derive(Debug, Serialize, Deserialize)]
pub struct Part<I> {
    pub(super) task: I,
    /// Its number in the worklist.
    number: u64,
    /// A rank has died in the subtree of a task above it: each task is done by itself, so that the one which ends processes is found.
    alone: bool,
    budget: Duration,
}

impl<I> Part<I> {
    pub(super) fn new(task: I, alone: bool) -> Self {
        Part { task, number: 0, alone, budget: Duration::ZERO }
    }

    /// Its number in the worklist.
    #[cfg(test)]
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// It is handed out under this number, while there are few tasks if they are `scarce`. Returns true if ranks may have died of it.
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

/// What a rank of an [`Exploration`] has done from one task on.
#[derive(Debug, Serialize, Deserialize)]
pub struct Explored<I, O> {
    /// Of the task that it began with.
    pub(super) number: u64,
    /// Results of that task and of those below it that were done, in the order of the serial program.
    pub(super) results: Vec<O>,
    /// The tasks that it did not come to, in that order.
    pub(super) rest: Vec<I>,
    pub(super) alone: bool,
}

/// A farm whose tasks make more tasks: the nodes of a tree that is searched, the pages that are linked to a page.
///
/// Made by [`Farm::exploring`], run by [`explore`](Farm::explore) or [`explore_in_order`](Farm::explore_in_order). It has the options of
/// every farm; [`unordered`](Farm::unordered) says nothing here. What the [`Summary`](super::Summary), a
/// [`FailedTask`](super::FailedTask) and the display call a task is here one task and what its rank has done below it before it
/// handed the rest back.
pub type Exploration<'f, I, O> = Farm<'f, Part<I>, Explored<I, O>>;

impl<'f, I: Item, O: Item> Farm<'f, Part<I>, Explored<I, O>> {
    /// A farm whose tasks make tasks: `f` gets a task, returns its result, and gives what is to be done besides to the [`More`].
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
    ///     farm.explore(session, [(100, 50)], |way| ways += way.unwrap())?;
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

    /// The same for a function that can fail. What it gave to the [`More`] before it failed is not done.
    ///
    /// A task that fails while its rank goes on by itself is handed back and counts as not begun: it is tried once more than
    /// [`retries`](Farm::retries) says.
    pub fn try_exploring<F>(name: &str, f: F) -> Self
    where
        F: FnMut(&I, &mut More<I>) -> Result<O, BoxError> + Movable + Clone + 'f,
        I: 'f,
        O: 'f,
    {
        Farm::exploring_with_setup(name, move || Ok(f.clone()))
    }

    /// The same for ranks that each set something up, once, before their first task, as [`with_setup`](Farm::with_setup) says: `make`
    /// returns the function that does tasks.
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
    ///     Ok(farm.explore_in_order(session, [1, 2])?.map(|(sums, _)| sums))
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

/// Does tasks depth first, from the one that it is given on.
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
        // A rank may have died somewhere below this task.
        let alone = alone || cx.is_suspect;
        let begin = cx.clock.now();
        // The tasks that are open, the next one last.
        let mut open = More::new();
        let mut results = vec![(self.call)(&task, &mut open)?];
        open.tasks.reverse();
        // Tasks of nanoseconds make more results in this time than one message should have.
        let most = (ENOUGH_BYTES as usize / size_of::<O>().max(1)).max(1);
        while !alone && results.len() < most && cx.clock.now().saturating_sub(begin) < budget {
            let Some(task) = open.tasks.pop() else { break };
            let below = open.tasks.len();
            match user_code::call(|| (self.call)(&task, &mut open)) {
                Ok(result) => results.push(result),
                Err(error) => {
                    log::debug!("a task below {number} failed, again: {}", error.message());
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

    /// Paths of a binary tree of this depth; the node `torn` fails.
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
    fn tasks_are_done_in_the_order_of_the_serial_program() {
        let all = explore(part("", Duration::MAX), false, "none").unwrap();
        let serial =
            ["", "a", "aa", "aaa", "aab", "ab", "aba", "abb", "b", "ba", "baa", "bab", "bb", "bba", "bbb"];
        assert_eq!((all.results, all.rest), (serial.map(String::from).to_vec(), vec![]));
    }

    #[test]
    fn what_there_is_no_time_for_comes_back() {
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
    fn a_failing_task_is_handed_back_without_what_it_made() {
        let some = explore(part("", Duration::MAX), false, "ab").unwrap();
        assert_eq!(some.results, ["", "a", "aa", "aaa", "aab"]);
        assert_eq!(some.rest, ["ab", "b"]);
        assert_eq!(explore(part("ab", Duration::MAX), false, "ab").unwrap_err().to_string(), "torn");
    }
}
