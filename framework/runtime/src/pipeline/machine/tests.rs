//! Tests of whole pipelines in one thread: a simulation delivers the messages between ranks, and calls the stages, in any order.
//!
//! The state machines of the ranks are those of real runs; only the transport of messages and the threads for user code are replaced. The tests try
//! random interleavings, also of changes of the mapping, and fail at once if no step is possible before the end of the run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use armature_planner::pipeline::{Block, Dispatch, Mapping};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestCaseError, TestRunner};

use super::batch::{Batch, BatchKind, Payload, SavedStage};
use super::window::WindowPlan;
use super::*;
use crate::comm::Frame;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::comm::local::{self, LocalTransport};
use crate::comm::message::{Message, received};
use crate::context::Context;
use crate::pipeline::erased::{ErasedStage, Items};
use crate::pipeline::flat_map::{FlatMap, Plain};
use crate::pipeline::messages::{Received, StageToken, Tag, WindowRequest, WindowReturn};
use crate::pipeline::produced_counts::ProducedCounts;
use crate::pipeline::range::Range;
use crate::pipeline::stage_host::expand;
use crate::session::BatchMode;
use crate::wire;

/// Time of sending in all messages of the simulation: 1 ns, because a message with time 0 carries no time of sending.
const SENT: Duration = Duration::from_nanos(1);

#[derive(Clone, Debug)]
struct Setting {
    ranks: usize,
    /// Mappings of stages to ranks: the first one of the run, and the new one of each change.
    mappings: Vec<Vec<Block>>,
    dispatch: Dispatch,
    serial: Vec<bool>,
    expanding: Vec<bool>,
    /// True if serial stages emit an item at the end of the stream, except stages that produce several items from one.
    finishes: bool,
    items: u64,
    /// Maximum number of items in a batch of the source, and in a part of a stage's output.
    batch: usize,
    /// Maximum number of batches in flight, if it is fixed; `None` for a limit that grows while batches wait for older ones.
    window: Option<usize>,
    ahead: usize,
    has_snapshots: bool,
}

#[derive(Clone, Copy, Debug)]
enum SimulationStep {
    Deliver {
        from: usize,
        to: usize,
    },
    Finish(usize),
    /// The rank switches to its next mapping.
    Switch(usize),
}

/// Simulated pipeline: the ranks, the messages between them, and their calls of user code.
struct World {
    setting: Setting,
    machines: Vec<Machine>,
    endpoints: Vec<Endpoint>,
    wires: Vec<Vec<VecDeque<Frame>>>,
    /// Calls of user code that each rank has started or queued, in order.
    jobs: Vec<VecDeque<Job>>,
    /// Number of mappings to which ranks may switch already.
    ordered_mappings: u32,
    /// For each stage: numbers of the items that it has processed, in order.
    seen: Vec<Vec<u64>>,
    /// State of each serial stage by rank and stage: the number of items that it has processed.
    memory: Vec<Vec<Option<u64>>>,
    expanding: Vec<Vec<Box<dyn ErasedStage>>>,
    out: Vec<u64>,
    most_in_flight: usize,
    /// Last snapshot: its position in the stream and the states of the stages, and the number of items that had reached the sink by then.
    snapshot: Option<(Committed, usize)>,
    /// States of stages from a snapshot, which the ranks restore with the first mapping.
    saved: Vec<SavedStage>,
    is_finished: bool,
}

