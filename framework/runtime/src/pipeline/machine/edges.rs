//! Edges of the current mapping, as one rank sees them. An edge is the connection between two groups of consecutive stages, or from the last group to
//! the sink.

use std::collections::BTreeMap;

use super::batch::Batch;
use super::dispatcher::Dispatcher;
use super::input_queue::InputQueue;
use super::sequence_number::SequenceNumber;
use super::table::{Route, Table};
use crate::error::{Error, ErrorKind, Result};

/// Edges of the current mapping (connections between groups of stages), with the batches that wait on this rank.
pub(super) struct Edges {
    edges: Vec<Edge>,
    /// For each group of consecutive stages that this rank has run, by its first stage: maximum number of batches that waited in front of it.
    longest: Vec<usize>,
}

#[derive(Default)]
struct Edge {
    /// Batches that wait on this rank after their arrival over this edge (connection between groups of stages); `None` if this rank receives none.
    input: Option<InputQueue>,
    /// Finished batches of this rank that wait until the dispatcher assigns them to a receiver.
    output: BTreeMap<SequenceNumber, Batch>,
    /// Dispatcher that assigns the batches of this edge (connection between groups of stages) to receivers, if it is on this rank.
    dispatcher: Option<Dispatcher>,
}

impl Edges {
    pub(super) fn new(stages: usize) -> Self {
        Edges { edges: Vec::new(), longest: vec![0; stages] }
    }

    /// Replaces the edges (connections between groups of stages) of the mapping `from` by those of the mapping `to` on rank `me`. Returns all batches
    /// that waited on the rank, oldest first.
    pub(super) fn switch(&mut self, from: &Table, to: &Table, me: usize) -> Vec<Batch> {
        self.longest_queues(from);
        let mut waiting = Vec::new();
        for Edge { input, output, .. } in &mut self.edges {
            waiting.extend(input.iter_mut().flat_map(InputQueue::clear));
            waiting.extend(std::mem::take(output).into_values());
        }
        waiting.sort_unstable_by(|a, b| a.number.cmp(&b.number));
        let edge = |edge| Edge {
            input: to.receivers(edge).contains(&me).then(InputQueue::default),
            output: BTreeMap::new(),
            dispatcher: (to.route(edge) == Route::Pull { dispatcher: me }).then(Dispatcher::default),
        };
        self.edges = (0..=to.last_edge()).map(edge).collect();
        waiting
    }

    pub(super) fn len(&self) -> usize {
        self.edges.len()
    }

    pub(super) fn known(&self, edge: u32) -> Result<usize> {
        let (edge, count) = (edge as usize, self.edges.len());
        if edge < count {
            return Ok(edge);
        }
        Err(Error::new(ErrorKind::Wire, format!("refers to edge {edge}, expected a number below {count}")))
    }

    pub(super) fn input(&self, edge: usize) -> Option<&InputQueue> {
        self.edges.get(edge)?.input.as_ref()
    }

    pub(super) fn input_mut(&mut self, edge: usize) -> Option<&mut InputQueue> {
        self.edges.get_mut(edge)?.input.as_mut()
    }

    pub(super) fn dispatcher(&mut self, edge: usize) -> Result<&mut Dispatcher> {
        self.edges.get_mut(edge).and_then(|edge| edge.dispatcher.as_mut()).ok_or_else(|| {
            Error::new(ErrorKind::Wire, format!("refers to edge {edge}, which another rank dispatches"))
        })
    }

    pub(super) fn store_output(&mut self, edge: usize, batch: Batch) {
        self.edges[edge].output.insert(batch.number.clone(), batch);
    }

    pub(super) fn take_output(&mut self, edge: usize, number: &SequenceNumber) -> Result<Batch> {
        self.edges[edge].output.remove(number).ok_or_else(|| {
            Error::new(
                ErrorKind::Wire,
                format!("assigns batch {number} of edge {edge}, which this rank does not offer"),
            )
        })
    }

    pub(super) fn has_output(&self) -> bool {
        self.edges.iter().any(|edge| !edge.output.is_empty())
    }

    /// Returns, for each group of consecutive stages that this rank has run, by its first stage, the maximum number of batches that waited in front
    /// of it.
    pub(super) fn longest_queues(&mut self, table: &Table) -> &[usize] {
        for (edge, block) in self.edges.iter().zip(table.blocks()) {
            if let Some(input) = &edge.input {
                let longest = &mut self.longest[block.stages.start];
                *longest = input.queued().1.max(*longest);
            }
        }
        &self.longest
    }

    /// Describes the waiting batches and the requests for batches of this rank, for an error message. `name` returns the name of the receiver of an
    /// edge (connection between groups of stages), and `obstacle` the reason why the first waiting batch cannot be started.
    pub(super) fn describe(
        &self,
        name: impl Fn(usize) -> String,
        obstacle: impl Fn(usize, &Batch) -> String,
    ) -> Vec<String> {
        let mut parts = Vec::new();
        for (at, Edge { input, output, dispatcher }) in self.edges.iter().enumerate() {
            let name = name(at);
            if let Some(input) = input {
                let obstacle = input.first().map_or(String::new(), |first| obstacle(at, first));
                let (waiting, requested) = (input.queued().0, input.requested);
                parts.push(format!("{waiting} batch(es) queued for {name}, {requested} requested{obstacle}"));
            }
            if !output.is_empty() {
                parts.push(format!("{} finished batch(es), not yet requested by {name}", output.len()));
            }
            if let Some((offers, requests)) = dispatcher.as_ref().map(Dispatcher::open) {
                parts.push(format!("dispatcher of {name}: {offers} offer(s), {requests} request(s)"));
            }
        }
        parts
    }
}
