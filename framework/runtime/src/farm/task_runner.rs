//! Compute side of a rank in a farm: the worker, created once, and the chunks that it runs.

use std::sync::Arc;
use std::time::Duration;

use super::chunk_result::{Activity, ChunkResult, ErasedWorker, PART, TaskTimer};
use super::messages::{self, ChunkHeader, Payload, Times};
use crate::comm::Frame;
use crate::comm::clock::Clock;
use crate::context::{Context, RankPlace};
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::observe::Tally;
use crate::rank::flight_recorder::{FlightRecordLocation, FlightRecorder, MIN_RECORDED};
use crate::rank::user_code::UserCode;
use crate::user_code;
use crate::wire::erased::{Codec, Items};

pub(crate) type Factory<'f> = Box<dyn FnMut() -> Result<Box<dyn ErasedWorker + 'f>, BoxError> + Send + 'f>;

/// Function that creates the user's worker, and the worker itself, which is kept between two runs of the farm.
pub(crate) struct WorkerSlot<'f> {
    pub(crate) factory: Factory<'f>,
    pub(crate) worker: Option<Box<dyn ErasedWorker + 'f>>,
}

#[derive(Clone)]
pub(crate) struct Codecs {
    pub(crate) tasks: Arc<dyn Codec>,
    pub(crate) results: Arc<dyn Codec>,
}

pub(crate) enum Command {
    /// Create the user's worker, unless it exists.
    SetUp,
    /// Run a chunk; `away` is true if the result is for another rank and therefore has to be encoded.
    Chunk { header: ChunkHeader, payload: Payload, away: bool },
    /// Run the rest of a chunk, after the results of its first tasks were sent.
    Rest(Rest),
}

impl Command {
    pub(crate) fn chunk(&self) -> Option<u64> {
        match self {
            Command::SetUp => None,
            Command::Chunk { header, .. } | Command::Rest(Rest { header, .. }) => Some(header.id),
        }
    }
}

/// Tasks of a chunk that wait to be run, while the results of the chunk's first tasks are already sent.
pub(crate) struct Rest {
    header: ChunkHeader,
    tasks: Items,
    away: bool,
}

pub(crate) enum Done {
    SetUp {
        took: Duration,
    },
    /// Results of the first tasks of a chunk, which are described by `header`; `rest` holds the tasks of the chunk that are not run yet.
    Chunk {
        header: ChunkHeader,
        times: Times,
        result: Output,
        rest: Option<Rest>,
    },
}

pub(crate) enum Output {
    /// Results for the rank itself, not encoded.
    Local(ChunkResult),
    /// Results for another rank, encoded as a message.
    Encoded(Frame),
}

pub(crate) struct TaskRunner<'w, 'f> {
    slot: &'w mut WorkerSlot<'f>,
    codecs: Codecs,
    farm: String,
    run: u32,
    cx: Context,
    clock: Clock,
    activity: Arc<Activity>,
    task_time: Option<f64>,
    chunk_time: Option<Duration>,
    /// True if every task, however short, reports its number when it starts, because the communicating thread must know which task exceeds the time
    /// limit.
    every: bool,
    /// Writer of the rank's flight record, from which other processes read the last activity of this process after its death.
    flight_recorder: Option<FlightRecorder>,
}

/// Time in seconds below which tasks are not timed one by one, because the readings of the clock would take a considerable part of that time.
const TIME_EACH: f64 = 1e-6;
/// Interval in seconds between two readings of the clock if tasks are not timed one by one. A reading takes less than a five-hundredth of
/// this interval.
const LOOK_EVERY: f64 = 20e-6;
const MOST_UNTIMED: usize = 4096;

impl<'w, 'f> TaskRunner<'w, 'f> {
    pub(crate) fn new(
        slot: &'w mut WorkerSlot<'f>,
        codecs: Codecs,
        farm: &str,
        run: u32,
        place: RankPlace,
        clock: Clock,
    ) -> Self {
        let cx = Context { clock, ..Context::new(place, farm) };
        let activity = Arc::default();
        TaskRunner {
            slot,
            codecs,
            farm: farm.to_string(),
            run,
            cx,
            clock,
            activity,
            task_time: None,
            chunk_time: None,
            every: false,
            flight_recorder: None,
        }
    }

