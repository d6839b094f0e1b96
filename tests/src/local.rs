//! Running cases on ranks that are threads of this process, under a watchdog.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use armature::{BoxError, Config, Progress, Session, TransportChoice};

/// How long one run may take before the watchdog ends the test process.
pub const LIMIT: Duration = Duration::from_secs(120);
/// How long a rank may be silent. Less than [`LIMIT`], so that the runtime reports a standstill first, with
/// the state of every rank.
pub const PEER_LIMIT: Duration = Duration::from_secs(30);

/// Settings for `ranks` ranks as threads, whatever the environment says.
pub fn config(ranks: usize) -> Config {
    Config::new()
        .transport(TransportChoice::Local)
        .ranks(ranks)
        .peer_limit(PEER_LIMIT)
        .progress(Progress::Off)
}

/// Runs a body on every rank; `what` names it for the watchdog, which ends this process after [`LIMIT`].
///
/// # Errors
/// What the run returns.
pub fn run<R: Send>(
    what: &str,
    config: &Config,
    body: impl Fn(&mut Session) -> Result<R, BoxError> + Sync,
) -> armature::Result<R> {
    guarded(what, LIMIT, || armature::run(config, body))
}

/// Does `work`; if it takes longer than `limit`, says so with the state of every thread and aborts the process.
pub fn guarded<R>(what: &str, limit: Duration, work: impl FnOnce() -> R) -> R {
    let (done, finished) = channel::<()>();
    let name = what.to_string();
    let watchdog = std::thread::spawn(move || {
        if finished.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            // Not `eprintln!`: the test runner would keep it to itself.
            let text = format!("watchdog: {name} has not ended after {limit:?}; threads:\n{}", threads());
            let _ = std::io::stderr().write_all(text.as_bytes());
            std::process::abort();
        }
    });
    let result = work();
    drop(done);
    // It ends at once; it cannot have panicked.
    let _ = watchdog.join();
    result
}

/// Name and state of every thread of this process, as the kernel sees them.
fn threads() -> String {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return String::new() };
    let read = |dir: &std::path::Path, file: &str| {
        std::fs::read_to_string(dir.join(file)).unwrap_or_default().trim().to_string()
    };
    let mut lines = String::new();
    for task in tasks.flatten() {
        let dir = task.path();
        let stat = read(&dir, "stat");
        // Behind the name in brackets: state, then eleven fields, then user and system time in ticks.
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
