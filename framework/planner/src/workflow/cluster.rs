//! Cluster of processors on which a workflow runs.

use armature_text::quoted;

use crate::error::{Error, ErrorKind, Result};
use crate::range::{self, POSITIVE};

/// Processor that runs one task of a workflow at a time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Processor {
    /// Name of the processor for messages and charts, which need not be unique.
    pub name: String,
    /// Speed in work units per second, from 1e-60 to 1e60.
    pub speed: f64,
    /// Memory of the processor in the unit of the workflow's sizes. A processor without memory only runs tasks that need none.
    pub memory: u64,
    /// Size of the buffer for files that were evicted from memory, in the same unit as the memory.
    pub buffer: u64,
}

impl Processor {
    /// Creates a processor with a buffer of ten times its memory, as in the paper of 2025 (Kulagina, Meyerhenke and Benoit).
    pub fn new(name: impl Into<String>, speed: f64, memory: u64) -> Self {
        const BUFFER_PER_MEMORY: u64 = 10;
        Processor { name: name.into(), speed, memory, buffer: memory.saturating_mul(BUFFER_PER_MEMORY) }
    }

    /// Sets the size of the processor's buffer for evicted files.
    pub fn with_buffer(mut self, buffer: u64) -> Self {
        self.buffer = buffer;
        self
    }
}

/// Processors of a cluster, numbered from 0, and the bandwidths between them.
///
/// ```
/// use armature_planner::workflow::{Cluster, Processor};
///
/// let cluster = Cluster::new(vec![Processor::new("C2", 32.0, 192), Processor::new("N2", 8.0, 8)], 1.0)?
///     .with_link(0, 1, 0.5)?;
/// assert_eq!(cluster.len(), 2);
/// assert_eq!(cluster.transfer_time(0, 1, 10), 20.0);
/// assert_eq!(cluster.transfer_time(1, 0, 10), 10.0);
/// assert_eq!(cluster.transfer_time(1, 1, 10), 0.0);
/// # Ok::<(), armature_planner::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    processors: Vec<Processor>,
    bandwidth: f64,
    /// Bandwidths between all pairs of processors in row-major order; empty while all links are equal.
    links: Vec<f64>,
    disk: f64,
}

impl Cluster {
    /// Maximum number of processors of a cluster. The bandwidths are a matrix as soon as one link differs from the others. The matrix takes 2 GiB at
    /// this size.
    pub const MOST_PROCESSORS: usize = 1 << 14;

    /// Default bandwidth in bytes per second at which a buffer for evicted files is written and read, if it was not measured: the write rate of an
    /// ordinary disk.
    pub const DISK: f64 = 200e6;

    /// Creates a cluster of processors with one bandwidth for all links, in size units per second. The buffers for evicted files are infinitely fast,
    /// as in the paper of Kulagina et al. (2025).
    ///
    /// # Errors
    /// [`ErrorKind::Platform`] if there is no processor or there are more than 16384, a name has more than 4096 bytes or a control character, a
    /// speed is not from 1e-60 to 1e60, or the bandwidth is neither in this range nor infinite.
    pub fn new(processors: Vec<Processor>, bandwidth: f64) -> Result<Self> {
        if processors.is_empty() || processors.len() > Self::MOST_PROCESSORS {
            return Err(invalid(format!(
                "a cluster must have 1 to {} processors, but has {}",
                Self::MOST_PROCESSORS,
                processors.len()
            )));
        }
        check_names(&processors)?;
        check_speeds(&processors)?;
        check_rate("bandwidth", bandwidth)?;
        Ok(Cluster { processors, bandwidth, links: Vec::new(), disk: f64::INFINITY })
    }

    /// Sets the rate at which the buffers for evicted files are written and read, in size units per second. A processor runs no task during a write
    /// or read.
    ///
    /// # Errors
    /// [`ErrorKind::Platform`] if the rate is neither from 1e-60 to 1e60 nor infinite.
    pub fn with_disk(mut self, rate: f64) -> Result<Self> {
        check_rate("rate of the disk", rate)?;
        self.disk = rate;
        Ok(self)
    }

    /// Sets the bandwidth of the link from one processor to another.
    ///
    /// # Errors
    /// [`ErrorKind::Platform`] if a processor does not exist, both are the same, or the bandwidth is neither from 1e-60 to 1e60 nor infinite.
    pub fn with_link(mut self, from: usize, to: usize, bandwidth: f64) -> Result<Self> {
        let count = self.len();
        if from >= count || to >= count || from == to {
            return Err(invalid(format!(
                "there is no link {from}→{to}: it must join two of the processors 0 to {}",
                count - 1
            )));
        }
        check_rate("bandwidth", bandwidth)?;
        if self.links.is_empty() {
            self.links = vec![self.bandwidth; count * count];
        }
        self.links[from * count + to] = bandwidth;
        Ok(self)
    }

    /// Sets memory and buffer of each processor; `room` maps the number of a processor to its memory and buffer size.
    ///
    /// ```
    /// use armature_planner::workflow::{Cluster, Processor};
    ///
    /// let two = Cluster::new(vec![Processor::new("a", 1.0, 5), Processor::new("b", 2.0, 7)], 1.0)?;
    /// let two = two.with_room(|processor| (10 + processor as u64, 0));
    /// assert_eq!((two.processors()[1].memory, two.processors()[1].buffer), (11, 0));
    /// # Ok::<(), armature_planner::Error>(())
    /// ```
    pub fn with_room(mut self, room: impl Fn(usize) -> (u64, u64)) -> Self {
        for (number, processor) in self.processors.iter_mut().enumerate() {
            (processor.memory, processor.buffer) = room(number);
        }
        self
    }

