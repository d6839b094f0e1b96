//! Recalls: without a plan, queued tasks are recalled from busy ranks so that idle ranks can run them.
//!
//! A rank receives orders in advance, also for tasks that read the value of a task that runs on the rank. Without recalls, three long tasks with a
//! common parent would all stay on the rank of the parent.

use super::Master;

impl Master {
    /// Recalls as many tasks as idle ranks could begin at once. A rank returns only tasks that have not begun.
    pub(super) fn recall(&mut self) {
        // Short tasks end before a recall pays. With a plan, the plan decides which rank waits.
        if self.pools.is_planned() || self.are_short() {
            return;
        }
        let room = |rank: &super::Rank| match rank.is_lost {
            true => 0,
            false => self.at_once.saturating_sub(rank.outstanding.len()),
        };
        let room: usize = self.ranks.iter().map(room).sum();
        for _ in 0..room {
            let Some((rank, task)) = self.last_of_the_fullest() else { return };
            self.tasks[task].was_recalled = true;
            self.ranks[rank].orders.recalled.push(task);
        }
    }

    /// Returns the last task of the rank with the most runnable orders, if the rank has more of them than it runs at once.
    fn last_of_the_fullest(&self) -> Option<(usize, usize)> {
        let able = |rank: usize| {
            let able = self.ranks[rank].outstanding.iter().copied().filter(|&task| {
                let task = &self.tasks[task];
                task.undone == 0 && !task.was_recalled
            });
            able.collect::<Vec<usize>>()
        };
        let alive = (0..self.ranks.len()).filter(|&rank| !self.ranks[rank].is_lost);
        let (rank, able) = alive.map(|rank| (rank, able(rank))).max_by_key(|(_, able)| able.len())?;
        let is_sent =
            |&&task: &&usize| !self.ranks[rank].orders.orders.iter().any(|order| order.task == task);
        let last = able.iter().filter(is_sent).max_by_key(|&&task| self.pools.key(task))?;
        (able.len() > self.at_once).then_some((rank, *last))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use armature_planner::workflow::TaskMemory;
    use armature_workflow_files::{Action, Description, Task};

    use super::super::State;
    use super::*;
    use crate::workflow::graph::Graph;
    use crate::workflow::messages::{Done, Orders, Report};

    const LONG: u64 = 1_000_000_000;

    fn done(task: usize, took: u64) -> Report {
        let done = Done { task, attempt: 0, bytes: 8, took, peak_memory: None };
        Report { done: vec![done], ..Report::default() }
    }

    /// Returns a parent and three children on three ranks, each of which runs `at_once` tasks at a time.
    fn fan(at_once: usize) -> Master {
        let mut builder = Description::builder("fan");
        for name in ["parent", "a", "b", "c"] {
            builder.task(Task::new(name, Action::Closure("c".into())));
        }
        for child in ["a", "b", "c"] {
            builder.edge("parent", child, 10);
        }
        let graph = Arc::new(Graph::new(&builder.build().unwrap(), 1, TaskMemory::Additive).unwrap());
        let mut master = Master::new(graph, 3, &[], 0);
        master.run_several(at_once);
        master.begin();
        master
    }

    fn orders(master: &mut Master) -> BTreeMap<usize, Orders> {
        master.take_orders().collect()
    }

    fn ordered(orders: &Orders) -> Vec<usize> {
        orders.orders.iter().map(|order| order.task).collect()
    }

    #[test]
    fn long_tasks_behind_one_parent_run_on_all_ranks() {
        let mut master = fan(2);
        assert_eq!(ordered(&orders(&mut master)[&0]), [0, 1, 2, 3], "ahead, where their input will be");
        master.on_report(0, done(0, LONG)).unwrap();
        let asked = orders(&mut master);
        assert_eq!(asked[&0].recalled, [3], "two run there at once");
        master.on_report(0, Report { returned: vec![3], ..Report::default() }).unwrap();
        assert_eq!(ordered(&orders(&mut master)[&1]), [3]);
        assert_eq!(master.tasks[3].state, State::Ordered(1));
    }

    #[test]
    fn what_was_not_given_goes_to_who_has_least() {
        let mut master = fan(1);
        assert_eq!(ordered(&orders(&mut master)[&0]), [0, 1]);
        master.on_report(0, done(0, LONG)).unwrap();
        let given = orders(&mut master);
        assert_eq!((ordered(&given[&1]), ordered(&given[&2])), (vec![2], vec![3]));
        assert!(given.values().all(|orders| orders.recalled.is_empty()), "{given:?}");
    }

    #[test]
    fn a_task_is_asked_back_once_and_may_have_begun() {
        let mut master = fan(2);
        orders(&mut master);
        master.on_report(0, done(0, LONG)).unwrap();
        assert_eq!(orders(&mut master)[&0].recalled, [3]);
        // Task 3 has begun, so it is not returned.
        for task in [1, 3, 2] {
            master.on_report(0, done(task, LONG)).unwrap();
            assert!(orders(&mut master).values().all(|orders| orders.recalled.is_empty()));
        }
        assert!(master.is_over());
    }

    #[test]
    fn short_tasks_stay_where_they_are() {
        let mut master = fan(2);
        orders(&mut master);
        master.on_report(0, done(0, 1_000)).unwrap();
        assert!(orders(&mut master).values().all(|orders| orders.recalled.is_empty()));
    }

    #[test]
    fn stopped_run_recalls_all_orders_and_waits_for_begun_tasks() {
        let mut master = fan(2);
        orders(&mut master);
        master.stop();
        assert_eq!(orders(&mut master)[&0].recalled, [0, 1, 2, 3]);
        master.on_report(0, Report { returned: vec![1, 2, 3], ..Report::default() }).unwrap();
        assert!(!master.is_over(), "task 0 has begun");
        master.on_report(0, done(0, LONG)).unwrap();
        assert!(master.is_over() && master.is_cut());
        assert!(orders(&mut master).values().all(|orders| orders.orders.is_empty()));
        assert_eq!(master.progress(), (1, 4));
        // A second request changes nothing.
        master.stop();
        assert!(orders(&mut master).is_empty());
    }

    #[test]
    fn stopped_run_forgets_orders_that_were_not_sent_and_a_complete_run_is_not_cut() {
        let mut master = fan(2);
        master.stop();
        assert!(master.is_over() && master.is_cut());
        assert!(
            orders(&mut master).values().all(|orders| orders.orders.is_empty() && orders.recalled.is_empty())
        );
        let mut master = fan(4);
        orders(&mut master);
        for task in 0..4 {
            master.on_report(0, done(task, 1_000)).unwrap();
        }
        master.stop();
        assert!(master.is_over() && !master.is_cut());
    }
}
