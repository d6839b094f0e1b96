//! Set-up time and bandwidth of a connection, estimated from the delays of its messages.

use serde::{Deserialize, Serialize};

use super::envelope::{Envelope, Passage};
use super::value::{Estimate, Source};
use crate::platform::Link;
use crate::range;

/// Minimum number of messages of a size class (small or large) for an estimate from this class.
pub(super) const ENOUGH: u64 = 8;
/// Limits in bytes of the border between small and large messages. The border is the message size at which the link's
/// set-up time and transfer time, as known before any traffic, are equal. With a lower border, control messages would
/// count as large; with a higher border, hardly any message would. If these times determine no border, it is the
/// geometric mean of the limits.
const BORDERS: [f64; 2] = [1_024.0, 1_048_576.0];

/// Estimator of one direction of a connection, from the delays of its messages.
///
/// A message of d bytes takes c + d/B plus waiting time, where c is the set-up time and B the bandwidth. A message waits for example for a busy
/// receiver or other traffic. Waiting only adds to a delay, so the smallest delays are those of the link itself. The smallest delays are kept
/// separately for small and large messages (below half and above twice the size at which set-up and transfer take equally long). The slope between
/// the two is 1/B, and the remainder is c. Old delays are forgotten.
///
/// The clocks of the two ends may differ. Their offset is equal in all delays, so it cancels in the bandwidth. The set-up time depends on the
/// offset, which [`offset`](LinkTraffic::offset) computes from both directions. The estimate is the prior value while there are few messages, and
/// if the traffic does not determine a value.
///
/// ```
/// use armature_planner::Link;
/// use armature_planner::estimate::{LinkTraffic, Source};
///
/// let probed = Link { bandwidth: 1e9, setup: 20e-6 };
/// let mut traffic = LinkTraffic::new(probed);
/// for i in 0..20 {
///     let waited = f64::from(i % 5) * 1e-4;
///     traffic.observe(100.0, 7.0 + 20e-6 + 100.0 / 2e8 + waited); // the other clock is 7 s ahead
///     traffic.observe(1e6, 7.0 + 20e-6 + 1e6 / 2e8 + waited);
/// }
/// let estimate = traffic.estimate(None);
/// assert!((estimate.bandwidth.value / 2e8 - 1.0).abs() < 1e-3, "{estimate:?}");
/// assert_eq!((estimate.bandwidth.source, estimate.setup.source), (Source::Envelope, Source::Probe));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkTraffic {
    pub(super) prior: Link,
    source: Source,
    pub(super) small: Envelope,
    pub(super) large: Envelope,
    /// Maximum bytes of a small message, and minimum bytes of a large message; messages in between are not used.
    pub(super) border: (f64, f64),
    /// Current estimate of the bandwidth in bytes/s, with which messages of unequal size are compared.
    pub(super) bandwidth: f64,
    /// Observed lower bound of the link's capacity: bytes/s, and seconds per message.
    pub(super) carried: Option<(f64, f64)>,
}

/// Estimated bandwidth and set-up time of a link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkEstimate {
    /// Bandwidth in bytes per second.
    pub bandwidth: Estimate,
    /// Set-up time in seconds, until the first byte arrives.
    pub setup: Estimate,
}

impl LinkEstimate {
    /// Returns the estimated bandwidth and set-up time as a plain link, without the kind and number of measurements.
    pub fn link(&self) -> Link {
        Link { bandwidth: self.bandwidth.value, setup: self.setup.value }
    }
}

impl LinkTraffic {
    /// Creates an estimator for a link with the probed values `prior`. A prior with numbers that no [`Platform`](crate::Platform) accepts is
    /// replaced by [`Link::FREE`].
    pub fn new(prior: Link) -> Self {
        let prior = if prior.fault().is_some() { Link::FREE } else { prior };
        let [least, most] = BORDERS;
        let even = prior.setup * prior.bandwidth;
        let even = if even > 0.0 && even.is_finite() { even } else { (least * most).sqrt() };
        let even = even.clamp(least, most);
        LinkTraffic {
            prior,
            source: Source::Probe,
            small: Envelope::default(),
            large: Envelope::default(),
            border: (0.5 * even, 2.0 * even),
            bandwidth: prior.bandwidth,
            carried: None,
        }
    }

