//! What comes from others: orders of the master, values, offers and wishes of other ranks.

use std::cmp::Reverse;

use super::{Held, Key, Place, Queued, SENT_UNASKED, UNASKED_PART, Value, Worker};
use crate::observe::{Event, ValueCame};
use crate::workflow::messages::{Content, Order, Orders};

impl Worker {
    /// The master wants something.
    pub(in crate::workflow) fn on_orders(&mut self, orders: Orders) {
        for task in orders.cancelled {
            self.unqueue(task);
        }
        for task in orders.recalled {
            if self.keys[task].is_some() {
                self.unqueue(task);
                self.report.returned.push(task);
            }
        }
        for task in orders.dropped {
            (self.values[task].is_origin, self.values[task].is_gone) = (false, true);
            self.drop_if_unused(task);
        }
        for order in orders.orders {
            self.enqueue(&order);
        }
        // Last, as it may be about what these orders read.
        for (task, rank) in orders.moved {
            self.moved(task, rank);
        }
        self.fetch_ahead();
    }

    fn enqueue(&mut self, order: &Order) {
        let task = order.task;
        let is_announced = |key: &Key| self.queue.get(key).is_some_and(|order| order.is_announced);
        let announced = self.keys[task].filter(is_announced);
        // One that is here already, or runs, is the same.
        if self.keys[task] != announced || self.running.contains_key(&task) {
            return;
        }
        announced.map(|key| self.queue.remove(&key));
        let graph = self.graph.clone();
        let (mut missing, mut absent) = (0, 0);
        for (parent, &source) in graph.parents(task).zip(&order.sources) {
            // What came for an order that was taken back comes from elsewhere now.
            let held = &self.values[parent];
            if held.uses == 0 && matches!(held.place, Place::Coming(from) if from != source) {
                self.set(parent, Place::Absent);
            }
            self.values[parent].uses += u32::from(announced.is_none());
            match self.values[parent].place {
                Place::Absent if source != self.rank => self.want(parent, source),
                Place::Wanted(from) if from != source => self.moved(parent, source),
                _ => {}
            }
            let place = &self.values[parent].place;
            missing += usize::from(!place.is_available());
            absent += usize::from(!place.is_in_memory());
        }
        if !order.is_announced {
            self.trace.ordered(task);
        }
        let key = (order.place, Reverse(graph.needs(task).priority), self.next_number);
        self.next_number += 1;
        self.keys[task] = Some(key);
        let &Order { attempt, exceeded, is_announced, is_suspect, .. } = order;
        if absent == 0 && !is_announced {
            self.ready.insert(key);
        }
        if missing == 0 && !is_announced {
            self.available.insert(key);
        }
        self.queue.insert(key, Queued { task, is_announced, is_suspect, attempt, exceeded, missing, absent });
    }

    /// Takes an order out of the queue again.
    pub(super) fn unqueue(&mut self, task: usize) {
        let Some(key) = self.keys[task].take() else { return };
        self.queue.remove(&key);
        self.ready.remove(&key);
        self.available.remove(&key);
        let graph = self.graph.clone();
        graph.parents(task).for_each(|parent| self.unuse(parent));
    }

    /// Asks another rank for a value that is to be made there, or has been.
    fn want(&mut self, task: usize, source: usize) {
        self.set(task, Place::Wanted(source));
        let room = if self.settings.budget == u64::MAX { u64::MAX } else { self.grant(task) };
        self.ask(task, source, room);
    }

    /// Allows a small value to come at any time, whatever is in memory then, unless many have been allowed to.
    fn grant(&mut self, task: usize) -> u64 {
        let beyond = self.taken().saturating_sub(self.settings.budget);
        let left = (self.settings.budget / UNASKED_PART).saturating_sub(self.granted + beyond);
        let room = SENT_UNASKED.min(left);
        self.granted += room;
        self.values[task].granted = room;
        room
    }

