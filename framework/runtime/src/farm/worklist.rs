//! Worklist: tasks that wait on rank 0, to which results of other tasks add more tasks.
//!
//! The sink adds tasks on its thread, and the master takes tasks to dispatch them; both share the list. The list has ended for good when it
//! is empty, no rank holds a task of it, and the sink has received every result.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::task_source::{Source, Wanted};
use crate::error::Result;
use crate::wire::erased::Items;
use crate::wire::{Item, weigh};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The task that has waited longest is first.
    OldestFirst,
    /// The task that was added last is first, so that the worklist stays as short as in a depth-first search.
    NewestFirst,
}

/// Function that is called for each task before it is dispatched. Its arguments are the task, the number of the task, and true if too few tasks wait
/// to keep all ranks busy. Returns true if ranks may have died in the task.
type OnTake<I> = fn(&mut I, u64, bool) -> bool;

struct Tasks<I> {
    waiting: BTreeMap<u64, I>,
    next: u64,
}

pub(super) struct Worklist<I> {
    tasks: Arc<Mutex<Tasks<I>>>,
}

impl<I> Clone for Worklist<I> {
    fn clone(&self) -> Self {
        Worklist { tasks: self.tasks.clone() }
    }
}

impl<I> Worklist<I> {
    pub(super) fn new() -> Self {
        Worklist { tasks: Arc::new(Mutex::new(Tasks { waiting: BTreeMap::new(), next: 0 })) }
    }

    fn lock(&self) -> MutexGuard<'_, Tasks<I>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds tasks to the worklist. Returns their numbers, which are consecutive.
    pub(super) fn add(&self, more: impl IntoIterator<Item = I>) -> Range<u64> {
        let Tasks { waiting, next } = &mut *self.lock();
        let first = *next;
        for task in more {
            waiting.insert(*next, task);
            *next += 1;
        }
        first..*next
    }

    /// Removes a task from the worklist; called when its result has arrived.
    pub(super) fn remove(&self, number: u64) {
        self.lock().waiting.remove(&number);
    }
}

pub(super) struct WorklistSource<I> {
    pub(super) list: Worklist<I>,
    order: Order,
    on_take: OnTake<I>,
    ranks: u64,
    taken: u64,
    drew_suspect_tasks: bool,
    held: bool,
    stopped: bool,
}

impl<I> WorklistSource<I> {
    pub(super) fn new(list: Worklist<I>, order: Order, on_take: OnTake<I>, ranks: usize) -> Self {
        let ranks = ranks.max(1) as u64;
        WorklistSource {
            list,
            order,
            on_take,
            ranks,
            taken: 0,
            drew_suspect_tasks: false,
            held: false,
            stopped: false,
        }
    }

    fn waiting(&self) -> u64 {
        if self.held || self.stopped { 0 } else { self.list.lock().waiting.len() as u64 }
    }
}

impl<I: Item> Source for WorklistSource<I> {
    fn taken(&self) -> u64 {
        self.taken
    }

    fn has_ended(&self) -> bool {
        self.waiting() == 0
    }

    fn end(&mut self) {
        self.stopped = true;
    }

    /// Returns the number of waiting tasks. It is never exact, because each task may create many others.
    fn left(&self) -> (u64, bool) {
        (self.waiting(), false)
    }

    fn to_share(&self) -> (u64, bool) {
        (self.waiting(), true)
    }

    /// Returns the maximum number of tasks in a chunk: half of an even share of the waiting tasks. Tasks that the chunk creates arrive only later,
    /// and the other half keeps the other ranks busy until then.
    fn share(&self) -> u64 {
        (self.waiting() / (2 * self.ranks)).max(1)
    }

    fn hold(&mut self, held: bool) {
        self.held = held;
    }

    fn leaves_the_core(&self) -> bool {
        true
    }

    fn drew_suspect_tasks(&self) -> bool {
        self.drew_suspect_tasks
    }

