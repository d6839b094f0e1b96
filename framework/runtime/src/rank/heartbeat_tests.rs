//! Tests of heartbeats over time: which rank is taken for dead at which time, and the error messages about it.

use super::*;
use crate::comm::local::{LocalTransport, World};

fn idle() -> HeartbeatState {
    HeartbeatState::new(false, "computing nothing; 2 of 8 batches in flight")
}

fn busy() -> HeartbeatState {
    HeartbeatState::new(true, "in stage seg, items from 7 on")
}

fn heartbeat() -> (Heartbeat, Endpoint) {
    let transport = LocalTransport::open(World::new(2), 0);
    let mut endpoint = Endpoint::new(Box::new(transport), Duration::from_millis(1));
    let config = Config::new().peer_limit(Duration::from_secs(10)).join_limit(Duration::from_secs(300));
    (Heartbeat::new(&mut endpoint, &config, "the pipeline"), endpoint)
}

fn beat(
    heartbeat: &mut Heartbeat,
    endpoint: &mut Endpoint,
    awaits_results: bool,
    now: Duration,
) -> Result<()> {
    heartbeat.beat(endpoint, (idle(), awaits_results), &|_| Watch::Usual, now, &mut |_, silence| {
        Err(silence.error)
    })
}

#[test]
fn heartbeat_encoding_is_unchanged() {
    let mut messages = crate::golden::Messages::default();
    messages.value("a rank computes nothing", Control::Heartbeat, &idle());
    messages.value("a rank computes", Control::Heartbeat, &busy());
    messages.check("rank");
}

#[test]
fn silent_rank_is_named_with_its_last_heartbeat() {
    let (mut heartbeat, mut endpoint) = heartbeat();
    let start = endpoint.clock().now();
    heartbeat.heartbeat_states[1] = Some(busy());
    let mut beat = |from, to| {
        let now = endpoint.poll_for_a_while(start, (from, to));
        beat(&mut heartbeat, &mut endpoint, false, now)
    };
    beat(0, 9).unwrap();
    beat(500, 500).expect("that it was stopped itself does not count");
    let error = beat(500, 503).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(
        error.to_string().contains("from rank 1; its last heartbeat: in stage seg, items from 7"),
        "{error}"
    );
}

/// A rank whose calls of user code were short may be silent for longer than usual, because the next call may take long.
#[test]
fn interleaved_rank_has_the_longer_silence_limit() {
    let (mut heartbeat, mut endpoint) = heartbeat();
    let start = endpoint.clock().now();
    heartbeat.heartbeat_states[1] = Some(HeartbeatState { is_interleaved: true, ..busy() });
    let mut beat = |from, to| {
        let now = endpoint.poll_for_a_while(start, (from, to));
        beat(&mut heartbeat, &mut endpoint, false, now)
    };
    beat(0, 50).expect("the peer limit is 10 s");
    beat(50, 301).expect_err("the join limit is 300 s");
}

#[test]
fn dispensable_rank_is_lost_once() {
    let (mut heartbeat, mut endpoint) = heartbeat();
    let start = endpoint.clock().now();
    heartbeat.heartbeat_states[1] = Some(idle());
    let mut lost = Vec::new();
    for (from, to) in [(0, 9), (9, 11), (11, 40)] {
        let now = endpoint.poll_for_a_while(start, (from, to));
        let mut on_lost = |endpoint: &mut Endpoint, Silence { rank, error, .. }| {
            endpoint.lose(rank, error.message());
            lost.push((rank, error.kind()));
            Ok(())
        };
        heartbeat.beat(&mut endpoint, (idle(), false), &|_| Watch::Usual, now, &mut on_lost).unwrap();
    }
    assert_eq!((lost, endpoint.is_lost(1)), (vec![(1, ErrorKind::Timeout)], true));
}

