//! Messages from other ranks: orders of the master; values, offers and requests of other ranks.

use std::cmp::Reverse;

use super::{Held, Key, Place, Queued, SENT_UNASKED, UNASKED_PART, Value, Worker};
use crate::observe::{Event, ValueCame};
use crate::workflow::messages::{Content, Order, Orders};

impl Worker {
    /// Handles orders of the master.
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
        // Changed sources are handled last, because they may concern inputs of the new orders.
        for (task, rank) in orders.moved {
            self.moved(task, rank);
        }
        self.fetch_ahead();
    }

    fn enqueue(&mut self, order: &Order) {
        let task = order.task;
        let is_announced = |key: &Key| self.queue.get(key).is_some_and(|order| order.is_announced);
        let announced = self.keys[task].filter(is_announced);
        // The order is queued already, or the task is running.
        if self.keys[task] != announced || self.running.contains_key(&task) {
            return;
        }
        announced.map(|key| self.queue.remove(&key));
        let graph = self.graph.clone();
        let (mut missing, mut absent) = (0, 0);
        for (parent, &source) in graph.parents(task).zip(&order.sources) {
            // A value that is in transit for a withdrawn order is now read from another rank.
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

    /// Removes an order from the queue.
    pub(super) fn unqueue(&mut self, task: usize) {
        let Some(key) = self.keys[task].take() else { return };
        self.queue.remove(&key);
        self.ready.remove(&key);
        self.available.remove(&key);
        let graph = self.graph.clone();
        graph.parents(task).for_each(|parent| self.unuse(parent));
    }

    /// Requests a value from the rank that computes it or has computed it.
    fn want(&mut self, task: usize, source: usize) {
        self.set(task, Place::Wanted(source));
        let room = if self.settings.budget == u64::MAX { u64::MAX } else { self.grant(task) };
        self.ask(task, source, room);
    }

    /// Returns the size up to which a value may arrive without reserved memory: that of a small value, or less if the values allowed so far
    /// already reach their maximum.
    fn grant(&mut self, task: usize) -> u64 {
        let beyond = self.taken().saturating_sub(self.settings.budget);
        let left = (self.settings.budget / UNASKED_PART).saturating_sub(self.granted + beyond);
        let room = SENT_UNASKED.min(left);
        self.granted += room;
        self.values[task].granted = room;
        room
    }

    /// Requests a value, which is sent at once if it is not larger than `room` bytes.
    pub(super) fn ask(&mut self, task: usize, source: usize, room: u64) {
        if let Some((to, Content::Want(values))) = self.out.last_mut()
            && *to == source
        {
            values.push((task, room));
        } else {
            self.out.push((source, Content::Want(vec![(task, room)])));
        }
    }

    /// Handles a change of the source of a value.
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

    /// Handles a request for values by another rank.
    pub(in crate::workflow) fn on_want(&mut self, from: usize, values: Vec<(usize, u64)>) {
        for (task, room) in values {
            if self.values[task].place.is_elsewhere() {
                self.put_off(task, from, room);
            } else {
                self.give(task, from, room);
            }
        }
    }

    /// Postpones a request until the value is computed on this rank, which may never happen. If the value was here and has been dropped,
    /// the requesting rank is informed, because it may have reserved memory for it.
    pub(super) fn put_off(&mut self, task: usize, to: usize, room: u64) {
        self.wanted_by.entry(task).or_default().push((to, room));
        if self.values[task].is_gone {
            self.out.push((to, Content::Gone(task)));
        }
    }

    /// Handles the answer that a requested value has been dropped by its owner. An order that still needs the value waits until it is
    /// computed again.
    pub(in crate::workflow) fn on_gone(&mut self, from: usize, task: usize) {
        self.expect_no_more(task, from);
    }

    /// Releases the memory reserved for a value that no order on this rank reads and that `source` does not send.
    pub(super) fn expect_no_more(&mut self, task: usize, source: usize) {
        let held = &self.values[task];
        if held.uses == 0 && matches!(held.place, Place::Coming(from) if from == source) {
            self.set(task, Place::Absent);
        }
    }

    /// Sends a value to another rank, or its size if it is larger than `room` bytes.
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

    /// Handles offers: the requested values exist and are too large to be sent without reserved memory.
    pub(in crate::workflow) fn on_offer(&mut self, from: usize, values: Vec<(usize, u64)>) {
        for (task, bytes) in values {
            if matches!(self.values[task].place, Place::Wanted(source) if source == from) {
                self.values[task].bytes = bytes;
                self.set(task, Place::Offered(from));
            }
        }
        self.fetch_ahead();
    }

    /// Handles a value from another rank.
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
        // Reserved memory has the size of the value, so it is released before the size is set.
        self.set(task, Place::Absent);
        (self.values[task].bytes, self.values[task].from) = (bytes, Some(from));
        // A value that was sent for the caller or the journal may be too large to be held as an input as well.
        self.set(task, if has_room { Place::Memory(value) } else { Place::Offered(from) });
    }
}
