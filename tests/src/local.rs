//! Runs cases on ranks that are threads of this process, under a watchdog.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use armature::{BoxError, Config, Progress, Session, TransportChoice};

/// Time limit of one test program, after which a watchdog aborts the process.
pub const LIMIT: Duration = Duration::from_secs(120);
/// Time that a rank may be silent. It is shorter than [`LIMIT`], so that the runtime reports a deadlock with the state of every rank before the
/// watchdog aborts the process.
pub const PEER_LIMIT: Duration = Duration::from_secs(30);

/// Returns settings for `ranks` ranks that are threads. Environment variables do not change these settings.
pub fn config(ranks: usize) -> Config {
    Config::new()
        .transport(TransportChoice::Local)
        .ranks(ranks)
        .peer_limit(PEER_LIMIT)
        .progress(Progress::Off)
}

/// Runs `body` on every rank (a thread). After [`LIMIT`], a watchdog prints `what` and aborts the process.
///
/// # Errors
/// Returns the error of the run.
pub fn run<R: Send>(
    what: &str,
    config: &Config,
    body: impl Fn(&mut Session) -> Result<R, BoxError> + Sync,
) -> armature::Result<R> {
    guarded(what, LIMIT, || armature::run(config, body))
}

/// Runs `work`. After the time `limit`, prints the state of every thread with `what`, and aborts the process.
pub fn guarded<R>(what: &str, limit: Duration, work: impl FnOnce() -> R) -> R {
    let (done, finished) = channel::<()>();
    let name = what.to_string();
    let watchdog = std::thread::spawn(move || {
        if finished.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            // The states of the threads go to standard error directly, because the test runner would capture the output of `eprintln!`.
            let text = format!("watchdog: {name} has not ended after {limit:?}; threads:\n{}", threads());
            let _ = std::io::stderr().write_all(text.as_bytes());
            std::process::abort();
        }
    });
    let result = work();
    drop(done);
    // `join` cannot fail: the thread of the watchdog ends when `done` is dropped, and does not panic.
    let _ = watchdog.join();
    result
}

fn threads() -> String {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return String::new() };
    let read = |dir: &std::path::Path, file: &str| {
        std::fs::read_to_string(dir.join(file)).unwrap_or_default().trim().to_string()
    };
    let mut lines = String::new();
    for task in tasks.flatten() {
        let dir = task.path();
        let stat = read(&dir, "stat");
        // In `/proc/self/task/N/stat`, the state follows the name in parentheses; then ten other fields, and the user and system time in ticks.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let field = |n: usize| fields.get(n).copied().unwrap_or("?");
        lines += &format!(
            "  {:<16} state {}, {} + {} ticks, waits in {}\n",
            read(&dir, "comm"),
            field(0),
            field(11),
            field(12),
            read(&dir, "wchan")
        );
    }
    lines
}
