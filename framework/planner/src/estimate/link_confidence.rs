//! Estimates of bandwidth and set-up time that are safe to use for planning although delays of messages include the time until the receiver polls.

use super::envelope::{Envelope, Passage};
use super::link::{ENOUGH, LinkEstimate, LinkTraffic, not_negative};
use crate::range;

/// Maximum relative difference between the smallest message delays of two generations (64 messages each). With a
/// smaller difference, the delay counts as that of the link itself and not as waiting time.
const MAX_SPREAD: f64 = 1.0 / 8.0;

/// Measured transfer: its size in bytes, its time in seconds, and the difference in seconds between the smallest delays of the last two generations
/// of 64 messages, if it is known.
struct Reading {
    bytes: f64,
    seconds: f64,
    spread: Option<f64>,
}

impl LinkTraffic {
    /// Returns an estimate in which a link does not count as slow merely because its receiver was busy.
    ///
    /// `offset` is the receiver's clock minus the sender's, if it is known for certain. `back` is the traffic of the other direction, which
    /// is used if `offset` is `None`: the clock offset cancels in the sum of both delays. The rules are:
    ///
    /// - **Bandwidth** is the slope between small and large messages. If only large messages arrived, the bandwidth follows from their delay minus
    ///   the prior set-up time. The delay is that of one direction if `offset` is known, else that of both directions together, which are then
    ///   assumed to be equally fast. If the remaining time does not exceed the set-up time, the prior bandwidth is returned.
    /// - **Set-up time** is that of the small messages, with `offset` or as the mean of both directions.
    /// - Waiting only adds to a delay. A link that is faster than the prior is therefore accepted at once. A slower link is accepted only if the
    ///   delay is not a wait for a receiver that polls late: the smallest delays of two generations of 64 messages must agree, in both directions
    ///   if both are used. Otherwise the prior value is returned.
    /// - Messages that queue for a saturated link are all late. The estimate is therefore never slower than the capacity recorded by
    ///   [`carried`](LinkTraffic::carried).
    ///
    /// ```
    /// use armature_planner::Link;
    /// use armature_planner::estimate::{LinkTraffic, Source};
    ///
    /// let probed = Link { bandwidth: 1e9, setup: 20e-6 };
    /// let (mut there, mut back) = (LinkTraffic::new(probed), LinkTraffic::new(probed));
    /// for _ in 0..200 {
    ///     there.observe(1e6, 7.0 + 20e-6 + 1e6 / 2e8); // the other clock is 7 s ahead
    ///     back.observe(100.0, -7.0 + 20e-6 + 100.0 / 2e8);
    /// }
    /// assert_eq!(there.cautious(None, None).bandwidth.source, Source::Probe);
    /// let found = there.cautious(None, Some(&back)).bandwidth;
    /// assert!((found.value / 2e8 - 1.0).abs() < 1e-3, "{found}");
    /// ```
    pub fn cautious(&self, offset: Option<f64>, back: Option<&LinkTraffic>) -> LinkEstimate {
        let transfer = self.transfer(offset, back).map(|r| (r.bytes / r.seconds, r.has_stable_delay()));
        let bandwidth = transfer
            .filter(|&(value, steady)| range::is_positive(value) && (steady || value >= self.prior.bandwidth))
            .map_or(self.known(self.prior.bandwidth), |(value, _)| {
                let least = self.carried.map_or(0.0, |(bandwidth, _)| bandwidth.min(self.prior.bandwidth));
                self.found(value.max(least))
            });
        let setup = self
            .start(offset, back, bandwidth.value)
            .filter(|r| r.has_stable_delay() || r.seconds <= self.prior.setup)
            .map_or(self.known(self.prior.setup), |r| {
                let most = self.carried.map_or(f64::INFINITY, |(_, interval)| interval.max(self.prior.setup));
                self.found(r.seconds.min(most))
            });
        LinkEstimate { bandwidth, setup }
    }

