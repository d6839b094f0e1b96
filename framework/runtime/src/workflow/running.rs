//! Protocol of a rank in a run of a workflow: handles messages, results of user code, orders of the master and reports to it.

mod events;
mod files;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use armature_text::shown;

use super::commands::{Change, Commands, Limits, Try};
use super::files::Files;
use super::graph::Graph;
use super::messages::{Content, Orders, Reason};
use super::root::Root;
use super::user_code::{Done, Job, TaskCode};
use super::value::Value;
use super::worker::WorkflowWorker;
use crate::comm::message::{Control, Message};
use crate::error::{Error, ErrorKind, Result};
use crate::observe::{Event, EventLog, Progress, Tally};
use crate::rank::flight_recorder::FlightRecordLocation;
use crate::rank::heartbeat::{HeartbeatState, Silence, Watch};
use crate::rank::protocol::{FREQUENT_POLLS, Moment, Next, Outgoing, Protocol};

/// Run time of completed tasks after which a rank reports them to the master; an idle rank reports at once. It is shorter than the total run time of
/// the tasks that are dispatched to a rank in advance, so that the master can send further orders in time.
const REPORT_AFTER: Duration = Duration::from_micros(500);

/// State of a rank in a run of a workflow, as a protocol that the rank's driver executes.
pub(super) struct Running<'c, 'w> {
    graph: Arc<Graph>,
    worker: WorkflowWorker,
    commands: Commands<'c>,
    enforces_memory: bool,
    /// Ended commands for which the program's function `after_command` has to be called; `None` if there is no such function.
    unsettled: Option<VecDeque<Try>>,
    /// State of file transfers between ranks; `None` if the files of commands are not sent.
    files: Option<Files>,
    pub(super) root: Option<Root>,
    /// True if rank 0 has asked this rank to measure its speed, and the measurement has not begun.
    is_to_measure: bool,
    /// Closures with a time limit that were passed to user code, in order, each with a start time. Only the first one runs; the start time of the
    /// next one is set when it ends.
    limited: VecDeque<(usize, Duration)>,
    pub(super) events: EventLog,
    /// Location of the memory in which this rank records its running closure (its flight record), until the location is sent to rank 0.
    pub(super) flight_recorder: Option<FlightRecordLocation>,
    /// Run time of tasks that have ended and are not yet reported to the master.
    unreported: Duration,
    /// Run times of ended commands, multiplied by the fraction of the rank's cores that each used; not yet counted in the event log.
    untallied: Vec<Duration>,
    /// Description, for messages, of what user code does at present if it does not run a task, such as planning or reading from disk.
    in_hand: Option<&'static str>,
    has_ended: bool,
    is_finished: bool,
    code: PhantomData<(&'c (), &'w ())>,
}

