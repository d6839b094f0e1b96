//! State of a rank as text.

use super::{Place, Worker};

impl Worker {
    /// Returns a text with the running tasks and the values for which the first order waits.
    pub(in crate::workflow) fn state(&self) -> String {
        let name = |task: usize| self.graph.dag.name(task).to_string();
        let running: Vec<String> = self.running().map(name).collect();
        let mut state = match running.is_empty() {
            true => "runs nothing".to_string(),
            false => format!("runs {}", running.join(", ")),
        };
        let mut queued = self.queue.values().filter(|order| !order.is_announced);
        state += &format!("; {} queued, {} ready", queued.clone().count(), self.ready.len());
        let blocked = queued.next().filter(|_| self.ready.is_empty());
        if let Some(order) = blocked {
            let parents = self.graph.parents(order.task);
            let missing = parents.filter(|&parent| !self.values[parent].place.is_in_memory());
            let missing: Vec<String> = missing.map(|parent| self.whereabouts(parent)).collect();
            state += &format!("; {} waits for {}", name(order.task), missing.join(", "));
        }
        if self.settings.budget < u64::MAX {
            state += &format!("; {} of {} bytes held", self.taken(), self.settings.budget);
        }
        state
    }

    fn whereabouts(&self, task: usize) -> String {
        let name = self.graph.dag.name(task);
        match self.values[task].place {
            Place::Absent => format!("{name} (to be made here)"),
            Place::Wanted(rank) => format!("{name} (to be made on rank {rank})"),
            Place::Offered(rank) => format!("{name} (on rank {rank}, for which there is no room yet)"),
            Place::Coming(rank) => format!("{name} (coming from rank {rank})"),
            _ => format!("{name} (on disk)"),
        }
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("rank", &self.rank)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
