use std::time::Duration;

use super::*;
use crate::comm::endpoint::Endpoint;
use crate::comm::local::{LocalTransport, World};
use crate::loops::Settings;
use crate::session::Config;
use armature_planner::loops::Reach;

fn leader(held: &[u64], passes: u64) -> Leader {
    leader_on(&endpoint(), held, passes)
}

fn endpoint() -> Endpoint {
    Endpoint::new(Box::new(LocalTransport::open(World::new(1), 0)), Duration::ZERO)
}

fn leader_on(endpoint: &Endpoint, held: &[u64], passes: u64) -> Leader {
    leader_of(endpoint, held, (passes, 1))
}

fn leader_of(endpoint: &Endpoint, held: &[u64], passes: (u64, u64)) -> Leader {
    let settings = Settings::new().quantum(Duration::ZERO);
    let steering = Steering::new("rows", &settings, &Config::new(), endpoint, Reach::Anywhere, held).unwrap();
    Leader::new(steering, None, held, passes, false)
}

/// A rank that has `undone` units left and did `done` in this pass, the last `units` in so many seconds.
fn say(round: u64, done: u64, undone: u64, units: f64, seconds: f64, movements: u64) -> Say {
    let note = Note { units, seconds, held: undone, blocks: 1, span: seconds, movements, ..Note::default() };
    let total = (undone == 0).then(RankReport::default);
    Say { at: 0.0, round, done, held: done + undone, note, total }
}

const NOW: Duration = Duration::from_secs(1);

/// Rank 1 has done as much as rank 0 when rank 0 reports, a block later: nothing is to move.
#[test]
fn what_ranks_have_done_since_they_reported_counts() {
    let mut leader = leader(&[500, 500], 9);
    let mut hear = |rank: usize, at: f64, heard: f64, say: Say| {
        leader.hear(rank, &Say { at, ..say }, Duration::from_secs_f64(heard));
        leader.step(Duration::from_secs_f64(heard)).unwrap()
    };
    // The clock of rank 1 was started two seconds before.
    assert_eq!(hear(1, 2.1, 0.1, say(0, 100, 400, 100.0, 0.1, 0)), None);
    assert_eq!(hear(1, 2.2, 0.3, say(0, 200, 300, 100.0, 0.1, 0)), None);
    let orders = hear(0, 0.3, 0.3, say(0, 300, 200, 300.0, 0.3, 0)).unwrap();
    assert_eq!((orders.what, orders.moves), (What::Go, vec![]));
    // Only rank 1 itself can say that it has run dry.
    assert_eq!(hear(0, 0.45, 2.0, say(1, 450, 50, 150.0, 0.15, 0)), None);
    assert!(leader.waits_for().contains("rank 1 (which had 200 to do)"), "{}", leader.waits_for());
}

#[test]
fn a_rank_that_runs_dry_makes_the_others_report_and_gets_units() {
    let mut leader = leader(&[50, 50], 1);
    leader.hear(0, &say(0, 50, 0, 50.0, 1.0, 0), NOW);
    // Nothing is known of rank 1.
    let orders = leader.step(NOW).unwrap().unwrap();
    assert_eq!((orders.round, orders.what), (0, What::Hurry));
    assert_eq!(leader.step(NOW).unwrap(), None, "once is enough");
    assert!(leader.waits_for().contains("rank 1 (which had 50 to do), in pass 1 of 1"));
    leader.hear(1, &say(0, 10, 40, 10.0, 1.0, 0), NOW);
    let orders = leader.step(NOW).unwrap().unwrap();
    assert_eq!((orders.round, orders.what), (1, What::Go));
    let Transfer { from, to, units, of } = orders.moves[0];
    assert!((from, to, of, orders.moves.len()) == (1, 0, 40, 1) && units > 20, "{orders:?}");
    // Both have to answer, rank 0 although it was dry.
    leader.hear(1, &say(1, 12, 38 - units, 2.0, 0.2, 1), NOW);
    assert_eq!(leader.step(NOW).unwrap(), None);
    leader.hear(0, &say(1, 50 + units, 0, units as f64, 0.5, 1), NOW);
    // What is left is shared out again.
    let orders = leader.step(NOW).unwrap().unwrap();
    assert_eq!((orders.round, orders.what, orders.moves.len()), (2, What::Go, 1));
    let units = units + orders.moves[0].units;
    leader.hear(1, &say(2, 50 - units, 0, 1.0, 0.1, 2), NOW);
    assert_eq!(leader.step(NOW).unwrap(), None);
    leader.hear(0, &say(2, 50 + units, 0, 3.0, 0.1, 2), NOW);
    assert_eq!(leader.step(NOW).unwrap().unwrap().what, What::End);
    assert_eq!((leader.step(NOW).unwrap(), leader.ended()), (None, Some(NOW)));
    assert_eq!((leader.steering().movements(), leader.held()), (2, vec![50 + units, 50 - units]));
}

