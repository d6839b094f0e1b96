use super::*;
use crate::loops::doall::messages::Transfer;
use crate::loops::doall::unit_queue::Segment;

fn worker() -> DoAllWorker<Vec<u64>> {
    let mut worker = DoAllWorker::new();
    worker.unit_queue.receive(Segment::new(10, 10, (10..20).collect()));
    worker.begin(1, 1, false);
    worker
}

fn directive(round: u64, what: Command, moves: &[(usize, usize, u64, u64)]) -> Directive {
    let moves = moves.iter().map(|&(from, to, units, of)| Transfer { from, to, units, of }).collect();
    Directive { round, what, moves, period: 1.0, save: None }
}

fn migration(round: u64, first: u64, count: u64) -> UnitMigration<Vec<u64>> {
    let units = Segment::new(first, count, (first..first + count).collect());
    let segments = vec![units.due(1)];
    UnitMigration { round, segments }
}

fn work(worker: &mut DoAllWorker<Vec<u64>>, most: u64) {
    let block = worker.next(most).unwrap();
    worker.finished(&block);
}

fn at(seconds: u64) -> impl FnOnce() -> Duration {
    move || Duration::from_secs(seconds)
}

#[test]
fn reports_are_sent_once_per_round_and_when_idle() {
    let mut worker = worker();
    assert!(!worker.is_to_report(at(9)), "nothing was done yet");
    work(&mut worker, 2);
    assert!(!worker.is_to_report(at(0)) && worker.is_to_report(at(9)));
    worker.has_reported();
    work(&mut worker, 2);
    assert!(!worker.is_to_report(at(9)), "rank 0 has not answered");
    assert!(worker.carry_out(&directive(1, Command::ReportSoon, &[])).unwrap().is_empty());
    assert!(!worker.is_to_report(at(0)), "that is for another round");
    worker.carry_out(&directive(1, Command::Continue, &[])).unwrap();
    assert!(!worker.is_to_report(at(0)), "it is not time");
    worker.carry_out(&directive(1, Command::ReportSoon, &[])).unwrap();
    assert!(worker.is_to_report(at(0)));
    worker.has_reported();
    work(&mut worker, 99);
    assert!(worker.is_idle() && worker.is_to_report(at(0)));
    worker.has_reported();
    assert!(!worker.is_to_report(at(9)));
    worker.carry_out(&directive(2, Command::Continue, &[])).unwrap();
    assert!(!worker.is_to_report(at(9)), "nothing is new");
    worker.carry_out(&directive(3, Command::BeginPass, &[])).unwrap();
    assert_eq!((worker.pass(), worker.done(), worker.unit_queue.undone()), (2, 0, 10));
    worker.carry_out(&directive(4, Command::End, &[])).unwrap();
    assert!(worker.has_finished());
}

#[test]
fn units_migrate_only_by_directives() {
    let mut worker = worker();
    work(&mut worker, 4);
    // Rank 2 has received the directive of rank 0 that moves units (rows or indices) earlier than rank 1, so rank 2's units arrive on rank 1
    // before the directive.
    worker.accept(2, migration(1, 30, 5)).unwrap();
    assert_eq!(worker.unit_queue.undone(), 6);
    let moves = [(1, 0, 8, 10), (2, 1, 5, 20), (3, 1, 4, 20), (0, 3, 1, 1)];
    let sent = worker.carry_out(&directive(1, Command::Continue, &moves)).unwrap();
    let sent: Vec<(usize, u64, u64)> = sent.iter().map(|(to, s)| (*to, s.round, s.len())).collect();
    assert_eq!(sent, [(0, 1, 4)], "it had 10 when that was decided, and has 6");
    assert_eq!(worker.unit_queue.undone(), 7, "what came early is taken in");
    assert_eq!(
        (worker.take_part_done(), worker.is_to_report(at(9))),
        (None, false),
        "rank 3 has not sent yet"
    );
    assert!(worker.waits_for().contains("from ranks [3]"));
    assert!(worker.accept(0, migration(1, 0, 1)).unwrap_err().message().contains("rank 0 sent units"));
    worker.accept(3, UnitMigration { round: 1, segments: vec![] }).unwrap();
    assert_eq!(worker.take_part_done(), Some(PartDone { sent: 4, received: 5 }));
    assert!(worker.accept(3, migration(1, 0, 1)).is_err(), "not twice");
    worker.carry_out(&directive(2, Command::Continue, &[(3, 1, 1, 1)])).unwrap();
    let done = UnitMigration { round: 2, segments: vec![Segment::new(0, 1, vec![0])] };
    let error = worker.accept(3, done).unwrap_err();
    assert!(error.message().ends_with("rank 3 sent unit 0 with 0 of 1 passes left"), "{error}");
    assert!(
        worker.carry_out(&directive(3, Command::Continue, &[])).is_err(),
        "directives cannot be left out"
    );
}

