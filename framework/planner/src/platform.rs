//! Platform: description of the hardware for the planner, with speeds of processors, and bandwidths and set-up times of links.

use serde::{Deserialize, Serialize};

use crate::cores::SharedCores;
use crate::error::{Error, ErrorKind, Result};
use crate::range::{self, AMOUNT, POSITIVE};

/// Processors and the links between them.
///
/// The platform has P processors, numbered from 0, and one more node, *ext*: the outside world that produces the input of the first stage and
/// receives the output of the last. Bandwidths (bytes/s) and set-up times (s) are full (P+1)×(P+1) matrices. Their last row and column belong to ext;
/// entry `[p][q]` describes the link from p to q.
///
/// A processor sends nothing to itself, so the diagonal of the matrices never adds a cost to a mapping. The diagonal does enter the mean links that
/// are used while a neighbour is not mapped yet, because the HeDPM paper includes it in these means, for ext too.
///
/// At run time the outside world is one of the ranks, which [`with_ext_on`](Platform::with_ext_on) sets. Transfers between that rank and the outside
/// world are free.
///
/// ```
/// use armature_planner::{Link, Platform};
///
/// let fast = Link { bandwidth: 1e9, setup: 1e-6 };
/// let mut platform = Platform::with_speeds(&[1.0, 1.0, 2.5], fast)?.with_ext_on(0)?;
/// platform.set_link(0, 2, Link { bandwidth: 1e8, setup: 1e-4 })?;
/// assert_eq!(platform.processors(), 3);
/// assert_eq!(platform.transfer_time(0, 1, 1e6), 0.001001);
/// assert_eq!(platform.transfer_time(platform.ext(), 0, 1e6), 0.0);
/// # Ok::<(), armature_planner::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Description", into = "Description")]
pub struct Platform {
    speeds: Vec<f64>,
    /// Links between all pairs of nodes in row-major order: (P+1)×(P+1) for P processors and the outside world.
    links: Vec<Link>,
    ext_on: Option<usize>,
    overlap: bool,
    shared: Vec<SharedCores>,
}

/// One direction of a connection between two processors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Bandwidth in bytes per second, from 1e-60 to 1e60, or infinite if only the set-up time counts.
    pub bandwidth: f64,
    /// Set-up time in seconds, until the first byte arrives; 0, or from 1e-60 to 1e60.
    pub setup: f64,
}

impl Link {
    /// Link that takes no time.
    pub const FREE: Link = Link { bandwidth: f64::INFINITY, setup: 0.0 };

    /// Returns the transfer time of `bytes`, in seconds.
    pub fn time(&self, bytes: f64) -> f64 {
        self.setup + bytes / self.bandwidth
    }

    pub(crate) fn fault(&self) -> Option<String> {
        let Link { bandwidth, setup } = *self;
        if !(range::is_positive(bandwidth) || bandwidth == f64::INFINITY) {
            return Some(format!("bandwidth must be {POSITIVE}, or infinite, but is {bandwidth}"));
        }
        if !range::is_amount(setup) {
            return Some(format!("set-up time must be {AMOUNT}, but is {setup}"));
        }
        None
    }
}

impl Platform {
    /// Maximum number of processors of a platform. The links are a matrix, which takes 4 GiB at this size; a larger matrix exceeds the memory of most
    /// machines before an error message can be given.
    pub const MOST_PROCESSORS: usize = 1 << 14;

    /// Creates a platform from its full description: P speeds and two (P+1)×(P+1) matrices, in which the last row and column belong to the outside
    /// world.
    ///
    /// # Errors
    /// [`ErrorKind::Platform`] if there is no processor or there are more than 16384, a matrix has another shape, a speed is not from 1e-60 to
    /// 1e60, or a number of a [`Link`] is out of its range.
    pub fn new(speeds: Vec<f64>, bandwidth: Vec<Vec<f64>>, setup: Vec<Vec<f64>>) -> Result<Self> {
        check_count(speeds.len())?;
        let nodes = speeds.len() + 1;
        for (name, matrix) in [("bandwidth", &bandwidth), ("setup", &setup)] {
            if matrix.len() != nodes || matrix.iter().any(|row| row.len() != nodes) {
                return Err(invalid(format!(
                    "the {name} matrix must have {nodes} rows of {nodes} numbers ({} processors and ext), \
                     but has {} rows of {:?}",
                    speeds.len(),
                    matrix.len(),
                    matrix.iter().map(Vec::len).collect::<Vec<_>>(),
                )));
            }
        }
        let links = bandwidth
            .iter()
            .flatten()
            .zip(setup.iter().flatten())
            .map(|(&bandwidth, &setup)| Link { bandwidth, setup })
            .collect();
        let platform = Platform { speeds, links, ext_on: None, overlap: false, shared: Vec::new() };
        platform.check()?;
        Ok(platform)
    }

