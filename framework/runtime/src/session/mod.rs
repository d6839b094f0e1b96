//! Start-up, shutdown and failure of a job.
//!
//! [`run`] starts the ranks, calls a closure on each of them, and ends them. A failure on any rank ends the whole job: under MPI within
//! seconds and with a non-zero exit code, on threads as an error that every rank returns.

mod agreement;
mod bootstrap;
mod commands;
mod config;
#[cfg(feature = "mpi")]
mod failure;
mod finalize;
#[cfg(test)]
mod golden_tests;
mod groups;
mod logging;
mod program;
#[cfg(test)]
mod tests;
pub(crate) mod topology;
mod values;

#[cfg(feature = "mpi")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::comm::Transport;
use crate::comm::clock::Stopwatch;
use crate::comm::endpoint::Endpoint;
use crate::comm::local::{LocalTransport, World};
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::job_status::Attempt;
use crate::job_status::writer::StatusWriter;
use crate::user_code;
pub(crate) use agreement::Announcement;
use bootstrap::Sharing;
pub use commands::Commands;
pub(crate) use commands::{RankCommands, output_file};
#[cfg(feature = "clap")]
pub use config::RunArgs;
pub use config::{Balance, BatchMode, Bind, Config, Driver, Progress, TransportChoice, exit_code, main};
pub(crate) use logging::name_rank;
pub(crate) use values::{NextPiece, PIECE};

/// A running job as one rank sees it: its number, the number of ranks, and the settings.
///
/// Skeletons run on a session. [`run`] creates sessions.
pub struct Session {
    config: Config,
    rank: usize,
    size: usize,
    transport: String,
    sharing: Sharing,
    probed: Probed,
    endpoint: Endpoint,
    commands: Option<RankCommands>,
    /// Communicator for the program, once the program has asked for it.
    #[cfg(feature = "mpi")]
    communicator: Option<crate::comm::mpi::Communicator>,
}

/// Measured speeds and links of the ranks, with the time of the measurement.
pub(crate) type Probed = Option<(Duration, crate::balance::probe::Probed)>;

/// Parts of a session that a run of a skeleton uses at the same time.
pub(crate) struct Parts<'s> {
    pub(crate) config: &'s Config,
    pub(crate) endpoint: &'s mut Endpoint,
    /// Starter of this rank's commands, if there is one.
    pub(crate) commands: &'s mut Option<RankCommands>,
    /// Groups of ranks that share cores; known on rank 0.
    pub(crate) sharing: &'s Sharing,
    /// Last measurement of speeds and links on rank 0, for skeletons that run soon after each other.
    pub(crate) probed: &'s mut Probed,
}

impl Session {
    /// Returns the number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns true on rank 0, which reads the source, runs the sink and plans.
    pub fn is_root(&self) -> bool {
        self.rank == 0
    }

    /// Returns the settings of this run.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the name of the transport: `local…`, or `mpi…` with the name and version of the library.
    pub fn transport(&self) -> &str {
        &self.transport
    }

    /// Returns true if the job runs in a simulator: time is simulated, and only declared work takes time.
    pub fn is_simulated(&self) -> bool {
        self.endpoint.clock().is_simulated()
    }

    /// Returns the time since this rank started; simulated time in a simulator.
    pub fn elapsed(&self) -> Duration {
        self.endpoint.clock().now()
    }

    /// Returns the clock of [`elapsed`](Session::elapsed) as a value of its own, because a running skeleton borrows the session.
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// armature::run(&armature::Config::new(), |session| {
    ///     let (clock, mut times) = (session.stopwatch(), Vec::new());
    ///     Pipeline::source("numbers", || 0..3u8).for_each(session, "note", |_| times.push(clock.elapsed()))?;
    ///     assert!(times.len() == 3 && times.is_sorted());
    ///     Ok(())
    /// })?;
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn stopwatch(&self) -> Stopwatch {
        Stopwatch(self.endpoint.clock())
    }