impl World {
    fn new(setting: &Setting) -> Self {
        let stages = setting.serial.len();
        let codecs: Vec<Arc<dyn Codec>> =
            (0..=stages).map(|_| Arc::new(wire::Codec::<u64>::of_type()) as _).collect();
        let plan = WindowPlan {
            batch: BatchMode::Fixed(setting.batch),
            batch_time: Duration::ZERO,
            fixed: setting.window,
            bytes: usize::MAX,
            hosts: 1,
            ranks: 1,
            ahead: setting.ahead,
        };
        let machine = |me: usize| {
            let fill = window::first_fill(plan.batch, plan.batch_time);
            let stages = (Vec::new(), setting.expanding.clone());
            let machine = Machine::new(me, codecs.clone(), stages, fill, setting.ahead);
            if me > 0 {
                return machine;
            }
            let mut machine = machine.with_source(plan, setting.finishes, Duration::ZERO);
            if setting.has_snapshots {
                machine.source_mut().unwrap().with_snapshots(true, 0, false);
            }
            machine
        };
        let ranks = local::World::new(setting.ranks);
        let endpoint =
            |rank| Endpoint::new(Box::new(LocalTransport::open(ranks.clone(), rank)), Duration::ZERO);
        let first = |rank: usize, stage: usize| {
            let owner = setting.mappings[0].iter().find(|b| b.stages.contains(&stage)).unwrap().hosts[0];
            (setting.serial[stage] && owner == rank).then_some(0)
        };
        World {
            machines: (0..setting.ranks).map(machine).collect(),
            endpoints: (0..setting.ranks).map(endpoint).collect(),
            wires: (0..setting.ranks).map(|_| vec![VecDeque::new(); setting.ranks]).collect(),
            jobs: (0..setting.ranks).map(|_| VecDeque::new()).collect(),
            ordered_mappings: 1,
            seen: vec![Vec::new(); stages],
            memory: (0..setting.ranks).map(|r| (0..stages).map(|s| first(r, s)).collect()).collect(),
            expanding: (0..setting.ranks)
                .map(|_| {
                    let call = |stage| move |x| Ok(children(x, stage));
                    (0..stages)
                        .map(|stage| Box::new(FlatMap::<_, _, _, Plain>::new(call(stage))) as _)
                        .collect()
                })
                .collect(),
            out: Vec::new(),
            most_in_flight: 0,
            snapshot: None,
            saved: Vec::new(),
            is_finished: false,
            setting: setting.clone(),
        }
    }

    fn after(setting: &Setting, killed: World) -> Self {
        let mut world = World::new(setting);
        let Some((committed, delivered)) = killed.snapshot else { return world };
        let (items, is_finished) = (committed.position.items, killed.is_finished);
        world.machines[0].source_mut().unwrap().with_snapshots(true, items, is_finished);
        world.memory.iter_mut().flatten().for_each(|memory| *memory = None);
        world.seen = expected(setting, items, is_finished).0;
        world.out = killed.out[..delivered].to_vec();
        world.saved = committed.stages.clone();
        (world.snapshot, world.is_finished) = (Some((committed, delivered)), is_finished);
        world
    }

