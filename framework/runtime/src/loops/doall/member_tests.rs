use super::*;
use crate::loops::doall::messages::Transfer;
use crate::loops::doall::stock::Segment;

/// Rank 1 with the units 10 to 19.
fn member() -> Member<Vec<u64>> {
    let mut member = Member::new(1);
    member.stock.receive(Segment::new(10, 10, (10..20).collect()));
    member.begin(1, false);
    member
}

fn orders(round: u64, what: What, moves: &[(usize, usize, u64, u64)]) -> Orders {
    let moves = moves.iter().map(|&(from, to, units, of)| Transfer { from, to, units, of }).collect();
    Orders { round, what, moves, period: 1.0, save: None }
}

fn shipment(round: u64, first: u64, count: u64) -> Shipment<Vec<u64>> {
    let units = Segment::new(first, count, (first..first + count).collect());
    let segments = vec![units.due(1)];
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
    member.obey(&orders(2, What::Go, &[(3, 1, 1, 1)])).unwrap();
    let done = Shipment { round: 2, segments: vec![Segment::new(0, 1, vec![0])] };
    let error = member.accept(3, done).unwrap_err();
    assert!(error.message().ends_with("rank 3 sent unit 0 to be done 0 times of 1"), "{error}");
    assert!(member.obey(&orders(3, What::Go, &[])).is_err(), "orders cannot be left out");
}

/// Two passes that need not wait for each other.
#[test]
fn units_are_done_again_without_orders_and_say_of_which_pass_they_are() {
    let mut member = member();
    member.begin(2, false);
    work(&mut member, 10);
    assert_eq!((member.pass(), member.done(), member.is_dry()), (2, 10, false));
    work(&mut member, 4);
    assert_eq!((member.pass(), member.done(), member.stock.undone()), (2, 14, 6));
    // Units that come are one pass behind: they are next, but for what is begun.
    member.obey(&orders(1, What::Go, &[(0, 1, 6, 12)])).unwrap();
    let units = Segment::new(0, 3, vec![0, 1, 2]).due(2);
    member.accept(0, Shipment { round: 1, segments: vec![units] }).unwrap();
    assert_eq!(member.take_made(), Some(Made { sent: 0, received: 3 }));
    work(&mut member, 99);
    assert_eq!((member.next(99).unwrap().range, member.pass()), (0..3, 1));
    work(&mut member, 99);
    work(&mut member, 99);
    assert_eq!((member.pass(), member.done(), member.is_dry()), (2, 26, true));
    assert!(member.waits_for().contains("pass 2 goes on; all 13 units"), "{}", member.waits_for());
}

#[test]
fn a_rank_without_units_answers_movements_only() {
    let mut member: Member<()> = Member::new(3);
    member.begin(1, false);
    assert!(member.is_dry() && member.is_to_report(at(0)));
    member.has_reported();
    member.obey(&orders(1, What::Go, &[])).unwrap();
    assert!(!member.is_to_report(at(9)));
    member.obey(&orders(2, What::Go, &[(0, 1, 1, 5)])).unwrap();
    assert_eq!(member.take_made(), Some(Made { sent: 0, received: 0 }));
    assert!(member.is_to_report(at(0)));
}
