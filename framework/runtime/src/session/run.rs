//! Start of the ranks of a job, as threads or as MPI processes.

#[cfg(feature = "mpi")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::config::{Config, TransportChoice};
#[cfg(feature = "mpi")]
use super::failure;
use super::{Prepared, RankCommands, Session, logging, on_rank};
use crate::comm::Transport;
use crate::comm::local::{LocalTransport, World};
use crate::comm::signals::Handling;
use crate::error::{BoxError, Error, ErrorKind, Result};
#[cfg(feature = "mpi")]
use crate::job_status::writer::StatusWriter;

/// Starts the ranks, calls `body` on each of them, and returns the result of rank 0 (under MPI: of this process).
///
/// Under an MPI launcher the ranks are its processes: `mpirun -n 6 app`. Otherwise they are threads of this process; [`Config::ranks`] is
/// their number, 1 by default.
///
/// # Errors
/// The error or panic of the first rank that failed, with its rank. The error ends the job: all ranks return an error, with which the program
/// should end. A rank on which the error did not arise returns an error of the kind [`ErrorKind::Peer`] with the text of the original error.
///
/// If ranks are processes, the rank on which the error arose also prints it on standard error at once, because a launcher may end all processes as
/// soon as the first one has failed. If user code of a rank does not return within two seconds after the failure, or a rank does not answer, the job
/// is aborted with a non-zero exit code. Threads are waited for.
///
/// ```
/// let config = armature::Config::new().ranks(3);
/// let size = armature::run(&config, |session| Ok(session.size()))?;
/// assert_eq!(size, 3);
/// # Ok::<(), armature::Error>(())
/// ```
pub fn run<R: Send>(config: &Config, body: impl Fn(&mut Session) -> Result<R, BoxError> + Sync) -> Result<R> {
    let result = Mutex::new(None);
    // Only the calling thread keeps its result, because it is rank 0 if ranks are threads.
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

/// Function that every rank calls. Its type does not depend on the program's result, so that the code that starts ranks is compiled only once.
type Body<'a> = dyn Fn(&mut Session) -> Result<(), BoxError> + Sync + 'a;

fn run_ranks(config: &Config, body: &Body) -> Result<()> {
    // If this process was started to run the commands of a rank, this call runs them and does not return.
    super::commands::enter();
    config.validate()?;
    let _handling = if config.handle_signals { Some(Handling::start()?) } else { None };
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
        let text = "transport mpi is set, but armature was built without its feature `mpi`";
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
        result.map_or_else(|(_, error)| Err(error), |left| left.stopped.map_or(Ok(()), Err))
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
            // Ranks catch panics of user code, so a panic that ends the thread of a rank is one of the framework. The calling thread
            // propagates it.
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

#[cfg(feature = "mpi")]
static IS_RANK: AtomicBool = AtomicBool::new(false);

#[cfg(feature = "mpi")]
struct OneRun;

#[cfg(feature = "mpi")]
impl OneRun {
    /// Marks this process as a rank until the returned value is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if this process is a rank of a run already: ranks of a nested run would wait for each other without end.
    fn begin() -> Result<Self> {
        // Nested runs of simulated ranks are not detected, because all these ranks share one process.
        if !crate::comm::mpi::simgrid::simulated() && IS_RANK.swap(true, Ordering::Relaxed) {
            let text = "armature::run was called within a run, for example in a task: call it after the run has ended";
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
        // The start is recorded in the job status before MPI starts, so that the launcher can distinguish a job that dies while MPI starts from
        // a program that never calls MPI. An error is ignored here: it occurs again when the session starts, and can then be sent to the other
        // ranks.
        let _ = StatusWriter::start(config.job_status.as_deref(), None, 0, launcher.size.unwrap_or(1));
    }
    // The process that starts commands is created before MPI is initialised, because a process of an MPI job should not start processes.
    let own = launcher.as_ref().and_then(|launcher| launcher.rank);
    let prepared = commands(config, own.unwrap_or(0)).map(Prepared::with);
    let options =
        MpiOptions { split: config.split_bytes, start_limit: config.join_limit, ..MpiOptions::default() };
    let transport = MpiTransport::open(options, config.communicator.as_ref())?;
    let is_process = transport.capabilities().processes;
    logging::start(Some(transport.rank()));
    if transport.rank() == 0 {
        config.remarks(Some(transport.size())).iter().for_each(|remark| log::warn!("{remark}"));
    }
    let result = on_rank(Box::new(transport), config, prepared, &mut |session| body(session));
    let error = match result {
        Ok(left) => left.stopped,
        Err((mut endpoint, error)) => {
            failure::leave(&mut endpoint);
            if !endpoint.lost().is_empty() {
                // The endpoint is leaked, because MPI may still read the buffers of messages to dead ranks.
                std::mem::forget(endpoint);
            }
            Some(error)
        }
    };
    match error {
        None => Ok(()),
        Some(error) => Err(if is_process { error.printed() } else { error }),
    }
}

/// Starts the process that runs commands for a rank, if commands are enabled.
///
/// # Errors
/// [`ErrorKind::Config`] on simulated hosts, whose ranks share one process; otherwise the errors of [`Commands::start`].
fn commands(config: &Config, rank: usize) -> Result<Option<RankCommands>> {
    let Some(commands) = &config.commands else { return Ok(None) };
    #[cfg(feature = "mpi")]
    if crate::comm::mpi::simgrid::simulated() {
        let text = "commands cannot be run on simulated hosts: expected tasks that are closures";
        return Err(Error::new(ErrorKind::Config, text).at_rank(rank));
    }
    commands.start(rank).map(Some)
}
