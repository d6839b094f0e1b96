//! Set-up time and bandwidth of a connection, from its traffic.

use serde::{Deserialize, Serialize};

use super::envelope::{Envelope, Passage};
use super::value::{Estimate, Source};
use crate::platform::Link;
use crate::range;

/// Passages of a class from which on it says anything.
pub(super) const ENOUGH: u64 = 8;
/// Between these the prior sets the border between small and large messages (bytes): with less, headers would count as large,
/// with more, nothing ever would. Where it gives none, it is in the middle.
const BORDERS: [f64; 2] = [1_024.0, 1_048_576.0];

/// One direction of a connection as seen by the messages that pass over it.
///
/// A message of d bytes takes c + d/B and whatever it waits for: a busy receiver, other traffic. Waiting only adds,
/// so the least delays seen are the link's own. They are kept apart for small and large messages (half and twice the
/// size at which set-up and transfer take equally long); the slope between the two is 1/B, the rest is c. What is
/// long ago fades.
///
/// The two ends' clocks need not agree. Their offset is in every delay alike, so it drops out of the bandwidth; the
/// set-up time needs it, and [`offset`](LinkTraffic::offset) finds it from both directions. As long as little was
/// seen, and where the traffic says nothing, the estimate is the value that was known before.
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
    /// Most bytes of a small message, and fewest of a large one.
    pub(super) border: (f64, f64),
    /// Bytes/s by which passages of unequal size are compared.
    pub(super) bandwidth: f64,
    /// What it has carried at least: bytes/s, and seconds for a message.
    pub(super) carried: Option<(f64, f64)>,
}

/// What is known of a link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkEstimate {
    /// Bytes per second.
    pub bandwidth: Estimate,
    /// Seconds before the first byte arrives.
    pub setup: Estimate,
}

impl LinkEstimate {
    /// The values alone.
    pub fn link(&self) -> Link {
        Link { bandwidth: self.bandwidth.value, setup: self.setup.value }
    }
}

impl LinkTraffic {
    /// A link of which a probe found `prior`. One with numbers that no [`Platform`](crate::Platform) takes says nothing, and
    /// counts as [`Link::FREE`].
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

    /// The same, where `prior` was declared and not probed.
    pub fn declared(prior: Link) -> Self {
        LinkTraffic { source: Source::Declared, ..LinkTraffic::new(prior) }
    }

    /// A message of `bytes` arrived `delay` seconds after it was sent, by the clocks of the two ends: negative, if
    /// the sender's is ahead. What is no number, or above 1e60, is ignored.
    pub fn observe(&mut self, bytes: f64, delay: f64) {
        let Some(bytes) = range::amount(bytes).filter(|_| range::amount(delay.abs()).is_some()) else {
            return;
        };
        let passage = Passage { bytes, delay };
        if bytes <= self.border.0 {
            self.small.add(passage, self.bandwidth);
        } else if bytes >= self.border.1 {
            self.large.add(passage, self.bandwidth);
            // Passages to come are compared by what is known by now.
            if let Some(bandwidth) = self.slope() {
                self.bandwidth = bandwidth;
            }
        }
    }

    /// `messages` messages of together `bytes` arrived within `seconds`, one behind the other: the link carries no less than
    /// that, however long they waited for each other. What is no number is ignored.
    pub fn carried(&mut self, bytes: f64, messages: u64, seconds: f64) {
        let (bandwidth, interval) = (bytes / seconds, seconds / messages as f64);
        if let (true, Some(interval)) = (range::is_positive(bandwidth), range::amount(interval)) {
            self.carried = Some((bandwidth, interval));
        }
    }

