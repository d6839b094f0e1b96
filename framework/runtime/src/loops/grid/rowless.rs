//! Protocol of a rank without rows, which waits for the end of the run.

use std::convert::Infallible;
use std::time::Duration;

use super::messages::{Coordination, Received};
use crate::comm::endpoint::Endpoint;
use crate::comm::message::Message;
use crate::error::Result;
use crate::rank::driver::RankDriver;
use crate::rank::executor::Executor;
use crate::rank::heartbeat::HeartbeatState;
use crate::rank::protocol::{Moment, Next, Outgoing, Protocol};
use crate::rank::user_code::UserCode;
use crate::session::{Config, Driver};

struct Rowless {
    is_converged: bool,
}

struct Nothing;

/// Takes part in a run of a loop over a grid as a rank without rows.
///
/// # Errors
/// If rank 0 ends, or is silent for too long.
pub(super) fn run_without_rows(endpoint: &mut Endpoint, config: &Config) -> Result<()> {
    let (rank, clock, waker) = (endpoint.rank(), endpoint.clock(), endpoint.transport().waker());
    let executor = Executor::at_first_job(None, rank, Driver::Inline, waker, clock, Nothing, None);
    let driver = RankDriver::new(endpoint, executor, config, super::NAME);
    driver.run(endpoint, &mut Rowless { is_converged: false }).map(drop)
}

impl UserCode for Nothing {
    type Job = Infallible;
    type Done = Infallible;

    fn run(&mut self, job: Infallible) -> Result<Option<Infallible>> {
        match job {}
    }

    fn answers(job: &Infallible) -> bool {
        match *job {}
    }

    fn may_block(&self, job: &Infallible) -> bool {
        match *job {}
    }

    fn took(done: &Infallible) -> Option<Duration> {
        match *done {}
    }
}

impl Protocol for Rowless {
    type Code = Nothing;

    fn on_message(&mut self, message: Message, _: &Moment, _: &mut Outgoing<'_>) -> Result<()> {
        let from = message.from;
        match Received::decode(message)? {
            Received::Coordination(Coordination::Finish) => self.is_converged = true,
            other => return Err(other.unexpected(from, "the end of the loop")),
        }
        Ok(())
    }

    fn on_done(&mut self, done: Infallible, _: &Moment, _: &mut Outgoing<'_>) -> Result<()> {
        match done {}
    }

    fn next(&mut self, _: &Moment, _: &mut Outgoing<'_>) -> Result<Next<Infallible>> {
        Ok(if self.is_converged { Next::Finished } else { Next::Wait })
    }

    fn heartbeat_state(&self) -> HeartbeatState {
        HeartbeatState::new(false, "has no rows, and waits for the end of the loop").or_rests(true)
    }
}
