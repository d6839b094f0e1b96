//! Every kind of mapping for a pipeline, whatever the number of ranks.

use armature::pipeline::{Block, Mapping, MappingChoice};

/// A kind of mapping with its name for messages.
#[derive(Clone, Debug)]
pub struct Named {
    /// What the kind is called.
    pub name: &'static str,
    /// The mapping itself.
    pub mapping: MappingChoice,
}

/// One mapping of each kind for stages of which `serial[s]` must not be replicated, on `ranks` ranks.
pub fn every_kind(serial: &[bool], ranks: usize) -> Vec<Named> {
    let given = |name, blocks| Named { name, mapping: MappingChoice::Given(Mapping::new(blocks)) };
    let everyone: Vec<usize> = (0..ranks).collect();
    let shifted = |by: usize| -> Vec<usize> { (0..ranks).map(|r| (r + by) % ranks).collect() };
    let last = ranks - 1;
    vec![
        Named { name: "serial", mapping: MappingChoice::Serial },
        Named { name: "orderly", mapping: MappingChoice::Orderly },
        given("groups, the first on the last rank", groups(serial.len(), ranks)),
        given("everything on the last rank, others parked", vec![Block::new(0..serial.len(), vec![last])]),
        given("one rank to many", one_to_many(serial, &everyone)),
        given("replicas of a group", runs(serial, serial.len(), |_| everyone.clone())),
        given("replicas of groups, not on rank 0", runs(serial, 2, |_| (1.min(last)..ranks).collect())),
        given("every stage on every rank", runs(serial, 1, shifted)),
        given("even ranks to odd ranks and back", runs(serial, 1, |stage| half(stage, ranks))),
        given("two ranks in turn", runs(serial, 1, |stage| vec![(stage + 1) % 2 * last])),
    ]
}

/// Runs of stages, as even as may be, one for each rank from the last to the first.
fn groups(stages: usize, ranks: usize) -> Vec<Block> {
    let count = ranks.min(stages);
    let start = |g: usize| g * stages / count;
    (0..count).map(|g| Block::new(start(g)..start(g + 1), vec![ranks - 1 - g])).collect()
}

/// The first stage on rank 0, each other one on all ranks.
fn one_to_many(serial: &[bool], everyone: &[usize]) -> Vec<Block> {
    runs(serial, 1, |stage| if stage == 0 { vec![0] } else { everyone.to_vec() })
}

/// Ranks of one parity, which changes from stage to stage; rank 0 alone if there are no others.
fn half(stage: usize, ranks: usize) -> Vec<usize> {
    let hosts: Vec<usize> = (0..ranks).filter(|r| r % 2 == stage % 2).collect();
    if hosts.is_empty() { vec![0] } else { hosts }
}

/// Blocks of up to `length` stages on the hosts that `hosts` gives for their first one. A serial stage is a
/// block of its own, on the last of its hosts.
fn runs(serial: &[bool], length: usize, hosts: impl Fn(usize) -> Vec<usize>) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut start = 0;
    while start < serial.len() {
        if serial[start] {
            let host = hosts(start).pop().unwrap_or(0);
            blocks.push(Block::new(start..start + 1, vec![host]));
            start += 1;
            continue;
        }
        let free = serial[start..].iter().take(length).take_while(|s| !**s).count();
        blocks.push(Block::new(start..start + free, hosts(start)));
        start += free;
    }
    blocks
}
