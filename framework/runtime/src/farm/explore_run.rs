//! Runs of farms whose tasks or whose sink create tasks, on rank 0.

use std::ops::Range;

use super::builder::Farm;
use super::delivery::SinkOf;
use super::explore::{Explored, More, Part};
use super::flow::{Answer, Flow, answer, plain};
use super::options::Options;
use super::result_journal::Kind;
use super::run::Script;
use super::summary::Summary;
use super::worklist::{Order, Worklist, WorklistSource};
use crate::error::{Error, ErrorKind, Result};
use crate::failed_task::FailedTask;
use crate::outcome::Outcome;
use crate::session::Session;
use crate::wire::{Item, Movable};

impl<I: Item, O: Item> Farm<'_, I, O> {
    /// Like [`for_each`](Farm::for_each), but the sink may add tasks. Runs the tasks of `first`, then those that the sink adds to the
    /// [`More`], in the order in which they are added, until the sink has received all results and adds no more.
    ///
    /// The sink receives results in the order of the tasks, so the tasks that it adds for a result wait for all earlier results. With
    /// [`unordered`](Farm::unordered) they do not wait, but the numbers of the tasks differ between runs, and a [`journal`](Farm::journal) is not
    /// possible. With a journal the sink must add the same tasks for the same results. Waiting tasks are in the memory of rank 0. If there are very
    /// many of them, use [tasks that create tasks](Farm::exploring), which run depth first.
    ///
    /// # Errors
    /// The errors of [`for_each`](Farm::for_each).
    ///
    /// ```
    /// use std::collections::BTreeSet;
    ///
    /// use armature::farm::Farm;
    ///
    /// // Which numbers can be reached from 1 by doubling and by taking 5 away?
    /// let reached = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let mut reached = BTreeSet::from([1]);
    ///     let mut farm = Farm::new("steps", |n: i32| [2 * n, n - 5]);
    ///     farm.worklist(session, [1], |_, next, more| {
    ///         more.extend(next.into_iter().filter(|n| (0..50).contains(n) && reached.insert(*n)));
    ///     })?;
    ///     Ok(reached)
    /// })?;
    /// assert_eq!(reached.len(), 38);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn worklist<R: Flow>(
        &mut self,
        session: &mut Session,
        first: impl IntoIterator<Item = I> + Movable,
        mut sink: impl FnMut(u64, O, &mut More<I>) -> R + Movable,
    ) -> Result<Outcome<(), Summary>> {
        let sink = move |number, result: Result<O, FailedTask>, more: &mut More<I>| {
            plain(result, |result| sink(number, result, more))
        };
        self.work_off(session, self.failing_fast(), "worklist", first, sink)
    }

    /// Like [`worklist`](Farm::worklist), but a task that fails at every attempt is passed to `sink` as a [`FailedTask`], and the run
    /// continues.
    ///
    /// # Errors
    /// The errors of [`for_each_result`](Farm::for_each_result).
    pub fn worklist_results<R: Flow>(
        &mut self,
        session: &mut Session,
        first: impl IntoIterator<Item = I> + Movable,
        mut sink: impl FnMut(u64, Result<O, FailedTask>, &mut More<I>) -> R + Movable,
    ) -> Result<Outcome<(), Summary>> {
        let sink = move |number, result, more: &mut More<I>| answer(sink(number, result, more));
        self.work_off(session, self.options.clone(), "worklist_results", first, sink)
    }

    fn work_off(
        &mut self,
        session: &mut Session,
        options: Options,
        method: &str,
        first: impl IntoIterator<Item = I> + Send,
        mut sink: impl FnMut(u64, Result<O, FailedTask>, &mut More<I>) -> Answer + Send,
    ) -> Result<Outcome<(), Summary>> {
        if options.journal.is_some() && !options.ordered {
            let text = "unordered and journal are both set, but tasks that the sink adds to an unordered worklist \
                        have other numbers in each run";
            let error = Error::new(ErrorKind::Config, text).in_farm(&self.name).at_rank(session.rank());
            session.report_failure(Err(error))?;
        }
        let list = Worklist::new();
        let mut more = More::new();
        let sink = {
            let list = list.clone();
            move |number, result| {
                let answer = sink(number, result, &mut more);
                list.add(more.take());
                answer
            }
        };
        let source = WorklistSource::new(list, Order::OldestFirst, |_, _, _| false, session.size());
        self.run(session, options, method, source.script(first, sink, Kind::Stream)).map(Outcome::of)
    }
}

