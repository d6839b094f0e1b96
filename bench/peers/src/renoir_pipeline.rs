//! Pipeline of trivial stages and farm of trivial tasks with the framework renoir, on two hosts of one core each.

use renoir::{
    BatchMode, Replication, StreamContext,
    config::{ConfigBuilder, HostConfig, SSHConfig},
};

use crate::{
    PeerRun,
    item::Item,
    meter::{self, Fold},
    stages, task,
};

fn context(peer_run: &PeerRun) -> Result<StreamContext, String> {
    let PeerRun { process, port, .. } = *peer_run;
    let host = |port| HostConfig {
        address: "127.0.0.1".into(),
        base_port: port,
        num_cores: 1,
        ssh: SSHConfig::default(),
        perf_path: None,
    };
    let config = ConfigBuilder::new_remote()
        .add_hosts(&[host(port), host(port + 100)])
        .host_id(process as u64)
        .build()
        .map_err(|e| e.to_string())?;
    Ok(StreamContext::new(config))
}

pub(crate) fn run<I: Item>(peer_run: PeerRun) -> Result<(), String> {
    let environment = context(&peer_run)?;
    let PeerRun { size, batch, items, .. } = peer_run;
    let mut sink = meter::Sink::new(items, Fold::InOrder);
    environment
        .stream_iter((0..items as u64).map(move |word| I::new(word, size)))
        .batch_mode(BatchMode::fixed(batch))
        .map(|item| {
            let word = stages::first(item.word());
            item.with(word)
        })
        .map(|item| {
            let word = stages::second(item.word());
            item.with(word)
        })
        // Every item goes to the second of the stage's two replicas, which is on the second host.
        .repartition_by(Replication::Unlimited, |_: &I| 1)
        .map(|item| {
            meter::count_far();
            let word = stages::third(item.word());
            item.with(word)
        })
        .map(|item| {
            let word = stages::fourth(item.word());
            item.with(word)
        })
        .replication(Replication::One)
        .for_each(move |item| sink.take(&item));
    environment.execute_blocking();
    Ok(())
}

/// Runs a farm of independent tasks. If `both` is true, renoir distributes the tasks to both hosts by the hash of their numbers, otherwise all run on
/// the second host.
pub(crate) fn farm<I: Item>(peer_run: PeerRun, both: bool) -> Result<(), String> {
    let environment = context(&peer_run)?;
    let PeerRun { size, batch, items, .. } = peer_run;
    let mut sink = meter::Sink::new(items, Fold::Sum);
    environment
        .stream_iter((0..items as u64).map(move |word| I::new(word, size)))
        .batch_mode(BatchMode::fixed(batch))
        .repartition_by(Replication::Unlimited, move |item: &I| if both { item.word() } else { 1 })
        .map(|item| {
            meter::count_far();
            let word = task::work(item.word());
            item.with(word)
        })
        .replication(Replication::One)
        .for_each(move |item| sink.take(&item));
    environment.execute_blocking();
    Ok(())
}
