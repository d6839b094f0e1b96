//! Whole pipelines of machines, without ranks: a test network that delivers and computes in any order.
//!
//! The machines are the ones that run for real; only what carries their letters and does their jobs is replaced. So
//! every interleaving that a seed can think of is tried, and a run in which nothing can move any more fails at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use armature_planner::pipeline::{Block, Dispatch, Mapping};
use proptest::prelude::*;

use super::parcel::{Parcel, Payload};
use super::window::WindowPlan;
use super::*;
use crate::pipeline::erased::{Items, Range};
use crate::session::BatchMode;
use crate::session::post::ENVELOPE;

/// What a run is about.
#[derive(Clone, Debug)]
struct Setting {
    ranks: usize,
    blocks: Vec<Block>,
    dispatch: Dispatch,
    serial: Vec<bool>,
    items: u64,
    batch: usize,
    window: usize,
    ahead: usize,
}

/// All ranks, the letters between them, and the jobs that they are doing.
struct World {
    machines: Vec<Machine>,
    /// By sender and receiver: letters on their way, in order.
    wires: Vec<Vec<VecDeque<Message>>>,
    jobs: Vec<Option<Job>>,
    /// Batches by block, in the order in which they were processed.
    seen: Vec<Vec<u64>>,
    /// Items at the sink.
    out: Vec<u64>,
    most_in_flight: usize,
}

impl World {
    fn new(setting: &Setting) -> Self {
        let mapping = Mapping::new(setting.blocks.clone());
        let codecs: Vec<Arc<dyn Codec>> =
            (0..=setting.serial.len()).map(|_| Arc::new(wire::Codec::<u64>::of_type()) as _).collect();
        let table = Table::new(1, mapping, setting.dispatch, &setting.serial, true);
        let plan = WindowPlan {
            batch: BatchMode::Fixed(setting.batch),
            batch_time: Duration::ZERO,
            fixed: Some(setting.window),
            bytes: usize::MAX,
            hosts: 1,
            ahead: setting.ahead,
        };
        let machine = |me: usize| {
            let machine = Machine::new(me, 1, table.clone(), codecs.clone(), setting.ahead);
            if me == 0 { machine.with_source(plan, 0, Duration::ZERO) } else { machine }
        };
        World {
            machines: (0..setting.ranks).map(machine).collect(),
            wires: (0..setting.ranks).map(|_| vec![VecDeque::new(); setting.ranks]).collect(),
            jobs: (0..setting.ranks).map(|_| None).collect(),
            seen: vec![Vec::new(); setting.blocks.len()],
            out: Vec::new(),
            most_in_flight: 0,
        }
    }

    fn post(&mut self, rank: usize) {
        let mail: Vec<_> = self.machines[rank].take_mail().collect();
        for (to, message) in mail {
            self.wires[rank][to].push_back(message);
        }
    }

    fn deliver(&mut self, from: usize, to: usize) {
        let message = self.wires[from][to].pop_front().expect("the step was possible");
        let kind = [Kind::Data, Kind::Request, Kind::Offer, Kind::Assign]
            .into_iter()
            .find(|k| *k as u8 == message.head[4])
            .expect("machines send these four kinds");
        let letter = Letter { from, kind, body: message.head.slice(ENVELOPE..), parts: message.parts };
        assert_eq!(epoch_of(&letter).unwrap(), 1);
        self.machines[to].on_letter(letter).unwrap();
        self.post(to);
    }

    fn finish_job(&mut self, rank: usize, total: u64) {
        let done = match self.jobs[rank].take().expect("the step was possible") {
            Job::Draw { number, first, fill } => {
                let last = (first + fill.items as u64).min(total);
                let count = (last - first) as u32;
                let items: Items = Box::new((first..last).collect::<Vec<u64>>());
                let parcel = (count > 0).then(|| Parcel {
                    number,
                    range: Range { first, count, dropped: Vec::new() },
                    service: Duration::ZERO,
                    widest: 0,
                    payload: Payload::Items(items),
                });
                Done::Drawn { parcel, ended: last == total }
            }
            Job::Process { block, parcel } => {
                self.seen[block].push(parcel.number);
                Done::Processed { block, parcel }
            }
            Job::Consume { parcel } => {
                let items = match parcel.payload {
                    Payload::Items(items) => items,
                    Payload::Bytes { head, parts } => wire::Codec::<u64>::of_type()
                        .decode(head, parts, parcel.range.live())
                        .map(|items| Box::new(items) as Items)
                        .unwrap(),
                };
                self.out.extend(items.downcast_ref::<Vec<u64>>().unwrap());
                Done::Consumed { count: parcel.range.count as usize, service: Duration::ZERO, bytes: 0 }
            }
        };
        self.machines[rank].on_done(done, Duration::ZERO).unwrap();
        self.post(rank);
    }

