//! Estimates of the links between ranks from their traffic: every rank measures its incoming batches, and rank 0 combines the results.
//!
//! A batch carries a reading of its sender's clock. The receiver measures the delay of the batch, unless it has run user code on the communicating
//! thread since its last poll: the batch may then have arrived some time ago. For a similar reason, a sender that computes on the communicating
//! thread does not stamp its batches: MPI may transfer them much later. The delays also contain the offset of the clocks and waiting times; the
//! planner's [`LinkTraffic::cautious`] derives cautious estimates from them.

use std::collections::BTreeMap;
use std::time::Duration;

use armature_planner::estimate::{LinkEstimate, LinkTraffic, Source};
use armature_planner::{Link, Platform};

use crate::balance::probe;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::Event;

/// Number of messages over which the throughput of a link between two ranks is measured, and after which the link is reported to rank 0 again. With
/// fewer messages, delays of single messages would distort the throughput.
const SPAN: u64 = 64;
/// Number of messages over a link before its first report to rank 0. Until there are [`SPAN`] messages, the link is reported again whenever the
/// number has doubled.
const LEAST: u64 = 8;
/// Time after the last report of a link's traffic until the latency and bandwidth measured at the start are used again: without traffic, nothing
/// shows that a slow link has recovered.
const STALE_AFTER: Duration = Duration::from_secs(60);

/// Returns neighbouring equal links once, with their number. Ranks whose links were not measured have that of a neighbour, so that 1,000 ranks have about
/// 33 different links in a row.
pub(crate) fn equal_runs(links: &[Link]) -> Vec<(usize, Link)> {
    links.chunk_by(|a, b| a == b).map(|equal| (equal.len(), equal[0])).collect()
}

#[derive(Debug)]
pub(crate) struct LinkMonitor {
    traffic: Vec<LinkTraffic>,
    /// For each sender: messages over which the throughput is being measured.
    spans: Vec<Span>,
    /// For each sender: number of messages at the last report to rank 0.
    reported: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// Arrival time of the last message before the measured messages.
    since: Option<Duration>,
    bytes: u64,
    messages: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) from: usize,
    pub(crate) bytes: usize,
    /// Time at which the batch was sent, by the sender's clock; `None` if the batch carries no time.
    pub(crate) sent: Option<Duration>,
    pub(crate) now: Duration,
    /// True if the rank ran user code before the poll that received the batch, which may have arrived some time earlier.
    pub(crate) computed_since_poll: bool,
}

impl LinkMonitor {
    /// Creates a monitor of the links from all `ranks` ranks, as measured at the start, in the form of [`equal_runs`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Wire`] if `known` does not have one link for each rank. The sum is checked before memory is allocated, because `known` comes from
    /// a message of a few bytes that can name any number of links.
    pub(crate) fn new(known: &[(usize, Link)], ranks: usize) -> Result<Self> {
        let links = known.iter().fold(0_usize, |sum, &(senders, _)| sum.saturating_add(senders));
        if links != ranks {
            let text = format!("a mapping has the links from {links} ranks, but there are {ranks} ranks");
            return Err(Error::new(ErrorKind::Wire, text));
        }
        let traffic: Vec<_> = known
            .iter()
            .flat_map(|&(senders, link)| std::iter::repeat_n(LinkTraffic::new(link), senders))
            .collect();
        Ok(LinkMonitor { spans: vec![Span::default(); ranks], reported: vec![0; ranks], traffic })
    }

    pub(crate) fn arrived(&mut self, arrival: Arrival) {
        let Arrival { from, bytes, sent, now, computed_since_poll } = arrival;
        let (Some(traffic), Some(span)) = (self.traffic.get_mut(from), self.spans.get_mut(from)) else {
            return;
        };
        span.bytes += bytes as u64;
        span.messages += 1;
        if computed_since_poll {
            return;
        }
        if let Some(sent) = sent {
            // Durations are subtracted before the conversion to floating-point numbers, whose difference would be inexact. The delay may be negative,
            // because the clocks of two ranks differ.
            let delay = now.saturating_sub(sent).as_secs_f64() - sent.saturating_sub(now).as_secs_f64();
            traffic.observe(bytes as f64, delay);
        }
        match span.since {
            Some(_) if span.messages < SPAN => {}
            Some(since) => {
                let seconds = now.saturating_sub(since).as_secs_f64();
                traffic.carried(span.bytes as f64, span.messages, seconds);
                *span = Span { since: Some(now), ..Span::default() };
            }
            None => *span = Span { since: Some(now), ..Span::default() },
        }
    }

    /// Returns the links that must be reported to rank 0 now: sender and traffic.
    pub(crate) fn updates(&mut self) -> Vec<(usize, LinkTraffic)> {
        let mut updates = Vec::new();
        for (from, (traffic, reported)) in self.traffic.iter().zip(&mut self.reported).enumerate() {
            let count = traffic.count();
            if count >= LEAST && (count >= *reported + SPAN || count >= *reported * 2) {
                *reported = count;
                updates.push((from, traffic.clone()));
            }
        }
        updates
    }
}