    /// Asks for it, if it is no larger than `room`.
    pub(super) fn ask(&mut self, task: usize, source: usize, room: u64) {
        if let Some((to, Content::Want(values))) = self.out.last_mut()
            && *to == source
        {
            values.push((task, room));
        } else {
            self.out.push((source, Content::Want(vec![(task, room)])));
        }
    }

    /// A value comes from another rank than was said.
    fn moved(&mut self, task: usize, rank: usize) {
        let Held { place, uses, .. } = &self.values[task];
        let is_known = matches!(place, Place::Wanted(from) | Place::Offered(from) | Place::Coming(from) if *from == rank);
        if is_known || !place.is_elsewhere() || *uses == 0 {
            return;
        }
        self.set(task, Place::Absent);
        if rank != self.rank {
            self.want(task, rank);
        }
    }

    /// Another rank needs values.
    pub(in crate::workflow) fn on_want(&mut self, from: usize, values: Vec<(usize, u64)>) {
        for (task, room) in values {
            if self.values[task].place.is_elsewhere() {
                self.put_off(task, from, room);
            } else {
                self.give(task, from, room);
            }
        }
    }

    /// A value is not here; should it be made here, perhaps again, it is sent then. Who has made room for one that is gone hears of it.
    pub(super) fn put_off(&mut self, task: usize, to: usize, room: u64) {
        self.wanted_by.entry(task).or_default().push((to, room));
        if self.values[task].is_gone {
            self.out.push((to, Content::Gone(task)));
        }
    }

    /// A value that was asked for is not where it was. Who still needs it here waits for it to be made again.
    pub(in crate::workflow) fn on_gone(&mut self, from: usize, task: usize) {
        self.expect_no_more(task, from);
    }

    /// Room is kept no more for a value that nobody here needs, and that does not come.
    pub(super) fn expect_no_more(&mut self, task: usize, source: usize) {
        let held = &self.values[task];
        if held.uses == 0 && matches!(held.place, Place::Coming(from) if from == source) {
            self.set(task, Place::Absent);
        }
    }

    /// Gives a value to another rank, or says how large it is.
    pub(super) fn give(&mut self, task: usize, to: usize, room: u64) {
        let held = &self.values[task];
        if held.bytes > room {
            self.out.push((to, Content::Offer(vec![(task, held.bytes)])));
        } else if let Place::Memory(value) = &held.place {
            let value = value.clone();
            self.send(to, task, value);
        } else {
            self.serving.push_back((task, to));
        }
    }

    /// Values that were asked for are there, and larger than what may come at once.
    pub(in crate::workflow) fn on_offer(&mut self, from: usize, values: Vec<(usize, u64)>) {
        for (task, bytes) in values {
            if matches!(self.values[task].place, Place::Wanted(source) if source == from) {
                self.values[task].bytes = bytes;
                self.set(task, Place::Offered(from));
            }
        }
        self.fetch_ahead();
    }

    /// A value has come.
    pub(in crate::workflow) fn on_value(&mut self, from: usize, task: usize, value: Value) {
        if self.rank == 0 && self.settings.keeps(&self.graph, task) {
            self.kept.push((task, value.clone()));
        }
        self.expect_no_more(task, from);
        let held = &self.values[task];
        if held.uses == 0 || !held.place.is_elsewhere() {
            return;
        }
        let bytes = value.bytes();
        self.trace.note(|| {
            Event::ValueCame(ValueCame { task: self.graph.dag.name(task).to_string(), from, bytes })
        });
        let has_room = matches!(held.place, Place::Coming(_)) || bytes <= held.granted || self.fits(bytes);
        // What room was kept for has the same size.
        self.set(task, Place::Absent);
        (self.values[task].bytes, self.values[task].from) = (bytes, Some(from));
        // One that came to be kept may be too large to be held as well.
        self.set(task, if has_room { Place::Memory(value) } else { Place::Offered(from) });
    }
}