impl<'c, 'w> Running<'c, 'w> {
    pub(super) fn new(
        (graph, worker): (Arc<Graph>, WorkflowWorker),
        root: Option<Root>,
        (commands, files): (Commands<'c>, Option<Files>),
        (enforces_memory, has_after_command): (bool, bool),
    ) -> Self {
        Running {
            graph,
            worker,
            commands,
            enforces_memory,
            unsettled: has_after_command.then(VecDeque::new),
            files,
            root,
            is_to_measure: false,
            limited: VecDeque::new(),
            events: EventLog::off(),
            flight_recorder: None,
            unreported: Duration::ZERO,
            untallied: Vec::new(),
            in_hand: None,
            has_ended: false,
            is_finished: false,
            code: PhantomData,
        }
    }

    /// Sends requests for values and, on rank 0, orders, after this rank has handled a message, a result of user code or another event. Reports
    /// results to the master: always on rank 0 or if `report_now` is true, and otherwise once `unreported` has reached [`REPORT_AFTER`]. Rank 0's own
    /// reports and orders are handled at once.
    fn flush(&mut self, report_now: bool, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        self.log(at);
        loop {
            self.worker.send_request(out)?;
            if (report_now || self.root.is_some() || self.unreported >= REPORT_AFTER)
                && let Some(report) = self.worker.take_report()
            {
                self.unreported = Duration::ZERO;
                match &mut self.root {
                    Some(root) => {
                        root.stop_if_requested(out.endpoint(), at.now())?;
                        root.master.on_report(0, report)?;
                    }
                    None => out.send(0, Content::Report(report))?,
                }
            }
            let Some(root) = &mut self.root else { return Ok(()) };
            let mut own = Orders::default();
            for (rank, orders) in root.master.take_orders() {
                match rank {
                    0 => own = orders,
                    _ => out.send(rank, Content::Orders(orders))?,
                }
            }
            if own.is_empty() {
                return self.end_if_finished(at, out);
            }
            self.worker.on_orders(own, out)?;
        }
    }

    /// Returns the state of rank 0, for a message of rank `from` that only rank 0 handles.
    ///
    /// # Errors
    /// This rank is not rank 0, so rank `from` should not have sent the message.
    fn root(&mut self, from: usize) -> Result<&mut Root> {
        self.root.as_mut().ok_or_else(|| unexpected(from))
    }

    fn end_if_finished(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let is_due = self.root.as_ref().is_some_and(|root| root.is_finished() && !self.has_ended);
        if !is_due || !self.has_all_output(out)? {
            return Ok(());
        }
        let Some(root) = &mut self.root else { return Ok(()) };
        self.has_ended = true;
        root.ended = Some(at.now());
        self.events.record(at.now(), || root.end_event(at.now()));
        if root.master.is_cut() {
            out.endpoint().stop_run(&root.kept())?;
        }
        for rank in 1..out.ranks() {
            // The message that the run has ended is also sent to a rank that is considered dead if its process may still run, so that the process can
            // end.
            if !root.master.is_lost(rank) || !out.endpoint().has_ended(rank) {
                out.send(rank, Content::End)?;
            }
        }
        root.finals[0] = Some(self.worker.totals());
        Ok(())
    }

    fn wait(&mut self, out: &mut Outgoing<'_>) -> Result<Next<Job>> {
        if !self.has_ended {
            return Ok(Next::Wait);
        }
        match &self.root {
            Some(root) => self.is_finished = root.have_all_left(),
            None if !self.is_finished => {
                self.is_finished = true;
                out.send(0, Content::Final(self.worker.totals()))?;
            }
            None => {}
        }
        Ok(if self.is_finished { Next::Finished } else { Next::Wait })
    }

    /// Handles the value of a task that this rank has completed. On rank 0, the value is written to the journal before the master counts the task
    /// as done.
    fn complete(
        &mut self,
        (task, value): (usize, Value),
        took: Duration,
        peak_memory: Option<u64>,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        if let Some(root) = &mut self.root {
            root.keep(task, &value, out.endpoint().clock())?;
        }
        self.worker.on_done((task, value), took, peak_memory, out)
    }

    /// Queues an ended command for the program's function `after_command`, if the program has set one; otherwise completes the command's task.
    fn settle_command(&mut self, ended: Try, out: &mut Outgoing<'_>) -> Result<()> {
        match &mut self.unsettled {
            // If the command has not written an output file, its try has already failed, so `after_command` is not called.
            Some(unsettled) if ended.fault.is_none() => unsettled.push_back(ended),
            _ => self.conclude(&ended, None, out)?,
        }
        Ok(())
    }

    /// Completes the task of a command that ran on this rank, or reports its failure. `failure` is the error of `after_command`, or the failure that
    /// rank 0 has reported.
    fn settle(
        &mut self,
        ended: &Try,
        failure: Option<(Reason, String)>,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let used = &ended.ended;
        match ended.failure().or(failure) {
            None => {
                self.have_written(ended.task);
                let result = (ended.task, Value::nothing()?);
                self.complete(result, used.run_time, Some(used.peak_memory), out)
            }
            Some(failure) => self.worker.on_failed(ended.task, failure, used.run_time, out),
        }
    }
}

impl<'c, 'w: 'c> Protocol for Running<'c, 'w> {
    type Code = TaskCode<'c, 'w>;

    /// Number of polls for messages while a simulated task runs. It is high because other ranks request values meanwhile.
    const POLLS_PER_SIMULATED_JOB: u32 = FREQUENT_POLLS;

    fn start(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        self.set_event_time(at);
        if self.root.is_none() && out.endpoint().is_process() {
            // A rank sends `Join` before it begins a task, because a task may kill its process. The death of a rank that has sent `Join` does not
            // end the job: other ranks run its tasks.
            out.send(0, Content::Join(self.flight_recorder.take()))?;
        }
        if let Some(root) = &self.root {
            self.events.record(at.now(), || root.start_event(out.ranks()));
        }
        if let Some(root) = self.root.as_mut().filter(|root| root.plan.is_none()) {
            root.master.begin();
        }
        self.is_to_measure = self.root.as_ref().is_some_and(|root| root.probe.is_some());
        if self.is_to_measure {
            for rank in 1..out.ranks() {
                out.send(rank, Content::MeasureSpeed)?;
            }
        }
        self.flush(false, at, out)
    }

