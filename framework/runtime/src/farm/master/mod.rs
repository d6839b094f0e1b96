//! Rank 0 of a running farm. [`MasterState`] makes the decisions; this module carries them out.
//!
//! [`run`] executes the phases of a run. The stream of tasks in `phase.rs` is the place to start reading: it delivers results, dispatches
//! chunks, and computes.

mod dispatch;
mod losses;
mod phase;
mod replay;
mod results;
pub(super) mod run;
mod second_copies;
mod shutdown;
mod submasters;
mod time_left;
mod worker_count;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::chunk_result::Activity;
use super::controller::WorkerController;
use super::delivery::Deliver;
use super::failure_detector::FailureDetector;
use super::incumbent_link::IncumbentLink;
use super::messages::{Join, ToMaster, ToWorker};
use super::options::Options;
use super::result_journal::ResultJournal;
use super::state::{Joined, MasterState, WorkerState};
use super::task_runner::{Codecs, Command, Done, Output, Rest};
use super::user_job;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Control, Message};
use crate::error::{Error, ErrorKind, Result};
use crate::observe::number_format::count;
use crate::observe::{EventLog, Progress};
use crate::rank::heartbeat::HeartbeatState;
use crate::rank::protocol::Outgoing;
use crate::session::{Balance, Config, Driver};

pub(super) struct MasterRank {
    codecs: Codecs,
    name: String,
    options: Options,
    run: u32,
    user_driver: Driver,
    pub(super) state: MasterState,
    detector: FailureDetector,
    incumbent: IncumbentLink,
    controller: WorkerController,
    journal: Option<ResultJournal>,
    events: EventLog,
    /// Number of the task that rank 0 currently runs, set by its computing thread.
    own: Arc<Activity>,
    /// Chunks of rank 0 itself whose first results were delivered, and whose remaining tasks wait to be run.
    rests: VecDeque<Rest>,
    /// Second copies of late chunks of other ranks, which rank 0 has to run itself.
    own_copies: VecDeque<Command>,
    choice_recorded: bool,
    /// True while the run executes a stream of tasks; false in iterations, which execute one set of tasks after the other.
    pub(super) streaming: bool,
    stop_requested: bool,
    /// Time by which tasks have to end, if the job has a time limit.
    tasks_end_by: Option<Duration>,
    /// Set if the run was stopped before all tasks were dispatched; the value is the total number of tasks, if that is known.
    cut: Option<Option<u64>>,
    /// Rank whose reply to a link measurement has arrived since rank 0 sent its latest measurement message; `None` while rank 0 waits for the
    /// reply.
    echo: Option<usize>,
    /// Index, among the ranks other than 0, of the rank whose link to rank 0 was measured last. The search for the next idle rank to measure
    /// begins after this rank.
    probed: usize,
    pub(super) clock: Clock,
    start: Duration,
}

impl MasterRank {
    pub(super) fn new(
        endpoint: &mut Endpoint,
        codecs: Codecs,
        (name, run): (&str, u32),
        own: Arc<Activity>,
        options: Options,
        config: &Config,
    ) -> Result<Self> {
        let (size, clock) = (endpoint.size(), endpoint.clock());
        // With a time limit for tasks, rank 0 runs none: a task that hangs on rank 0 would end the job.
        let computes = size == 1 || !(options.dedicated || options.task_limit.is_some());
        let mut state = MasterState::new(
            (size, endpoint.lost()),
            computes,
            &options,
            options.window_bytes.unwrap_or(config.window_bytes),
            [codecs.tasks.shape(), codecs.results.shape()],
        );
        if let Some(speeds) = config.speeds() {
            state.expect_speeds(&speeds);
        }
        let balance = options.balance.or(config.balance).unwrap_or(Balance::Live);
        let mut master = MasterRank {
            user_driver: user_job::driver(config, endpoint),
            state,
            detector: FailureDetector::new(endpoint.size(), options.silence(config), config),
            incumbent: IncumbentLink::new(options.incumbent.clone(), name, endpoint.size()),
            controller: WorkerController::new(balance, clock.now())?,
            journal: None,
            events: EventLog::off(),
            own,
            rests: VecDeque::new(),
            own_copies: VecDeque::new(),
            choice_recorded: false,
            streaming: false,
            stop_requested: false,
            tasks_end_by: endpoint.tasks_end_by(),
            cut: None,
            echo: None,
            probed: 0,
            clock,
            start: clock.now(),
            name: name.to_string(),
            run,
            codecs,
            options,
        };
        master.log_events(endpoint, config, &format!("{balance:?}").to_lowercase());
        Ok(master)
    }