/// Rank 0's table of the traffic over the links between ranks, as reported by the receivers.
#[derive(Debug)]
pub(crate) struct LinkTable {
    ranks: usize,
    /// Offset between the clocks of any two ranks, if it is known: zero in a simulation.
    offset: Option<f64>,
    /// For each sender and receiver: time of the last report about the link, and its traffic.
    links: BTreeMap<(usize, usize), (Duration, LinkTraffic)>,
}

impl LinkTable {
    /// Creates the table of link traffic for `ranks` ranks. `same_clock` is true if all ranks have the same clock.
    pub(crate) fn new(ranks: usize, same_clock: bool) -> Self {
        LinkTable { ranks, offset: same_clock.then_some(0.0), links: BTreeMap::new() }
    }

    pub(crate) fn reported(
        &mut self,
        to: usize,
        updates: Vec<(usize, LinkTraffic)>,
        now: Duration,
    ) -> Result<()> {
        for (from, traffic) in updates {
            if from >= self.ranks || to >= self.ranks {
                let text = format!("measured a link from rank {from}, but there are {} ranks", self.ranks);
                return Err(Error::new(ErrorKind::Wire, text).at_rank(to));
            }
            self.links.insert((from, to), (now, traffic));
        }
        Ok(())
    }

    pub(crate) fn estimates(&self, now: Duration) -> Vec<(usize, usize, LinkEstimate)> {
        let fresh = |link: (usize, usize)| {
            let (reported, traffic) = self.links.get(&link)?;
            (now.saturating_sub(*reported) <= STALE_AFTER).then_some(traffic)
        };
        let estimate = |&(from, to): &(usize, usize)| {
            let estimate = fresh((from, to))?.cautious(self.offset, fresh((to, from)));
            let seen = [estimate.bandwidth, estimate.setup].iter().any(|e| e.source == Source::Envelope);
            seen.then_some((from, to, estimate))
        };
        self.links.keys().filter_map(estimate).collect()
    }