    /// Creates an estimator for a link with the declared values `prior`.
    pub fn declared(prior: Link) -> Self {
        LinkTraffic { source: Source::Declared, ..LinkTraffic::new(prior) }
    }

    /// Records a message of `bytes` that arrived `delay` seconds after it was sent, by the clocks of the two ends. The delay is negative if the
    /// clock of the sender is ahead. NaN and numbers above 1e60 are ignored.
    pub fn observe(&mut self, bytes: f64, delay: f64) {
        let Some(bytes) = range::amount(bytes).filter(|_| range::amount(delay.abs()).is_some()) else {
            return;
        };
        let passage = Passage { bytes, delay };
        if bytes <= self.border.0 {
            self.small.add(passage, self.bandwidth);
        } else if bytes >= self.border.1 {
            self.large.add(passage, self.bandwidth);
            if let Some(bandwidth) = self.slope() {
                self.bandwidth = bandwidth;
            }
        }
    }

    /// Records that `messages` messages of `bytes` bytes in total arrived one directly after the other within `seconds`. The link has at least this
    /// capacity, however long the messages waited for each other. NaN and numbers out of range are ignored.
    pub fn carried(&mut self, bytes: f64, messages: u64, seconds: f64) {
        let (bandwidth, interval) = (bytes / seconds, seconds / messages as f64);
        if let (true, Some(interval)) = (range::is_positive(bandwidth), range::amount(interval)) {
            self.carried = Some((bandwidth, interval));
        }
    }

    /// Returns the estimated bandwidth and set-up time, in numbers that a platform accepts. `offset` is the receiver's clock minus the sender's, if
    /// it is known (see [`offset`](LinkTraffic::offset)). Without the offset, the set-up time is the prior value.
    pub fn estimate(&self, offset: Option<f64>) -> LinkEstimate {
        let bandwidth = self.slope().map_or(self.known(self.prior.bandwidth), |value| self.found(value));
        let rest = offset.zip(self.least_rest(bandwidth.value)).map(|(offset, rest)| rest - offset);
        let setup = match rest.and_then(not_negative) {
            Some(setup) => self.found(setup),
            None => self.known(self.prior.setup),
        };
        LinkEstimate { bandwidth, setup }
    }

    /// Returns the number of observed messages that count as small or as large.
    pub fn count(&self) -> u64 {
        self.small.count() + self.large.count()
    }

    pub(super) fn known(&self, value: f64) -> Estimate {
        Estimate { source: self.source, ..Estimate::declared(value) }
    }

    pub(super) fn found(&self, value: f64) -> Estimate {
        Estimate { value, source: Source::Envelope, settled: true, count: self.count() }
    }

    /// Returns the receiver's clock minus the sender's, from the traffic of both directions; `back` is the other direction. The set-up times of the
    /// two directions are assumed to be equal. If they differ, their estimated mean is still correct, but their difference is lost.
    pub fn offset(&self, back: &LinkTraffic) -> Option<f64> {
        let rest =
            |traffic: &LinkTraffic| traffic.least_rest(traffic.slope().unwrap_or(traffic.prior.bandwidth));
        Some(0.5 * (rest(self)? - rest(back)?))
    }

    /// Returns the bandwidth in bytes/s from the smallest delays of small and of large messages, if there are enough
    /// messages of both classes and the large messages take longer.
    pub(super) fn slope(&self) -> Option<f64> {
        if self.small.count() < ENOUGH || self.large.count() < ENOUGH {
            return None;
        }
        let (small, large) = (self.small.least(self.bandwidth)?, self.large.least(self.bandwidth)?);
        let longer = large.delay - small.delay;
        let bandwidth = (large.bytes - small.bytes) / longer;
        range::is_positive(bandwidth).then_some(bandwidth)
    }

    /// Returns the smallest delay of small messages minus their transfer time, which is the set-up time plus the
    /// offset of the clocks.
    pub(super) fn least_rest(&self, bandwidth: f64) -> Option<f64> {
        if self.small.count() < ENOUGH {
            return None;
        }
        let small = self.small.least(bandwidth)?;
        Some(small.delay - small.bytes / bandwidth)
    }
}

