//! Protocol of a rank in a run of a workflow, for the rank's driver: messages, outcomes of user code, orders and reports.

mod beside;
mod commands;
mod ending;
mod files;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::time::Duration;

use armature_text::shown;

use super::commands::{Commands, Try};
use super::files::Files;
use super::messages::{Content, Orders};
use super::root::Root;
use super::user_code::{Job, Outcome, TaskCode};
use super::worker::{Step, Worker};
use crate::comm::message::{Control, Message};
use crate::error::{Error, ErrorKind, Result};
use crate::observe::{Event, EventLog, Progress, Tally};
use crate::rank::heartbeat::{Sign, Silence, Watch};
use crate::rank::protocol::{FREQUENT_LOOKS, Moment, Next, Outgoing, Protocol};
use crate::rank::trail::{TrailLocation, TrailReader};

/// Time in tasks after which a rank reports them; an idle rank reports at once. It is shorter than the work that ranks are ordered in
/// advance, so that the master can send further orders in time.
const REPORT_AFTER: Duration = Duration::from_micros(500);

/// The protocol. The module documentation describes it.
pub(super) struct Running<'c, 'w> {
    pub(super) worker: Worker,
    commands: Commands<'c>,
    /// True if commands that use more memory than their description states are ended.
    enforces_memory: bool,
    /// Ended commands that wait for `after_command`; `None` if the caller has set none.
    unsettled: Option<VecDeque<Try>>,
    /// Files of commands, if files are sent.
    files: Option<Files>,
    /// State of rank 0; `None` on other ranks.
    pub(super) root: Option<Root>,
    /// True if the speed of this rank has to be measured.
    is_to_measure: bool,
    /// Closures with a time limit that were passed to user code, in order, each with a time. The limit of the first one counts from its
    /// time, which is reset when the closure before it ends.
    limited: VecDeque<(usize, Duration)>,
    pub(super) events: EventLog,
    /// Location of this rank's trail, until it is sent to rank 0.
    pub(super) trail: Option<TrailLocation>,
    /// Time in tasks since the last report.
    unreported: Duration,
    /// Shares of the rank's time of commands that have ended and are not in the tally.
    untallied: Vec<Duration>,
    /// Current job of the executor other than a task, for messages.
    in_hand: Option<&'static str>,
    /// True if rank 0 has announced the end of the run.
    has_ended: bool,
    is_over: bool,
    code: PhantomData<(&'c (), &'w ())>,
}

impl<'c, 'w> Running<'c, 'w> {
    pub(super) fn new(
        worker: Worker,
        root: Option<Root>,
        (commands, files): (Commands<'c>, Option<Files>),
        (enforces_memory, is_heard_of): (bool, bool),
    ) -> Self {
        Running {
            worker,
            commands,
            enforces_memory,
            unsettled: is_heard_of.then(VecDeque::new),
            files,
            root,
            is_to_measure: false,
            limited: VecDeque::new(),
            events: EventLog::off(),
            trail: None,
            unreported: Duration::ZERO,
            untallied: Vec::new(),
            in_hand: None,
            has_ended: false,
            is_over: false,
            code: PhantomData,
        }
    }

    /// Sends messages, reports and, on rank 0, orders. On rank 0 the master handles the rank's own report, and orders for rank 0 are
    /// handled at once.
    fn flush(&mut self, report_now: bool, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        self.log(at);
        loop {
            for (to, content) in self.worker.take_messages() {
                if !out.endpoint().is_lost(to) {
                    self.send(to, content, out)?;
                }
            }
            self.report(report_now, at, out)?;
            let Some(root) = &mut self.root else { return Ok(()) };
            for (task, value) in self.worker.take_kept() {
                root.keep(task, value, at.now())?;
            }
            let mut mine = Orders::default();
            for (rank, orders) in root.master.take_orders() {
                match rank {
                    0 => mine = orders,
                    _ => out.send(rank, Content::Orders(orders).encode(out.run())?)?,
                }
            }
            if mine.is_empty() {
                return self.end_if_over(at, out);
            }
            self.worker.on_orders(mine);
        }
    }

    /// Reports the results since the last report, if there are any: if `now` is true, always on rank 0, and otherwise once `unreported` has reached
    /// [`REPORT_AFTER`].
    fn report(&mut self, now: bool, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        if self.worker.unreported() == 0 || !(now || self.root.is_some() || self.unreported >= REPORT_AFTER) {
            return Ok(());
        }
        self.unreported = Duration::ZERO;
        let report = self.worker.take_report();
        match &mut self.root {
            Some(root) => {
                // The journal has to contain a value before the master counts its task as done.
                for (task, value) in self.worker.take_kept() {
                    root.keep(task, value, at.now())?;
                }
                root.stop_if_asked(out.endpoint(), at.now())?;
                root.master.on_report(0, report)
            }
            None => out.send(0, Content::Report(report).encode(out.run())?),
        }
    }
}

impl<'c, 'w: 'c> Protocol for Running<'c, 'w> {
    type Code = TaskCode<'c, 'w>;

