//! Tests that the bytes of pipeline messages do not change from version to version.

use std::time::Duration;

use armature_planner::estimate::{Estimate, LinkTraffic, Source};
use armature_planner::pipeline::{Block, Dispatch, Mapping};
use armature_planner::{Link, Platform};

use super::{
    Directive, Grant, Prepare, Ready, Report, StageToken, StreamMessage, WindowRequest, WindowReturn,
};
use crate::balance::probe::Speed;
use crate::comm::message::Encode;
use crate::comm::{Frame, Part};
use crate::golden::{Messages, RUN};
use crate::pipeline::RankReport;
use crate::pipeline::erased::Codec;
use crate::pipeline::machine::batch::{Batch, BatchKind, ExpansionPiece, Payload, SavedStage};
use crate::pipeline::machine::sequence_number::SequenceNumber;
use crate::pipeline::machine::table::Table;
use crate::pipeline::metrics::{Measurements, Service};
use crate::pipeline::produced_counts::{ProducedCounts, Run};
use crate::pipeline::range::Range;
use crate::pipeline::stats::StageStats;
use crate::wire;

const MS: Duration = Duration::from_millis(1);

#[test]
fn batch_encoding_is_unchanged() {
    let mut messages = Messages::default();
    let batch = |dropped, behind, payload| Batch {
        number: 0x0706_0504_0302_0100.into(),
        pieces: Vec::new(),
        kind: BatchKind::Items,
        stage: 0x0201,
        range: Range { dropped, ..Range::new(40, 5) },
        service: 1234 * MS,
        widest: 999,
        behind,
        payload,
    };
    let codec: &dyn Codec = &wire::Codec::<u64>::of_type();
    for (what, sent) in [
        ("a batch of three numbers without two that were dropped", None),
        ("the same, sent after seven milliseconds", Some(7 * MS)),
    ] {
        let small = batch(vec![1, 4], Some(11), Payload::Items(Box::new(vec![1_u64, 2, 3])));
        let Frame { head, parts } = small.pack((RUN, 2), codec, || sent).unwrap();
        messages.head_and_parts(what, &head, &parts);
    }
    let forwarded = Payload::Bytes { head: vec![1, 2].into(), parts: vec![Part::of(vec![3_u8, 4])] };
    let Frame { head, parts } = batch(vec![], None, forwarded).pack((RUN, 2), codec, || None).unwrap();
    messages.head_and_parts("a batch that is sent on, of a stream of unknown length", &head, &parts);
    let run = |place, items| Run { place, places: 1, items };
    let produced = ProducedCounts::of_runs([run(1, 2), run(4, 1)].into_iter());
    let piece = Batch {
        number: SequenceNumber::from(7).piece(300),
        pieces: vec![ExpansionPiece { is_last: true, items: 5 }],
        kind: BatchKind::End,
        range: Range { produced: Some(produced), ..Range::new(40, 5) },
        ..batch(vec![], None, Payload::Items(Box::new(vec![1_u64, 2, 3])))
    };
    let Frame { head, parts } = piece.pack((RUN, 2), codec, || None).unwrap();
    messages.head_and_parts(
        "the last piece of what was made of a batch, at the end of the stream",
        &head,
        &parts,
    );
    let marker = Batch {
        kind: BatchKind::Marker(vec![SavedStage { stage: 1, state: vec![7, 8] }]),
        range: Range::new(40, 0),
        ..batch(vec![], None, Payload::Items(Box::new(Vec::<u64>::new())))
    };
    let Frame { head, parts } = marker.pack((RUN, 2), codec, || None).unwrap();
    messages.head_and_parts("a marker of a snapshot with the state of one stage", &head, &parts);
    messages.check("pipeline-batches");
}

fn add(messages: &mut Messages, what: &str, message: impl Encode) {
    messages.message(what, &message.encode(RUN).unwrap());
}

