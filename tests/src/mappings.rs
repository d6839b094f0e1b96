//! Mappings (assignments of pipeline stages to ranks) of every kind, for any number of ranks.

use armature::pipeline::{Block, Mapping, MappingChoice};

/// Mapping (assignment of the stages of a pipeline to ranks) with a name for messages.
#[derive(Clone, Debug)]
pub struct Named {
    /// Name of the kind of the mapping, for messages.
    pub name: &'static str,
    /// Mapping of pipeline stages to ranks.
    pub mapping: MappingChoice,
}

/// Returns one mapping of each kind onto `ranks` ranks. Stage `s` is on one rank only if `serial[s]` is true.
pub fn every_kind(serial: &[bool], ranks: usize) -> Vec<Named> {
    let named = |name, blocks| Named { name, mapping: MappingChoice::Given(Mapping::new(blocks)) };
    let everyone: Vec<usize> = (0..ranks).collect();
    let shifted = |by: usize| -> Vec<usize> { (0..ranks).map(|r| (r + by) % ranks).collect() };
    let last = ranks - 1;
    vec![
        Named { name: "serial", mapping: MappingChoice::Serial },
        Named { name: "orderly", mapping: MappingChoice::Orderly },
        named("groups, the first on the last rank", groups(serial.len(), ranks)),
        named("everything on the last rank, others parked", vec![Block::new(0..serial.len(), vec![last])]),
        named("one rank to many", one_to_many(serial, &everyone)),
        named("replicas of a group", runs(serial, serial.len(), |_| everyone.clone())),
        named("replicas of groups, not on rank 0", runs(serial, 2, |_| (1.min(last)..ranks).collect())),
        named("every stage on every rank", runs(serial, 1, shifted)),
        named("even ranks to odd ranks and back", runs(serial, 1, |stage| ranks_with_parity(stage, ranks))),
        named("two ranks in turn", runs(serial, 1, |stage| vec![(stage + 1) % 2 * last])),
    ]
}

/// Splits the stages of a pipeline into groups of nearly equal length, one for each rank from the last to the first.
fn groups(stages: usize, ranks: usize) -> Vec<Block> {
    let count = ranks.min(stages);
    let start = |g: usize| g * stages / count;
    (0..count).map(|g| Block::new(start(g)..start(g + 1), vec![ranks - 1 - g])).collect()
}

fn one_to_many(serial: &[bool], everyone: &[usize]) -> Vec<Block> {
    runs(serial, 1, |stage| if stage == 0 { vec![0] } else { everyone.to_vec() })
}

/// Returns the ranks with even numbers if `stage` is even, and those with odd numbers if it is odd; rank 0 if there are none.
fn ranks_with_parity(stage: usize, ranks: usize) -> Vec<usize> {
    let hosts: Vec<usize> = (0..ranks).filter(|r| r % 2 == stage % 2).collect();
    if hosts.is_empty() { vec![0] } else { hosts }
}

/// Splits the stages of a pipeline into groups of up to `length` stages. `hosts` returns the ranks for the first stage of a group. A serial stage is
/// alone, on the last of these ranks.
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
