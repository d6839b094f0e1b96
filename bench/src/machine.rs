//! What the figures were measured on.

use std::fs;

/// One line: processor, cores, memory, system, compiler, build, load.
///
/// The load is there because figures of a busy machine are worth little.
pub fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let build = if cfg!(debug_assertions) { "debug build: figures mean nothing" } else { "release build" };
    let load = read("/proc/loadavg").split_whitespace().next().unwrap_or("unknown").to_string();
    format!(
        "{}, {cores} cores, {:.1} GiB, {}, {}, {build}, load {load}",
        field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".into()),
        memory_gib(),
        system(),
        env!("ARMATURE_BENCH_RUSTC"),
    )
}

fn memory_gib() -> f64 {
    let kib = field("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / f64::from(1 << 20)
}

fn system() -> String {
    let uname = rustix::system::uname();
    format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy())
}

/// The value behind `name` and a colon.
fn field(file: &str, name: &str) -> Option<String> {
    let text = read(file);
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_line_names_compiler_and_cores() {
        let line = super::describe();
        assert!(line.contains("rustc ") && line.contains(" cores"), "{line}");
    }
}
