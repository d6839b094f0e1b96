//! What a rank measures for rank 0's decisions: service times of the stages that run here, sizes of items.

use serde::{Deserialize, Serialize};

use super::workshop::Work;

/// What one rank has measured so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Measures {
    /// By stage, for those that have run here.
    pub(crate) services: Vec<Option<Service>>,
    /// By edge (the number of stages before it): bytes and items.
    pub(crate) volumes: Vec<(u64, u64)>,
}

/// How long an item keeps a stage busy on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Service {
    /// Seconds per item.
    pub(crate) seconds: f64,
    /// Items that the estimate stands on.
    pub(crate) items: u64,
    /// Whether it no longer moves.
    pub(crate) settled: bool,
}

/// Takes up what jobs tell.
#[derive(Debug)]
pub(crate) struct Meter {
    services: Vec<(f64, u64)>,
    /// By edge: bytes and items of batches that were weighed without being sent.
    weighed: Vec<(u64, u64)>,
}

impl Meter {
    pub(crate) fn new(stages: usize) -> Self {
        Meter { services: vec![(0.0, 0); stages], weighed: vec![(0, 0); stages + 1] }
    }

    pub(crate) fn note(&mut self, work: &Work) {
        for lap in work.laps.iter().filter(|lap| lap.items > 0) {
            let (seconds, items) = &mut self.services[lap.stage];
            *seconds += lap.took.as_secs_f64();
            *items += lap.items as u64;
        }
        for weight in &work.weights {
            let (bytes, items) = &mut self.weighed[weight.edge];
            *bytes += weight.bytes as u64;
            *items += weight.items as u64;
        }
    }

    /// All that is known now; `sent` is what went over each edge.
    pub(crate) fn measures(&self, sent: &[(u64, u64)]) -> Measures {
        let service = |&(seconds, items): &(f64, u64)| {
            (items > 0).then(|| Service { seconds: seconds / items as f64, items, settled: items >= 8 })
        };
        let volume = |(&(b, n), &(sent_b, sent_n)): (&(u64, u64), &(u64, u64))| (b + sent_b, n + sent_n);
        Measures {
            services: self.services.iter().map(service).collect(),
            volumes: self.weighed.iter().zip(sent).map(volume).collect(),
        }
    }
}