#[test]
fn a_pass_is_over_when_all_units_are_done_and_the_next_begins_where_they_are() {
    let endpoint = endpoint();
    let mut leader = leader_on(&endpoint, &[50, 50], 2);
    leader.hear(0, &say(0, 50, 0, 50.0, 1.0, 0), NOW);
    leader.step(NOW).unwrap();
    leader.hear(1, &say(0, 50, 0, 50.0, 4.0, 0), NOW);
    let orders = leader.step(NOW).unwrap().unwrap();
    assert_eq!((orders.round, orders.what), (1, What::Begin));
    assert_eq!(orders.moves, [Transfer { from: 1, to: 0, units: 30, of: 50 }]);
    leader.hear(0, &say(1, 80, 0, 80.0, 1.6, 1), NOW);
    assert_eq!(leader.step(NOW).unwrap().map(|orders| orders.what), Some(What::Hurry));
    leader.hear(1, &say(1, 20, 0, 20.0, 1.6, 1), NOW);
    assert_eq!(leader.step(NOW).unwrap().unwrap().what, What::End);
    // The next run begins with what this one has learned, and can move units although it ended with a movement.
    let mut again = leader_on(&endpoint, &[50, 50], 1);
    let orders = again.open(leader.into_balancer()).unwrap().unwrap();
    assert_eq!(orders.moves, [Transfer { from: 1, to: 0, units: 30, of: 50 }]);
}

/// Forty passes that need not wait for each other: rank 1 has half of the units, and is three times as slow.
#[test]
fn what_is_left_of_passes_that_do_not_wait_is_shared_out() {
    let mut leader = leader_of(&endpoint(), &[50, 50], (1, 40));
    assert!(
        leader.waits_for().ends_with("rank 1 (which had 2000 to do), in passes 1 to 40"),
        "{}",
        leader.waits_for()
    );
    let mut hear = |rank: usize, at: Duration, say: Say| {
        leader.hear(rank, &Say { at: at.as_secs_f64(), ..say }, at);
        leader.step(at).unwrap()
    };
    assert_eq!(hear(0, NOW, say(0, 600, 1_400, 600.0, 1.0, 0)), None);
    let orders = hear(1, NOW, say(0, 200, 1_800, 200.0, 1.0, 0)).unwrap();
    // 3200 times a unit are left, of which rank 1 should have 800: what it has more, in units that are to be done 32 times.
    assert_eq!(orders.moves, [Transfer { from: 1, to: 0, units: 31 * 32, of: 1_800 }]);
    assert_eq!(hear(1, NOW, say(1, 202, 800, 2.0, 0.01, 1)), None);
    let orders = hear(0, NOW, say(1, 606, 2_392, 6.0, 0.01, 1)).unwrap();
    assert_eq!((orders.what, orders.moves), (What::Go, vec![]));
    // At the end what is left is counted as it is, and nothing of it must stay on a slow rank.
    let late = 2 * NOW;
    assert_eq!(hear(1, late, say(2, 1_001, 1, 2.0, 0.5, 1)), None);
    let orders = hear(0, late, say(2, 2_998, 0, 6.0, 0.1, 1)).unwrap();
    assert_eq!(orders.moves, [Transfer { from: 1, to: 0, units: 1, of: 1 }]);
    assert_eq!(hear(1, late, say(3, 1_001, 0, 1.0, 0.1, 2)), None);
    assert_eq!(hear(0, late, say(3, 2_999, 0, 1.0, 0.1, 2)).unwrap().what, What::End);
}

#[test]
fn nobody_is_hurried_who_is_done_soon() {
    let mut leader = leader(&[50, 50, 50], 1);
    for rank in 0..3 {
        leader.hear(rank, &say(0, 40, 10, 40.0, 0.04, 0), NOW);
    }
    assert!(leader.step(NOW).unwrap().unwrap().moves.is_empty());
    leader.hear(0, &say(1, 50, 0, 10.0, 0.01, 0), NOW);
    let soon = NOW + Duration::from_micros(8_500);
    assert_eq!(leader.step(soon).unwrap(), None, "the others have 1.5 ms left");
    assert_eq!(leader.step(NOW).unwrap().unwrap().what, What::Hurry);
}

#[test]
fn a_loop_without_units_waits_until_all_have_come() {
    let mut leader = leader(&[0, 0], 1);
    assert_eq!(leader.step(NOW).unwrap(), None);
    leader.hear(0, &say(0, 0, 0, 0.0, 0.0, 0), NOW);
    assert!(!leader.has_heard_all() && leader.step(NOW).unwrap().is_none());
    leader.hear(1, &say(0, 0, 0, 0.0, 0.0, 0), NOW);
    assert_eq!(leader.step(NOW).unwrap().unwrap().what, What::End);
}
