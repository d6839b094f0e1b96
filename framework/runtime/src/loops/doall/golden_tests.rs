//! The bytes of a DOALL loop's messages.

use std::time::Duration;

use super::messages::{Orders, Say, Shipment, Transfer, What};
use super::stock::Segment;
use crate::comm::message::Tag;
use crate::golden::{Messages, RUN};
use crate::loops::Rows;
use crate::loops::checkpoint::Saved;
use crate::loops::note::Note;
use crate::loops::summary::RankReport;

/// What a rank measures, each value another.
pub(in crate::loops) fn note() -> Note {
    Note {
        units: 1.5,
        seconds: 0.25,
        held: 300,
        blocks: 4,
        span: 0.5,
        hooks: 0.125,
        waiting: 0.0625,
        movements: 5,
        moving: 2.0,
        quantum: 0.004,
    }
}

/// What a rank did, each value another.
pub(in crate::loops) fn report() -> RankReport {
    RankReport {
        units: 2.5,
        held: 301,
        blocks: 6,
        computing: Duration::from_millis(1500),
        off_core: Duration::from_millis(7),
        waiting: Duration::from_millis(8),
        moving: Duration::from_millis(9),
        interacting: Duration::from_millis(12),
        sent: 10,
        received: 11,
    }
}

/// A piece of a checkpoint that has been written, each value another.
pub(in crate::loops) fn saved() -> Saved {
    Saved { first: 1, count: 2, at: 300, bytes: 70_000, sum: 0x0403_0201 }
}

#[test]
fn messages_of_a_doall_loop_are_as_they_were() {
    let mut messages = Messages::default();
    let say = |total| Say { at: 1.25, round: 3, done: 300, held: 70_000, note: note(), total };
    messages.value("a rank reports", Tag::Report, &say(None));
    messages.value("a rank reports all that it did", Tag::Report, &say(Some(report())));
    let transfer = Transfer { from: 1, to: 300, units: 4, of: 70_000 };
    let whats = [
        ("go on", What::Go),
        ("report", What::Hurry),
        ("begin the next pass", What::Begin),
        ("end", What::End),
    ];
    for (what, order) in whats {
        let orders = Orders { round: 3, what: order, moves: vec![transfer], period: 0.5, save: None };
        messages.value(&format!("orders to {what}"), Tag::Orders, &orders);
    }
    let save = Orders { round: 3, what: What::Go, moves: vec![], period: 0.5, save: Some(300) };
    messages.value("orders to write units", Tag::Orders, &save);
    messages.value("units are written", Tag::Saved, &(300_u64, vec![saved()]));

    let rows = |first: u64, count: u64| Rows::from_fn(first..first + count, 2, |unit, row| row.fill(unit));
    let segments = || vec![Segment::new(4, 2, rows(4, 2)).due(9), Segment::new(300, 1, rows(300, 1))];
    let shipment = |tag| Shipment { round: 3, segments: segments() }.pack(RUN, tag).unwrap();
    messages.message("rows that move", &shipment(Tag::Units));
    messages.message("rows that are gathered", &shipment(Tag::Gather));
    let values = vec![Segment::new(4, 2, vec!["a".to_string(), "b".to_string()])];
    messages
        .message("values that move", &Shipment { round: 3, segments: values }.pack(RUN, Tag::Units).unwrap());
    let none = Shipment::<()> { round: 3, segments: vec![Segment::new(4, 2, ())] };
    messages.message("units without data that move", &none.pack(RUN, Tag::Units).unwrap());
    messages.check("doall");
}