    /// Borrows the parts that a run of a skeleton uses.
    pub(crate) fn parts(&mut self) -> Parts<'_> {
        let Session { config, endpoint, commands, sharing, probed, .. } = self;
        Parts { config, endpoint, commands, sharing, probed }
    }

    /// Borrows the endpoint and the settings.
    pub(crate) fn endpoint(&mut self) -> (&mut Endpoint, &Config) {
        (&mut self.endpoint, &self.config)
    }

    fn into_endpoint(self) -> Endpoint {
        self.endpoint
    }

    /// Marks the job as failed in the job status, with this message, although all ranks will end without an error; `armature run` then
    /// exits with 1. Call it inside of [`run`](run()) in a program that will exit with an error because of its results, such as failed
    /// tasks. Otherwise the job status would state that the job has finished. The call has no effect on ranks other than 0.
    pub fn conclude_failed(&mut self, message: impl std::fmt::Display) {
        self.endpoint.conclude(message.to_string());
    }

    /// Opens the session of a rank: all ranks register with rank 0, which answers with the hosts of all ranks.
    fn open(
        transport: Box<dyn Transport>,
        config: &Config,
        prepared: Prepared,
    ) -> Result<Self, (Box<Endpoint>, Error)> {
        let mut endpoint = Endpoint::new(transport, config.idle_sleep);
        let Prepared { commands, attempt } = prepared;
        let number = attempt.as_ref().map_or(0, Attempt::number);
        match StatusWriter::start(config.job_status.as_deref(), attempt, endpoint.rank(), endpoint.size()) {
            Ok(writer) => endpoint.keep(writer),
            Err(error) => return Err((Box::new(endpoint), error)),
        }
        match bootstrap::exchange(&mut endpoint, config, number) {
            Ok((sharing, events)) => Ok(Session {
                sharing,
                probed: None,
                config: config.clone().events(events),
                rank: endpoint.rank(),
                size: endpoint.size(),
                transport: endpoint.transport().describe(),
                endpoint,
                commands,
                #[cfg(feature = "mpi")]
                communicator: None,
            }),
            Err(error) => Err((Box::new(endpoint), error)),
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("rank", &self.rank)
            .field("size", &self.size)
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

/// Starts the ranks, calls `body` on each of them, and returns the result of rank 0 (under MPI: of this process).
///
/// Under an MPI launcher the ranks are its processes: `mpirun -n 6 app`. Otherwise they are threads of this process; [`Config::ranks`] is
/// their number, 1 by default.
///
/// # Errors
/// The error or panic of the first rank that failed, with its rank. It ends the job: all ranks return an error, with which the program
/// should end. A rank on which the error did not arise returns one of [`ErrorKind::Peer`] with the text of the error.
///
/// If ranks are processes, the rank on which the error arose also prints it on standard error at once, because a launcher may end all
/// processes as soon as the first one has failed. If a rank does not come out of user code within two seconds after the failure, or does
/// not answer, the job is aborted with a non-zero exit code. Threads are waited for.
///
/// ```
/// let config = armature::Config::new().ranks(3);
/// let size = armature::run(&config, |session| Ok(session.size()))?;
/// assert_eq!(size, 3);
/// # Ok::<(), armature::Error>(())
/// ```
pub fn run<R: Send>(config: &Config, body: impl Fn(&mut Session) -> Result<R, BoxError> + Sync) -> Result<R> {
    let result = Mutex::new(None);
    // The calling thread is rank 0 if ranks are threads; results of other threads are dropped.
    let caller = thread::current().id();
    let body = |session: &mut Session| {
        let value = body(session)?;
        if thread::current().id() == caller {
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        }
        Ok(())
    };
    run_ranks(config, &body)?;
    let value = result.into_inner().unwrap_or_else(PoisonError::into_inner);
    value.ok_or_else(|| {
        Error::new(ErrorKind::Panic, "in the framework itself: a rank has ended without a result")
    })
}

/// The function that every rank calls, without the type of its result, so that the code that starts ranks is compiled once.
type Body<'a> = dyn Fn(&mut Session) -> Result<(), BoxError> + Sync + 'a;

fn run_ranks(config: &Config, body: &Body) -> Result<()> {
    // A process that was started to run commands enters here and does not return.
    armature_commands::enter();
    config.validate()?;
    #[cfg(feature = "mpi")]
    {
        let wanted = match config.transport {
            TransportChoice::Auto => {
                crate::comm::mpi::launched().is_some()
                    || config.communicator.is_some()
                    || crate::comm::mpi::is_initialised().unwrap_or(false)
            }
            TransportChoice::Local => false,
            TransportChoice::Mpi => true,
        };
        if wanted {
            return run_mpi(config, body);
        }
    }
    #[cfg(not(feature = "mpi"))]
    if config.transport == TransportChoice::Mpi {
        let text = "the mpi transport was asked for, but armature was built without its feature `mpi`";
        return Err(Error::new(ErrorKind::Config, text));
    }
    run_local(config, body)
}

/// Runs the ranks as threads; rank 0 is the calling thread.
fn run_local(config: &Config, body: &Body) -> Result<()> {
    logging::start(None);
    config.remarks(None).iter().for_each(|remark| log::warn!("{remark}"));
    let ranks = config.ranks.unwrap_or(1);
    let world = World::new(ranks);
    let rank = |r: usize| {
        logging::name_rank(r);
        let transport = LocalTransport::open(world.clone(), r);
        let prepared = commands(config, r).map(Prepared::with);
        let result = on_rank(Box::new(transport), config, prepared, &mut |session| body(session));
        result.map(drop).map_err(|(_, error)| error)
    };
    let rank = &rank;
    let result = thread::scope(|scope| {
        let mut others = Vec::new();
        for r in 1..ranks {
            let thread = thread::Builder::new().name(format!("rank {r}")).stack_size(STACK);
            let started = thread.spawn_scoped(scope, move || rank(r));
            others.push(started.map_err(|e| {
                let error = Error::new(ErrorKind::Config, format!("cannot start rank {r} as a thread: {e}"));
                LocalTransport::open(world.clone(), 0).fail(&error);
                error
            })?);
        }
        let mine = rank(0);
        for other in others {
            // A rank catches panics of user code; a panic of the framework is passed on.
            if let Err(payload) = other.join() {
                std::panic::resume_unwind(payload);
            }
        }
        mine
    });
    match world.failure() {
        Some(error) => Err(error),
        None => result,
    }
}

/// Stack size in bytes of a rank that is a thread: the default of a process on most systems.
const STACK: usize = 8 << 20;

/// True while this process is a rank of a run.
#[cfg(feature = "mpi")]
static IS_RANK: AtomicBool = AtomicBool::new(false);

/// Resets [`IS_RANK`] at the end of a run.
#[cfg(feature = "mpi")]
struct OneRun;

#[cfg(feature = "mpi")]
impl OneRun {
    /// # Errors
    /// [`ErrorKind::Config`] inside of a run: its ranks would wait for ranks that do not come.
    fn begin() -> Result<Self> {
        // Simulated ranks share a process.
        if !crate::comm::mpi::simgrid::simulated() && IS_RANK.swap(true, Ordering::Relaxed) {
            let text = "armature::run was called inside of a run, for example in a task: expected one run after the other";
            return Err(Error::new(ErrorKind::Config, text));
        }
        Ok(OneRun)
    }
}

#[cfg(feature = "mpi")]
impl Drop for OneRun {
    fn drop(&mut self) {
        IS_RANK.store(false, Ordering::Relaxed);
    }
}

#[cfg(feature = "mpi")]
fn run_mpi(config: &Config, body: &Body) -> Result<()> {
    use crate::comm::mpi::{MpiOptions, MpiTransport, launched};
    let _one = OneRun::begin()?;
    let launcher = launched();
    if let Some(launcher) = &launcher
        && launcher.rank == Some(0)
        && config.communicator.is_none()
    {
        // The launcher distinguishes a job that dies while MPI starts from a program that never calls MPI. A job status that cannot be
        // written becomes an error later, when other ranks can be told.
        let _ = StatusWriter::start(config.job_status.as_deref(), None, 0, launcher.size.unwrap_or(1));
    }
    // A process that is part of an MPI job does not start other ranks.
    let own = launcher.as_ref().and_then(|launcher| launcher.rank);
    let prepared = commands(config, own.unwrap_or(0)).map(Prepared::with);
    let options = MpiOptions { split: config.split_bytes, ..MpiOptions::default() };
    let transport = MpiTransport::open(options, config.communicator.as_ref())?;
    let is_process = transport.capabilities().processes;
    logging::start(Some(transport.rank()));
    if transport.rank() == 0 {
        config.remarks(Some(transport.size())).iter().for_each(|remark| log::warn!("{remark}"));
    }
    let result = on_rank(Box::new(transport), config, prepared, &mut |session| body(session));
    result.map(drop).map_err(|(mut endpoint, error)| {
        failure::leave(&mut endpoint);
        if !endpoint.lost().is_empty() {
            // MPI may still read messages to dead ranks.
            std::mem::forget(endpoint);
        }
        if is_process { error.printed() } else { error }
    })
}

/// Starts the process that runs commands for a rank, if commands are enabled.
///
/// # Errors
/// [`ErrorKind::Config`] on simulated hosts, which are parts of one process; otherwise the errors of [`Commands::start`].
fn commands(config: &Config, rank: usize) -> Result<Option<RankCommands>> {
    let Some(commands) = &config.commands else { return Ok(None) };
    #[cfg(feature = "mpi")]
    if crate::comm::mpi::simgrid::simulated() {
        let text = "commands cannot be run on simulated hosts: expected tasks that are closures";
        return Err(Error::new(ErrorKind::Config, text).at_rank(rank));
    }
    commands.start(rank).map(Some)
}

/// State of a rank before its session is opened.
#[derive(Default)]
struct Prepared {
    commands: Option<RankCommands>,
    /// Set on rank 0 if events are logged.
    attempt: Option<Attempt>,
}

impl Prepared {
    fn with(commands: Option<RankCommands>) -> Self {
        Prepared { commands, attempt: None }
    }
}

/// Runs one rank from start to end. Returns the ranks that have died.
fn on_rank(
    transport: Box<dyn Transport>,
    config: &Config,
    prepared: Result<Prepared>,
    body: &mut dyn FnMut(&mut Session) -> Result<(), BoxError>,
) -> Result<Vec<usize>, (Box<Endpoint>, Error)> {
    let attempt = || match &config.events {
        Some(directory) if transport.rank() == 0 => Attempt::take(directory).map(Some),
        _ => Ok(None),
    };
    let prepared = prepared.and_then(|prepared| Ok(Prepared { attempt: attempt()?, ..prepared }));
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            let mut endpoint = Endpoint::new(transport, config.idle_sleep);
            endpoint.report(&error);
            return Err((Box::new(endpoint), error));
        }
    };
    let mut session = match Session::open(transport, config, prepared) {
        Ok(session) => session,
        Err((mut endpoint, error)) => {
            endpoint.report(&error);
            return Err((endpoint, error));
        }
    };
    let rank = session.rank;
    let result = user_code::call(|| body(&mut session)).map_err(|e| e.at_rank(rank));
    // Includes objects of MPI, which is about to be finalised.
    let mut endpoint = session.into_endpoint();
    let result = result.and_then(|()| endpoint.check_failure());
    let result = result.and_then(|()| finalize::leave(&mut endpoint, config));
    match result {
        Ok(()) => {
            let lost = endpoint.lost().to_vec();
            if !lost.is_empty() {
                // MPI may still read messages to dead ranks.
                std::mem::forget(endpoint);
            }
            Ok(lost)
        }
        Err(error) => {
            endpoint.report(&error);
            Err((Box::new(endpoint), error))
        }
    }
}
