//! Compares the resources that a batch job has used with those that it has requested, and recommends options for the next job.

use crate::supervise::JobUsage;

/// Factor from the used to the recommended amount of a resource, because the next job may need more.
const MARGIN: f64 = 1.25;
/// A smaller amount of a resource is recommended only if it is at most this fraction of the requested amount.
const WORTHWHILE: f64 = 0.8;
/// More memory is recommended if a job has used more than this fraction of the requested memory.
const NEARLY_ALL: f64 = 0.9;

const MIB: u64 = 1 << 20;
const GIB: f64 = (1u64 << 30) as f64;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Requested {
    /// Requested memory in MiB: for the whole host, or for each core.
    memory: Option<Memory>,
    cores: Option<u64>,
    seconds: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Memory {
    OfHost(u64),
    PerCore(u64),
}

/// Memory, cores and time that an attempt (one start of the program) has used on this host; `None` if not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Used {
    /// Peak memory of the job on this host in bytes.
    pub(super) memory: Option<u64>,
    /// Mean number of cores of this host that the program has kept busy.
    pub(super) cores: Option<f64>,
    pub(super) seconds: f64,
    /// True if the program has finished. Only then does its duration show how long the next run takes.
    pub(super) has_finished: bool,
}

impl Used {
    /// `before` and `after` are the resources that the batch job had used at the start and the end of the attempt, which took `seconds`.
    pub(super) fn between(before: JobUsage, after: JobUsage, seconds: f64, has_finished: bool) -> Self {
        let cpu = before.cpu_seconds.zip(after.cpu_seconds).map(|(before, after)| after - before);
        let cores = cpu.filter(|_| seconds > 0.0).map(|cpu| (cpu / seconds).max(0.0));
        Used { memory: after.memory, cores, seconds, has_finished }
    }
}

impl Requested {
    pub(super) fn of(get: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| get(name)?.trim().parse::<u64>().ok().filter(|&number| number > 0);
        let limit = number("SLURM_JOB_START_TIME").zip(number("SLURM_JOB_END_TIME"));
        Requested {
            memory: (number("SLURM_MEM_PER_NODE").map(Memory::OfHost))
                .or(number("SLURM_MEM_PER_CPU").map(Memory::PerCore)),
            cores: number("SLURM_CPUS_ON_NODE"),
            seconds: limit.and_then(|(start, end)| end.checked_sub(start)),
        }
    }

    /// Returns the requested memory of this host in bytes.
    fn memory_of_host(&self) -> Option<u64> {
        match self.memory? {
            Memory::OfHost(mib) => Some(mib.saturating_mul(MIB)),
            Memory::PerCore(mib) => Some(mib.saturating_mul(self.cores?).saturating_mul(MIB)),
        }
    }

    /// Returns a sentence that compares the used with the requested resources on `host`, with options of `sbatch` for the next job if other amounts
    /// are better. `None` if nothing was measured.
    pub(super) fn compare(&self, used: &Used, host: &str) -> Option<String> {
        let (mut parts, mut options) = (Vec::new(), Vec::new());
        if let (Some(peak), Some(requested)) = (used.memory, self.memory_of_host()) {
            let (peak, requested) = (peak as f64, requested as f64);
            parts.push(format!("{:.1} of {:.1} GiB of memory", peak / GIB, requested / GIB));
            options.extend(self.memory_option(peak, requested));
        }
        if let (Some(cores), Some(requested)) = (used.cores, self.cores) {
            parts.push(format!("{cores:.1} of {requested} cores on average"));
        }
        if let Some(limit) = self.seconds {
            parts.push(format!("{} of {}", clock(used.seconds as u64), clock(limit)));
            options.extend(time_option(used, limit));
        }
        if parts.is_empty() {
            return None;
        }
        let next =
            if options.is_empty() { String::new() } else { format!("; next time: {}", options.join(" ")) };
        Some(format!("used on {host}: {}{next}", parts.join(", ")))
    }

    fn memory_option(&self, peak: f64, requested: f64) -> Option<String> {
        let next = MARGIN * peak;
        if next > WORTHWHILE * requested && peak < NEARLY_ALL * requested {
            return None;
        }
        Some(match self.memory? {
            Memory::OfHost(_) => format!("--mem={}", amount(next)),
            Memory::PerCore(_) => format!("--mem-per-cpu={}", amount(next / self.cores? as f64)),
        })
    }
}