    /// Returns a number of bytes and the seconds of their transfer without set-up time, whose quotient is the
    /// bandwidth. Returns `None` if the traffic determines no bandwidth.
    fn transfer(&self, offset: Option<f64>, back: Option<&LinkTraffic>) -> Option<Reading> {
        if let (Some(small), Some(large)) = (self.reading(&self.small), self.reading(&self.large)) {
            let (bytes, seconds) = (large.bytes - small.bytes, large.seconds - small.seconds);
            let spread = small.spread.zip(large.spread).map(|(a, b)| a + b);
            return (seconds > 0.0).then_some(Reading { bytes, seconds, spread });
        }
        let there = self.main()?;
        let (both, setup) = match (offset, back) {
            (Some(offset), _) => (Reading { seconds: there.seconds - offset, ..there }, self.prior.setup),
            (None, Some(back)) => (there.and(&back.main()?), self.prior.setup + back.prior.setup),
            (None, None) => return None,
        };
        let seconds = both.seconds - setup;
        (both.bytes >= self.border.1 && seconds > setup).then_some(Reading { seconds, ..both })
    }

    /// Returns the time of a message of 0 bytes for the given bandwidth, which is the set-up time of the link.
    fn start(&self, offset: Option<f64>, back: Option<&LinkTraffic>, bandwidth: f64) -> Option<Reading> {
        let empty = |traffic: &LinkTraffic| {
            let small = traffic.reading(&traffic.small)?;
            Some(Reading { bytes: 0.0, seconds: small.seconds - small.bytes / bandwidth, ..small })
        };
        let there = empty(self)?;
        let seconds = match (offset, back) {
            (Some(offset), _) => Reading { seconds: there.seconds - offset, ..there },
            (None, Some(back)) => {
                let both = there.and(&empty(back)?);
                Reading { seconds: 0.5 * both.seconds, spread: both.spread.map(|s| 0.5 * s), ..both }
            }
            (None, None) => return None,
        };
        Some(Reading { seconds: not_negative(seconds.seconds)?, ..seconds })
    }

    fn main(&self) -> Option<Reading> {
        self.reading(&self.large).or_else(|| self.reading(&self.small))
    }

    fn reading(&self, class: &Envelope) -> Option<Reading> {
        if class.count() < ENOUGH {
            return None;
        }
        let Passage { bytes, delay } = class.least(self.bandwidth)?;
        Some(Reading { bytes, seconds: delay, spread: class.spread() })
    }
}

impl Reading {
    fn and(&self, other: &Reading) -> Reading {
        Reading {
            bytes: self.bytes + other.bytes,
            seconds: self.seconds + other.seconds,
            spread: self.spread.zip(other.spread).map(|(a, b)| a + b),
        }
    }