/// Rank 0 issues the next directive without waiting for a rank that has no work. Units (rows or indices) that a later directive moves may
/// therefore arrive before an earlier directive of rank 0.
#[test]
fn units_may_arrive_before_their_directives() {
    let mut worker = worker();
    work(&mut worker, 10);
    worker.has_reported();
    worker.accept(2, migration(3, 30, 5)).unwrap();
    worker.accept(3, migration(2, 40, 1)).unwrap();
    worker.carry_out(&directive(1, Command::Continue, &[])).unwrap();
    assert!(worker.is_idle(), "nothing has ordered them yet");
    worker.carry_out(&directive(2, Command::Continue, &[(3, 1, 1, 9)])).unwrap();
    assert_eq!(worker.take_part_done(), Some(PartDone { sent: 0, received: 1 }));
    worker.carry_out(&directive(3, Command::Continue, &[(2, 1, 5, 9)])).unwrap();
    assert_eq!(worker.take_part_done(), Some(PartDone { sent: 0, received: 5 }));
    assert_eq!(worker.unit_queue.undone(), 6);
    for (round, last) in [(4, Command::Continue), (9, Command::End)] {
        let mut worker = self::worker();
        worker.accept(2, migration(round, 30, 5)).unwrap();
        (1..4).for_each(|n| drop(worker.carry_out(&directive(n, Command::Continue, &[])).unwrap()));
        let error = worker.carry_out(&directive(4, last, &[])).unwrap_err();
        let text = format!("rank 2 sent units for directive number {round}, which does not order that");
        assert_eq!(error.message(), text);
    }
}

/// The run consists of two passes over the units (rows or indices), without a barrier between them.
#[test]
fn nowait_units_repeat_without_directives() {
    let mut worker = worker();
    worker.begin(1, 2, false);
    work(&mut worker, 10);
    assert_eq!((worker.pass(), worker.done(), worker.is_idle()), (2, 10, false));
    work(&mut worker, 4);
    assert_eq!((worker.pass(), worker.done(), worker.unit_queue.undone()), (2, 14, 6));
    // The received units (rows or indices) have done neither of the two passes. The units of this rank have begun their second pass, which
    // they complete before the received units are computed.
    worker.carry_out(&directive(1, Command::Continue, &[(0, 1, 6, 12)])).unwrap();
    let units = Segment::new(0, 3, vec![0, 1, 2]).due(2);
    worker.accept(0, UnitMigration { round: 1, segments: vec![units] }).unwrap();
    assert_eq!(worker.take_part_done(), Some(PartDone { sent: 0, received: 3 }));
    work(&mut worker, 99);
    assert_eq!((worker.next(99).unwrap().range, worker.pass()), (0..3, 1));
    work(&mut worker, 99);
    work(&mut worker, 99);
    assert_eq!((worker.pass(), worker.done(), worker.is_idle()), (2, 26, true));
    assert!(worker.waits_for().contains("about pass 2; all 13 units"), "{}", worker.waits_for());
}

#[test]
fn rank_without_units_reports_only_movements() {
    let mut worker: DoAllWorker<()> = DoAllWorker::new();
    worker.begin(2, 1, false);
    assert!(worker.is_idle() && worker.is_to_report(at(0)));
    worker.has_reported();
    worker.carry_out(&directive(1, Command::Continue, &[])).unwrap();
    assert!(!worker.is_to_report(at(9)));
    worker.carry_out(&directive(2, Command::Continue, &[(0, 1, 1, 5)])).unwrap();
    assert_eq!(worker.take_part_done(), Some(PartDone { sent: 0, received: 0 }));
    assert!(worker.is_to_report(at(0)));
}