    /// From now on every task, however short, reports its number when it starts, because the communicating thread must know which
    /// task exceeds the time limit.
    pub(crate) fn watch_every_task(&mut self) {
        self.every = true;
    }

    /// Creates the rank's flight record (its last activity, readable after its death), unless the system does not support it. Returns the record's
    /// location.
    pub(crate) fn start_flight_recorder(&mut self) -> Option<FlightRecordLocation> {
        self.flight_recorder = FlightRecorder::new();
        self.flight_recorder.as_ref().map(FlightRecorder::place)
    }

    pub(crate) fn activity(&self) -> Arc<Activity> {
        self.activity.clone()
    }

    fn set_up(&mut self) -> Result<Duration> {
        if self.slot.worker.is_some() {
            return Ok(Duration::ZERO);
        }
        let start = self.clock.now();
        let factory = &mut self.slot.factory;
        let created = user_code::call(factory);
        let failed = |e: Error| {
            let text = format!("cannot create the worker: {}", e.message());
            self.here(Error::new(e.kind(), text))
        };
        self.slot.worker = Some(created.map_err(failed)?);
        Ok(self.clock.now().saturating_sub(start))
    }

    fn here(&self, error: Error) -> Error {
        error.in_farm(&self.farm).at_rank(self.cx.place.rank)
    }

    /// Adds the numbers of a chunk's tasks to an error, for an error that does not belong to a single task.
    fn blame(&self, error: Error, header: ChunkHeader) -> Error {
        let text = format!("{} (in a chunk of {} tasks from this one on)", error.message(), header.count);
        self.here(Error::new(error.kind(), text).on_item(header.first))
    }

    fn begin(&mut self, header: ChunkHeader) {
        self.activity.set(Some(header.first));
        if let Some(flight_recorder) = &mut self.flight_recorder {
            // The flight record (last activity of this rank) names only long chunks and those in which ranks may have died, because writing it for
            // each short chunk would take too long.
            let long = header.suspect
                || header.alone
                || is_long_enough_to_record(self.chunk_time.map(|t| t.as_secs_f64()));
            if long { flight_recorder.begin(header.id, None) } else { flight_recorder.end() }
        }
    }

    fn unpack(&self, header: ChunkHeader, payload: Payload) -> Result<Items> {
        let (skip, count) = (header.skip as usize, header.count as usize);
        let tasks = self.codecs.tasks.decode(payload.head, payload.parts, skip + count);
        let mut tasks = tasks.map_err(|e| self.blame(e, header))?;
        Ok(if skip > 0 { tasks.split_off(skip) } else { tasks })
    }