    /// Sets the speeds of the processors by number; processors without an entry keep their speed.
    ///
    /// # Errors
    /// [`ErrorKind::Platform`] if a speed is not from 1e-60 to 1e60.
    pub fn with_speeds(mut self, speeds: &[f64]) -> Result<Self> {
        for (processor, &speed) in self.processors.iter_mut().zip(speeds) {
            processor.speed = speed;
        }
        check_speeds(&self.processors)?;
        Ok(self)
    }

    /// Returns the number of processors.
    #[allow(clippy::len_without_is_empty, reason = "there is always a processor")]
    pub fn len(&self) -> usize {
        self.processors.len()
    }

    /// Returns the processors in the order of their numbers.
    pub fn processors(&self) -> &[Processor] {
        &self.processors
    }

    /// Returns the bandwidth of links that were not set individually, in size units per second. Planners use it for estimates before tasks are
    /// placed.
    pub fn default_bandwidth(&self) -> f64 {
        self.bandwidth
    }

    pub(super) fn has_equal_links(&self) -> bool {
        self.links.is_empty()
    }

    /// Returns the bandwidth from one processor to another, in size units per second.
    ///
    /// # Panics
    /// May panic if a processor does not exist.
    pub fn bandwidth(&self, from: usize, to: usize) -> f64 {
        if self.links.is_empty() { self.bandwidth } else { self.links[from * self.len() + to] }
    }

    /// Returns the time in seconds of the transfer of `size` size units from one processor to another; 0 if they are the same.
    ///
    /// # Panics
    /// May panic if a processor does not exist.
    pub fn transfer_time(&self, from: usize, to: usize, size: u64) -> f64 {
        if from == to { 0.0 } else { size as f64 / self.bandwidth(from, to) }
    }

    /// Returns the rate at which the buffers for evicted files are written and read, in size units per second.
    pub fn disk(&self) -> f64 {
        self.disk
    }

    /// Returns the seconds in which a processor writes `size` size units to its buffer, or reads them.
    pub fn disk_time(&self, size: u64) -> f64 {
        size as f64 / self.disk
    }

    /// Returns the memory of the processor with the most memory.
    pub fn largest_memory(&self) -> u64 {
        self.processors.iter().map(|processor| processor.memory).max().unwrap_or(0)
    }
}

/// Maximum length in bytes of the name of a processor, the same as for the name of a task in a workflow file.
const LONGEST_NAME: usize = 4096;

fn check_names(processors: &[Processor]) -> Result<()> {
    for (p, Processor { name, .. }) in processors.iter().enumerate() {
        if name.len() > LONGEST_NAME {
            let length = name.len();
            return Err(invalid(format!(
                "the name of processor {p} has {length} bytes, but must have at most {LONGEST_NAME}"
            )));
        }
        if name.contains(char::is_control) {
            return Err(invalid(format!(
                "processor {p} is called {}: a name must have no control character",
                quoted(name)
            )));
        }
    }
    Ok(())
}

fn check_speeds(processors: &[Processor]) -> Result<()> {
    for (p, Processor { name, speed, .. }) in processors.iter().enumerate() {
        if !range::is_positive(*speed) {
            return Err(invalid(format!(
                "the speed of processor {p} ({}) must be {POSITIVE}, but is {speed}",
                quoted(name)
            )));
        }
    }
    Ok(())
}

fn check_rate(what: &str, rate: f64) -> Result<()> {
    if range::is_positive(rate) || rate == f64::INFINITY {
        return Ok(());
    }
    Err(invalid(format!("a {what} must be {POSITIVE}, or infinite, but is {rate}")))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Platform, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_numbers_are_refused_by_name() {
        let one = |speed| vec![Processor::new("a", speed, 1)];
        let message = |result: Result<Cluster>| result.unwrap_err().message().to_string();
        assert!(message(Cluster::new(Vec::new(), 1.0)).contains("but has 0"));
        let named = |name: String| vec![Processor::new(name, 1.0, 1)];
        assert!(Cluster::new(named("n".repeat(4096)), 1.0).is_ok());
        assert!(
            message(Cluster::new(named("n".repeat(4097)), 1.0))
                .contains("name of processor 0 has 4097 bytes")
        );
        assert!(message(Cluster::new(named("a\nb".into()), 1.0)).contains("control character"));
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e61] {
            assert!(message(Cluster::new(one(speed), 1.0)).contains("speed of processor 0 (\"a\")"));
        }
        for bandwidth in [0.0, -1.0, f64::NAN, 1e-61] {
            assert!(message(Cluster::new(one(1.0), bandwidth)).contains("bandwidth"));
        }
        let two = Cluster::new(vec![Processor::new("a", 1.0, 1); 2], f64::INFINITY).unwrap();
        assert!(message(two.clone().with_link(0, 2, 1.0)).contains("0→2"));
        assert!(message(two.clone().with_link(1, 1, 1.0)).contains("1→1"));
        assert!(message(two.clone().with_link(0, 1, 0.0)).contains("bandwidth"));
        assert!(message(two.clone().with_disk(0.0)).contains("disk"));
        assert!(message(two.clone().with_speeds(&[2.0, 0.0])).contains("speed of processor 1"));
        let speeds = two.with_speeds(&[2.0]).unwrap();
        assert_eq!([0, 1].map(|p| speeds.processors()[p].speed), [2.0, 1.0]);
    }

    #[test]
    fn default_buffer_does_not_overflow() {
        assert_eq!(Processor::new("a", 1.0, u64::MAX).buffer, u64::MAX);
        assert_eq!(Processor::new("a", 1.0, 3).buffer, 30);
        assert_eq!(Processor::new("a", 1.0, 3).with_buffer(1).buffer, 1);
    }
}
