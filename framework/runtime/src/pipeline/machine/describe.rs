//! Description of the state of a machine.

use super::Machine;
use super::dispatcher::Dispatcher;

impl Machine {
    /// Describes what this rank holds and waits for, for the message about a stalled run.
    pub(crate) fn describe(&self) -> String {
        let mut words = Vec::new();
        for (edge, input) in self.inputs.iter().enumerate() {
            let Some(input) = input else { continue };
            let name = self.edge_name(edge);
            let mut text = format!("{} batch(es) before {name}, {} asked for", input.queued().0, input.asked);
            if let Some(first) = input.first() {
                let stages = self.stages_of(first, edge);
                if stages.clone().any(|stage| self.expansions.is_busy(stage)) {
                    text += ", of which a serial stage has more to make of the last";
                } else if !self.resequencer.admit(stages.clone(), &first.number) {
                    text += &match self.resequencer.awaited(stages) {
                        Some(gap) => format!(", waiting for batch {gap}"),
                        None => ", waiting for a serial stage to be handed over".to_string(),
                    };
                }
            }
            words.push(text);
        }
        for (edge, shelf) in self.output_buffers.iter().enumerate().filter(|(_, s)| !s.is_empty()) {
            words.push(format!(
                "{} batch(es) finished, not asked for by {}",
                shelf.len(),
                self.edge_name(edge)
            ));
        }
        for (edge, dispatcher) in self.dispatchers.iter().enumerate() {
            if let Some((offers, requests)) = dispatcher.as_ref().map(Dispatcher::open) {
                words.push(format!(
                    "dispatcher of {}: {offers} offer(s), {requests} request(s)",
                    self.edge_name(edge)
                ));
            }
        }
        match self.expansions.open.len() {
            0 => {}
            open => words
                .push(format!("{open} batch(es) of which pieces have been made, and more are to be made")),
        }
        match self.migration.len() {
            0 => {}
            migration => words.push(format!("{migration} serial stage(s) being handed over")),
        }
        if !self.of_later_mapping.is_empty() {
            words.push(format!("{} message(s) of the next mapping", self.of_later_mapping.len()));
        }
        if let Some(s) = &self.source {
            let (batch_items, in_flight) = (s.window.batch_items(), s.window.in_flight());
            let limit = s.window.limit();
            let drawn = s.items_drawn();
            words.push(format!(
                "{in_flight} of {limit} batches of {batch_items} in flight, {drawn} items drawn"
            ));
            if let Some(first) = s.first_asked() {
                words.push(format!("room is wanted for batch {first}"));
            }
        }
        words.join("; ")
    }

    fn edge_name(&self, edge: usize) -> String {
        if edge == self.table.last_edge() {
            return "the sink".to_string();
        }
        let stages = self.table.stages(edge);
        match self.names.get(stages.clone()) {
            Some(names) => names.join("+"),
            None => format!("stages {}..{}", stages.start, stages.end),
        }
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {}, epoch {}: {}", self.me, self.epoch(), self.describe())
    }
}