impl<I: Item, O: Item> Farm<'_, Part<I>, Explored<I, O>> {
    /// Runs the tasks `roots` and all tasks that they create, and passes each result to `sink` exactly once, in the order of arrival. The
    /// first failed task ends the job.
    ///
    /// Each rank searches depth first from the task that it holds, for some milliseconds, and returns the tasks that it has not reached.
    /// The number of tasks that wait on rank 0 is therefore about that of the open tasks of a serial depth-first search, times the number
    /// of ranks.
    ///
    /// With a [`journal`](Farm::journal) a job that is started again passes the known results to the sink first and continues from there; the
    /// journal does not record in which tasks ranks died.
    ///
    /// # Errors
    /// The errors of [`for_each`](Farm::for_each).
    pub fn explore<R: Flow>(
        &mut self,
        session: &mut Session,
        roots: impl IntoIterator<Item = I> + Movable,
        mut sink: impl FnMut(O) -> R + Movable,
    ) -> Result<Outcome<(), Summary>> {
        let sink = move |result| plain(result, &mut sink);
        self.explored(session, self.failing_fast(), "explore", roots, sink)
    }

    /// Like [`explore`](Farm::explore), but a task that fails at every attempt is passed to `sink` as a [`FailedTask`], and the run
    /// continues. The tasks that it would have created are not run.
    ///
    /// # Errors
    /// The errors of [`for_each_result`](Farm::for_each_result).
    pub fn explore_results<R: Flow>(
        &mut self,
        session: &mut Session,
        roots: impl IntoIterator<Item = I> + Movable,
        mut sink: impl FnMut(Result<O, FailedTask>) -> R + Movable,
    ) -> Result<Outcome<(), Summary>> {
        let sink = move |result| answer(sink(result));
        self.explored(session, self.options.clone(), "explore_results", roots, sink)
    }

    fn explored(
        &mut self,
        session: &mut Session,
        options: Options,
        method: &str,
        roots: impl IntoIterator<Item = I> + Send,
        mut sink: impl FnMut(Result<O, FailedTask>) -> Answer + Send,
    ) -> Result<Outcome<(), Summary>> {
        let options = Options { ordered: false, ..options };
        let explored = self.search(session, options, method, roots, move |explored| match explored {
            Ok((_, results)) => {
                let mut answers = results.into_iter().map(|result| sink(Ok(result)));
                answers.find(Answer::is_break).unwrap_or(Answer::Continue(()))
            }
            Err(failed) => sink(Err(failed)),
        });
        explored.map(Outcome::of)
    }

    /// Like [`explore`](Farm::explore), but returns all results in the order in which the serial program finds them: the result of a task,
    /// then those of the tasks that it created, each followed by the results below it.
    ///
    /// # Errors
    /// The errors of [`explore`](Farm::explore).
    ///
    /// ```
    /// use armature::farm::Farm;
    ///
    /// let words = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let mut farm = Farm::exploring("words", |word: &String, more| {
    ///         if word.len() < 2 {
    ///             more.extend(["a", "b"].map(|letter| format!("{word}{letter}")));
    ///         }
    ///         word.clone()
    ///     });
    ///     Ok(farm.explore_in_order(session, [String::new()])?.on_root())
    /// })?;
    /// assert_eq!(words.unwrap(), ["", "a", "aa", "ab", "b", "ba", "bb"]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn explore_in_order(
        &mut self,
        session: &mut Session,
        roots: impl IntoIterator<Item = I> + Movable,
    ) -> Result<Outcome<Vec<O>, Summary>> {
        let options = Options { ordered: false, ..self.failing_fast() };
        let mut tree = SearchTree::default();
        let summary = self.search(session, options, "explore_in_order", roots, |explored| {
            if let Ok((place, results)) = explored {
                tree.add(place, results);
            }
            Answer::Continue(())
        })?;
        Ok(Outcome::new(summary.map(|summary| (tree.into_serial_order(), summary))))
    }

    fn search(
        &mut self,
        session: &mut Session,
        options: Options,
        method: &str,
        roots: impl IntoIterator<Item = I> + Send,
        mut sink: impl FnMut(Result<(PartPosition, Vec<O>), FailedTask>) -> Answer + Send,
    ) -> Result<Option<Summary>> {
        let list = Worklist::new();
        let sink = {
            let list = list.clone();
            move |_, explored: Result<Explored<I, O>, FailedTask>| match explored {
                Ok(explored) => sink(Ok(settle(&list, explored))),
                Err(failed) => sink(Err(failed)),
            }
        };
        let first = std::iter::once(roots).flat_map(|roots| {
            let roots: Vec<I> = roots.into_iter().collect();
            roots.into_iter().rev().map(|task| Part::new(task, false))
        });
        let source = WorklistSource::new(list, Order::NewestFirst, Part::take, session.size());
        self.run(session, options, method, source.script(first, sink, Kind::Exploration))
    }
}

