//! Start-up, shutdown and failure of a job.
//!
//! [`run`] starts the ranks, calls a closure on each of them, and ends them. A failure on any rank ends the whole job: every rank that can
//! answer returns an error.

mod agreement;
mod bootstrap;
#[cfg_attr(not(feature = "workflow"), path = "no_commands.rs")]
mod commands;
mod config;
#[cfg(feature = "mpi")]
mod failure;
mod finalize;
#[cfg(test)]
mod golden_tests;
mod groups;
mod logging;
pub(crate) mod placement;
mod platform;
mod program;
mod run;
#[cfg(all(test, feature = "farm", feature = "loops", feature = "pipeline", feature = "workflow"))]
mod stop_tests;
#[cfg(test)]
mod tests;
pub(crate) mod topology;
mod values;

use std::time::Duration;

use crate::comm::Transport;
use crate::comm::clock::Stopwatch;
use crate::comm::endpoint::Endpoint;
use crate::comm::endpoint::stop_requests::StopRequests;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::job_status::Attempt;
use crate::job_status::writer::StatusWriter;
use crate::user_code;
pub(crate) use agreement::Announcement;
#[cfg(feature = "workflow")]
pub use commands::Commands;
pub(crate) use commands::RankCommands;
#[cfg(feature = "workflow")]
pub(crate) use commands::output_file;
#[cfg(feature = "clap")]
pub use config::RunArgs;
pub use config::{Balance, BatchMode, Bind, Config, Driver, Progress, TransportChoice, exit_code, main};
pub(crate) use logging::name_rank;
use placement::Sharing;
pub use platform::{JobPlatform, Processors};
pub use run::run;
pub(crate) use values::{NextPiece, PIECE};

/// A running job as one rank sees it: the rank's number, the number of ranks, and the settings.
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
    /// Communicator that the program uses for its own MPI calls; `None` until it requests one.
    #[cfg(feature = "mpi")]
    communicator: Option<crate::comm::mpi::Communicator>,
}

/// Measured speeds and links of the ranks, with the time of the measurement.
pub(crate) type Probed = Option<(Duration, crate::balance::probe::Probed)>;

