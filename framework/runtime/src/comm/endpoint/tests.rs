//! Tests of an endpoint: overlapping runs, failures, malformed messages and waits that end.

use super::*;
use crate::comm::local::{LocalTransport, World};
use crate::comm::message::FailureMessage;
use crate::wire;

impl Endpoint {
    pub(crate) fn poll_for_a_while(&mut self, start: Duration, (from, to): (u64, u64)) -> Duration {
        for tenth in from * 10..=to * 10 {
            self.record_poll(start + Duration::from_millis(100 * tenth));
        }
        start + Duration::from_secs(to)
    }
}

fn pair() -> (Endpoint, Endpoint) {
    let world = World::new(2);
    let endpoint = |rank| {
        let t = LocalTransport::open(world.clone(), rank);
        Endpoint::new(Box::new(t), Duration::from_millis(1))
    };
    (endpoint(0), endpoint(1))
}

#[test]
fn later_run_messages_are_queued_and_earlier_dropped() {
    let (mut a, mut b) = pair();
    a.next_run();
    a.send(1, Control::Leave, &1u32).unwrap();
    a.next_run();
    a.send(1, Control::Leave, &2u32).unwrap();
    assert!(b.poll().unwrap().is_none(), "b is still in run 0");
    b.next_run();
    let message = b.poll().unwrap().unwrap();
    assert_eq!(wire::from_bytes::<u32>(&message.body).unwrap(), 1);
    b.next_run();
    let message = b.poll().unwrap().unwrap();
    assert_eq!(wire::from_bytes::<u32>(&message.body).unwrap(), 2);
    b.send(0, Control::Leave, &3u32).unwrap();
    a.next_run();
    assert!(a.poll().unwrap().is_none(), "run 2 is over for a");
}

#[test]
fn failure_is_received_in_any_run() {
    let (mut a, mut b) = pair();
    b.next_run();
    let note = FailureMessage { message: "rank 0: stage seg: item 1: no".into(), restart: false };
    a.send(1, Control::Failure, &note).unwrap();
    let error = b.poll().unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Peer, "rank 0: stage seg: item 1: no"));
    let again = b.poll().unwrap_err();
    assert_eq!(again.message(), error.message(), "every further wait ends with the failure");
    assert!(a.check_failure().is_ok());
}

#[test]
fn malformed_frames_are_errors() {
    let (mut a, mut b) = pair();
    a.send_ready(1, Frame::new(vec![1, 2, 3])).unwrap();
    assert_eq!(b.poll().unwrap_err().kind(), ErrorKind::Wire);
    a.send_ready(1, Frame::new(vec![0, 0, 0, 0, 200, 0, 0, 0])).unwrap();
    let unknown = b.poll().unwrap().expect("a message").tag::<Control>().unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Wire);
    assert!(unknown.message().contains("rank 0 sent a message with tag 200, expected one of"), "{unknown}");
}

#[test]
fn wait_times_out_and_names_the_awaited_rank() {
    let (_a, mut b) = pair();
    let e = b
        .wait_until(Duration::from_millis(5), |_, _| Ok(None::<()>), || "for rank 0 to answer".to_string())
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Timeout);
    assert!(e.to_string().ends_with("for rank 0 to answer"), "{e}");
}