    /// Creates a platform of `processors` equal processors with equal links.
    ///
    /// # Errors
    /// See [`new`](Platform::new).
    pub fn uniform(processors: usize, speed: f64, link: Link) -> Result<Self> {
        check_count(processors)?;
        Self::with_speeds(&vec![speed; processors], link)
    }

    /// Creates a platform of processors with these speeds (work units/s) and equal links.
    ///
    /// # Errors
    /// See [`new`](Platform::new).
    pub fn with_speeds(speeds: &[f64], link: Link) -> Result<Self> {
        check_count(speeds.len())?;
        let nodes = speeds.len() + 1;
        let platform = Platform {
            speeds: speeds.to_vec(),
            links: vec![link; nodes * nodes],
            ext_on: None,
            overlap: false,
            shared: Vec::new(),
        };
        platform.check()?;
        Ok(platform)
    }

    /// Places the outside world on `processor`: the links of the outside world become the links of that processor, and transfers between the two are
    /// free.
    ///
    /// # Errors
    /// [`ErrorKind::Platform`] if the processor does not exist.
    pub fn with_ext_on(mut self, processor: usize) -> Result<Self> {
        if processor >= self.processors() {
            return Err(invalid(format!(
                "ext cannot be on processor {processor}: there are {} processors, numbered from 0",
                self.processors()
            )));
        }
        self.ext_on = Some(processor);
        Ok(self)
    }

    /// Sets whether processors compute while they send and receive. By default they do not, as in the HeDPM paper: the time of an item on a processor
    /// is the sum of the times to receive, compute and send the item. With overlap it is the longest of the three times.
    pub fn with_overlap(mut self, overlap: bool) -> Self {
        self.overlap = overlap;
        self
    }

    /// Sets the groups of processors that share cores.
    ///
    /// # Errors
    /// [`ErrorKind::Platform`] if a processor does not exist or is in two groups, or a group has no cores.
    ///
    /// ```
    /// use armature_planner::pipeline::{Dispatch, Mapping, PipelineSpec, StageSpec, production_time};
    /// use armature_planner::{Link, Platform, SharedCores};
    ///
    /// let spec = PipelineSpec::new(0.0).stage(StageSpec::new("rank", 6.0, 0.0));
    /// let one_core = SharedCores { processors: vec![0, 1], cores: 1.0 };
    /// let platform = Platform::uniform(3, 1.0, Link::FREE)?.with_shared_cores(vec![one_core])?;
    /// let time = |text: &str| -> armature_planner::Result<f64> {
    ///     let mapping = Mapping::parse(text, &spec)?;
    ///     Ok(production_time(&platform, &spec, &mapping, Dispatch::OnDemand)?.production_time)
    /// };
    /// // A second processor on the same core adds no speed; a processor on another core does.
    /// assert!((time("rank@0,1")? - 6.0).abs() < 0.1);
    /// assert!((time("rank@0,2")? - 3.0).abs() < 0.1);
    /// assert!((time("rank@0,1,2")? - 3.0).abs() < 0.1);
    /// # Ok::<(), armature_planner::Error>(())
    /// ```
    pub fn with_shared_cores(mut self, groups: Vec<SharedCores>) -> Result<Self> {
        if let Some(fault) = SharedCores::fault(&groups, self.processors()) {
            return Err(invalid(fault));
        }
        self.shared = groups;
        Ok(self)
    }

    /// Returns the groups of processors that share cores.
    pub fn shared_cores(&self) -> &[SharedCores] {
        &self.shared
    }

    /// Returns true if processors compute while they send and receive.
    pub fn overlap(&self) -> bool {
        self.overlap
    }