/// Separate borrows of the fields of a session that a skeleton uses while it runs.
pub(crate) struct Parts<'s> {
    pub(crate) config: &'s Config,
    pub(crate) endpoint: &'s mut Endpoint,
    pub(crate) commands: &'s mut Option<RankCommands>,
    /// Groups of ranks that compete for the same cores; empty on ranks other than 0.
    pub(crate) sharing: &'s Sharing,
    /// Last measurement of the speeds and links of the ranks, kept on rank 0, for skeletons that run soon after each other.
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

    /// Returns the number of threads that the program may run at once on this rank without taking cores from other ranks, at least 1.
    ///
    /// The number is this rank's share of the cores that its process may use: all of them if the rank has them alone, half if two ranks are bound to
    /// the same package, 1 if the node or the CPU quota has fewer cores than ranks. Two hardware threads of a core count once. Use the number for the
    /// thread pool of rayon, for `OMP_NUM_THREADS`, or for other threads of the program. Start a thread pool in each process once, after `run` has
    /// bound the rank.
    ///
    /// ```
    /// armature::run(&armature::Config::new(), |session| {
    ///     assert_eq!(session.threads(), (armature::Topology::of_this_node().usable_cores() as usize).max(1));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn threads(&self) -> usize {
        self.endpoint.place().threads
    }

    /// Returns true on rank 0, which reads the source, runs the sink and plans the distribution of the work.
    pub fn is_root(&self) -> bool {
        self.rank == 0
    }

    /// Returns the settings of the job.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the name of the transport: `local…`, or `mpi…` with the name and version of the MPI library.
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

    /// Returns the clock of [`elapsed`](Session::elapsed) as a separate value, because a running skeleton borrows the session.
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

    pub(crate) fn parts(&mut self) -> Parts<'_> {
        let Session { config, endpoint, commands, sharing, probed, .. } = self;
        Parts { config, endpoint, commands, sharing, probed }
    }

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

    /// Returns true if the job was asked to stop, by a [signal](Config::handle_signals) or a [file](Config::run_directory). A
    /// running skeleton stops without this call. Call it in loops of the program outside of skeletons, and end the loop with
    /// [`stop`](Session::stop).
    ///
    /// The ranks do not learn of a request at the same moment. To end on all ranks in the same pass, let rank 0 decide, and share its answer:
    ///
    /// ```
    /// armature::run(&armature::Config::new().ranks(2), |session| {
    ///     for pass in 0..3 {
    ///         let is_requested = session.stop_requested()?;
    ///         if session.broadcast(session.is_root().then_some(is_requested))? {
    ///             return Err(session.stop(format!("{pass} passes are in state.bin")).into());
    ///         }
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), armature::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of the message layer.
    pub fn stop_requested(&mut self) -> Result<bool> {
        self.endpoint.poll_for_stop()
    }

    /// Returns the error with which a program ends that was [asked to stop](Session::stop_requested). `kept` describes the results that are
    /// kept, for the message and the [job status](crate::job_status); the text of rank 0 counts. All ranks must end with this error.
    pub fn stop(&mut self, kept: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Stopped, self.endpoint.stop_here(&kept.to_string()))
    }

    /// Opens the session of a rank: all ranks register with rank 0, which answers each rank with its placement on the cores of its host.
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
        // Simulated ranks do not handle requests to stop: they share a process, and signals arrive in real time.
        if endpoint.capabilities().real_time {
            let file = config.run_directory.as_ref().filter(|_| endpoint.rank() == 0);
            endpoint.accept_stops(StopRequests::new(
                config.handle_signals,
                file.map(|directory| directory.join("stop")),
            ));
        }
        if let Some(end) =
            config.end_time.filter(|_| endpoint.capabilities().real_time && endpoint.rank() == 0)
            && endpoint.ends_at(end).is_none()
        {
            log::warn!("the end time of the job has passed before its start, and is ignored");
        }
        match bootstrap::exchange(&mut endpoint, config, number) {
            Ok((sharing, events, platform)) => Ok(Session {
                sharing,
                probed: None,
                config: Config { platform, ..config.clone() }.events(events),
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

/// Resources that a rank needs before its session is opened: the process for its commands, and the number of this start of the job.
#[derive(Default)]
struct Prepared {
    commands: Option<RankCommands>,
    attempt: Option<Attempt>,
}

impl Prepared {
    fn with(commands: Option<RankCommands>) -> Self {
        Prepared { commands, attempt: None }
    }
}

struct Left {
    lost: Vec<usize>,
    stopped: Option<Error>,
}

fn on_rank(
    transport: Box<dyn Transport>,
    config: &Config,
    prepared: Result<Prepared>,
    body: &mut dyn FnMut(&mut Session) -> Result<(), BoxError>,
) -> Result<Left, (Box<Endpoint>, Error)> {
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
    // The session is dropped, with the MPI objects in it, before MPI is finalised.
    let mut endpoint = session.into_endpoint();
    // The error of a stopped run is taken from the endpoint, because the program may return another error in its place.
    let stopped = endpoint.stopped();
    let result = result.or_else(|error| match (&stopped, error.kind()) {
        (Some(_), ErrorKind::Stopped | ErrorKind::User) => Ok(()),
        _ => Err(error),
    });
    let result = result.and_then(|()| endpoint.check_failure());
    if let Some(stopped) = stopped.as_ref().filter(|_| rank == 0) {
        endpoint.record_kept(stopped.message().to_string());
    }
    let result = result.and_then(|()| finalize::leave(&mut endpoint, config));
    match result {
        Ok(()) => {
            let lost = endpoint.lost().to_vec();
            if !lost.is_empty() {
                // The endpoint is leaked, because MPI may still read the buffers of messages to dead ranks.
                std::mem::forget(endpoint);
            }
            Ok(Left { lost, stopped })
        }
        Err(error) => {
            endpoint.report(&error);
            Err((Box::new(endpoint), error))
        }
    }
}
