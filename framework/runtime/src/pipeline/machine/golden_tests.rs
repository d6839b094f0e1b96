//! The bytes of a pipeline's messages.

use std::time::Duration;

use armature_planner::measure::{Estimate, LinkTraffic, Source};
use armature_planner::pipeline::{Block, Dispatch, Mapping};
use armature_planner::{Link, Platform};

use super::messages::{Assign, Early, Offer, Request, Token};
use super::parcel::{Parcel, Payload, stamp};
use super::table::Table;
use crate::comm::Part;
use crate::comm::message::Tag;
use crate::golden::{Messages, RUN};
use crate::pipeline::RankReport;
use crate::pipeline::erased::{Codec, Range};
use crate::pipeline::ledger::{Doing, StageStats};
use crate::pipeline::meter::{Measures, Service};
use crate::pipeline::orders::{Prepare, Ready, Switch};
use crate::pipeline::probe::{Answer, Question, Speed};
use crate::pipeline::watch::Status;
use crate::wire;

const MS: Duration = Duration::from_millis(1);

#[test]
fn batches_are_as_they_were() {
    let mut messages = Messages::default();
    let parcel = |dropped, behind, payload| Parcel {
        number: 0x0706_0504_0302_0100,
        stage: 0x0403_0201,
        range: Range { first: 40, count: 5, dropped },
        service: 1234 * MS,
        widest: 999,
        behind,
        payload,
    };
    let codec: &dyn Codec = &wire::Codec::<u64>::of_type();
    let small = parcel(vec![1, 4], Some(11), Payload::Items(Box::new(vec![1_u64, 2, 3])));
    let (mut head, parts, _) = small.pack(RUN, 2, codec).unwrap();
    messages.head_and_parts("a batch of three numbers without two that were dropped", &head, &parts);
    stamp(&mut head, 7 * MS);
    messages.head_and_parts("the same, sent after seven milliseconds", &head, &parts);
    let forwarded = Payload::Bytes { head: vec![1, 2].into(), parts: vec![Part::of(vec![3_u8, 4])] };
    let (head, parts, _) = parcel(vec![], None, forwarded).pack(RUN, 2, codec).unwrap();
    messages.head_and_parts("a batch that is sent on, of a stream of unknown length", &head, &parts);
    messages.check("pipeline-batches");
}

#[test]
fn messages_of_a_pipeline_are_as_they_were() {
    let mut messages = Messages::default();
    let request = Request { epoch: 2, edge: 1, batches: 3, held: 4, pace: 1_000_000, deviation: 300 };
    messages.value("a replica has room for batches", Tag::Request, &request);
    let early = Early { epoch: 2, edge: 1, batches: 300, bytes: 70_000 };
    messages.value("batches wait for an older one", Tag::Early, &early);
    let offer = |behind| Offer { epoch: 2, edge: 1, number: 300, items: 5, behind };
    messages.value("a batch is offered", Tag::Offer, &offer(Some(70_000)));
    messages.value("a batch of a stream of unknown length is offered", Tag::Offer, &offer(None));
    let assign = Assign { epoch: 2, edge: 1, number: 300, receiver: 5 };
    messages.value("a batch gets a receiver", Tag::Assign, &assign);
    let token = Token { epoch: 2, stage: 3, next: 300, state: vec![1, 2, 255] };
    messages.value("a serial stage changes hands", Tag::Token, &token);

    let blocks = vec![Block::new(0..1, vec![0]), Block::new(1..3, vec![1, 300])];
    let table = |dispatch| Table::new(2, Mapping::new(blocks.clone()), dispatch, &[true, false, false], true);
    let prepare = Prepare {
        table: table(Dispatch::OnDemand),
        weigh: 4,
        elapsed: 1500 * MS,
        measure_every: Some(100 * MS),
        links: vec![Link::FREE, Link { bandwidth: 1e9, setup: 1e-6 }],
    };
    messages.value("a mapping is to be prepared", Tag::Prepare, &prepare);
    let unmeasured =
        Prepare { table: table(Dispatch::RoundRobin), measure_every: None, links: vec![], ..prepare };
    messages.value("a mapping is to be prepared, without measuring", Tag::Prepare, &unmeasured);
    let ready = Ready { epoch: 2, movable: vec![0, 300], warm_up: vec![(1, 20 * MS)] };
    messages.value("a mapping is prepared", Tag::Ready, &ready);
    messages.value("a mapping is used from now on", Tag::Switch, &Switch { epoch: 2 });
    messages.value("the stream is over", Tag::Finish, &());

    let mut seconds = Estimate::declared(0.25);
    (seconds.settled, seconds.count, seconds.source) = (true, 12, Source::RobustMean);
    let measures = Measures {
        services: vec![None, Some(Service { seconds, items: 300 })],
        volumes: vec![(0, 0), (70_000, 300)],
        speed: Some(1e9),
        share: None,
        ready: 0.5,
        computed: (0.25, 0.125),
        links: vec![(300, LinkTraffic::new(Link { bandwidth: 1e9, setup: 1e-6 }))],
    };
    messages.value("what a rank has measured", Tag::Measures, &measures);
    let platform = Platform::with_speeds(&[1.0, 2.0], Link { bandwidth: 1e9, setup: 1e-6 }).unwrap();
    messages.bytes("a platform", &wire::to_bytes(&platform).unwrap());
    messages.value("a rank is asked for its speed", Tag::Probe, &Question::Speed);
    messages.value("a rank is asked for an echo", Tag::Probe, &Question::Ping);
    let speed = Speed { alone: 1e9, took: 0.02, lost: 0.005 };
    messages.value("a rank's speed", Tag::Echo, &Answer::Speed(speed));
    messages.value("an echo", Tag::Echo, &Answer::Pong);

    let doing = [
        ("nothing", Doing::Nothing),
        ("the source", Doing::Drawing { item: 300 }),
        ("the sink", Doing::Feeding { item: 300 }),
        ("a stage", Doing::Stage { stage: 1, item: 300 }),
    ];
    for (what, doing) in doing {
        let status = Status { doing, state: "2 batches wait".into() };
        messages.value(&format!("a rank is alive, in {what}"), Tag::Status, &status);
    }
    let stage = StageStats {
        items: 1,
        dropped: 2,
        batches: 3,
        timed_items: 4,
        timed: MS,
        lost: 2 * MS,
        warm_up: 3 * MS,
        longest_queue: 13,
    };
    let report = RankReport {
        stages: vec![StageStats::default(), stage],
        waiting_input: 4 * MS,
        waiting_downstream: 5 * MS,
        sent_bytes: 6,
        received_bytes: 7,
        sent_batches: 8,
        received_batches: 9,
        forwarded: 10,
        handed_over: 11,
        overtaken: 12,
    };
    messages.value("what a rank did", Tag::Report, &report);
    messages.check("pipeline");
}
