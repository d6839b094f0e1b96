//! What settings choose from.

/// How the ranks of a job exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportChoice {
    /// MPI where an MPI launcher (or the simulator) started the program, otherwise threads.
    Auto,
    /// Ranks as threads of this process.
    Local,
    /// Ranks as MPI processes.
    Mpi,
}

/// Whether ranks that the launcher left unbound are bound to cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bind {
    /// Leave every rank where the operating system puts it.
    None,
    /// Give each rank a core of its own, where the node has as many cores as ranks.
    Core,
}

/// Which thread runs user code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Driver {
    /// A thread of its own, unless batches turn out to be so short that handing them over costs more.
    Auto,
    /// The thread that also communicates: least overhead; while user code runs the rank answers nobody.
    Inline,
    /// A thread of its own: heartbeats and messages go on while user code computes for seconds.
    Threaded,
}

/// How many items travel in one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchMode {
    /// Grown from one item while a batch stays short in time and bytes.
    Auto,
    /// Always this many (the last batch of a stream may be smaller).
    Fixed(usize),
}

/// Whether a run shows its progress on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// A bar on a terminal, a line every few seconds elsewhere.
    Auto,
    /// A line every few seconds, also for short runs.
    On,
    /// Nothing.
    Off,
}

/// Whether the mapping of a pipeline, or the number of a farm's workers, is changed while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Balance {
    /// The mapping, or number, that the run starts with stays to its end.
    Off,
    /// It is changed once at most: the first time that a better one is worth what the change costs.
    Once,
    /// It is changed whenever a better one is worth what the change costs.
    Live,
}