    fn work(&mut self, header: ChunkHeader, tasks: Items, away: bool) -> Result<Done> {
        let Some(worker) = &mut self.slot.worker else {
            return Err(
                self.here(Error::new(ErrorKind::Wire, "a chunk arrived before the worker was created"))
            );
        };
        (self.cx.number, self.cx.attempt, self.cx.is_suspect) = (header.first, header.attempt, header.alone);
        let start = self.clock.now();
        // The conversion to an integer saturates if the measured time of a task is zero.
        let untimed = |time: f64| ((LOOK_EVERY / time) as usize).clamp(1, MOST_UNTIMED);
        let stride =
            self.task_time.filter(|&time| time < TIME_EACH && !self.every && !header.alone).map(untimed);
        // The flight record (last activity of this rank) names each task in which ranks may have died, so that the next death identifies the task.
        let records_each = header.alone || is_long_enough_to_record(self.task_time);
        let flight_recorder = self
            .flight_recorder
            .as_mut()
            .filter(|_| records_each)
            .map(|flight_recorder| (flight_recorder, header.id));
        let (activity, end) = (self.activity.clone(), start + PART);
        let (clock, last, sum, squares) = (self.clock, start, 0.0, 0.0);
        let mut timer = TaskTimer { clock, activity, flight_recorder, stride, last, end, sum, squares };
        let mut result = worker.run(tasks, &mut self.cx, &mut timer)?;
        let TaskTimer { sum, squares, .. } = timer;
        let took = self.clock.now().saturating_sub(start);
        let (header, rest) = divide(header, result.rest.take(), away);
        let (seconds, tasks) = (took.as_secs_f64(), f64::from(header.count.max(1)));
        (self.task_time, self.chunk_time) = (Some(seconds / tasks), Some(took));
        let times = if stride.is_none() {
            Times { took, sum, squares }
        } else {
            Times { took, sum: seconds, squares: seconds * seconds / tasks }
        };
        let result = if away {
            let message = messages::encode_result(self.run, header, &*self.codecs.results, result, times);
            Output::Encoded(message.map_err(|e| self.blame(e, header))?)
        } else {
            self.codecs.results.check(&result.results).map_err(|e| self.blame(e, header))?;
            Output::Local(result)
        };
        self.activity.set(None);
        if let Some(flight_recorder) = &mut self.flight_recorder {
            flight_recorder.end();
        }
        Ok(Done::Chunk { header, times, result, rest })
    }
}

/// Returns true if tasks or chunks that take this time are named in the flight record (the rank's last activity, readable after its
/// death); those of unknown time are named.
fn is_long_enough_to_record(time: Option<f64>) -> bool {
    time.is_none_or(|time| time >= MIN_RECORDED.as_secs_f64())
}

/// Returns the header of the completed tasks of a chunk, and the rest of the chunk if there is one.
fn divide(header: ChunkHeader, tasks: Option<Items>, away: bool) -> (ChunkHeader, Option<Rest>) {
    let Some(tasks) = tasks else { return (header, None) };
    // The conversion is exact, because at most `header.count` tasks are left, which is a `u32`.
    let left = tasks.len() as u32;
    let count = header.count - left;
    let (first, skip) = (header.first + u64::from(count), header.skip + count);
    let rest = Rest { header: ChunkHeader { first, count: left, skip, ..header }, tasks, away };
    (ChunkHeader { count, ..header }, Some(rest))
}

impl UserCode for TaskRunner<'_, '_> {
    type Job = Command;
    type Done = Done;

    fn run(&mut self, command: Command) -> Result<Option<Done>> {
        match command {
            Command::SetUp => self.set_up().map(|took| Some(Done::SetUp { took })),
            Command::Chunk { header, payload, away } => {
                self.begin(header);
                let tasks = self.unpack(header, payload)?;
                self.work(header, tasks, away).map(Some)
            }
            Command::Rest(Rest { header, tasks, away }) => {
                self.begin(header);
                self.work(header, tasks, away).map(Some)
            }
        }
    }

    fn answers(_: &Command) -> bool {
        true
    }

    fn is_work(command: &Command) -> bool {
        matches!(command, Command::Chunk { .. } | Command::Rest(_))
    }

    fn may_block(&self, command: &Command) -> bool {
        match command {
            Command::SetUp => self.slot.worker.is_none(),
            Command::Chunk { header, .. } => header.suspect,
            // The first tasks of this chunk took long (otherwise it would have no rest), so the rest may take long too.
            Command::Rest(_) => true,
        }
    }

    fn took(done: &Done) -> Option<Duration> {
        match done {
            Done::Chunk { times, .. } => Some(times.took),
            Done::SetUp { .. } => None,
        }
    }

    fn tally(done: &Done, tally: &mut Tally) {
        if let Done::Chunk { header, times, .. } = done {
            let sum = Duration::from_secs_f64(times.sum.max(0.0));
            tally.add(0, Some(header.first), u64::from(header.count), sum);
        }
    }
}

impl std::fmt::Debug for TaskRunner<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskRunner").field("farm", &self.farm).field("cx", &self.cx).finish_non_exhaustive()
    }
}
