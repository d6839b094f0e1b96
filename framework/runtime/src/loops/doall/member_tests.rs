use super::*;
use crate::loops::doall::letters::Transfer;
use crate::loops::doall::stock::Segment;

/// Rank 1 with the units 10 to 19.
fn member() -> Member<Vec<u64>> {
    let mut member = Member::new(1);
    member.stock.receive(Segment::new(10, 10, (10..20).collect()));
    member.begin(false);
    member
}

fn orders(round: u64, what: What, moves: &[(usize, usize, u64, u64)]) -> Orders {
    let moves = moves.iter().map(|&(from, to, units, of)| Transfer { from, to, units, of }).collect();
    Orders { round, what, moves, period: 1.0, save: None }
}

fn shipment(round: u64, first: u64, count: u64) -> Shipment<Vec<u64>> {
    let segments = vec![Segment::new(first, count, (first..first + count).collect())];
    Shipment { round, segments }
}

fn work(member: &mut Member<Vec<u64>>, most: u64) {
    let block = member.next(most).unwrap();
    member.finished(&block);
}

fn at(seconds: u64) -> impl FnOnce() -> Duration {
    move || Duration::from_secs(seconds)
}

#[test]
fn reports_come_once_a_round_and_when_it_runs_dry() {
    let mut member = member();
    assert!(!member.is_to_report(at(9)), "nothing was done yet");
    work(&mut member, 2);
    assert!(!member.is_to_report(at(0)) && member.is_to_report(at(9)));
    member.has_reported();
    work(&mut member, 2);
    assert!(!member.is_to_report(at(9)), "rank 0 has not answered");
    assert!(member.obey(&orders(1, What::Hurry, &[])).unwrap().is_empty());
    assert!(!member.is_to_report(at(0)), "that is for another round");
    member.obey(&orders(1, What::Go, &[])).unwrap();
    assert!(!member.is_to_report(at(0)), "it is not time");
    member.obey(&orders(1, What::Hurry, &[])).unwrap();
    assert!(member.is_to_report(at(0)));
    member.has_reported();
    work(&mut member, 99);
    assert!(member.is_dry() && member.is_to_report(at(0)));
    member.has_reported();
    assert!(!member.is_to_report(at(9)));
    member.obey(&orders(2, What::Go, &[])).unwrap();
    assert!(!member.is_to_report(at(9)), "nothing is new");
    member.obey(&orders(3, What::Begin, &[])).unwrap();
    assert_eq!((member.pass(), member.done(), member.stock.undone()), (2, 0, 10));
    member.obey(&orders(4, What::End, &[])).unwrap();
    assert!(member.is_over());
}

#[test]
fn units_come_and_go_by_orders_only() {
    let mut member = member();
    work(&mut member, 4);
    // Rank 2 has heard the orders before this rank has.
    member.accept(2, shipment(1, 30, 5)).unwrap();
    assert_eq!(member.stock.undone(), 6);
    let moves = [(1, 0, 8, 10), (2, 1, 5, 20), (3, 1, 4, 20), (0, 3, 1, 1)];
    let sent = member.obey(&orders(1, What::Go, &moves)).unwrap();
    let sent: Vec<(usize, u64, u64)> = sent.iter().map(|(to, s)| (*to, s.round, s.len())).collect();
    assert_eq!(sent, [(0, 1, 4)], "it had 10 when that was decided, and has 6");
    assert_eq!(member.stock.undone(), 7, "what came early is taken in");
    assert_eq!((member.take_made(), member.is_to_report(at(9))), (None, false), "rank 3 has not sent yet");
    assert!(member.waits_for().contains("from ranks [3]"));
    assert!(member.accept(0, shipment(1, 0, 1)).unwrap_err().message().contains("rank 0 sent units"));
    member.accept(3, Shipment { round: 1, segments: vec![] }).unwrap();
    assert_eq!(member.take_made(), Some(Made { sent: 4, received: 5 }));
    assert!(member.accept(3, shipment(1, 0, 1)).is_err(), "not twice");
    assert!(member.obey(&orders(3, What::Go, &[])).is_err(), "orders cannot be left out");
}

#[test]
fn a_rank_without_units_answers_movements_only() {
    let mut member: Member<()> = Member::new(3);
    member.begin(false);
    assert!(member.is_dry() && member.is_to_report(at(0)));
    member.has_reported();
    member.obey(&orders(1, What::Go, &[])).unwrap();
    assert!(!member.is_to_report(at(9)));
    member.obey(&orders(2, What::Go, &[(0, 1, 1, 5)])).unwrap();
    assert_eq!(member.take_made(), Some(Made { sent: 0, received: 0 }));
    assert!(member.is_to_report(at(0)));
}