    /// What is known, in numbers that a platform takes. `offset` is the receiver's clock minus the sender's, if that is known (see
    /// [`offset`](LinkTraffic::offset)); without it the set-up time is the one known before.
    pub fn estimate(&self, offset: Option<f64>) -> LinkEstimate {
        let bandwidth = self.slope().map_or(self.known(self.prior.bandwidth), |value| self.found(value));
        let rest = offset.zip(self.least_rest(bandwidth.value)).map(|(offset, rest)| rest - offset);
        let setup = match rest.and_then(not_negative) {
            Some(setup) => self.found(setup),
            None => self.known(self.prior.setup),
        };
        LinkEstimate { bandwidth, setup }
    }

    /// Messages that were small or large enough to say something.
    pub fn count(&self) -> u64 {
        self.small.count() + self.large.count()
    }

    /// A value that was known before there was traffic.
    pub(super) fn known(&self, value: f64) -> Estimate {
        Estimate { source: self.source, ..Estimate::declared(value) }
    }

    /// A value from the traffic.
    pub(super) fn found(&self, value: f64) -> Estimate {
        Estimate { value, source: Source::Envelope, settled: true, count: self.count() }
    }

    /// The receiver's clock minus the sender's, from the traffic both ways; `back` is the other direction. It takes
    /// the two set-up times for equal, so the mean of both is right and their difference is lost.
    pub fn offset(&self, back: &LinkTraffic) -> Option<f64> {
        let rest =
            |traffic: &LinkTraffic| traffic.least_rest(traffic.slope().unwrap_or(traffic.prior.bandwidth));
        Some(0.5 * (rest(self)? - rest(back)?))
    }

    /// Bytes/s from the least delays of small and large messages, if there are enough of both and the large ones
    /// take longer.
    pub(super) fn slope(&self) -> Option<f64> {
        if self.small.count() < ENOUGH || self.large.count() < ENOUGH {
            return None;
        }
        let (small, large) = (self.small.least(self.bandwidth)?, self.large.least(self.bandwidth)?);
        let longer = large.delay - small.delay;
        let bandwidth = (large.bytes - small.bytes) / longer;
        range::is_positive(bandwidth).then_some(bandwidth)
    }

    /// The least delay of small messages without their bytes' part: set-up time plus offset.
    pub(super) fn least_rest(&self, bandwidth: f64) -> Option<f64> {
        if self.small.count() < ENOUGH {
            return None;
        }
        let small = self.small.least(bandwidth)?;
        Some(small.delay - small.bytes / bandwidth)
    }
}

/// A set-up time by an offset of clocks, which is known with an error of its own: it is not negative. None if it is no number.
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

    /// Messages of both classes, small ones more often, waiting for 200 µs in the mean.
    fn send(traffic: &mut LinkTraffic, real: Link, offset: f64, messages: u32, rng: &mut StdRng) {
        let waiting = Exp::new(1.0 / 200e-6).unwrap();
        for i in 0..messages {
            let bytes: f64 = if i % 3 == 0 { rng.random_range(5e5..2e6) } else { rng.random_range(0.0..2e4) };
            traffic.observe(bytes.round(), offset + real.time(bytes.round()) + waiting.sample(rng));
        }
    }

    #[test]
    fn until_enough_was_seen_it_is_the_probe() {
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
    fn large_messages_that_are_no_slower_say_nothing() {
        let mut traffic = LinkTraffic::new(PROBED);
        for _ in 0..100 {
            traffic.observe(10.0, 1e-3);
            traffic.observe(1e7, 1e-3);
        }
        assert_eq!(traffic.estimate(None).bandwidth.source, Source::Probe);
    }

    #[test]
    fn both_directions_give_the_offset_and_the_mean_set_up_time() {
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
    fn a_link_that_becomes_slower_is_followed() {
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
        fn the_link_is_found_under_waiting_and_whatever_the_clocks_say(
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
            // What is left of the waiting is some microseconds, small beside what a megabyte takes unless the link
            // is fast.
            let slack = 40e-6;
            let time = |link: Link| link.time(1e6);
            let (found, wanted) = (time(estimate.link()), time(real));
            prop_assert!((found - wanted).abs() < 2.0 * slack + 0.05 * wanted, "{} for {}", found, wanted);
        }
    }
}