    fn act<R>(
        &mut self,
        rank: usize,
        event: impl FnOnce(&mut Machine, &Moment, &mut Outgoing<'_>) -> Result<R>,
    ) -> Result<R> {
        let out = &mut Outgoing::new(&mut self.endpoints[rank]);
        let result = event(&mut self.machines[rank], &Moment::for_test(), out);
        for (to, endpoint) in self.endpoints.iter_mut().enumerate() {
            while let Some((_, frame)) = endpoint.transport().poll().unwrap() {
                self.wires[rank][to].push_back(frame);
            }
        }
        result
    }

    fn switch(&mut self, rank: usize) {
        let epoch = self.machines[rank].epoch() + 1;
        let mapping = Mapping::new(self.setting.mappings[epoch as usize - 1].clone());
        let table = Table::new(epoch, mapping, self.setting.dispatch, &self.setting.serial, true);
        let saved = if epoch == 1 { self.saved.clone() } else { Vec::new() };
        self.machines[rank].prepare(table, 0, true, saved);
        // Stages that are restored from a snapshot may still wait for their calls of user code, which come before the set-up for this mapping.
        loop {
            match self.act(rank, |machine, at, out| machine.next_job(at, out)).unwrap() {
                Some(Job::SetUp { .. }) => break,
                Some(job @ Job::Restore { .. }) => self.jobs[rank].push_back(job),
                job => panic!("expected a set-up, got {job:?}"),
            }
        }
        self.machines[rank].ready(SetUp::default());
        self.act(rank, |machine, at, out| machine.switch(epoch, at, out)).unwrap();
    }

    fn deliver(&mut self, from: usize, to: usize) {
        let message = self.wires[from][to].pop_front().expect("the step was possible");
        let message = StreamMessage::decode(received(from, message)).unwrap();
        if let StreamMessage::Batch(arrived) = &message {
            assert_eq!(arrived.sent, Some(SENT));
        }
        self.act(to, |machine, at, out| machine.on_message(from, message, at, out)).unwrap();
    }

    fn finish_job(&mut self, rank: usize) {
        let total = self.setting.items;
        let mut is_marker = false;
        let done = match self.jobs[rank].pop_front().expect("the step was possible") {
            Job::Draw { number, first, fill, kind } => {
                let is_items = kind == BatchKind::Items;
                let last = if is_items { (first + fill.items as u64).min(total) } else { first };
                let count = (last - first) as u32;
                let items: Items = Box::new((first..last).collect::<Vec<u64>>());
                let produced = (kind == BatchKind::End).then(ProducedCounts::default);
                let batch = (count > 0 || !is_items).then(|| Batch {
                    number: number.into(),
                    pieces: Vec::new(),
                    kind,
                    stage: 0,
                    range: Range { produced, ..Range::new(first, count) },
                    service: Duration::ZERO,
                    widest: 0,
                    behind: total.is_multiple_of(2).then_some(total - last),
                    payload: Payload::Items(items),
                });
                Done::Drawn { batch, ended: last == total, left: Some(total - last) }
            }
            Job::Process { stages, batch, fill } => {
                let batch = self.process(rank, stages, batch, fill);
                Done::Processed { batch, took: Duration::from_millis(1 + rank as u64) }
            }
            Job::Consume { mut batch } => {
                let consumed = Consumed::of(&batch);
                if let BatchKind::Marker(stages) = batch.kind {
                    is_marker = true;
                    let position = Position { items: batch.range.first, sink: Vec::new() };
                    let committed = Committed { position, stages, took: Duration::ZERO };
                    self.snapshot = Some((committed, self.out.len()));
                } else {
                    self.out.extend(unpack(&mut batch).expect("the sink gets items"));
                }
                Done::Consumed(consumed)
            }
            Job::Release { stage } => {
                let memory = self.memory[rank][stage].take().expect("it is saved where it is");
                Done::Released { stage, state: memory.to_le_bytes().to_vec() }
            }
            Job::Restore { stage, state } => {
                let memory = u64::from_le_bytes(state.try_into().unwrap());
                assert_eq!(self.memory[rank][stage].replace(memory), None);
                Done::Restored { stage }
            }
            job => panic!("the machine itself has no {job:?}"),
        };
        self.act(rank, |machine, at, out| machine.on_done(done, at, out)).unwrap();
        if is_marker {
            self.is_finished = self.machines[0].source_mut().unwrap().marker_arrived();
        }
    }

    fn process(
        &mut self,
        rank: usize,
        stages: std::ops::Range<usize>,
        mut batch: Batch,
        fill: Fill,
    ) -> Batch {
        assert_eq!(stages.start, batch.stage);
        let produced = if let Payload::Kept { produced } = batch.payload { produced } else { 0 };
        let mut items = unpack(&mut batch);
        for stage in stages {
            let is_serial = self.setting.serial[stage];
            if let Some(items) = &items {
                if is_serial {
                    let memory = self.memory[rank][stage].as_mut().expect("a serial stage runs where it is");
                    assert_eq!(*memory, self.seen[stage].len() as u64, "stage {stage} on rank {rank}");
                    *memory += items.len() as u64;
                    if let BatchKind::Marker(states) = &mut batch.kind {
                        let state = memory.to_le_bytes().to_vec();
                        states.push(SavedStage { stage: stage as u32, state });
                    }
                }
                self.seen[stage].extend(items);
            }
            batch.stage = stage + 1;
            if self.setting.expanding[stage] {
                let input_items = items.take().map(|items| Box::new(items) as Items);
                let live = &mut *self.expanding[rank][stage];
                let pieces = (fill, Clock::wall());
                let ran = expand(live, (input_items, produced), &mut batch, pieces, &mut Context::for_test())
                    .unwrap();
                items = Some(*ran.items.downcast().unwrap());
                if ran.is_cut {
                    break;
                }
            } else if self.setting.finishes
                && is_serial
                && batch.kind == BatchKind::End
                && batch.ended() == batch.pieces.len()
            {
                items.as_mut().unwrap().extend(self.memory[rank][stage]);
                batch.range.produced.as_mut().unwrap().add(0, 1);
            }
        }
        batch.payload = Payload::Items(Box::new(items.unwrap()));
        batch
    }

    fn steps(&self) -> Vec<SimulationStep> {
        let ranks = self.setting.ranks;
        let wires =
            (0..ranks).flat_map(|from| (0..ranks).map(move |to| SimulationStep::Deliver { from, to }));
        wires
            .chain((0..ranks).map(SimulationStep::Finish))
            .chain((0..ranks).map(SimulationStep::Switch))
            .filter(|step| match *step {
                SimulationStep::Deliver { from, to } => !self.wires[from][to].is_empty(),
                SimulationStep::Finish(rank) => !self.jobs[rank].is_empty(),
                SimulationStep::Switch(rank) => self.machines[rank].epoch() < self.ordered_mappings,
            })
            .collect()
    }

    /// Simulates the run to its end. `choose` receives the number of possible steps, and returns the index of the step to do.
    fn run(self, choose: impl FnMut(usize) -> usize) -> Self {
        self.run_until(usize::MAX, choose)
    }

    fn run_until(mut self, killed_after: usize, mut choose: impl FnMut(usize) -> usize) -> Self {
        for step in 0..killed_after {
            for rank in 0..self.setting.ranks {
                // A rank gets up to two calls of user code at a time, because a real rank also accepts a call before the result of the last one is
                // fetched.
                while self.jobs[rank].len() < 2 {
                    let job = self.act(rank, |machine, at, out| machine.next_job(at, out)).unwrap();
                    let Some(job) = job else { break };
                    self.jobs[rank].push_back(job);
                }
            }
            let source = self.machines[0].source().unwrap();
            self.most_in_flight = self.most_in_flight.max(source.window.in_flight());
            if source.is_finished() {
                return self;
            }
            if self.setting.has_snapshots && step % 6 == 5 && source.is_marker_useful() {
                self.machines[0].source_mut().unwrap().request_marker();
            }
            // Every 16 steps, the ranks may switch to one more mapping, even if some have not switched to the last one.
            if step % 16 == 15 && (self.ordered_mappings as usize) < self.setting.mappings.len() {
                self.ordered_mappings += 1;
            }
            let steps = self.steps();
            assert!(!steps.is_empty(), "nothing can move any more:\n{:#?}", self.machines);
            match steps[choose(steps.len()) % steps.len()] {
                SimulationStep::Deliver { from, to } => self.deliver(from, to),
                SimulationStep::Finish(rank) => self.finish_job(rank),
                SimulationStep::Switch(rank) => self.switch(rank),
            }
        }
        self
    }
}

/// Returns the items that a stage produces from an item: mostly zero to three, sometimes more than fit in one part of its output.
fn children(item: u64, stage: usize) -> Vec<u64> {
    let count = match (item + stage as u64) % 23 {
        22 => 15,
        n => n % 4,
    };
    (0..count).map(|at| item.wrapping_mul(5) + at).collect()
}

/// Returns the items of a batch; `None` if a stage has kept them to make further parts of its output.
fn unpack(batch: &mut Batch) -> Option<Vec<u64>> {
    match std::mem::replace(&mut batch.payload, Payload::Kept { produced: 0 }) {
        Payload::Items(items) => Some(*items.downcast().unwrap()),
        Payload::Bytes { head, parts } => {
            Some(wire::Codec::<u64>::of_type().decode(head, parts, batch.range.live()).unwrap())
        }
        Payload::Kept { .. } => None,
    }
}

/// Generates mappings of the stages to `ranks` ranks, in which several groups of stages may run on the same rank.
fn blocks(ranks: usize, serial: Vec<bool>) -> impl Strategy<Value = Vec<Block>> {
    let stages = serial.len();
    let cut = prop::collection::vec(any::<bool>(), stages - 1);
    let some = prop::sample::subsequence((0..ranks).collect::<Vec<_>>(), 1..=ranks).prop_shuffle();
    let hosts = prop::collection::vec(some, stages);
    (cut, hosts).prop_map(move |(cut, hosts)| {
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
        blocks
    })
}

fn setting(mappings: usize) -> impl Strategy<Value = Setting> {
    let serial_and_expanding = (prop::bool::weighted(0.4), prop::bool::weighted(0.3));
    let stages = prop::collection::vec(serial_and_expanding, 1..6);
    (1usize..6, stages).prop_flat_map(move |(ranks, stages)| {
        let (serial, mut expanding): (Vec<bool>, Vec<bool>) = stages.into_iter().unzip();
        // At most two stages produce several items from one; more of them would produce too many items.
        let mut left = 2;
        expanding.iter_mut().filter(|expands| **expands).for_each(|expands| {
            *expands = left > 0;
            left -= 1;
        });
        let mappings = prop::collection::vec(blocks(ranks, serial.clone()), 1..=mappings);
        let numbers =
            (0u64..80, 1usize..8, prop::option::weighted(0.7, 1usize..12), 1usize..4, any::<[bool; 2]>());
        (mappings, numbers).prop_map(
            move |(mappings, (items, batch, window, ahead, [resequencer, finishes]))| {
                let dispatch = if resequencer { Dispatch::RoundRobin } else { Dispatch::OnDemand };
                let (serial, expanding) = (serial.clone(), expanding.clone());
                Setting {
                    ranks,
                    mappings,
                    dispatch,
                    serial,
                    expanding,
                    finishes,
                    items,
                    batch,
                    window,
                    ahead,
                    has_snapshots: false,
                }
            },
        )
    })
}

/// Returns the items that each stage processes and those that the sink receives, for a source of `items` items. Serial stages emit their last items
/// if `is_end` is true.
fn expected(setting: &Setting, items: u64, is_end: bool) -> (Vec<Vec<u64>>, Vec<u64>) {
    let mut expected: Vec<u64> = (0..items).collect();
    let mut seen = Vec::new();
    for stage in 0..setting.serial.len() {
        seen.push(expected.clone());
        if setting.expanding[stage] {
            expected = expected.into_iter().flat_map(|item| children(item, stage)).collect();
        } else if is_end && setting.finishes && setting.serial[stage] {
            expected.push(expected.len() as u64);
        }
    }
    (seen, expected)
}

/// Checks that each stage has processed each item once, in order if the stage is serial.
fn check(setting: &Setting, world: &World) -> Result<(), TestCaseError> {
    // The number of batches in flight may exceed its limit by three parts of a stage's output: the one for which the sink waits, which is always
    // permitted, and those of the two calls of user code that a rank may hold.
    let beyond = if setting.expanding.contains(&true) { 3 } else { 0 };
    prop_assert!(setting.window.is_none_or(|window| world.most_in_flight <= window + beyond));
    let (all_seen, out) = expected(setting, setting.items, true);
    for (stage, (mut seen, mut once)) in world.seen.iter().cloned().zip(all_seen).enumerate() {
        if !setting.serial[stage] {
            once.sort_unstable();
            seen.sort_unstable();
        }
        prop_assert_eq!(seen, once, "what stage {} saw", stage);
    }
    prop_assert_eq!(&world.out, &out);
    if setting.has_snapshots {
        let (committed, delivered) = world.snapshot.as_ref().expect("the stream ends with a snapshot");
        prop_assert_eq!((committed.position.items, *delivered), (setting.items, out.len()));
    }
    Ok(())
}

/// Runs a job that is killed and started again several times, each time with other mappings, and checks its output. `killed_after` holds the number
/// of steps in each start; one more start, with a single rank, runs to the end.
fn survives(
    setting: &Setting,
    killed_after: &[usize],
    choices: &[prop::sample::Index],
) -> Result<(), TestCaseError> {
    let mut at = 0;
    let mut choose = |steps| {
        at += 1;
        choices[at % choices.len()].index(steps)
    };
    let mut world = World::new(setting);
    let mut later = setting.clone();
    for &steps in killed_after {
        let killed = world.run_until(steps, &mut choose);
        later.mappings.rotate_left(1);
        world = World::after(&later, killed);
    }
    let killed = world;
    let on_root = Block::new(0..setting.serial.len(), vec![0]);
    let last = Setting { ranks: 1, mappings: vec![vec![on_root]], ..setting.clone() };
    let world = World::after(&last, killed).run(choose);
    check(&last, &world)
}

fn holds(setting: &Setting, choices: &[prop::sample::Index]) -> Result<(), TestCaseError> {
    let mut at = 0;
    let world = World::new(setting).run(|steps| {
        at += 1;
        choices[at % choices.len()].index(steps)
    });
    check(setting, &world)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_item_arrives_once_in_order_for_any_schedule(
        setting in setting(1),
        choices in prop::collection::vec(any::<prop::sample::Index>(), 1..200),
    ) {
        holds(&setting, &choices)?;
    }

    /// In each start of the job, the stages process exactly the items after the last snapshot.
    #[test]
    fn job_killed_at_any_moment_continues_from_its_last_snapshot(
        setting in setting(6),
        killed_after in prop::collection::vec(0usize..400, 0..4),
        choices in prop::collection::vec(any::<prop::sample::Index>(), 1..200),
    ) {
        survives(&Setting { has_snapshots: true, ..setting }, &killed_after, &choices)?;
    }

    #[test]
    fn mapping_may_change_at_any_moment(
        setting in setting(12),
        choices in prop::collection::vec(any::<prop::sample::Index>(), 1..200),
    ) {
        holds(&setting, &choices)?;
    }
}

/// Checks that random runs contain enough batches that are forwarded after a change of the mapping, migrations of stages, and changes of the mapping
/// during a migration, so that the tests above cover these cases.
#[test]
fn random_remaps_cover_forwarding_migration_and_overtaking() {
    let mut runner = TestRunner::deterministic();
    let mut all = Traffic::default();
    for _ in 0..300 {
        let setting = setting(12).new_tree(&mut runner).unwrap().current();
        let mut seed = 88_172_645_463_325_252u64;
        let world = World::new(&setting).run(|steps| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % steps as u64) as usize
        });
        check(&setting, &world).unwrap();
        for machine in &world.machines {
            let traffic = machine.traffic();
            all.forwarded += traffic.forwarded;
            all.handed_over += traffic.handed_over;
            all.overtaken += traffic.overtaken;
        }
    }
    println!("{} forwarded, {} handed over, {} overtaken", all.forwarded, all.handed_over, all.overtaken);
    assert!(all.forwarded > 300 && all.handed_over > 300 && all.overtaken > 30, "{all:?}");
}

