//! Pipeline of trivial stages with the framework timely: two processes of one worker each, with one timestamp per batch.

use std::time::Duration;

use timely::{
    CommunicationConfig, WorkerConfig,
    dataflow::{
        InputHandle,
        operators::{Exchange, Input, Inspect, Probe, vec::Map},
    },
};

use crate::{
    PeerRun,
    item::Item,
    meter::{self, Fold},
    stages,
};

const WINDOW: usize = 16;

pub(crate) fn run<I: Item>(peer_run: PeerRun) -> Result<(), String> {
    let PeerRun { size, batch, items, process, port } = peer_run;
    let addresses = [port, port + 1].map(|port| format!("127.0.0.1:{port}")).to_vec();
    let communication =
        CommunicationConfig::Cluster { threads: 1, process, addresses, report: false, zerocopy: false };
    let config = timely::Config { communication, worker: WorkerConfig::default() };

    let guards = timely::execute(config, move |worker| {
        let mut input: InputHandle<usize, _> = InputHandle::new();
        let mut sink = meter::Sink::new(items, Fold::InOrder);
        let probe = worker.dataflow(|scope| {
            scope
                .input_from(&mut input)
                .container::<Vec<I>>()
                .map(|item| {
                    let word = stages::first(item.word());
                    item.with(word)
                })
                .map(|item| {
                    let word = stages::second(item.word());
                    item.with(word)
                })
                .exchange(|_| 1)
                .map(|item| {
                    meter::count_far();
                    let word = stages::third(item.word());
                    item.with(word)
                })
                .map(|item| {
                    let word = stages::fourth(item.word());
                    item.with(word)
                })
                .exchange(|_| 0)
                .inspect(move |item| sink.take(item))
                .probe()
                .0
        });
        if worker.index() == 0 {
            let mut next = 0;
            for time in 1.. {
                for word in next..(next + batch).min(items) {
                    input.send(I::new(word as u64, size));
                }
                next += batch;
                if next >= items {
                    break;
                }
                input.advance_to(time);
                worker.step();
                while probe.less_than(&time.saturating_sub(WINDOW)) {
                    worker.step_or_park(Some(Duration::from_millis(1)));
                }
            }
        }
        input.close();
        while worker.step_or_park(Some(Duration::from_millis(10))) {}
    })?;
    guards.join().into_iter().try_for_each(|result| result)
}
