//! Description of the machine on which the results were measured.

use std::fs;
use std::time::Instant;

/// Returns one line with the processor, cores, memory, system, compiler, build and load.
///
/// The line includes the load, because results of a busy machine are worth little.
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

/// Measures the fraction of the processor time of all cores that the hypervisor gave to other virtual machines since
/// the start of the measurement. Ratios of single runs say little if this fraction is more than a few per cent.
#[derive(Clone, Debug)]
pub struct Stolen {
    ticks: Option<f64>,
    since: Instant,
}

impl Stolen {
    /// Starts the measurement of stolen processor time.
    pub fn begin() -> Self {
        Stolen { ticks: stolen_ticks(&read("/proc/stat")), since: Instant::now() }
    }

    /// Returns the stolen fraction of the processor time, from 0 to 1, or `None` if the system does not
    /// report it.
    pub fn stolen_fraction(&self) -> Option<f64> {
        let ticks = stolen_ticks(&read("/proc/stat"))? - self.ticks?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let seconds = ticks / rustix::param::clock_ticks_per_second() as f64;
        Some(seconds / (cores * self.since.elapsed().as_secs_f64().max(f64::MIN_POSITIVE)))
    }
}

/// Returns the stolen ticks of all cores: the eighth number of the first line of `/proc/stat`.
fn stolen_ticks(stat: &str) -> Option<f64> {
    stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().nth(7)?.parse().ok()
}

fn memory_gib() -> f64 {
    let kib = field("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / f64::from(1 << 20)
}

fn system() -> String {
    let uname = rustix::system::uname();
    format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy())
}

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
    use super::*;

    #[test]
    fn stolen_time_is_read_from_its_column() {
        let stat = "cpu  10 20 30 40 50 60 70 80 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(stolen_ticks(stat), Some(80.0));
        assert_eq!(stolen_ticks("cpu  10 20"), None);
        assert!(Stolen::begin().stolen_fraction().is_none_or(|part| part >= 0.0));
    }

    #[test]
    fn machine_description_names_compiler_and_cores() {
        let line = describe();
        assert!(line.contains("rustc ") && line.contains(" cores"), "{line}");
    }
}