    fn advance(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn draw(&mut self, wanted: Wanted) -> Result<Option<Items>> {
        let mut drawn = Vec::new();
        if self.held || self.stopped {
            return Ok(None);
        }
        let Tasks { waiting, .. } = &mut *self.list.lock();
        // Few tasks wait if there are fewer than two for each rank: one to run and one requested in advance.
        let scarce = (waiting.len() as u64) < 2 * self.ranks;
        let mut weight = 0;
        while (drawn.len() as u64) < wanted.most && weight < wanted.bytes {
            let next = match self.order {
                Order::OldestFirst => waiting.pop_first(),
                Order::NewestFirst => waiting.pop_last(),
            };
            let Some((number, mut task)) = next else { break };
            let is_suspect = (self.on_take)(&mut task, number, scarce);
            if !drawn.is_empty() && is_suspect != self.drew_suspect_tasks {
                waiting.insert(number, task);
                break;
            }
            self.drew_suspect_tasks = is_suspect;
            if drawn.len().is_multiple_of(wanted.step) {
                weight += (weigh(std::slice::from_ref(&task)) * wanted.step) as u64;
            }
            drawn.push(task);
        }
        self.taken += drawn.len() as u64;
        Ok((!drawn.is_empty()).then(|| Box::new(drawn) as Items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::erased::typed;

    fn source(order: Order, tasks: Range<u64>) -> (Worklist<u64>, WorklistSource<u64>) {
        let list = Worklist::new();
        list.add(tasks);
        // The function that is called for each drawn task doubles it, and adds one if few tasks were waiting.
        let source = WorklistSource::new(
            list.clone(),
            order,
            |task, _, scarce| {
                *task = *task * 2 + u64::from(scarce);
                false
            },
            2,
        );
        (list, source)
    }

    fn draw(source: &mut WorklistSource<u64>, most: u64) -> Vec<u64> {
        let drawn = source.draw(Wanted { most, bytes: u64::MAX, step: 1 }).unwrap();
        drawn.map_or(Vec::new(), |tasks| typed(tasks).unwrap())
    }

    #[test]
    fn added_tasks_are_drawn_in_order() {
        let (list, mut source) = source(Order::OldestFirst, 0..6);
        assert_eq!(draw(&mut source, 2), [0, 2]);
        assert_eq!(list.add([6, 7]), 6..8);
        assert_eq!((source.left(), source.to_share(), source.share()), ((6, false), (6, true), 1));
        assert_eq!((draw(&mut source, 9), source.has_ended()), (vec![4, 6, 8, 10, 12, 14], true));
        list.add([8]);
        assert!(!source.has_ended(), "more may always come");
        assert_eq!((draw(&mut source, 9), source.taken()), (vec![17], 9));
    }

    #[test]
    fn newest_tasks_come_first_in_limited_shares() {
        let (list, mut source) = source(Order::NewestFirst, 0..80);
        assert_eq!((source.share(), draw(&mut source, 2)), (20, vec![158, 156]));
        list.add([90]);
        assert_eq!(draw(&mut source, 1), [180]);
    }

    #[test]
    fn suspects_are_drawn_separately() {
        let list = Worklist::new();
        list.add([1, 1, 0, 0, 1]);
        let mut source = WorklistSource::new(list, Order::OldestFirst, |task, _, _| *task == 1, 2);
        let drawn = [0; 4].map(|_| (draw(&mut source, 9), source.drew_suspect_tasks()));
        assert_eq!(drawn, [(vec![1, 1], true), (vec![0, 0], false), (vec![1], true), (vec![], true)]);
    }

    #[test]
    fn wide_tasks_are_drawn_one_by_one() {
        let list = Worklist::new();
        list.add([vec![0u8; 500], vec![0; 500]]);
        let mut source = WorklistSource::new(list, Order::OldestFirst, |_, _, _| false, 2);
        let wanted = Wanted { most: 9, bytes: 100, step: 1 };
        assert_eq!([1, 1, 0].map(|_| source.draw(wanted).unwrap().map_or(0, |tasks| tasks.len())), [1, 1, 0]);
    }

    #[test]
    fn held_and_removed_tasks_are_not_drawn() {
        let (list, mut source) = source(Order::NewestFirst, 0..3);
        source.hold(true);
        assert!(source.has_ended() && draw(&mut source, 3).is_empty());
        list.remove(2);
        source.hold(false);
        assert_eq!(draw(&mut source, 3), [3, 1]);
        list.add([5]);
        source.end();
        assert!(source.has_ended() && draw(&mut source, 3).is_empty());
    }
}