    /// Runs to the end; `choose` picks one of so many possible steps.
    fn run(mut self, setting: &Setting, mut choose: impl FnMut(usize) -> usize) -> Self {
        for rank in 0..setting.ranks {
            self.machines[rank].start().unwrap();
            self.post(rank);
        }
        loop {
            for rank in 0..setting.ranks {
                if self.jobs[rank].is_none() {
                    self.jobs[rank] = self.machines[rank].next_job().unwrap();
                    self.post(rank);
                }
            }
            let flow = self.machines[0].source().unwrap().flow();
            self.most_in_flight = self.most_in_flight.max(flow.in_flight);
            let wires =
                (0..setting.ranks).flat_map(|from| (0..setting.ranks).map(move |to| (from, Some(to))));
            let steps: Vec<(usize, Option<usize>)> = wires
                .filter(|&(from, to)| to.is_some_and(|to| !self.wires[from][to].is_empty()))
                .chain((0..setting.ranks).filter(|&r| self.jobs[r].is_some()).map(|r| (r, None)))
                .collect();
            if self.machines[0].source().unwrap().is_over() {
                return self;
            }
            assert!(!steps.is_empty(), "nothing can move any more:\n{:#?}", self.machines);
            match steps[choose(steps.len()) % steps.len()] {
                (from, Some(to)) => self.deliver(from, to),
                (rank, None) => self.finish_job(rank, setting.items),
            }
        }
    }
}

/// Any mapping of up to five stages to up to five ranks, shared ranks included.
fn setting() -> impl Strategy<Value = Setting> {
    (1usize..6, 1usize..6).prop_flat_map(|(ranks, stages)| {
        let cut = prop::collection::vec(any::<bool>(), stages - 1);
        let hosts = prop::collection::vec(
            prop::sample::subsequence((0..ranks).collect::<Vec<_>>(), 1..=ranks),
            stages,
        );
        let serial = prop::collection::vec(prop::bool::weighted(0.3), stages);
        let numbers = (0u64..200, 1usize..8, 1usize..12, 1usize..4, any::<bool>());
        (cut, hosts, serial, numbers).prop_map(
            move |(cut, hosts, serial, (items, batch, window, ahead, turns))| {
                let mut blocks: Vec<Block> = Vec::new();
                for stage in 0..stages {
                    match blocks.last_mut() {
                        Some(block) if !cut[stage - 1] => block.stages.end = stage + 1,
                        _ => blocks.push(Block::new(stage..stage + 1, hosts[stage].clone())),
                    }
                }
                for block in &mut blocks {
                    if block.stages.clone().any(|s| serial[s]) {
                        block.hosts.truncate(1);
                    }
                }
                let dispatch = if turns { Dispatch::RoundRobin } else { Dispatch::OnDemand };
                Setting { ranks, blocks, dispatch, serial, items, batch, window, ahead }
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_item_arrives_once_and_in_order_whatever_happens_when(
        setting in setting(),
        choices in prop::collection::vec(any::<prop::sample::Index>(), 1..200),
    ) {
        let mut at = 0;
        let world = World::new(&setting).run(&setting, |steps| {
            at += 1;
            choices[at % choices.len()].index(steps)
        });
        let batches = setting.items.div_ceil(setting.batch as u64);
        prop_assert!(world.out.iter().copied().eq(0..setting.items));
        prop_assert!(world.most_in_flight <= setting.window);
        for (block, mut seen) in setting.blocks.iter().zip(world.seen) {
            if block.stages.clone().any(|s| setting.serial[s]) {
                prop_assert!(seen.is_sorted(), "a serial stage saw {seen:?}");
            }
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..batches), "each batch once");
        }
    }
}

#[test]
fn a_letter_that_does_not_fit_is_an_error() {
    let setting = Setting {
        ranks: 3,
        blocks: vec![Block::new(0..1, vec![1, 2])],
        dispatch: Dispatch::OnDemand,
        serial: vec![false],
        items: 1,
        batch: 1,
        window: 1,
        ahead: 1,
    };
    let mut world = World::new(&setting);
    let mut refuses = |rank: usize, kind: Kind, body: Vec<u8>| {
        let letter = Letter { from: 1, kind, body: body.into(), parts: Vec::new() };
        let error = world.machines[rank].on_letter(letter).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Wire);
        assert!(error.message().starts_with("from rank 1: "), "{error}");
    };
    let bytes = |content: &Assign| wire::to_bytes(content).unwrap();
    refuses(0, Kind::Assign, bytes(&Assign { epoch: 1, edge: 9, number: 0, receiver: 1 }));
    refuses(0, Kind::Assign, bytes(&Assign { epoch: 1, edge: 0, number: 7, receiver: 1 }));
    refuses(0, Kind::Assign, bytes(&Assign { epoch: 1, edge: 0, number: 7, receiver: 0 }));
    refuses(2, Kind::Offer, wire::to_bytes(&Offer { epoch: 1, edge: 0, number: 0 }).unwrap());
    refuses(0, Kind::Request, vec![1, 2, 3]);
    refuses(0, Kind::Data, vec![0; 10]);
    refuses(0, Kind::Start, vec![]);
}
