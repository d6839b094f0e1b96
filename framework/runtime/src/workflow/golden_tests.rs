//! Tests that the bytes of workflow messages do not change.

use std::time::Duration;

use super::messages::{Content, Exceeded, Failure, Order, Orders, Reason, Report, TaskDone};
use super::summary::RankReport;
use super::value::Value;
use crate::balance::probe::Speed;
use crate::comm::message::Encode;
use crate::comm::process::Process;
use crate::golden::{Messages, RUN};
use crate::rank::flight_recorder::FlightRecordLocation;
use crate::wire::Codec;

#[test]
fn workflow_message_encoding_is_unchanged() {
    let mut messages = Messages::default();
    let mut keep =
        |what: &str, content: Content| messages.message(what, &content.encode(RUN).expect("it is small"));
    let order = |task, sources| Order {
        task,
        attempt: 2,
        exceeded: {
            let mut exceeded = Exceeded::default();
            exceeded.count(Reason::MemoryLimit);
            exceeded
        },
        place: (task > 1).then_some(7),
        is_announced: task > 1,
        is_suspect: task == 1,
        sources,
    };
    let orders = Orders {
        orders: vec![order(1, vec![]), order(300, vec![0, 3])],
        changed_sources: vec![(4, 1)],
        cancelled: vec![5],
        recalled: vec![9],
        dropped: vec![6, 70_000],
    };
    keep("orders", Content::Orders(orders));
    keep("all is done", Content::End);
    keep("a rank needs values", Content::Want(vec![(300, 65_536), (4, u64::MAX)]));
    keep("values are too large to come at once", Content::Offer(vec![(300, 70_000)]));
    let small = Value::encode(String::from("a"), &Codec::of_type()).unwrap();
    keep("a small value", Content::Value(300, small));
    let large = Value::encode(vec![1.5; 4_096], &Codec::of_type()).unwrap();
    keep("a large value", Content::Value(4, large));
    let failure = |reason| Failure { task: 5, attempt: 1, reason, message: "torn".into() };
    let memory = [Reason::MemoryLimit, Reason::Memory];
    let reasons = [&[Reason::Error, Reason::Panic], &memory[..], &[Reason::TimeLimit]].concat();
    let report = Report {
        done: vec![TaskDone { task: 300, attempt: 1, bytes: 70_000, took: 1_500, peak_memory: Some(300) }],
        failed: reasons.into_iter().map(failure).collect(),
        returned: vec![9],
    };
    keep("a rank reports", Content::Report(report));
    let total = RankReport {
        tasks: 3,
        busy: Duration::from_millis(1500),
        sent: 70_000,
        spilled: 300,
        most_held: 70_001,
    };
    keep("a rank has done its part", Content::Final(total));
    keep("a rank is asked for its speed", Content::MeasureSpeed);
    let speed = Speed { alone: 2e9, took: 0.01, lost: 0.001 };
    keep("it is so fast", Content::Speed(speed));
    let process = Process { place: "host/4026531836".into(), number: 4711, started: 987_654 };
    keep("a rank has come", Content::Join(Some(FlightRecordLocation { process, file: 9 })));
    keep("a task begins of which ranks may have died", Content::Started(300));
    keep("a rank has died", Content::Lost(3));
    keep("a value is gone", Content::Dropped(300));
    messages.check("workflow");
}