    /// Other ranks request values while a task runs.
    const LOOKS_PER_SIMULATED_JOB: u32 = FREQUENT_LOOKS;

    fn start(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        self.note_time(at);
        if self.root.is_none() && out.endpoint().is_process() {
            // Sent before any task begins, because a task may end the process. From now on the other ranks can replace this rank.
            out.send(0, Content::Join(self.trail.take()).encode(out.run())?)?;
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
                out.send(rank, Content::MeasureSpeed.encode(out.run())?)?;
            }
        }
        self.flush(false, at, out)
    }

    fn on_message(&mut self, message: Message, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let from = message.from;
        self.note_time(at);
        if message.is(Control::Echo) {
            return self.on_probe_answer(from, None, at, out);
        }
        match Content::decode(message)? {
            Content::MeasureSpeed => self.is_to_measure = true,
            Content::Speed(speed) => self.on_probe_answer(from, Some(speed), at, out)?,
            Content::Orders(orders) => self.worker.on_orders(orders),
            Content::End => self.has_ended = true,
            Content::Want(values) => self.worker.on_want(from, values),
            Content::Offer(values) => self.worker.on_offer(from, values),
            // A value from a lost rank may arrive after the loss of the rank. By then the task is run again, and the value of the new run counts.
            Content::Value(..) if self.root.as_ref().is_some_and(|root| root.master.is_lost(from)) => {}
            Content::Value(task, value) => self.worker.on_value(from, task, value),
            Content::Join(trail) => {
                let root = self.root.as_mut().ok_or_else(|| unexpected(from))?;
                let trail = trail.as_ref().and_then(TrailReader::open);
                root.trails.extend(trail.map(|reader| (from, reader)));
            }
            Content::Begun(task) => {
                let root = self.root.as_mut().ok_or_else(|| unexpected(from))?;
                root.master.on_begun(from, task);
            }
            Content::Lost(rank) => {
                out.endpoint().learn_of(&[rank]);
                self.worker.on_lost(rank);
                self.lose_files(rank, out)?;
            }
            Content::Gone(task) => self.worker.on_gone(from, task),
            Content::Report(report) => {
                let root = self.root.as_mut().ok_or_else(|| unexpected(from))?;
                // Values that were sent before the report have to be stored before the report is handled.
                for (task, value) in self.worker.take_kept() {
                    root.keep(task, value, at.now())?;
                }
                root.stop_if_asked(out.endpoint(), at.now())?;
                root.master.on_report(from, report)?;
            }
            Content::Final(report) => {
                let root = self.root.as_mut().ok_or_else(|| unexpected(from))?;
                root.finals[from] = Some(report);
            }
            content => self.on_file_message(from, content, out)?,
        }
        self.flush(false, at, out)
    }

    fn on_done(&mut self, done: Outcome, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        self.note_time(at);
        match done {
            Outcome::Planned(found, [took, takes]) => {
                self.in_hand = None;
                if let Some(root) = &mut self.root {
                    let event = root.planned(*found, (took, takes), at.now());
                    self.log_planned(event, at);
                }
            }
            Outcome::PlannedAnew(found, took) => {
                self.in_hand = None;
                if let Some(root) = &mut self.root {
                    let event = root.planned_anew(*found, took, at.now());
                    log::info!("workflow {}: {event}", shown(&root.graph.name));
                    self.log_planned(event, at);
                }
            }
            Outcome::Measured(speed) => {
                self.in_hand = None;
                match self.root.is_some() {
                    true => self.on_probe_answer(0, Some(speed), at, out)?,
                    false => out.send(0, Content::Speed(speed).encode(out.run())?)?,
                }
            }
            Outcome::Ran { task, given, took } => {
                self.limited.retain(|&(limited, _)| limited != task);
                if let Some((_, since)) = self.limited.front_mut() {
                    *since = at.now();
                }
                self.unreported += took;
                self.worker.totals.busy += took;
                match given {
                    Ok(value) => self.worker.on_done(task, value, took.as_nanos() as u64, None),
                    Err((reason, message)) => {
                        self.unreported += REPORT_AFTER;
                        self.worker.on_failed(task, reason, message, took);
                    }
                }
            }
            Outcome::Heard(ended, failure) => {
                self.in_hand = None;
                self.conclude(&ended, failure, out)?;
            }
            Outcome::Restored(values) => {
                self.in_hand = None;
                values.into_iter().for_each(|(task, bytes)| self.worker.on_restored(task, bytes));
            }
            Outcome::Spilled(task) => {
                self.in_hand = None;
                self.worker.on_spilled(task);
            }
            Outcome::Loaded(task, value) => {
                self.in_hand = None;
                self.worker.on_loaded(task, value);
            }
        }
        self.flush(false, at, out)
    }

    fn on_turn(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<bool> {
        self.turn_commands(at, out)
    }

    fn on_stop(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(root) = &mut self.root else { return Ok(()) };
        root.master.stop();
        self.flush(true, at, out)
    }

    fn on_tick(&mut self, now: Duration, at: &Moment, out: &mut Outgoing<'_>) -> Result<bool> {
        // An inline closure has returned by now.
        if !at.user_code.is_inline {
            self.check_limits(now)?;
        }
        self.note_time(at);
        self.worker.look_what_left(|number| out.has_left(number));
        self.events.tick(now);
        self.flush(true, at, out)?;
        if let Some(root) = &mut self.root {
            root.tick(now)?;
        }
        Ok(false)
    }

    fn on_lost(&mut self, silence: Silence, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(root) = &mut self.root else { return Err(silence.error) };
        // The resulting orders are sent in the next turn.
        let now = out.endpoint().clock().now();
        let again = root.on_lost(&silence, out.endpoint(), now)?;
        let (rank, why) = (silence.rank, silence.error.message().to_string());
        self.events.record(now, || Event::Lost { rank, tasks: again, why });
        out.endpoint().lose(silence.rank, silence.error.message());
        self.tell_lost(silence.rank, out)
    }

    fn next(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<Next<Job>> {
        self.note_time(at);
        self.worker.look_what_left(|number| out.has_left(number));
        if std::mem::take(&mut self.is_to_measure) {
            self.in_hand = Some("measures how fast it is");
            return Ok(Next::Task(Job::Measure));
        }
        if let Some(root) = &mut self.root
            && let Some(question) = root.take_question()
        {
            self.in_hand = Some("plans");
            return Ok(Next::Task(Job::Plan(question)));
        }
        if let Some(root) = &mut self.root
            && let Some(question) = root.ask_anew.take()
        {
            self.in_hand = Some("plans anew");
            return Ok(Next::Task(Job::PlanAnew(question)));
        }
        if let Some(root) = &mut self.root
            && let Some((place, tasks)) = root.lost_values(&mut self.worker, at.now())?
        {
            self.in_hand = Some("reads the journal");
            return Ok(Next::Task(Job::Restore(Box::new(place), tasks)));
        }
        if let Some(ended) = self.unsettled.as_mut().and_then(VecDeque::pop_front) {
            self.in_hand = Some("sees to a command that has ended");
            return Ok(Next::Task(Job::Hear(Box::new(ended))));
        }
        let forgotten = self.worker.take_forgotten();
        if !forgotten.is_empty() {
            return Ok(Next::Task(Job::Forget(forgotten)));
        }
        let mut step = self.worker.next();
        if matches!(step, Step::Nothing) {
            // The report may lead to new orders.
            self.flush(true, at, out)?;
            step = self.worker.next();
        }
        self.flush(false, at, out)?;
        match step {
            Step::Run { task, attempt, inputs, .. } => {
                if self.worker.time_limit(task).is_some() {
                    self.limited.push_back((task, at.now()));
                }
                Ok(Next::Task(Job::Run { task, attempt, inputs }))
            }
            Step::Spill(task, value) => {
                self.in_hand = Some("writes a value to disk");
                Ok(Next::Task(Job::Spill(task, value)))
            }
            Step::Load(task) => {
                self.in_hand = Some("reads a value from disk");
                Ok(Next::Task(Job::Load(task)))
            }
            Step::Nothing => self.wait(out),
        }
    }

    fn watch(&self, rank: usize) -> Watch {
        match &self.root {
            Some(root) if root.finals[rank].is_some() => Watch::No,
            _ => Watch::Usual,
        }
    }

    /// A rank that spins takes a core from the commands that it runs.
    fn leaves_the_core(&self) -> bool {
        self.commands.none_runs()
    }

    fn sign(&self) -> Sign {
        let is_computing = self.in_hand.is_some() || self.worker.running().next().is_some();
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
        Sign::new(is_computing, state)
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

    fn is_held_up(&self) -> bool {
        let is_probing = self.root.as_ref().is_some_and(|root| root.probe.is_some());
        let is_fetching = self.files.as_ref().is_some_and(|files| !files.transfers.is_idle());
        !is_probing && !is_fetching && self.in_hand.is_none() && self.worker.running().next().is_none()
    }
}

/// Returns the error for a message that only rank 0 may receive.
fn unexpected(from: usize) -> Error {
    Error::new(ErrorKind::Wire, format!("rank {from} sent a message for the master to another rank"))
}