fn settle<I, O>(list: &Worklist<Part<I>>, explored: Explored<I, O>) -> (PartPosition, Vec<O>) {
    let Explored { number, results, rest, alone } = explored;
    list.remove(number);
    // The worklist returns the newest task first, so reversed tasks are taken in their original order.
    let below = list.add(rest.into_iter().rev().map(|task| Part::new(task, alone)));
    (PartPosition { number, below }, results)
}

impl<I: Item> WorklistSource<I> {
    fn script<'s, O: Item>(
        self,
        first: impl IntoIterator<Item = I> + Send + 's,
        sink: impl FnMut(u64, Result<O, FailedTask>) -> Answer + Send + 's,
        kind: Kind,
    ) -> Script<'s> {
        let list = self.list.clone();
        let first = move || {
            // The tasks are collected before the worklist is locked, because the iterator is the program's own code and may take long.
            list.add(first.into_iter().collect::<Vec<I>>());
        };
        let (first, source) = (Box::new(first), Box::new(self));
        Script::Worklist { first, source, sink: Box::new(SinkOf::new(sink)), kind }
    }
}

/// Position of a completed part of the tree of tasks: the number of the part, and the numbers of the parts that it created. In the serial order, the
/// created part with the highest number is first.
struct PartPosition {
    number: u64,
    below: Range<u64>,
}

struct SearchTree<O> {
    /// By number of the part of the tree: the numbers of the parts that it created, and its results.
    parts: Vec<(Range<u64>, Vec<O>)>,
    /// Number of tasks with which the exploration started. They have the lowest numbers.
    roots: Option<u64>,
}

impl<O> Default for SearchTree<O> {
    fn default() -> Self {
        SearchTree { parts: Vec::new(), roots: None }
    }
}

impl<O> SearchTree<O> {
    fn add(&mut self, PartPosition { number, below }: PartPosition, results: Vec<O>) {
        // The part of the tree that arrives first began at one of the initial tasks. These have the lowest numbers, so the first task that this part
        // created shows how many initial tasks there are.
        self.roots.get_or_insert(below.start);
        let index = number as usize;
        if self.parts.len() <= index {
            self.parts.resize_with(index + 1, || (0..0, Vec::new()));
        }
        self.parts[index] = (below, results);
    }