    /// Sets the link from node `from` to node `to` (a processor, or [`ext`](Platform::ext)).
    ///
    /// # Errors
    /// [`ErrorKind::Platform`] if a node does not exist, or bandwidth or set-up time of the link is out of its range.
    pub fn set_link(&mut self, from: usize, to: usize, link: Link) -> Result<()> {
        let nodes = self.nodes();
        if from >= nodes || to >= nodes {
            return Err(invalid(format!("no link {from}→{to}: nodes are numbered 0 to {}", nodes - 1)));
        }
        check_link(from, to, link)?;
        self.links[from * nodes + to] = link;
        Ok(())
    }

    /// Sets the speed of a processor, in work units per second.
    ///
    /// # Errors
    /// [`ErrorKind::Platform`] if the processor does not exist, or the speed is not from 1e-60 to 1e60.
    pub fn set_speed(&mut self, processor: usize, speed: f64) -> Result<()> {
        let processors = self.processors();
        let Some(present) = self.speeds.get_mut(processor) else {
            return Err(invalid(format!(
                "no processor {processor}: there are {processors} processors, numbered from 0"
            )));
        };
        check_speed(processor, speed)?;
        *present = speed;
        Ok(())
    }

    /// Returns this platform with other speeds of the processors.
    ///
    /// # Errors
    /// [`ErrorKind::Platform`] if the number of speeds is not the number of processors, or a speed is not from 1e-60 to 1e60.
    pub fn with_other_speeds(&self, speeds: &[f64]) -> Result<Self> {
        if speeds.len() != self.processors() {
            let (want, got) = (self.processors(), speeds.len());
            return Err(invalid(format!("expected {want} speeds, one for each processor, got {got}")));
        }
        check_speeds(speeds)?;
        Ok(Platform { speeds: speeds.to_vec(), ..self.clone() })
    }

    /// Returns the number of processors, without the outside world.
    pub fn processors(&self) -> usize {
        self.speeds.len()
    }

    /// Returns the number of the node of the outside world, which equals the number of processors.
    pub fn ext(&self) -> usize {
        self.speeds.len()
    }

    /// Returns the processor on which the outside world was placed, if it was.
    pub fn ext_on(&self) -> Option<usize> {
        self.ext_on
    }

    /// Returns the speed of each processor, in work units per second.
    pub fn speeds(&self) -> &[f64] {
        &self.speeds
    }

    /// Returns the link from node `from` to node `to`; a node is a processor or the outside world. `from` and `to` may be equal, because means over
    /// all links include the link of a node to itself.
    ///
    /// # Panics
    /// Panics if a node is greater than [`ext`](Platform::ext).
    pub fn link(&self, from: usize, to: usize) -> Link {
        let (from, to) = (self.place(from), self.place(to));
        self.links[from * self.nodes() + to]
    }

    /// Returns the transfer time of `bytes` from node `from` to node `to`, in seconds; 0 if both are on one processor.
    ///
    /// # Panics
    /// Panics if a node is greater than [`ext`](Platform::ext).
    pub fn transfer_time(&self, from: usize, to: usize, bytes: f64) -> f64 {
        if self.place(from) == self.place(to) { 0.0 } else { self.link(from, to).time(bytes) }
    }

    /// Returns the node whose links apply to `node`: for the outside world, the processor on which it was placed.
    fn place(&self, node: usize) -> usize {
        if node == self.ext() { self.ext_on.unwrap_or(node) } else { node }
    }

    fn nodes(&self) -> usize {
        self.speeds.len() + 1
    }

    fn check(&self) -> Result<()> {
        check_count(self.speeds.len())?;
        check_speeds(&self.speeds)?;
        let nodes = self.nodes();
        for (i, &link) in self.links.iter().enumerate() {
            check_link(i / nodes, i % nodes, link)?;
        }
        Ok(())
    }
}

fn check_count(processors: usize) -> Result<()> {
    const MOST: usize = Platform::MOST_PROCESSORS;
    match processors {
        0 => Err(invalid("there must be at least one processor".into())),
        1..=MOST => Ok(()),
        _ => Err(invalid(format!("there can be {MOST} processors at most, but there are {processors}"))),
    }
}

fn check_speeds(speeds: &[f64]) -> Result<()> {
    speeds.iter().enumerate().try_for_each(|(p, &speed)| check_speed(p, speed))
}

