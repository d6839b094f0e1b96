//! The compute side of a farm's rank: the worker, made once, and the chunks that it is given.

use std::sync::Arc;
use std::time::Duration;

use super::machine::{Giving, Times};
use super::parcel::{self, Load};
use super::sheet::{Activity, ErasedWorker, Laps, Sheet};
use super::trail::{NOTED, Place, Trail};
use super::worker::Context;
use crate::comm::Frame;
use crate::comm::clock::Clock;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::rank::executor::UserCode;
use crate::user_code;
use crate::wire::{Codec, Item};

/// Makes a farm's worker on the rank that computes.
pub(crate) type Factory<'f, I, O> =
    Box<dyn FnMut() -> Result<Box<dyn ErasedWorker<I, O> + 'f>, BoxError> + Send + 'f>;

/// Where a farm keeps its worker from one run to the next.
pub(crate) struct Seat<'f, I, O> {
    pub(crate) factory: Factory<'f, I, O>,
    pub(crate) worker: Option<Box<dyn ErasedWorker<I, O> + 'f>>,
}

/// How the tasks and results of a farm travel.
#[derive(Debug)]
pub(crate) struct Codecs<I, O> {
    pub(crate) tasks: Codec<I>,
    pub(crate) results: Codec<O>,
}

impl<I, O> Clone for Codecs<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O> Copy for Codecs<I, O> {}

/// What the compute side is asked.
#[derive(Debug)]
pub(crate) enum Task {
    /// Make the worker, if there is none yet.
    SetUp,
    /// Do a chunk; `away` says that the result goes to another rank.
    Chunk { giving: Giving, load: Load, away: bool },
}

/// What it answers.
pub(crate) enum Outcome<O> {
    SetUp { took: Duration },
    Chunk { giving: Giving, times: Times, result: Output<O> },
}

/// The result of a chunk.
pub(crate) enum Output<O> {
    /// For this rank.
    Sheet(Sheet<O>),
    /// For another rank.
    Frame(Frame),
}

/// See the module's page.
pub(crate) struct Workbench<'w, 'f, I, O> {
    seat: &'w mut Seat<'f, I, O>,
    codecs: Codecs<I, O>,
    farm: String,
    run: u32,
    cx: Context,
    clock: Clock,
    activity: Arc<Activity>,
    /// Time of a task, as last measured.
    task_time: Option<f64>,
    /// Time of a chunk, as last measured.
    chunk_time: Option<Duration>,
    /// Says of every task that it has begun, however short they are: one that hangs has to be known.
    every: bool,
    /// Tells whoever survives this process what it was doing.
    trail: Option<Trail>,
}

/// Tasks shorter than this, in seconds, are not timed one by one: that would cost a good part of what they do.
const TIME_EACH: f64 = 1e-6;

impl<'w, 'f, I: Item, O: Item> Workbench<'w, 'f, I, O> {
    pub(crate) fn new(
        seat: &'w mut Seat<'f, I, O>,
        codecs: Codecs<I, O>,
        farm: &str,
        run: u32,
        rank: usize,
        clock: Clock,
    ) -> Self {
        let cx = Context { rank, task: 0, attempt: 0 };
        let activity = Arc::default();
        Workbench {
            seat,
            codecs,
            farm: farm.to_string(),
            run,
            cx,
            clock,
            activity,
            task_time: None,
            chunk_time: None,
            every: false,
            trail: None,
        }
    }

    /// From now on says of every task that it has begun.
    pub(crate) fn watch_every_task(&mut self) {
        self.every = true;
    }

    /// From now on leaves a trail, unless the system has none. Returns where it is.
    pub(crate) fn leave_trail(&mut self) -> Option<Place> {
        self.trail = Trail::new();
        self.trail.as_ref().map(Trail::place)
    }

    pub(crate) fn activity(&self) -> Arc<Activity> {
        self.activity.clone()
    }

    fn set_up(&mut self) -> Result<Duration> {
        if self.seat.worker.is_some() {
            return Ok(Duration::ZERO);
        }
        let start = self.clock.now();
        let factory = &mut self.seat.factory;
        let made = user_code::call(factory);
        self.seat.worker = Some(made.map_err(|e| self.here(e))?);
        Ok(self.clock.now().saturating_sub(start))
    }