    fn on_message(&mut self, message: Message, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let from = message.from;
        self.set_event_time(at);
        if message.is(Control::Echo) {
            return self.on_probe_answer(from, None, at, out);
        }
        match Content::decode(message)? {
            Content::MeasureSpeed => self.is_to_measure = true,
            Content::Speed(speed) => self.on_probe_answer(from, Some(speed), at, out)?,
            Content::Orders(orders) => self.worker.on_orders(orders, out)?,
            Content::End => self.has_ended = true,
            Content::Want(values) => self.worker.on_want(from, values, out)?,
            Content::Offer(values) => self.worker.on_offer(from, values, out)?,
            // A value of a rank that is considered dead may arrive later. It is ignored, because the task is repeated and the value of the
            // repetition counts.
            Content::Value(..) if self.root.as_ref().is_some_and(|root| root.master.is_lost(from)) => {}
            Content::Value(task, value) => {
                if let Some(root) = &mut self.root {
                    root.keep(task, &value, out.endpoint().clock())?;
                }
                self.worker.on_value(from, task, value);
            }
            Content::Join(flight_recorder) => {
                self.root(from)?.flight_records.open(from, flight_recorder.as_ref());
            }
            Content::Started(task) => self.root(from)?.master.on_started(from, task),
            Content::Lost(rank) => {
                out.endpoint().learn_of(&[rank]);
                self.lose_files(rank, out)?;
                self.worker.on_lost(rank, out)?;
            }
            Content::Dropped(task) => self.worker.on_dropped(from, task),
            Content::Report(report) => {
                let root = self.root(from)?;
                root.stop_if_requested(out.endpoint(), at.now())?;
                root.master.on_report(from, report)?;
            }
            Content::Final(report) => self.root(from)?.finals[from] = Some(report),
            content => self.on_file_message(from, content, out)?,
        }
        self.flush(false, at, out)
    }

    fn on_done(&mut self, done: Done, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        self.set_event_time(at);
        if !matches!(done, Done::Ran { .. }) {
            self.in_hand = None;
        }
        match done {
            Done::Planned(found, [took, takes]) => {
                if let Some(root) = &mut self.root {
                    let event = root.planned(*found, (took, takes), at.now());
                    self.log_planned(event, at);
                }
            }
            Done::Replanned(found, took) => {
                if let Some(root) = &mut self.root {
                    let event = root.on_replanned(*found, took, at.now());
                    log::info!("workflow {}: {event}", shown(&root.graph.name));
                    self.log_planned(event, at);
                }
            }
            Done::Measured(speed) if self.root.is_some() => {
                self.on_probe_answer(0, Some(speed), at, out)?;
            }
            Done::Measured(speed) => out.send(0, Content::Speed(speed))?,
            Done::Ran { task, result, took } => {
                self.limited.retain(|&(limited, _)| limited != task);
                if let Some((_, since)) = self.limited.front_mut() {
                    *since = at.now();
                }
                self.unreported += took;
                self.worker.add_busy(took);
                match result {
                    Ok(value) => self.complete((task, value), took, None, out)?,
                    Err(failure) => {
                        self.unreported += REPORT_AFTER;
                        self.worker.on_failed(task, failure, took, out)?;
                    }
                }
            }
            Done::AfterCommand(ended, failure) => self.conclude(&ended, failure, out)?,
            Done::Restored(values) => {
                for (task, bytes) in values {
                    self.worker.on_restored(task, bytes, out)?;
                }
            }
            Done::Spilled(task) => self.worker.on_spilled(task),
            Done::Loaded(task, value) => self.worker.on_loaded(task, value),
        }
        self.flush(false, at, out)
    }