fn check_speed(processor: usize, speed: f64) -> Result<()> {
    if range::is_positive(speed) {
        return Ok(());
    }
    Err(invalid(format!("the speed of processor {processor} must be {POSITIVE}, but is {speed}")))
}

fn check_link(from: usize, to: usize, link: Link) -> Result<()> {
    match link.fault() {
        Some(fault) => Err(invalid(format!("the {fault} (link {from}→{to})"))),
        None => Ok(()),
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Platform, message)
}

/// Content of a platform in a file, before it is checked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    /// Speed of each processor, in work units per second.
    speeds: Vec<f64>,
    /// Bandwidths in bytes per second: (P+1)×(P+1) for P processors, the outside world last.
    bandwidth: Vec<Vec<f64>>,
    /// Set-up times in seconds: (P+1)×(P+1) for P processors, the outside world last.
    setup: Vec<Vec<f64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ext_on: Option<usize>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    overlap: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shared_cores: Vec<SharedCores>,
}

impl TryFrom<Description> for Platform {
    type Error = Error;

    fn try_from(text: Description) -> Result<Self> {
        let platform = Platform::new(text.speeds, text.bandwidth, text.setup)?
            .with_overlap(text.overlap)
            .with_shared_cores(text.shared_cores)?;
        match text.ext_on {
            Some(processor) => platform.with_ext_on(processor),
            None => Ok(platform),
        }
    }
}

impl From<Platform> for Description {
    fn from(platform: Platform) -> Self {
        let rows = |value: fn(&Link) -> f64| {
            platform.links.chunks(platform.nodes()).map(|row| row.iter().map(value).collect()).collect()
        };
        Description {
            bandwidth: rows(|link| link.bandwidth),
            setup: rows(|link| link.setup),
            ext_on: platform.ext_on,
            overlap: platform.overlap,
            shared_cores: platform.shared,
            speeds: platform.speeds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_numbers_are_refused_with_their_position() {
        let square = |value: f64| vec![vec![value; 3]; 3];
        let error = Platform::new(vec![1.0, -2.0], square(1.0), square(0.0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Platform);
        assert!(error.message().contains("processor 1"), "{error}");

        let mut bandwidth = square(1.0);
        bandwidth[0][2] = 0.0;
        let error = Platform::new(vec![1.0, 2.0], bandwidth, square(0.0)).unwrap_err();
        assert!(error.message().contains("0→2"), "{error}");

        let error = Platform::new(vec![1.0, 2.0], vec![vec![1.0; 2]; 3], square(0.0)).unwrap_err();
        assert!(error.message().contains("3 rows of 3"), "{error}");
        let error = Platform::new(vec![], vec![vec![1.0]], vec![vec![0.0]]).unwrap_err();
        assert!(error.message().contains("at least one processor"), "{error}");
        assert!(Platform::uniform(2, 1.0, Link::FREE).unwrap().with_ext_on(2).is_err());
    }

    #[test]
    fn speeds_are_checked_when_they_are_set() {
        let mut platform = Platform::uniform(2, 1.0, Link::FREE).unwrap();
        platform.set_speed(1, 3.0).unwrap();
        for (processor, speed, text) in [(2, 1.0, "no processor 2"), (0, 0.0, "processor 0 must be")] {
            let error = platform.set_speed(processor, speed).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Platform);
            assert!(error.message().contains(text), "{error}");
        }
        assert_eq!(platform.speeds(), [1.0, 3.0]);
        assert!(platform.with_other_speeds(&[1.0, f64::NAN]).is_err());
    }

    #[test]
    fn external_endpoint_uses_the_links_of_its_processor() {
        let mut platform = Platform::uniform(3, 1.0, Link { bandwidth: 10.0, setup: 1.0 }).unwrap();
        platform.set_link(1, 2, Link { bandwidth: 5.0, setup: 3.0 }).unwrap();
        let platform = platform.with_ext_on(1).unwrap();
        assert_eq!(platform.transfer_time(platform.ext(), 2, 10.0), 5.0);
        assert_eq!(platform.transfer_time(1, platform.ext(), 10.0), 0.0);
        assert_eq!(platform.transfer_time(0, platform.ext(), 10.0), 2.0);
    }
}
