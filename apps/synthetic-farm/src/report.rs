//! Measured efficiency of the farm's workers.

use serde::Serialize;
use std::fmt;

/// Measurements of one iteration on rank 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Iteration {
    /// Sum of the given task times in seconds.
    pub work: f64,
    /// Sum of the measured task times in seconds. It is larger than `work` if workers are slower than rank 0 or share their cores.
    pub busy: f64,
    /// Time from the first task to the last result in seconds.
    pub makespan: f64,
}

/// Measurements of all iterations.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Number of ranks that computed.
    pub workers: usize,
    /// Name of the chunking policy, which determines how many tasks a worker gets at a time.
    pub chunking: String,
    /// Number of tasks of an iteration.
    pub tasks: u64,
    /// Measurements of the iterations in order.
    pub iterations: Vec<Iteration>,
    /// Checksum of all results of all iterations.
    pub checksum: u64,
}

/// Fields of the JSON line for scripts that run this program.
#[derive(Serialize)]
struct Line<'r> {
    workers: usize,
    chunking: &'r str,
    tasks: u64,
    iterations: usize,
    work_seconds: f64,
    busy_seconds: f64,
    makespan_seconds: f64,
    efficiency: f64,
    busy_efficiency: f64,
    checksum: String,
}

impl Report {
    /// Returns the sum of the given task times in seconds.
    pub fn work(&self) -> f64 {
        self.iterations.iter().map(|i| i.work).sum()
    }

    /// Returns the sum of the measured task times in seconds.
    pub fn busy(&self) -> f64 {
        self.iterations.iter().map(|i| i.busy).sum()
    }

    /// Returns the sum of the iterations' makespans in seconds.
    pub fn makespan(&self) -> f64 {
        self.iterations.iter().map(|i| i.makespan).sum()
    }

    /// Returns Σ given task times / (workers × makespan), which is 1 if no worker ever waits and all tasks take their given times.
    pub fn efficiency(&self) -> f64 {
        self.share(self.work(), self.makespan())
    }

    /// Returns Σ measured task times / (workers × makespan). Tasks that take longer than given do not reduce this value.
    pub fn busy_efficiency(&self) -> f64 {
        self.share(self.busy(), self.makespan())
    }

    /// Returns the report as one line of JSON.
    pub fn line(&self) -> String {
        let line = Line {
            workers: self.workers,
            chunking: &self.chunking,
            tasks: self.tasks,
            iterations: self.iterations.len(),
            work_seconds: self.work(),
            busy_seconds: self.busy(),
            makespan_seconds: self.makespan(),
            efficiency: self.efficiency(),
            busy_efficiency: self.busy_efficiency(),
            checksum: format!("{:016x}", self.checksum),
        };
        serde_json::to_string(&line).unwrap_or_default()
    }

    fn share(&self, work: f64, makespan: f64) -> f64 {
        let offered = self.workers as f64 * makespan;
        if offered > 0.0 { work / offered } else { 0.0 }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["work s", "busy s", "makespan s", "efficiency", "busy"];
        let [work, busy, makespan, efficiency, share] = heads;
        writeln!(f, "iteration  {work:>11}  {busy:>11}  {makespan:>11}  {efficiency:>10}  {share:>8}")?;
        let mut row = |name: &str, work: f64, busy: f64, makespan: f64| {
            let percent = |time| 100.0 * self.share(time, makespan);
            let (efficiency, share) = (percent(work), percent(busy));
            writeln!(
                f,
                "{name:>9}  {work:>11.4}  {busy:>11.4}  {makespan:>11.4}  {efficiency:>8.1} %  {share:>6.1} %"
            )
        };
        for (number, iteration) in self.iterations.iter().enumerate() {
            row(&number.to_string(), iteration.work, iteration.busy, iteration.makespan)?;
        }
        row("all", self.work(), self.busy(), self.makespan())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let iteration = |work, busy| Iteration { work, busy, makespan: 2.0 };
        let iterations = vec![iteration(3.0, 3.2), iteration(3.6, 3.8)];
        Report { workers: 2, chunking: "fac2".into(), tasks: 5, iterations, checksum: 0xab }
    }

    #[test]
    fn efficiency_is_work_divided_by_available_worker_time() {
        assert!((report().efficiency() - 0.825).abs() < 1e-12);
        assert!((report().busy_efficiency() - 0.875).abs() < 1e-12);
        let idle = Report { iterations: Vec::new(), ..report() };
        assert_eq!(idle.efficiency(), 0.0);
    }

    #[test]
    fn table_has_a_row_for_each_iteration() {
        let text = report().to_string();
        let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["0", "3.0000", "3.2000", "2.0000", "75.0", "%", "80.0", "%"]);
        assert_eq!(rows[2], ["all", "6.6000", "7.0000", "4.0000", "82.5", "%", "87.5", "%"]);
        assert_eq!(rows.len(), 3);
    }

    #[test]
    fn report_line_is_json() {
        let value: serde_json::Value = serde_json::from_str(&report().line()).unwrap();
        assert_eq!(value["workers"], 2);
        assert_eq!(value["iterations"], 2);
        assert_eq!(value["chunking"], "fac2");
        assert_eq!(value["checksum"], "00000000000000ab");
        assert!((value["efficiency"].as_f64().unwrap() - 0.825).abs() < 1e-12);
    }
}