/// A rank that has not reached the skeleton is still in the program's own code, and no other rank can run this code in its place: the job ends,
/// whatever `on_lost` returns.
#[test]
fn rank_that_never_joined_ends_the_job() {
    let (mut heartbeat, mut endpoint) = heartbeat();
    let now = endpoint.clock().now();
    let watch = |_| Watch::Within { limit: Duration::from_secs(5), has_joined: false };
    let now = endpoint.poll_for_a_while(now, (0, 6));
    let beat = |heartbeat: &mut Heartbeat, endpoint: &mut Endpoint| {
        heartbeat.beat(endpoint, (idle(), false), &watch, now, &mut |_, _| Ok(()))
    };
    let error = beat(&mut heartbeat, &mut endpoint).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.message().contains("from rank 1; it has sent no heartbeat"), "{error}");
    heartbeat.has_joined[1] = true;
    beat(&mut heartbeat, &mut endpoint).expect("a rank that has come can be done without");
}

#[test]
fn silence_is_detected_at_the_limit() {
    let (mut heartbeat, mut endpoint) = heartbeat();
    let start = endpoint.clock().now();
    heartbeat.heartbeat_states[1] = Some(idle());
    let mut silent_for = |from: u64, ms: u64| {
        for at in (from..from + ms).map(|ms| start + Duration::from_millis(ms)) {
            endpoint.record_poll(at);
            if heartbeat.is_due(at) {
                beat(&mut heartbeat, &mut endpoint, false, at)?;
            }
        }
        endpoint.reset_silence(1);
        Ok(())
    };
    // Rank 1 is silent for 2.6 s and then for 9.99 s, which is below the limit of 10 s. The next silence, of 10.02 s, is above it.
    silent_for(0, 2_600).and_then(|()| silent_for(2_600, 9_990)).expect("that is less than the limit");
    let error: Error = silent_for(12_590, 10_020).expect_err("that is more");
    assert!(error.to_string().contains("has waited 10 s for a heartbeat from rank 1"), "{error}");
}

/// The last heartbeat of a rank may precede the begin of a long call of user code, which keeps the rank from sending another one.
#[test]
fn silent_interleaved_rank_may_compute() {
    let for_50_s = |is_silent: bool| {
        let (mut heartbeat, mut endpoint) = heartbeat();
        let start = endpoint.clock().now();
        heartbeat.heartbeat_states[1] = Some(HeartbeatState { is_interleaved: true, ..idle() });
        (1..50).try_for_each(|second| {
            let now = endpoint.poll_for_a_while(start, (second - 1, second));
            if !is_silent {
                endpoint.reset_silence(1);
            }
            beat(&mut heartbeat, &mut endpoint, true, now)
        })
    };
    for_50_s(true).expect("it computes");
    let error = for_50_s(false).expect_err("its heartbeats arrive, and it waits");
    assert!(error.to_string().contains("no rank has made progress"), "{error}");
}

#[test]
fn lack_of_progress_counts_only_while_no_rank_computes() {
    let (mut heartbeat, mut endpoint) = heartbeat();
    let start = endpoint.clock().now();
    let mut before = 0;
    let mut at = |seconds: u64, there: HeartbeatState, awaits_results: bool| {
        heartbeat.heartbeat_states[1] = Some(there);
        let now = endpoint.poll_for_a_while(start, (std::mem::replace(&mut before, seconds), seconds));
        endpoint.reset_silence(1);
        beat(&mut heartbeat, &mut endpoint, awaits_results, now)
    };
    at(1, idle(), true).unwrap();
    at(9, busy(), true).unwrap();
    at(12, idle(), true).unwrap();
    at(20, idle(), false).unwrap();
    at(25, idle(), true).unwrap();
    at(34, idle(), true).unwrap();
    let error = at(36, idle(), true).unwrap_err();
    assert!(error.to_string().contains("no rank has made progress for 11 s"), "{error}");
    assert!(error.to_string().contains("rank 1: computing nothing"), "{error}");
}
