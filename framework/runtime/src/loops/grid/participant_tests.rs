use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::super::directive::Directive;
use super::super::worker::Storage;
use super::*;
use crate::comm::message::Encode;
use crate::comm::{Frame, Transport, Waker};
use crate::loops::summary::RankReport;
use crate::persist::snapshot::CheckpointPiece;
use crate::rank::driver::RankDriver;
use crate::rank::executor::Executor;
use crate::session::Driver;

/// Action of a simulated rank: computing a piece of a sweep, or polling whether a send has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    Computed,
    Looked,
}

type Diary = Arc<Mutex<Vec<Did>>>;

/// Transport that delivers given messages, and reports at poll number `looks` that all sends are complete.
struct Slow {
    queues: VecDeque<(usize, Frame)>,
    looks: usize,
    diary: Diary,
}

impl Transport for Slow {
    fn rank(&self) -> usize {
        1
    }
    fn size(&self) -> usize {
        2
    }
    fn describe(&self) -> String {
        "slow".into()
    }
    fn capabilities(&self) -> crate::comm::Capabilities {
        crate::comm::Capabilities { processes: false, real_time: true, threads: true, ranks_may_end: false }
    }
    fn send(&mut self, _: usize, _: Frame) -> Result<()> {
        Ok(())
    }
    fn poll(&mut self) -> Result<Option<(usize, Frame)>> {
        Ok(self.queues.pop_front())
    }
    fn is_receiving(&self) -> bool {
        false
    }
    fn group(&mut self, _: &crate::comm::Group) -> Result<Option<Box<dyn Transport>>> {
        Ok(None)
    }
    fn sends_done(&mut self) -> Result<bool> {
        self.diary.lock().expect("nobody panics here").push(Did::Looked);
        self.looks = self.looks.saturating_sub(1);
        Ok(self.looks == 0)
    }
    fn wait(&mut self, limit: Option<Duration>) -> Result<()> {
        std::thread::sleep(limit.unwrap_or_default());
        Ok(())
    }
    fn waker(&self) -> Waker {
        Waker::for_this_thread()
    }
    fn clock(&self) -> Clock {
        Clock::wall()
    }
    fn leave_now(&mut self) {}
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Worker that computes `left` pieces of a sweep. If `awaits_results` is true, it waits for a message once before it ends.
struct Pieces {
    left: u32,
    awaits_results: bool,
}

/// Placeholder for the rows of a worker, because user code computes nothing in these tests.
struct Nothing;

impl Storage for Nothing {
    fn whereabouts(&self, _: u64, _: &Range<usize>) -> String {
        "piece".into()
    }
}

impl GridWorker for Pieces {
    fn next(&mut self, _: &mut dyn NeighbourSender) -> Result<GridAction> {
        Ok(match self.left {
            0 if std::mem::take(&mut self.awaits_results) => GridAction::Wait,
            0 => GridAction::Done,
            _ => GridAction::Compute(0..1),
        })
    }
    fn lend(&mut self) -> Box<dyn Storage> {
        Box::new(Nothing)
    }
    fn take_back(&mut self, _: Box<dyn Storage>) -> Result<()> {
        Ok(())
    }
    fn computed(&mut self, _: &mut dyn NeighbourSender) -> Result<()> {
        self.left -= 1;
        Ok(())
    }
    fn receive(&mut self, _: usize, _: ToNeighbour<Bytes>) -> Result<()> {
        Ok(())
    }
    fn carry_out(&mut self, _: Directive, _: &mut dyn NeighbourSender) -> Result<()> {
        Ok(())
    }
    fn awaits_sender(&self) -> bool {
        false
    }
    fn stop(&mut self) {
        self.left = 0;
    }
    fn report_after(&self) -> u64 {
        0
    }
    fn delay(&self) -> u64 {
        1
    }
    fn save_before(&self) -> Option<u64> {
        None
    }
    fn pieces(&self) -> Vec<CheckpointPiece> {
        Vec::new()
    }
    fn held(&self) -> u64 {
        1
    }
    fn block_size(&self) -> u64 {
        0
    }
    fn units(&self, _: &Range<usize>) -> f64 {
        1.0
    }
    fn sweep(&self) -> u64 {
        0
    }
    fn waiting_for(&self) -> String {
        "for nothing".into()
    }
}

/// Simulates rank 1. It first receives the message `first` of rank 0, if any, and its sends complete at poll number `looks`. Returns its actions and
/// its measurements.
fn run(
    first: Option<Frame>,
    looks: usize,
    mut pieces: Pieces,
    config: &Config,
) -> Result<(Vec<Did>, RankReport)> {
    let diary = Diary::default();
    let queues = first.map(|frame| (0, frame)).into_iter().collect();
    let transport = Slow { queues, looks, diary: diary.clone() };
    let mut endpoint = Endpoint::new(Box::new(transport), Duration::from_millis(1));
    let mut work = |_: &mut dyn Storage, _: &Range<usize>| {
        diary.lock().expect("nobody panics here").push(Did::Computed);
        Ok(())
    };
    let (clock, waker) = (endpoint.clock(), endpoint.transport().waker());
    let executor =
        Executor::at_first_job(None, 1, Driver::Inline, waker, clock, Kernel::new(&mut work, clock, 0), None);
    let driver = RankDriver::new(&mut endpoint, executor, config, "the loop");
    let position = Position { rank: 1, chain: 2 };
    let mut participant = GridParticipant::new(&mut pieces, &endpoint, position, config, None, None, None);
    driver.run(&mut endpoint, &mut participant)?;
    assert!(
        participant.heartbeat_state().is_computing() && !participant.awaits_results(),
        "it waits for nothing any more"
    );
    let did = std::mem::take(&mut *diary.lock().expect("nobody panics here"));
    Ok((did, participant.times.metrics.report(1)))
}

/// Simulates rank 1 while it computes two pieces of a sweep. Rank 0 waits for rows that rank 1 has sent, and the send completes at poll number
/// `looks`. Returns the actions of rank 1.
fn awaited(looks: usize, config: &Config) -> Result<Vec<Did>> {
    let wanted = ToNeighbour::Wanted.encode(0)?;
    run(Some(wanted), looks, Pieces { left: 2, awaits_results: false }, config).map(|(did, _)| did)
}

#[test]
fn wait_before_the_end_counts_as_waiting_time() {
    let (_, report) = run(None, 0, Pieces { left: 1, awaits_results: true }, &Config::default()).unwrap();
    assert!(!report.waiting.is_zero(), "{report:?}");
}

#[test]
fn awaited_rows_are_sent_before_further_computation() {
    use Did::{Computed, Looked};
    let did = awaited(4, &Config::default()).unwrap();
    assert_eq!(did, [Looked, Looked, Looked, Looked, Computed, Computed]);
}

#[test]
fn rank_that_does_not_receive_its_rows_is_named() {
    let config = Config {
        peer_limit: Duration::from_millis(20),
        join_limit: Duration::from_millis(20),
        ..Config::default()
    };
    let error = awaited(usize::MAX, &config).unwrap_err();
    assert_eq!((error.kind(), error.rank()), (crate::ErrorKind::Timeout, Some(1)));
    assert!(error.message().contains("for a heartbeat from rank 0"), "{error}");
}
