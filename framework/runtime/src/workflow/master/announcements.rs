//! Announcements: with a plan, ranks learn early which tasks they will run, so that some inputs arrive while others are still being
//! computed.
//!
//! An announcement is not an order. It can be withdrawn at any time, because no rank begins an announced task.

use super::{Master, State};
use crate::workflow::messages::{ANNOUNCED, Order};

impl Master {
    /// Announces the next tasks of the plan to ranks that have few announced tasks.
    pub(super) fn announce(&mut self) {
        // Short tasks are ordered far in advance, so that announcements would add nothing.
        if !self.pools.is_planned() || self.are_short() {
            return;
        }
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].is_lost || self.ranks[rank].announced > ANNOUNCED / 2 {
                continue;
            }
            while self.ranks[rank].announced < ANNOUNCED
                && let Some(task) = self.pools.next_to_announce(rank)
            {
                self.announce_to(task, rank);
            }
        }
    }

    fn announce_to(&mut self, task: usize, rank: usize) {
        let graph = self.graph.clone();
        let source = |parent: usize| match self.tasks[parent].state {
            State::Ordered(source) | State::Done(source) => source,
            _ => self.pools.rank_of(parent).unwrap_or(rank),
        };
        let sources: Vec<usize> = graph.parents(task).map(source).collect();
        let reads_from_others = sources.iter().any(|&source| source != rank);
        if self.tasks[task].state != State::Waiting
            || self.tasks[task].is_urgent
            || graph.needs(task).is_command
            || !reads_from_others
        {
            return;
        }
        let place = self.pools.place(task);
        let order =
            Order { task, attempt: 0, exceeded: 0, place, is_announced: true, is_suspect: false, sources };
        self.ranks[rank].orders.orders.push(order);
        self.ranks[rank].announced += 1;
        self.tasks[task].announced_to = Some(rank);
    }

    /// Ends the announcement of a task that is ordered on `rank`: the order replaces an announcement to the same rank, an announcement to
    /// another rank is withdrawn.
    pub(super) fn is_announced_no_more(&mut self, task: usize, rank: usize) {
        if self.tasks[task].announced_to == Some(rank) {
            self.tasks[task].announced_to = None;
            self.ranks[rank].announced -= 1;
        } else {
            self.take_announcement_back(task);
        }
    }

    /// Withdraws the announcement of a task, if there is one.
    pub(super) fn take_announcement_back(&mut self, task: usize) {
        if let Some(rank) = self.tasks[task].announced_to.take() {
            self.ranks[rank].announced -= 1;
            self.cancel(task, rank);
        }
    }

    /// Withdraws all announcements, because the plan is replaced or discarded.
    pub(super) fn take_announcements_back(&mut self) {
        (0..self.tasks.len()).for_each(|task| self.take_announcement_back(task));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use armature_planner::workflow::TaskMemory;
    use armature_workflow_files::{Action, Description, Task};

    use super::*;
    use crate::workflow::graph::Graph;
    use crate::workflow::messages::{Content, Done, Orders, Report};
    use crate::workflow::worker::{Settings, Step, Worker};

    /// Returns a chain of tasks on rank 0, and a task on rank 1 that reads the first and the last output of the chain.
    fn chain() -> (Arc<Graph>, Master) {
        let mut builder = Description::builder("chain");
        for name in ["0", "1", "2", "3", "4", "reads"] {
            builder.task(Task::new(name, Action::Closure("c".into())));
        }
        for (from, to) in [("0", "1"), ("1", "2"), ("2", "3"), ("3", "4"), ("0", "reads"), ("4", "reads")] {
            builder.edge(from, to, 10);
        }
        let graph = Arc::new(Graph::new(&builder.build().unwrap(), 2, TaskMemory::Additive).unwrap());
        let mut master = Master::new(graph.clone(), 2, &[], 0);
        master.plan(&[0, 0, 0, 0, 0, 1], graph.dag.topological_order());
        master.begin();
        (graph, master)
    }

    fn orders_of(master: &mut Master, rank: usize) -> Orders {
        master
            .take_orders()
            .filter(|(to, _)| *to == rank)
            .map(|(_, orders)| orders)
            .next()
            .unwrap_or_default()
    }

    #[test]
    fn inputs_are_asked_for_before_the_last_parent_is_ordered() {
        let (graph, mut master) = chain();
        let orders = orders_of(&mut master, 1);
        assert!(master.tasks[4].state == State::Waiting && master.tasks[5].state == State::Waiting);
        let [order] = &orders.orders[..] else { panic!("{orders:?}") };
        assert!(order.task == 5 && order.is_announced && order.sources == [0, 0], "{order:?}");
        let settings = Settings { budget: u64::MAX, collects: false, journals: false };
        let mut worker = Worker::new(1, graph, settings);
        worker.on_orders(orders);
        let messages = worker.take_messages();
        let [(0, Content::Want(wanted))] = &messages[..] else { panic!("{messages:?}") };
        assert_eq!(wanted.iter().map(|(task, _)| *task).collect::<Vec<_>>(), [0, 4]);
        assert!(matches!(worker.next(), Step::Nothing), "it is not to begin");
        for task in 0..5 {
            let done = Done { task, attempt: 0, bytes: 8, took: 5_000_000, peak_memory: None };
            master.on_report(0, Report { done: vec![done], ..Report::default() }).unwrap();
        }
        let orders = orders_of(&mut master, 1);
        assert!(orders.cancelled.is_empty() && !orders.orders[0].is_announced, "{orders:?}");
        assert_eq!(master.ranks[1].announced, 0);
    }

    #[test]
    fn nothing_comes_where_it_was_announced_once_there_is_no_plan() {
        let (_, mut master) = chain();
        orders_of(&mut master, 1);
        master.take_announcements_back();
        assert_eq!(orders_of(&mut master, 1).cancelled, [5]);
        assert_eq!(master.tasks[5].announced_to, None);
    }
}