/// Returns the option of `sbatch` for a shorter time limit, a multiple of five minutes.
fn time_option(used: &Used, limit: u64) -> Option<String> {
    const STEP: u64 = 300;
    let next = ((MARGIN * used.seconds) as u64).div_ceil(STEP).max(1) * STEP;
    (used.has_finished && next as f64 <= WORTHWHILE * limit as f64).then(|| format!("--time={}", clock(next)))
}

/// Formats bytes for options of Slurm, rounded up: to GiB, or to 100 MiB below 2 GiB.
fn amount(bytes: f64) -> String {
    if bytes >= 2.0 * GIB {
        return format!("{}G", (bytes / GIB).ceil());
    }
    format!("{}M", 100 * (bytes / (100.0 * MIB as f64)).ceil().max(1.0) as u64)
}

fn clock(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let time = format!("{:02}:{:02}:{:02}", rest / 3_600, rest / 60 % 60, rest % 60);
    if days > 0 { format!("{days}-{time}") } else { time }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(variables: &[(&str, &str)]) -> Requested {
        let find = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        };
        Requested::of(find)
    }

    const TIMES: [(&str, &str); 2] = [("SLURM_JOB_START_TIME", "1000"), ("SLURM_JOB_END_TIME", "8200")];

    #[test]
    fn job_that_used_little_is_told_what_to_request() {
        let asked = requested(
            &[&TIMES[..], &[("SLURM_MEM_PER_NODE", "16384"), ("SLURM_CPUS_ON_NODE", "8")]].concat(),
        );
        let peak = Some((3.1 * GIB) as u64);
        let used = Used { memory: peak, cores: Some(3.72), seconds: 2470.0, has_finished: true };
        let text = "used on n1: 3.1 of 16.0 GiB of memory, 3.7 of 8 cores on average, 00:41:10 of 02:00:00; \
                    next time: --mem=4G --time=00:55:00";
        assert_eq!(asked.compare(&used, "n1").unwrap(), text);
        // The duration of a stopped program shows nothing about the next run.
        let stopped = Used { has_finished: false, ..used };
        assert!(asked.compare(&stopped, "n1").unwrap().ends_with("; next time: --mem=4G"));
    }

    #[test]
    fn only_what_was_measured_and_requested_is_printed() {
        let used = Used { memory: None, cores: None, seconds: 7000.0, has_finished: true };
        let times = requested(&TIMES);
        assert_eq!(times.compare(&used, "n1").unwrap(), "used on n1: 01:56:40 of 02:00:00");
        assert_eq!(requested(&[]).compare(&Used { memory: Some(1), ..used }, "n1"), None);
        let all = requested(&[("SLURM_MEM_PER_NODE", "0"), ("SLURM_CPUS_ON_NODE", "4")]);
        let measured = Used { memory: Some(1), cores: Some(4.0), ..used };
        assert_eq!(all.compare(&measured, "n1").unwrap(), "used on n1: 4.0 of 4 cores on average");
    }

    #[test]
    fn memory_per_core_and_too_little_memory_have_their_own_options() {
        let asked = requested(&[("SLURM_MEM_PER_CPU", "4096"), ("SLURM_CPUS_ON_NODE", "4")]);
        let used = |gib: f64| Used { memory: Some((gib * GIB) as u64), ..Used::default() };
        let text = asked.compare(&used(2.0), "n1").unwrap();
        assert_eq!(text, "used on n1: 2.0 of 16.0 GiB of memory; next time: --mem-per-cpu=700M");
        assert_eq!(asked.compare(&used(12.0), "n1").unwrap(), "used on n1: 12.0 of 16.0 GiB of memory");
        assert!(asked.compare(&used(15.9), "n1").unwrap().ends_with("; next time: --mem-per-cpu=5G"));
    }

    #[test]
    fn use_is_the_difference_of_the_counters() {
        let usage = |cpu| JobUsage { memory: Some(9), cpu_seconds: Some(cpu) };
        let used = Used::between(usage(10.0), usage(40.0), 20.0, true);
        assert_eq!((used.memory, used.cores, used.has_finished), (Some(9), Some(1.5), true));
        assert_eq!(Used::between(JobUsage::default(), JobUsage::default(), 1.0, true).cores, None);
        assert_eq!([clock(59), clock(93_784)], ["00:00:59", "1-02:03:04"]);
    }
}
