//! Tables of work and transfer times, for fast evaluation of mappings.

use std::ops::Range;

use crate::cores::SharedCores;
use crate::pipeline::spec::PipelineSpec;
use crate::platform::Platform;

#[derive(Clone, Debug)]
pub(in crate::pipeline) struct Costs {
    nodes: usize,
    /// `[set-up time, seconds per byte]` of the link between each pair of nodes (processors and the outside world); 0 between a node and itself.
    links: Vec<[f64; 2]>,
    seconds_per_work: Vec<f64>,
    /// For each stage k, the total work of the stages before it; the last entry is the work of all stages.
    work_before: Vec<f64>,
    /// For each stage, the size in bytes of an item that enters it; the last entry is the size of an item that leaves the pipeline.
    bytes: Vec<f64>,
    /// For each node (processor or outside world), the mean set-up time and the inverse mean bandwidth of its links (c̄ and 1/B̄ in the HeDPM paper).
    /// The means are used while the processor of the previous or next stage is not chosen yet.
    mean_links: Vec<[f64; 2]>,
    overlap: bool,
    shared: Vec<SharedCores>,
}

impl Costs {
    pub(in crate::pipeline) fn new(platform: &Platform, spec: &PipelineSpec) -> Self {
        let (processors, nodes) = (platform.processors(), platform.processors() + 1);
        let mut links = Vec::with_capacity(nodes * nodes);
        let mut mean_links = Vec::with_capacity(nodes);
        for p in 0..nodes {
            let (mut setup, mut bandwidth) = (0.0, 0.0);
            for q in 0..nodes {
                let link = platform.link(p, q);
                setup += link.setup;
                bandwidth += link.bandwidth;
                links.push([link.setup, link.bandwidth.recip()]);
            }
            mean_links.push([setup / nodes as f64, nodes as f64 / bandwidth]);
            links[p * nodes + p] = [0.0; 2];
        }
        if let Some(home) = platform.ext_on() {
            links[home * nodes + processors] = [0.0; 2];
            links[processors * nodes + home] = [0.0; 2];
        }
        let mut work_before = vec![0.0];
        for stage in &spec.stages {
            work_before.push(work_before[work_before.len() - 1] + stage.work);
        }
        Costs {
            nodes,
            links,
            seconds_per_work: platform.speeds().iter().map(|speed| speed.recip()).collect(),
            work_before,
            bytes: (0..=spec.len()).map(|k| spec.bytes_into(k)).collect(),
            mean_links,
            overlap: platform.overlap(),
            shared: platform.shared_cores().to_vec(),
        }
    }

    pub(in crate::pipeline) fn stages(&self) -> usize {
        self.bytes.len() - 1
    }

    pub(in crate::pipeline) fn processors(&self) -> usize {
        self.nodes - 1
    }

    pub(in crate::pipeline) fn shared_cores(&self) -> &[SharedCores] {
        &self.shared
    }

    pub(in crate::pipeline) fn ext(&self) -> usize {
        self.nodes - 1
    }

    pub(in crate::pipeline) fn work(&self, stages: &Range<usize>) -> f64 {
        self.work_before[stages.end] - self.work_before[stages.start]
    }

    pub(in crate::pipeline) fn compute(&self, stages: &Range<usize>, p: usize) -> f64 {
        self.work(stages) * self.seconds_per_work[p]
    }

    /// Returns the seconds in which an item, with its size before stage `k`, is sent from node `from` to node `to`.
    pub(in crate::pipeline) fn transfer(&self, from: usize, to: usize, k: usize) -> f64 {
        let [setup, per_byte] = self.links[from * self.nodes + to];
        setup + self.bytes[k] * per_byte
    }

    pub(in crate::pipeline) fn mean_transfer(&self, p: usize, k: usize) -> f64 {
        self.mean_link_time(p, self.bytes[k])
    }

    pub(in crate::pipeline) fn mean_link_time(&self, p: usize, bytes: f64) -> f64 {
        let [setup, per_byte] = self.mean_links[p];
        setup + bytes * per_byte
    }

    pub(in crate::pipeline) fn receive(&self, senders: &[usize], p: usize, k: usize) -> f64 {
        senders.iter().fold(0.0, |slowest, &q| f64::max(slowest, self.transfer(q, p, k)))
    }

    pub(in crate::pipeline) fn send(&self, p: usize, receivers: &[usize], k: usize) -> f64 {
        receivers.iter().fold(0.0, |slowest, &q| f64::max(slowest, self.transfer(p, q, k)))
    }

    pub(in crate::pipeline) fn push_times(
        &self,
        stages: &Range<usize>,
        hosts: &[usize],
        before: &[usize],
        after: &[usize],
        times: &mut Vec<f64>,
    ) {
        times.extend(hosts.iter().map(|&p| {
            let receive = self.receive(before, p, stages.start);
            let compute = self.compute(stages, p);
            let send = self.send(p, after, stages.end);
            if self.overlap { receive.max(compute).max(send) } else { receive + compute + send }
        }));
    }
}