    fn progress(&self, total: Option<u64>) -> Progress {
        let tasks = &self.state.tasks;
        let (workers, out) = (self.state.workers().working() as u64, tasks.out());
        Progress {
            of: format!("farm {:?}", self.name),
            done: tasks.counts().ended,
            before: self.state.known,
            part: 0.0,
            total: total.filter(|_| self.streaming),
            what: "tasks",
            rest: format!("{}  {} dispatched", count(workers, "worker"), count(out, "task")),
        }
    }

    fn heartbeat_state(&self, busy: Option<&str>) -> HeartbeatState {
        let tasks = self.state.tasks.describe();
        let state = match (busy, self.own.get().1) {
            (Some(busy), _) => format!("{busy}; {tasks}"),
            (None, Some(task)) => format!("in task {task} or the chunk that begins with it; {tasks}"),
            (None, None) => tasks,
        };
        HeartbeatState::new(busy.is_some(), state).or_rests(!self.state.computes)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn here(&self, error: Error) -> Error {
        error.in_farm(&self.name).at_rank(0)
    }

    fn on_message(
        &mut self,
        message: Message,
        delivery: &mut dyn Deliver,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let from = message.from;
        self.readmit(from, out)?;
        if message.is(Control::Echo) {
            self.echo = Some(from);
            return Ok(());
        }
        let Some(message) = self.incumbent.take(message)? else { return Ok(()) };
        match ToMaster::decode(message)? {
            ToMaster::Join(join) => self.on_join(from, &join, out),
            ToMaster::Lost(lost) => self.on_member_lost(from, lost, out),
            ToMaster::Report(report) if self.state.ending => {
                // Rank 0 has not counted results that arrived after the sink had stopped the stream, so it takes the statistics of the rank from the
                // rank's report.
                if self.state.stopped {
                    self.state.reports[from] = report;
                }
                self.left(from, out);
                Ok(())
            }
            ToMaster::Report(_) => {
                let text = format!("rank {from} has left the farm before its end");
                Err(Error::new(ErrorKind::Wire, text))
            }
            // After the sink has stopped the stream, or once the run ends, rank 0 ignores results, tasks that exceed their time
            // limit, and sub-masters that become workers again.
            _ if self.state.stopped || self.state.ending => Ok(()),
            ToMaster::Result(entry) => self.on_result(from, entry, delivery, out),
            ToMaster::Results(entries) => self.on_results(from, entries, delivery, out),
            ToMaster::TimedOut { task } => self.on_timeout(from, task, delivery, out),
            ToMaster::Retired => self.on_retired(from),
        }
    }

    fn on_join(&mut self, from: usize, join: &Join, out: &mut Outgoing<'_>) -> Result<()> {
        self.detector.record_message(from);
        self.detector.flight_records.open(from, join.flight_recorder.as_ref());
        match self.state.join(from, join.warm_up) {
            Joined::Parked => out.send(from, ToWorker::Park(true)),
            Joined::Works | Joined::Again => Ok(()),
        }
    }

    fn on_done(&mut self, done: Done, delivery: &mut dyn Deliver, out: &mut Outgoing<'_>) -> Result<()> {
        match done {
            Done::SetUp { took } => {
                self.state.reports[0].warm_up = took;
                self.state.tasks.workers_mut().set(0, WorkerState::Active);
                self.adjust_workers(out)
            }
            Done::Chunk { header, times, rest, .. } if self.state.stopped => {
                self.state.reports[0].add(header.count, times.sum, rest.is_none());
                Ok(())
            }
            Done::Chunk { .. } if self.state.ending => Ok(()),
            Done::Chunk { header, times, result: Output::Local(result), rest } => {
                self.rests.extend(rest);
                self.state.traffic.own(header.count.into(), times.took);
                self.controller.own(header.count, times.sum);
                self.on_own_result(header, times, result, delivery, out)
            }
            Done::Chunk { .. } => Err(Error::new(ErrorKind::Wire, "rank 0 ran a chunk of another rank")),
        }
    }

    fn spread(&mut self, out: &mut Outgoing<'_>) -> Result<bool> {
        if !self.incumbent.has_improved() || self.state.stopped || self.state.ending {
            return Ok(false);
        }
        self.incumbent.send_round(self.state.workers().holders(), self.clock.now(), out)
    }

    fn on_tick(&mut self, now: Duration, out: &mut Outgoing<'_>) -> Result<()> {
        self.replan_stream(now, out)?;
        // The event log is written at intervals of real time, which a simulation does not have.
        if !out.endpoint().capabilities().real_time {
            return Ok(());
        }
        self.events.tick(now);
        Ok(())
    }
}