#[test]
fn pipeline_message_encoding_is_unchanged() {
    let mut messages = Messages::default();
    let (epoch, edge, number) = (2, 1, || 300.into());
    let request =
        StreamMessage::Request { epoch, edge, batches: 3, held: 4, service_time: 1_000_000, deviation: 300 };
    add(&mut messages, "a replica has room for batches", request);
    let waiting = StreamMessage::OutOfOrder { epoch, edge, batches: 300, bytes: 70_000 };
    add(&mut messages, "batches wait for an older one", waiting);
    let offer = |behind| StreamMessage::Offer { epoch, edge, number: number(), items: 5, behind };
    add(&mut messages, "a batch is offered", offer(Some(70_000)));
    add(&mut messages, "a batch of a stream of unknown length is offered", offer(None));
    let assign = StreamMessage::Assign { epoch, edge, number: number(), receiver: 5 };
    add(&mut messages, "a batch gets a receiver", assign);
    let token = StageToken { epoch: 2, stage: 3, next: 300.into(), state: vec![1, 2, 255] };
    add(&mut messages, "a serial stage changes hands", StreamMessage::StageToken(token));
    let whole = SequenceNumber::from(300).piece(2);
    let request = WindowRequest { epoch: 2, first: whole.piece(4), pieces: 16 };
    add(&mut messages, "room is wanted for pieces", StreamMessage::WindowRequest(request));
    let grant = Grant { epoch: 2, whole: whole.clone(), pieces: 3, items: 16_384 };
    add(&mut messages, "there is room for pieces", StreamMessage::Grant(grant));
    let back = WindowReturn { epoch: 2, whole, pieces: 1 };
    add(&mut messages, "room is given back", StreamMessage::WindowReturn(back));

    let blocks = vec![Block::new(0..1, vec![0]), Block::new(1..3, vec![1, 300])];
    let table = |dispatch| Table::new(2, Mapping::new(blocks.clone()), dispatch, &[true, false, false], true);
    let prepare = Prepare {
        table: table(Dispatch::OnDemand),
        measured_batches: 4,
        elapsed: 1500 * MS,
        measure_every: Some(100 * MS),
        saved: vec![SavedStage { stage: 1, state: vec![7, 8] }],
        links: vec![(1, Link::FREE), (300, Link { bandwidth: 1e9, setup: 1e-6 })],
    };
    add(&mut messages, "a mapping is to be prepared", Directive::Prepare(prepare.clone()));
    let unmeasured =
        Prepare { table: table(Dispatch::RoundRobin), measure_every: None, links: vec![], ..prepare };
    add(&mut messages, "a mapping is to be prepared, without measuring", Directive::Prepare(unmeasured));
    let ready = Ready { epoch: 2, movable: vec![0, 300], warm_up: vec![(1, 20 * MS)] };
    add(&mut messages, "a mapping is prepared", Report::Ready(ready));
    add(&mut messages, "a mapping is used from now on", Directive::Switch { epoch: 2 });
    add(&mut messages, "the stream is over", Directive::Finish);

    let mut seconds = Estimate::declared(0.25);
    (seconds.settled, seconds.count, seconds.source) = (true, 12, Source::RobustMean);
    let measurements = Measurements {
        services: vec![None, Some(Service { seconds, items: 300 })],
        flows: vec![(300.0, 700.0)],
        volumes: vec![(0, 0), (70_000, 300)],
        speed: Some(1e9),
        share: None,
        ready: 0.5,
        computed: (0.25, 0.125),
        links: vec![(300, LinkTraffic::new(Link { bandwidth: 1e9, setup: 1e-6 }))],
    };
    add(&mut messages, "what a rank has measured", Report::Measurements(measurements));
    let platform = Platform::with_speeds(&[1.0, 2.0], Link { bandwidth: 1e9, setup: 1e-6 }).unwrap();
    messages.bytes("a platform", &wire::to_bytes(&platform).unwrap());
    add(&mut messages, "a rank is asked for its speed", Directive::MeasureSpeed);
    let speed = Speed { alone: 1e9, took: 0.02, lost: 0.005 };
    add(&mut messages, "a rank's speed", Report::Speed(speed));

    let stage = StageStats {
        items: 1,
        dropped: 2,
        made: 14,
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
        source_and_sink: 13 * MS,
    };
    add(&mut messages, "what a rank did", Report::Total(report));
    messages.check("pipeline");
}
