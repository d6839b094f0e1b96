//! Tests that the bytes of DOALL loop messages do not change.

use std::time::Duration;

use super::messages::{Command, Directive, Report, Tag, ToCoordinator, ToWorker, Transfer, UnitMigration};
use super::unit_queue::Segment;
use crate::comm::message::Encode;
use crate::golden::{Messages, RUN};
use crate::loops::Rows;
use crate::loops::metrics::Sample;
use crate::loops::summary::RankReport;
use crate::loops::units::Units;
use crate::persist::snapshot::Saved;

pub(in crate::loops) fn sample() -> Sample {
    Sample {
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

pub(in crate::loops) fn report() -> RankReport {
    RankReport {
        units: 2.5,
        held: 301,
        blocks: 6,
        busy: Duration::from_millis(1500),
        off_core: Duration::from_millis(7),
        waiting: Duration::from_millis(8),
        moving: Duration::from_millis(9),
        interacting: Duration::from_millis(12),
        sent: 10,
        received: 11,
    }
}

pub(in crate::loops) fn saved() -> Saved {
    Saved { first: 1, count: 2, at: 300, bytes: 70_000, sum: 0x0403_0201 }
}

#[test]
fn doall_message_encoding_is_unchanged() {
    let mut messages = Messages::default();
    let mut to_coordinator =
        |what: &str, message: ToCoordinator| messages.message(what, &message.encode(RUN).unwrap());
    let message = |total| {
        ToCoordinator::Report(Report { at: 1.25, round: 3, done: 300, held: 70_000, sample: sample(), total })
    };
    to_coordinator("a rank reports", message(None));
    to_coordinator("a rank reports all that it did", message(Some(report())));
    let transfer = Transfer { from: 1, to: 300, units: 4, of: 70_000 };
    let commands = [
        ("go on", Command::Continue),
        ("report", Command::ReportSoon),
        ("begin the next pass", Command::BeginPass),
        ("end", Command::End),
    ];
    let directive = |what, moves, save| {
        let directive = Directive { round: 3, what, moves, period: 0.5, save };
        ToWorker::Directive(directive).encode(RUN).unwrap()
    };
    to_coordinator("units are written", ToCoordinator::Saved(300, Ok(vec![saved()])));
    for (what, command) in commands {
        messages.message(&format!("orders to {what}"), &directive(command, vec![transfer], None));
    }
    messages.message("orders to write units", &directive(Command::Continue, vec![], Some(300)));

    let rows = |first: u64, count: u64| Rows::from_fn(first..first + count, 2, |unit, row| row.fill(unit));
    let segments = || vec![Segment::new(4, 2, rows(4, 2)).due(9), Segment::new(300, 1, rows(300, 1))];
    let migration = || UnitMigration { round: 3, segments: segments() };
    messages.message("rows that move", &units(migration()));
    messages.message("rows that are gathered", &migration().encode(RUN, Tag::Gather).unwrap());
    let values = vec![Segment::new(4, 2, vec!["a".to_string(), "b".to_string()])];
    messages.message("values that move", &units(UnitMigration { round: 3, segments: values }));
    let none = UnitMigration::<()> { round: 3, segments: vec![Segment::new(4, 2, ())] };
    messages.message("units without data that move", &units(none));
    messages.check("doall");
}

fn units<U: Units>(migration: UnitMigration<U>) -> crate::comm::Frame {
    migration.encode(RUN, Tag::Units).unwrap()
}