    /// Returns true if the smallest delay hardly differs between two generations of messages, so that it is not
    /// random waiting time.
    fn has_stable_delay(&self) -> bool {
        self.spread.is_some_and(|spread| spread <= MAX_SPREAD * self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Source;
    use crate::platform::Link;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    const PROBED: Link = Link { bandwidth: 1e9, setup: 20e-6 };
    const SLOW: Link = Link { bandwidth: 1e7, setup: 2e-3 };

    fn traffic(link: Link, offset: f64, sizes: &[f64], rounds: u32, wait: f64, seed: u64) -> LinkTraffic {
        let mut traffic = LinkTraffic::new(PROBED);
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..rounds {
            for &bytes in sizes {
                let waited = if wait > 0.0 { rng.random_range(0.0..wait) } else { 0.0 };
                traffic.observe(bytes, offset + link.time(bytes) + waited);
            }
        }
        traffic
    }

    #[test]
    fn late_receiver_does_not_slow_the_link_estimate() {
        let both = [100.0, 1e6];
        let wrong = |seed: u64| {
            let there = traffic(PROBED, 5.0, &both, 200, 20e-3, seed);
            let back = traffic(PROBED, -5.0, &both, 200, 20e-3, seed + 1000);
            let link = there.cautious(None, Some(&back)).link();
            link.setup > 2.0 * PROBED.setup || link.bandwidth < 0.5 * PROBED.bandwidth
        };
        let wrong = (0..400).filter(|&seed| wrong(seed)).count();
        // Up to 20 of the 400 estimates may be wrong, because the smallest waiting times of two generations of
        // messages may agree by chance.
        assert!(wrong <= 20, "{wrong} of 400");
        // `estimate`, unlike `cautious`, does not compare generations of messages, so it takes waiting time for
        // set-up time.
        let there = traffic(PROBED, 0.0, &both, 200, 20e-3, 3);
        assert!(there.estimate(Some(0.0)).setup.value > 2.0 * PROBED.setup);
    }

    #[test]
    fn slower_link_is_accepted_after_two_agreeing_generations() {
        let both = [100.0, 1e6];
        let found = |rounds| {
            let there = traffic(SLOW, 5.0, &both, rounds, 0.0, 1);
            let back = traffic(SLOW, -5.0, &both, rounds, 0.0, 2);
            there.cautious(None, Some(&back))
        };
        assert_eq!(found(128).link(), PROBED);
        let found = found(129);
        assert!((found.bandwidth.value / SLOW.bandwidth - 1.0).abs() < 1e-3, "{found:?}");
        assert!((found.setup.value / SLOW.setup - 1.0).abs() < 1e-3, "{found:?}");
        assert!(found.setup.settled && found.setup.source == Source::Envelope);
    }

    #[test]
    fn faster_link_is_accepted_immediately() {
        let fast = Link { bandwidth: 4e9, setup: 5e-6 };
        let there = traffic(fast, 5.0, &[100.0, 1e6], 10, 0.0, 1);
        let back = traffic(fast, -5.0, &[100.0, 1e6], 10, 0.0, 1);
        let found = there.cautious(None, Some(&back)).link();
        assert!((found.bandwidth / 4e9 - 1.0).abs() < 1e-3 && found.setup < 6e-6, "{found:?}");
    }

    #[test]
    fn large_messages_give_bandwidth_with_known_clock_offset() {
        let slow = Link { bandwidth: 1e7, ..PROBED };
        let there = |offset| traffic(slow, offset, &[1e6], 200, 0.0, 1);
        let back = traffic(slow, -5.0, &[100.0], 200, 0.0, 1);
        let close = |b: f64| (b / 1e7 - 1.0).abs() < 1e-3;
        assert_eq!(there(5.0).cautious(None, None).link(), PROBED);
        assert!(close(there(5.0).cautious(None, Some(&back)).bandwidth.value));
        assert!(close(there(0.0).cautious(Some(0.0), None).bandwidth.value));
        // Large messages arrived only in one direction, so both directions are assumed to be equally fast.
        assert!(close(back.cautious(None, Some(&there(5.0))).bandwidth.value));
    }

    #[test]
    fn queued_messages_do_not_slow_a_saturated_link() {
        let slow = Link { bandwidth: 1e7, ..PROBED };
        // Ten messages are always in transit on a saturated link, so each message takes ten times as long as alone.
        let mut there = traffic(Link { bandwidth: 1e6, ..slow }, 0.0, &[1e6], 200, 0.0, 1);
        there.carried(64e6, 64, 64.0 * slow.time(1e6));
        let found = there.cautious(Some(0.0), None).bandwidth.value;
        assert!((found / slow.bandwidth - 1.0).abs() < 1e-2, "{found}");
        there.carried(f64::NAN, 1, 1.0);
        there.carried(1.0, 0, 0.0);
        assert_eq!(there.cautious(Some(0.0), None).bandwidth.value, found);
        let mut small = traffic(SLOW, 0.0, &[0.0], 200, 0.0, 1);
        small.carried(6400.0, 64, 64.0 * 1e-4);
        assert!((small.cautious(Some(0.0), None).setup.value / 1e-4 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn small_messages_alone_give_no_bandwidth() {
        let there = traffic(SLOW, 0.0, &[100.0], 200, 0.0, 1);
        let found = there.cautious(Some(0.0), None);
        assert_eq!(found.bandwidth.source, Source::Probe);
        assert!((found.setup.value / SLOW.setup - 1.0).abs() < 1e-2, "{found:?}");
    }
}