#[test]
fn inconsistent_message_is_an_error() {
    let setting = Setting {
        ranks: 3,
        mappings: vec![vec![Block::new(0..1, vec![1, 2]), Block::new(1..2, vec![1])]],
        dispatch: Dispatch::OnDemand,
        serial: vec![false, true],
        expanding: vec![false, false],
        finishes: false,
        items: 1,
        batch: 1,
        window: Some(1),
        ahead: 1,
        has_snapshots: false,
    };
    let mut world = World::new(&setting);
    (0..3).for_each(|rank| world.switch(rank));
    let mut refuses = |rank: usize, message: StreamMessage| {
        let error = world.act(rank, |machine, at, out| machine.on_message(1, message, at, out)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Wire);
        assert!(error.message().starts_with("from rank 1: "), "{error}");
    };
    let assign =
        |edge, batch: u64, receiver| StreamMessage::Assign { epoch: 1, edge, number: batch.into(), receiver };
    refuses(0, assign(9, 0, 1));
    refuses(0, assign(0, 7, 1));
    refuses(0, assign(0, 7, 0));
    refuses(2, StreamMessage::Offer { epoch: 1, edge: 0, number: 0.into(), items: 1, behind: None });
    let token =
        |stage| StreamMessage::StageToken(StageToken { epoch: 1, stage, next: 0.into(), state: vec![] });
    refuses(1, token(1)); // rank 1 owns this serial stage already
    refuses(0, token(0)); // no rank owns this stage
    refuses(0, token(7));
    let first = SequenceNumber::from(0).piece(1);
    let request =
        || StreamMessage::WindowRequest(WindowRequest { epoch: 1, first: first.clone(), pieces: 1 });
    refuses(0, request()); // no stage of this pipeline makes pieces of batches
    refuses(1, request()); // rank 1 does not read the source
    refuses(1, StreamMessage::WindowReturn(WindowReturn { epoch: 1, whole: first.clone(), pieces: 1 }));
    for (tag, cut) in [(Tag::Request, vec![1, 2, 3]), (Tag::Batch, vec![0; 10]), (Tag::Prepare, vec![])] {
        let message = Message { from: 1, code: tag as u8, body: cut.into(), parts: Vec::new() };
        let error = Received::decode(message).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Wire);
        let text = format!("rank 1 sent a damaged {tag:?} of the pipeline: ");
        assert!(error.message().starts_with(&text), "{error}");
    }
}