    /// Replaces the initial measurements of links by the estimates from traffic, where there are any at time `now`. A link between two ranks other
    /// than 0 that exchanged no messages gets the worse of their links to rank 0, if traffic has changed one of these. The initial measurements
    /// follow the same rule.
    pub(crate) fn correct(&self, platform: &mut Platform, now: Duration) -> Result<()> {
        let estimates = self.estimates(now);
        let set = |platform: &mut Platform, from, to, link| {
            platform.set_link(from, to, link).map_err(|e| {
                let text = format!("the measured traffic from rank {from} to rank {to} is invalid: {e}");
                Error::new(ErrorKind::Config, text)
            })
        };
        for &(from, to, estimate) in &estimates {
            set(platform, from, to, estimate.link())?;
        }
        let mut with_root = vec![false; self.ranks];
        for &(from, to, _) in estimates.iter().filter(|&&(from, to, _)| from.min(to) == 0) {
            with_root[from.max(to)] = true;
        }
        // The table is in the order of the loops: a search for each of the links would take most of the time with thousands of ranks.
        let mut with_traffic = self.links.keys().copied().peekable();
        for from in 1..self.ranks {
            for to in (1..self.ranks).filter(|&to| to != from) {
                while with_traffic.next_if(|link| *link < (from, to)).is_some() {}
                if (with_root[from] || with_root[to]) && with_traffic.peek() != Some(&(from, to)) {
                    let link = probe::farther(platform.link(from, 0), platform.link(0, to));
                    set(platform, from, to, link)?;
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn event(from: usize, to: usize, estimate: &LinkEstimate) -> Event {
    let LinkEstimate { bandwidth, setup } = estimate;
    let by = match (bandwidth.source, setup.source) {
        (both, other) if both == other => format!("the {both}"),
        (Source::Envelope, other) => format!("the envelope, with the set-up time of the {other}"),
        (other, _) => format!("the envelope, with the bandwidth of the {other}"),
    };
    let settled = bandwidth.settled && setup.settled;
    Event::Link { from, to, bandwidth: bandwidth.value, setup: setup.value, by, settled }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    const PROBED: Link = Link { bandwidth: 1e9, setup: 20e-6 };
    const SLOW: Link = Link { bandwidth: 1e6, setup: 20e-6 };

    /// Reports that 200 messages of `bytes` bytes from `from` have arrived at `to` over `link`; the clock of `to` is `ahead` seconds ahead.
    fn report(table: &mut LinkTable, (from, to): (usize, usize), link: Link, bytes: usize, ahead: f64) {
        let mut metrics = LinkMonitor::new(&[(3, PROBED)], 3).unwrap();
        for n in 0..200u64 {
            let sent = Duration::from_secs(100 + n);
            let now = sent.as_secs_f64() + ahead + link.time(bytes as f64);
            let now = Duration::from_secs_f64(now);
            metrics.arrived(Arrival { from, bytes, sent: Some(sent), now, computed_since_poll: false });
            // The monitor must not use the delay of a message that was received late, or that carries no time of sending.
            let long = now + Duration::from_secs(1);
            metrics.arrived(Arrival {
                from,
                bytes: 1,
                sent: Some(sent),
                now: long,
                computed_since_poll: true,
            });
            metrics.arrived(Arrival { from, bytes: 1, sent: None, now: long, computed_since_poll: false });
        }
        let updates = wire::to_bytes(&metrics.updates()).unwrap();
        table.reported(to, wire::from_bytes(&updates).unwrap(), Duration::from_secs(1)).unwrap();
    }

    fn corrected(table: &LinkTable, now: u64) -> Platform {
        let mut platform = Platform::uniform(3, 1.0, PROBED).unwrap().with_ext_on(0).unwrap();
        table.correct(&mut platform, Duration::from_secs(now)).unwrap();
        platform
    }

    #[test]
    fn neighbouring_equal_links_are_one_run() {
        let known = equal_runs(&[PROBED, PROBED, SLOW, PROBED]);
        assert_eq!(known, [(2, PROBED), (1, SLOW), (1, PROBED)]);
        assert_eq!(LinkMonitor::new(&known, 4).unwrap().reported, [0; 4]);
        assert_eq!(equal_runs(&[PROBED; 1_000]), [(1_000, PROBED)]);
    }

    #[test]
    fn wrong_number_of_links_is_an_error() {
        for known in [vec![(3, PROBED)], vec![(5, SLOW)], vec![(usize::MAX, PROBED), (usize::MAX, SLOW)]] {
            let error = LinkMonitor::new(&known, 4).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Wire);
            assert!(error.message().contains("but there are 4 ranks"), "{}", error.message());
        }
    }

    #[test]
    fn links_are_reported_when_estimates_change() {
        let mut metrics = LinkMonitor::new(&[(1, PROBED), (1, PROBED)], 2).unwrap();
        let mut reported = Vec::new();
        for n in 1..=300 {
            let sent = Some(Duration::from_secs(9));
            let arrival = Arrival {
                from: 1,
                bytes: 1_000_000,
                sent,
                now: Duration::from_secs(8),
                computed_since_poll: false,
            };
            metrics.arrived(arrival);
            metrics.arrived(Arrival { from: 7, ..arrival }); // There is no rank 7.
            if metrics.updates().iter().any(|(from, traffic)| *from == 1 && traffic.count() == n) {
                reported.push(n);
            }
        }
        assert_eq!(reported, [8, 16, 32, 64, 128, 192, 256]);
    }

    #[test]
    fn bidirectional_traffic_corrects_the_probe_for_any_clocks() {
        let mut table = LinkTable::new(3, false);
        report(&mut table, (1, 2), SLOW, 100_000, 3.0);
        assert_eq!(corrected(&table, 1).link(1, 2), PROBED, "clocks may differ");
        report(&mut table, (2, 1), SLOW, 100, -3.0);
        let slow = corrected(&table, 1).link(1, 2);
        assert!((slow.bandwidth / SLOW.bandwidth - 1.0).abs() < 0.01, "{slow:?}");
        assert_eq!(corrected(&table, 1).link(0, 2), PROBED);
        assert_eq!(table.estimates(Duration::from_secs(1)).len(), 2);
        assert_eq!(corrected(&table, 100).link(1, 2), PROBED, "long ago");
    }

    #[test]
    fn one_direction_suffices_with_a_common_clock() {
        let mut table = LinkTable::new(3, true);
        report(&mut table, (0, 2), SLOW, 100_000, 0.0);
        let platform = corrected(&table, 1);
        for (from, to) in [(0, 2), (1, 2)] {
            let slow = platform.link(from, to);
            assert!((slow.bandwidth / SLOW.bandwidth - 1.0).abs() < 0.01, "{from}→{to}: {slow:?}");
        }
        // The links from rank 2 to rank 0 and from rank 0 to rank 1 keep the values measured at the start, because no message was sent over them.
        assert_eq!((platform.link(2, 0), platform.link(0, 1)), (PROBED, PROBED));
        report(&mut table, (1, 2), PROBED, 100_000, 0.0);
        assert!(corrected(&table, 1).link(1, 2).bandwidth > 0.9 * PROBED.bandwidth);
    }

    #[test]
    fn only_links_without_traffic_follow_those_to_the_root() {
        let mut table = LinkTable::new(3, false);
        report(&mut table, (0, 2), SLOW, 100_000, 3.0);
        report(&mut table, (2, 0), SLOW, 100_000, -3.0);
        // Traffic in one direction yields no estimate if clocks differ.
        report(&mut table, (1, 2), PROBED, 100_000, 3.0);
        let platform = corrected(&table, 1);
        assert_eq!(platform.link(1, 2), PROBED);
        let slow = platform.link(2, 1);
        assert!((slow.bandwidth / SLOW.bandwidth - 1.0).abs() < 0.01, "{slow:?}");
    }

    #[test]
    fn nonexistent_rank_is_an_error() {
        let mut table = LinkTable::new(2, false);
        let error = table.reported(1, vec![(2, LinkTraffic::new(PROBED))], Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Wire);
    }
}