    fn on_turn(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<bool> {
        if self.commands.cores() == 0 {
            return Ok(false);
        }
        self.set_event_time(at);
        let mut has_ended = false;
        for change in self.commands.check(at)? {
            match change {
                Change::Began(task) => self.worker.trace.begins(task),
                Change::Ended(ended) => {
                    has_ended = true;
                    self.worker.trace.stops(ended.task);
                    let took = self.commands.share(ended.task, ended.ended.run_time);
                    self.worker.add_busy(took);
                    self.untallied.push(took);
                    self.on_ended(ended, out)?;
                }
            }
        }
        if has_ended {
            self.flush(true, at, out)?;
        }
        while self.commands.have_room(self.files.as_ref().map_or(0, |files| files.starting.len()))
            && let Some(Job::Run { task, attempt, exceeded, .. }) = self.worker.next_command(out)?
        {
            has_ended = true;
            let memory = self.graph.memory_limit(task, exceeded).filter(|_| self.enforces_memory);
            let limits = Limits { memory, time: self.graph.time_limit(task, exceeded) };
            self.begin_command(task, (attempt, limits), out)?;
        }
        Ok(has_ended)
    }

    fn on_stop(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(root) = &mut self.root else { return Ok(()) };
        root.master.stop();
        self.flush(true, at, out)
    }

    fn on_tick(&mut self, now: Duration, at: &Moment, out: &mut Outgoing<'_>) -> Result<bool> {
        // A closure that runs on the communicating thread has always returned when this method is called, so its time limit is not checked here.
        if !at.user_code.is_inline {
            self.check_limits(now)?;
        }
        self.set_event_time(at);
        self.worker.release_sent(out)?;
        self.events.tick(now);
        self.flush(true, at, out)?;
        if let Some(root) = &mut self.root {
            root.stop_if_requested(out.endpoint(), now)?;
            root.tick(now)?;
        }
        Ok(false)
    }

    fn on_lost(&mut self, silence: Silence, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(root) = &mut self.root else { return Err(silence.error) };
        // The tasks of the dead rank are dispatched to other ranks when the driver asks this protocol for its next task.
        let now = out.endpoint().clock().now();
        let again = root.on_lost(&silence, out.endpoint(), now)?;
        let (rank, why) = (silence.rank, silence.error.message().to_string());
        self.events.record(now, || Event::Lost { rank, tasks: again, why });
        out.endpoint().lose(silence.rank, silence.error.message());
        self.report_lost(silence.rank, out)
    }

    fn next(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<Next<Job>> {
        self.set_event_time(at);
        self.worker.release_sent(out)?;
        if std::mem::take(&mut self.is_to_measure) {
            self.in_hand = Some("measures its speed");
            return Ok(Next::Job(Job::Measure));
        }
        if let Some(root) = &mut self.root
            && let Some((what, job)) = root.next_job(&mut self.worker, at.now(), out)?
        {
            self.in_hand = Some(what);
            return Ok(Next::Job(job));
        }
        if let Some(ended) = self.unsettled.as_mut().and_then(VecDeque::pop_front) {
            self.in_hand = Some("handles the end of a command");
            return Ok(Next::Job(Job::AfterCommand(Box::new(ended))));
        }
        let forgotten = self.worker.take_forgotten();
        if !forgotten.is_empty() {
            return Ok(Next::Job(Job::Forget(forgotten)));
        }
        let mut job = self.worker.next(out)?;
        if job.is_none() {
            // Before the rank waits, it sends its report to the master. On rank 0 the report may lead to new orders for this rank.
            self.flush(true, at, out)?;
            job = self.worker.next(out)?;
        }
        self.flush(false, at, out)?;
        match &job {
            None => return self.wait(out),
            Some(Job::Run { task, .. }) if self.graph.needs(*task).time_limit.is_some() => {
                self.limited.push_back((*task, at.now()));
            }
            Some(Job::Spill(..)) => self.in_hand = Some("writes a value to disk"),
            Some(Job::Load(_)) => self.in_hand = Some("reads a value from disk"),
            Some(_) => {}
        }
        Ok(job.map_or(Next::Wait, Next::Job))
    }

    fn watch(&self, rank: usize) -> Watch {
        match &self.root {
            Some(root) if root.finals[rank].is_some() => Watch::No,
            _ => Watch::Usual,
        }
    }

    /// Returns true if no command runs on this rank. Then the rank may poll without sleeping while it waits; otherwise polling would take a core from
    /// a command.
    fn leaves_the_core(&self) -> bool {
        self.commands.none_runs()
    }

    fn heartbeat_state(&self) -> HeartbeatState {
        let is_computing = self.in_hand.is_some() || self.worker.is_running();
        let mut state = self.worker.state();
        if let Some(what) = self.in_hand {
            state = format!("{what}; {state}");
        }
        if let Some(files) = self.files.as_ref().and_then(Files::state) {
            state = format!("{state}; {files}");
        }
        if let Some(root) = &self.root {
            state = format!("{state}; waits {}", root.waits_for());
        }
        HeartbeatState::new(is_computing, state)
    }

    fn tally(&mut self, now: Duration, tally: &mut Tally) {
        for took in self.untallied.drain(..) {
            tally.add(0, None, 1, took);
        }
        tally.set_running(self.commands.running_time(now));
    }

    fn progress(&mut self) -> Option<Progress> {
        self.root.as_ref().map(Root::progress)
    }

    fn awaits_results(&self) -> bool {
        let is_probing = self.root.as_ref().is_some_and(|root| root.probe.is_some());
        let is_fetching = self.files.as_ref().is_some_and(|files| !files.transfers.is_idle());
        !is_probing && !is_fetching && self.in_hand.is_none() && !self.worker.is_running()
    }
}

fn unexpected(from: usize) -> Error {
    Error::new(ErrorKind::Wire, format!("rank {from} sent a message for the master to another rank"))
}
