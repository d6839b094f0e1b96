//! Types of the values of settings, such as the transport and the thread that runs user code.

/// Transport of the ranks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportChoice {
    /// MPI if an MPI launcher (or the simulator) started the program, otherwise threads.
    Auto,
    /// Ranks as threads of this process.
    Local,
    /// Ranks as MPI processes.
    Mpi,
}

/// Binding to cores of ranks that the launcher left unbound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bind {
    /// No binding: the operating system places each rank.
    None,
    /// One core for each rank, if the node has at least as many cores as ranks.
    Core,
}

/// Choice of the thread that runs user code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Driver {
    /// A separate compute thread for user code, unless calls of user code are so short that passing them to another thread costs more than the
    /// calls.
    Auto,
    /// The thread that communicates also runs user code. This choice has the least overhead, but the rank does not answer messages while user code
    /// runs.
    Inline,
    /// A separate compute thread for user code, so that the rank communicates even while user code computes for seconds.
    Threaded,
}

/// Number of items of a pipeline that are sent in one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchMode {
    /// A number of items in a message that starts with one and grows while a batch stays short in time and bytes.
    Auto,
    /// Fixed number of items in a message; the last batch of a stream may be smaller.
    Fixed(usize),
}

/// Form of the display of progress on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// A progress bar on a terminal, otherwise a line every few seconds.
    Auto,
    /// A line about the progress every few seconds, also for short runs.
    On,
    /// No display of progress.
    Off,
}

/// Changes, during a run, of the mapping of a pipeline, of the number of workers of a farm, or of the distribution of a loop's rows or
/// indices over ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Balance {
    /// No change: the initial distribution of the work stays.
    Off,
    /// At most one change of the distribution of the work: the first time that the predicted gain exceeds the cost of the change.
    Once,
    /// A change of the distribution of the work whenever its predicted gain exceeds its cost.
    Live,
}