    fn into_serial_order(mut self) -> Vec<O> {
        let mut open: Vec<u64> = (0..self.roots.unwrap_or(0)).collect();
        let mut all = Vec::new();
        while let Some((below, mut results)) =
            open.pop().and_then(|number| self.parts.get_mut(number as usize)).map(std::mem::take)
        {
            all.append(&mut results);
            open.extend(below);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::task_source::{Source, Wanted};
    use super::*;
    use crate::wire::erased::typed;

    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % n
        }
    }

    type Node = (String, usize);

    fn below((path, depth): &Node) -> Vec<Node> {
        let mixed = path.bytes().fold(7u32, |mixed, byte| mixed.wrapping_mul(0x0100_0193) ^ u32::from(byte));
        let count = if *depth == 0 { 0 } else { (mixed >> 9) % 5 };
        (0..count).map(|n| (format!("{path}{n}"), depth - 1)).collect()
    }

    fn serial(node: &Node, found: &mut Vec<String>) {
        found.push(node.0.clone());
        below(node).iter().for_each(|node| serial(node, found));
    }

    fn explore(part: Part<Node>, dice: &mut Dice) -> Explored<Node, String> {
        let (number, mut open) = (part.number(), vec![part.task]);
        let (mut results, most) = (Vec::new(), 1 + dice.below(6));
        while results.len() < most
            && let Some(node) = open.pop()
        {
            open.extend(below(&node).into_iter().rev());
            results.push(node.0);
        }
        open.reverse();
        Explored { number, results, rest: open, alone: false }
    }

    fn new_list(roots: &[Node]) -> Worklist<Part<Node>> {
        let list = Worklist::new();
        list.add(roots.iter().rev().map(|node| Part::new(node.clone(), false)));
        list
    }

    /// Tests that results are in the serial order in every case: ranks take parts of a tree and return them in any order or die with them, and now
    /// and then the job is killed and restarts from its journal.
    #[test]
    fn tree_results_are_in_serial_order_despite_failures() {
        let roots: Vec<Node> = ["r", "s", "t", "u"].map(|root| (root.to_string(), 6)).to_vec();
        let mut expected = Vec::new();
        roots.iter().for_each(|root| serial(root, &mut expected));
        assert!(expected.len() > 100, "{} nodes", expected.len());
        for seed in 1..200 {
            let mut dice = Dice(seed);
            let mut journal: Vec<(u64, Vec<String>, Vec<Node>)> = Vec::new();
            loop {
                let list = new_list(&roots);
                let mut source = WorklistSource::new(list.clone(), Order::NewestFirst, Part::take, 3);
                let mut tree = SearchTree::default();
                let mut held: Vec<Part<Node>> = Vec::new();
                let mut is_killed = false;
                for (number, results, rest) in journal.clone() {
                    let (place, results) = settle(&list, Explored { number, results, rest, alone: false });
                    tree.add(place, results);
                }
                while !(is_killed || source.has_ended() && held.is_empty()) {
                    let most = source.share().min(1 + dice.below(4) as u64);
                    let drawn = source.draw(Wanted { most, bytes: u64::MAX, step: 1 }).unwrap();
                    held.extend(drawn.into_iter().flat_map(|tasks| typed::<Part<Node>>(tasks).unwrap()));
                    while held.len() > dice.below(8) {
                        let part = held.swap_remove(dice.below(held.len()));
                        if dice.below(10) == 0 {
                            held.push(part);
                            break;
                        }
                        let Explored { number, results, rest, alone } = explore(part, &mut dice);
                        journal.push((number, results.clone(), rest.clone()));
                        let (place, results) = settle(&list, Explored { number, results, rest, alone });
                        tree.add(place, results);
                    }
                    is_killed = dice.below(60) == 0;
                }
                if !is_killed {
                    assert_eq!(tree.into_serial_order(), expected, "seed {seed}");
                    break;
                }
            }
        }
    }

    #[test]
    fn tree_without_roots_has_no_results() {
        assert!(SearchTree::<u8>::default().into_serial_order().is_empty());
    }
}
