//! Log lines that say which rank they come from.

use std::cell::Cell;
use std::io::Write;
use std::sync::OnceLock;

/// The rank of this process, where a process is a rank.
static PROCESS_RANK: OnceLock<usize> = OnceLock::new();

thread_local! {
    /// The rank of this thread, where a thread is a rank.
    static THREAD_RANK: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Starts env_logger with the rank in every line, unless the program has set up a logger of its own.
pub(super) fn start(process_rank: Option<usize>) {
    if let Some(rank) = process_rank {
        PROCESS_RANK.get_or_init(|| rank);
    }
    let filter = env_logger::Env::default().default_filter_or("warn,armature=info");
    // An error means that a logger exists already: the program's own, or ours from an earlier run.
    let _ = env_logger::Builder::from_env(filter)
        .format(|out, record| {
            let rank = THREAD_RANK.get().or(PROCESS_RANK.get().copied());
            let level = record.level();
            match rank {
                Some(rank) => writeln!(out, "[{level:<5} rank {rank}] {}", record.args()),
                None => writeln!(out, "[{level:<5}] {}", record.args()),
            }
        })
        .try_init();
}

/// Log lines of the calling thread come from `rank` from now on.
pub(crate) fn name_rank(rank: usize) {
    THREAD_RANK.set(Some(rank));
}