/// Clamps a set-up time to 0, because the error of the clock offset can make it negative. Returns `None` for NaN.
pub(super) fn not_negative(setup: f64) -> Option<f64> {
    if setup.is_nan() { None } else { range::amount(setup.max(0.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use rand_distr::{Distribution, Exp};

    const PROBED: Link = Link { bandwidth: 1e9, setup: 50e-6 };

    fn send(traffic: &mut LinkTraffic, real: Link, offset: f64, messages: u32, rng: &mut StdRng) {
        let waiting = Exp::new(1.0 / 200e-6).unwrap();
        for i in 0..messages {
            let bytes: f64 = if i % 3 == 0 { rng.random_range(5e5..2e6) } else { rng.random_range(0.0..2e4) };
            traffic.observe(bytes.round(), offset + real.time(bytes.round()) + waiting.sample(rng));
        }
    }

    #[test]
    fn estimate_equals_the_probe_without_enough_traffic() {
        let mut traffic = LinkTraffic::new(PROBED);
        let probe = traffic.estimate(Some(0.0));
        assert_eq!(probe.link(), PROBED);
        assert_eq!((probe.bandwidth.source, probe.setup.source), (Source::Probe, Source::Probe));
        for _ in 0..100 {
            traffic.observe(10.0, 1.0);
            traffic.observe(f64::NAN, 1.0);
            traffic.observe(1e7, f64::INFINITY);
        }
        assert_eq!(traffic.estimate(None).link(), PROBED);
        assert_eq!(LinkTraffic::declared(PROBED).estimate(None).setup.source, Source::Declared);
    }

    #[test]
    fn bandwidth_is_unknown_if_large_messages_are_not_slower() {
        let mut traffic = LinkTraffic::new(PROBED);
        for _ in 0..100 {
            traffic.observe(10.0, 1e-3);
            traffic.observe(1e7, 1e-3);
        }
        assert_eq!(traffic.estimate(None).bandwidth.source, Source::Probe);
    }

    #[test]
    fn both_directions_give_clock_offset_and_setup_time() {
        let mut rng = StdRng::seed_from_u64(5);
        let (mut there, mut back) = (LinkTraffic::new(PROBED), LinkTraffic::new(PROBED));
        let real = Link { bandwidth: 2e8, setup: 100e-6 };
        send(&mut there, real, 3.0, 300, &mut rng);
        send(&mut back, real, -3.0, 300, &mut rng);
        let offset = there.offset(&back).unwrap();
        assert!((offset - 3.0).abs() < 20e-6, "{offset}");
        let setup = there.estimate(Some(offset)).setup;
        assert!((setup.value / real.setup - 1.0).abs() < 0.3, "{setup}");
        assert_eq!((setup.source, setup.settled), (Source::Envelope, true));
    }

    #[test]
    fn estimate_follows_a_slower_link() {
        let mut rng = StdRng::seed_from_u64(6);
        let mut traffic = LinkTraffic::new(PROBED);
        send(&mut traffic, PROBED, 0.0, 1000, &mut rng);
        let slow = Link { bandwidth: 1e7, ..PROBED };
        send(&mut traffic, slow, 0.0, 400, &mut rng);
        let found = traffic.estimate(None).bandwidth;
        assert!((found.value / slow.bandwidth - 1.0).abs() < 0.05, "{found}");
    }

    proptest! {
        #[test]
        fn link_is_found_despite_waiting_and_clock_offsets(
            seed: u64,
            bandwidth in 1e7..2e9_f64,
            setup in 1e-6..1e-3_f64,
            offset in -1e3..1e3_f64,
        ) {
            let mut traffic = LinkTraffic::new(PROBED);
            let real = Link { bandwidth, setup };
            send(&mut traffic, real, offset, 600, &mut StdRng::seed_from_u64(seed));
            let estimate = traffic.estimate(Some(offset));
            prop_assert_eq!(estimate.bandwidth.source, Source::Envelope);
            // The smallest delays still contain some microseconds of waiting time, which matter only if a megabyte
            // takes hardly longer.
            let slack = 40e-6;
            let time = |link: Link| link.time(1e6);
            let (found, wanted) = (time(estimate.link()), time(real));
            prop_assert!((found - wanted).abs() < 2.0 * slack + 0.05 * wanted, "{} for {}", found, wanted);
        }
    }
}
