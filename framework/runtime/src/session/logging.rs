//! Log lines with the rank that writes them.

use std::cell::Cell;
use std::io::Write;
use std::sync::OnceLock;

/// Number of the rank that this process is; unset if ranks are threads.
static PROCESS_RANK: OnceLock<usize> = OnceLock::new();

thread_local! {
    static THREAD_RANK: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Starts env_logger with the rank in every line, unless the program has set up a logger.
pub(super) fn start(process_rank: Option<usize>) {
    if let Some(rank) = process_rank {
        PROCESS_RANK.get_or_init(|| rank);
    }
    let filter = env_logger::Env::default().default_filter_or("warn,armature=info");
    // A failure to set up the logger means that the program or an earlier run has already set one up, so the failure is ignored.
    let _ = env_logger::Builder::from_env(filter)
        .format(|out, record| {
            let rank = THREAD_RANK.get().or(PROCESS_RANK.get().copied());
            let (level, text) = (record.level(), text(record));
            match rank {
                Some(rank) => writeln!(out, "[{level:<5} rank {rank}] {text}"),
                None => writeln!(out, "[{level:<5}] {text}"),
            }
        })
        .try_init();
}

/// Returns the text of a log record. Messages of the framework contain names and paths from outside: terminal control characters in them are
/// escaped, and lines after the first are indented, so that no line can be mistaken for another record. The program's own messages are
/// unchanged.
fn text(record: &log::Record<'_>) -> String {
    let is_own = record.target().split("::").next() != Some("armature");
    if is_own { record.args().to_string() } else { armature_text::indented(record.args()) }
}

pub(crate) fn name_rank(rank: usize) {
    THREAD_RANK.set(Some(rank));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted(target: &str, message: &str) -> String {
        text(&log::Record::builder().target(target).args(format_args!("{message}")).build())
    }

    #[test]
    fn framework_log_record_cannot_imitate_two_records() {
        let message = "farm x\n[ERROR rank 0] all is lost\u{1b}[2J\u{2028}\u{202e}";
        let safe = "farm x\n  [ERROR rank 0] all is lost\\u{1b}[2J\\u{2028}\\u{202e}";
        assert_eq!(formatted("armature::farm::master", message), safe);
        assert_eq!(formatted("my_program", message), message);
    }
}