    fn here(&self, error: Error) -> Error {
        error.in_farm(&self.farm).at_rank(self.cx.rank)
    }

    /// An error with a chunk as a whole: its tasks or results cannot travel.
    fn blame(&self, error: Error, giving: Giving) -> Error {
        let text = format!("{} (in a chunk of {} from this one on)", error.message(), giving.count);
        self.here(Error::new(error.kind(), text).on_item(giving.first))
    }

    fn chunk(&mut self, giving: Giving, load: Load, away: bool) -> Result<Outcome<O>> {
        let count = giving.count as usize;
        self.activity.set(Some(giving.first));
        let noted = |time: Option<f64>| time.is_none_or(|time| time >= NOTED.as_secs_f64());
        if let Some(trail) = &mut self.trail {
            // Short chunks are so many that a note of each would cost something.
            let long = giving.careful || giving.alone || noted(self.chunk_time.map(|t| t.as_secs_f64()));
            if long { trail.begin(giving.id, None) } else { trail.end() }
        }
        let tasks = user_code::call(|| self.codecs.tasks.decode(load.head, load.parts, count))
            .map_err(|e| self.blame(e, giving))?;
        let Some(worker) = &mut self.seat.worker else {
            return Err(self.here(Error::new(ErrorKind::Wire, "a chunk came before the worker was made")));
        };
        let mut sheet = Sheet::with_room(count);
        (self.cx.task, self.cx.attempt) = (giving.first, giving.attempt);
        let start = self.clock.now();
        let each = self.every || self.task_time.is_none_or(|t| t >= TIME_EACH);
        let trail = self.trail.as_mut().filter(|_| noted(self.task_time)).map(|trail| (trail, giving.id));
        let mut laps = Laps { clock: self.clock, activity: self.activity.clone(), trail, last: start };
        worker.run(tasks, &mut self.cx, each.then_some(&mut laps), &mut sheet);
        let took = self.clock.now().saturating_sub(start);
        let (seconds, tasks) = (took.as_secs_f64(), f64::from(giving.count.max(1)));
        (self.task_time, self.chunk_time) = (Some(seconds / tasks), Some(took));
        let times = if each {
            Times { took, sum: sheet.sum, squares: sheet.squares }
        } else {
            Times { took, sum: seconds, squares: seconds * seconds / tasks }
        };
        let result = if away {
            let message =
                user_code::call(|| parcel::done(self.run, giving, &self.codecs.results, sheet, times));
            Output::Frame(message.map_err(|e| self.blame(e, giving))?)
        } else {
            self.codecs.results.check(&sheet.results).map_err(|e| self.blame(e, giving))?;
            Output::Sheet(sheet)
        };
        self.activity.set(None);
        if let Some(trail) = &mut self.trail {
            trail.end();
        }
        Ok(Outcome::Chunk { giving, times, result })
    }
}

impl<I: Item, O: Item> UserCode for Workbench<'_, '_, I, O> {
    type Task = Task;
    type Outcome = Outcome<O>;

    fn run(&mut self, task: Task) -> Result<Option<Outcome<O>>> {
        match task {
            Task::SetUp => self.set_up().map(|took| Some(Outcome::SetUp { took })),
            Task::Chunk { giving, load, away } => self.chunk(giving, load, away).map(Some),
        }
    }

    fn answers(_: &Task) -> bool {
        true
    }

    fn may_block(&self, task: &Task) -> bool {
        match task {
            Task::SetUp => self.seat.worker.is_none(),
            Task::Chunk { giving, .. } => giving.careful,
        }
    }

    fn took(outcome: &Outcome<O>) -> Option<Duration> {
        match outcome {
            Outcome::Chunk { times, .. } => Some(times.took),
            Outcome::SetUp { .. } => None,
        }
    }
}

impl<I, O> std::fmt::Debug for Workbench<'_, '_, I, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workbench").field("farm", &self.farm).field("cx", &self.cx).finish_non_exhaustive()
    }
}
