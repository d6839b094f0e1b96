//! The processors that a workflow runs on.

use armature_text::quoted;

use crate::error::{Error, ErrorKind, Result};
use crate::range::{self, POSITIVE};

/// One processor: it runs one task after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Processor {
    /// Name, for messages and charts; several processors may have the same.
    pub name: String,
    /// Work units per second, from 1e-60 to 1e60.
    pub speed: f64,
    /// Memory, in the unit of the workflow's sizes. A processor without memory runs no task that needs some.
    pub memory: u64,
    /// Room beside the memory for files that were evicted from it, in the same unit.
    pub buffer: u64,
}

impl Processor {
    /// A processor whose buffer is ten times its memory, as in the paper of 2025.
    pub fn new(name: impl Into<String>, speed: f64, memory: u64) -> Self {
        const BUFFER_PER_MEMORY: u64 = 10;
        Processor { name: name.into(), speed, memory, buffer: memory.saturating_mul(BUFFER_PER_MEMORY) }
    }

    /// The same processor with another buffer.
    pub fn with_buffer(mut self, buffer: u64) -> Self {
        self.buffer = buffer;
        self
    }
}

/// Processors, numbered from 0, and the bandwidths between them.
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
    /// Row by row; empty as long as all links are alike.
    links: Vec<f64>,
    disk: f64,
}

impl Cluster {
    /// Most processors of a cluster. Once a link has a bandwidth of its own, all are kept as a matrix: at this size it has
    /// 2 GiB.
    pub const MOST_PROCESSORS: usize = 1 << 14;

    /// Bytes per second that a plan reckons with for files that leave memory and come back, where nobody has measured it: what a
    /// plain disk writes.
    pub const DISK: f64 = 200e6;

    /// Processors with the same bandwidth between all, in sizes per second. Buffers are infinitely fast, as in the paper of 2025.
    ///
    /// # Errors
    /// [`ErrorKind::Platform`] if there is no processor or there are more than 16384, a name has more than 4096 bytes or a control
    /// character, a speed is not from 1e-60 to 1e60, or the bandwidth is neither that nor infinite.
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

    /// The same cluster, where buffers are disks that write and read so many sizes per second. A processor runs no task meanwhile.
    ///
    /// # Errors
    /// [`ErrorKind::Platform`] if the rate is not from 1e-60 to 1e60 nor infinite.
    pub fn with_disk(mut self, rate: f64) -> Result<Self> {
        check_rate("rate of the disk", rate)?;
        self.disk = rate;
        Ok(self)
    }

    /// The same cluster, where the link `from` one processor `to` another has a bandwidth of its own.
    ///
    /// # Errors
    /// [`ErrorKind::Platform`] if there is no such processor, both are the same, or the bandwidth is not from 1e-60 to 1e60 nor
    /// infinite.
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

    /// The same processors with another memory and buffer each, which `room` says by the processor's number.
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

    /// The same processors with another speed each, by number; one that has none keeps the speed that it had.
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

    /// Number of processors.
    #[allow(clippy::len_without_is_empty, reason = "there is always a processor")]
    pub fn len(&self) -> usize {
        self.processors.len()
    }

    /// The processors, by number.
    pub fn processors(&self) -> &[Processor] {
        &self.processors
    }

    /// Sizes per second between processors that have no bandwidth of their own. Planners estimate with it where they do not
    /// know yet what runs where.
    pub fn default_bandwidth(&self) -> f64 {
        self.bandwidth
    }

    /// Whether no link has a bandwidth of its own.
    pub(super) fn has_equal_links(&self) -> bool {
        self.links.is_empty()
    }

    /// Sizes per second from one processor to another.
    ///
    /// # Panics
    /// May panic if there is no such processor.
    pub fn bandwidth(&self, from: usize, to: usize) -> f64 {
        if self.links.is_empty() { self.bandwidth } else { self.links[from * self.len() + to] }
    }

    /// Seconds to send so much from one processor to another; none to itself.
    ///
    /// # Panics
    /// May panic if there is no such processor.
    pub fn transfer_time(&self, from: usize, to: usize, size: u64) -> f64 {
        if from == to { 0.0 } else { size as f64 / self.bandwidth(from, to) }
    }

    /// Sizes per second that the buffer of a processor writes and reads.
    pub fn disk(&self) -> f64 {
        self.disk
    }

    /// Seconds to write so much to the buffer of a processor, or to read it from there.
    pub fn disk_time(&self, size: u64) -> f64 {
        size as f64 / self.disk
    }

    /// Largest memory of any processor.
    pub fn largest_memory(&self) -> u64 {
        self.processors.iter().map(|processor| processor.memory).max().unwrap_or(0)
    }
}

/// Longest name of a processor, in bytes: as that of a task in a file.
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
    fn hostile_numbers_are_refused_and_named() {
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
    fn a_buffer_does_not_overflow() {
        assert_eq!(Processor::new("a", 1.0, u64::MAX).buffer, u64::MAX);
        assert_eq!(Processor::new("a", 1.0, 3).buffer, 30);
        assert_eq!(Processor::new("a", 1.0, 3).with_buffer(1).buffer, 1);
    }
}
