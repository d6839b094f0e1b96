//! Links as their traffic shows them: every rank watches what comes in, rank 0 puts it together.
//!
//! A batch carries its sender's clock reading. The receiver takes the time until it has the batch, if it was looking:
//! a rank that computed meanwhile in the same thread would see its own lateness. (Nor does a sender say when it sent
//! what it will not look after, because it computes in the same thread: MPI may carry that on much later.) What is
//! still in the delays beside the link, and how much of it is believed, is the planner's
//! [`LinkTraffic::cautious`].

use std::collections::BTreeMap;
use std::time::Duration;

use armature_planner::estimate::{LinkEstimate, LinkTraffic, Source};
use armature_planner::{Link, Platform};

use crate::balance::probe;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::Event;

/// Messages over which the throughput of a link is taken, and after which a link is reported again: with fewer, the delays of
/// single messages would show.
const SPAN: u64 = 64;
/// Messages before the first report of a link; after that it is reported whenever they have doubled, until [`SPAN`].
const LEAST: u64 = 8;
/// A link that was idle for so long counts as it was probed again: nobody would find out that whatever made it slow is over.
const STALE_AFTER: Duration = Duration::from_secs(60);

/// The links into one rank.
#[derive(Debug)]
pub(crate) struct LinkMonitor {
    /// By sender.
    traffic: Vec<LinkTraffic>,
    /// By sender: what has come since a while ago.
    spans: Vec<Span>,
    /// By sender: messages when it was reported last.
    reported: Vec<u64>,
}

/// Messages that came one behind the other.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// When the message before them was there.
    since: Option<Duration>,
    bytes: u64,
    messages: u64,
}

/// A batch that has come in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) from: usize,
    pub(crate) bytes: usize,
    /// When it was sent by its sender's clock, if that is known.
    pub(crate) sent: Option<Duration>,
    /// When it was found here.
    pub(crate) now: Duration,
    /// Whether it may have been here for a while before it was found.
    pub(crate) late: bool,
}

impl LinkMonitor {
    /// `known` are the links from every rank, as they were probed.
    pub(crate) fn new(known: &[Link]) -> Self {
        LinkMonitor {
            traffic: known.iter().map(|&link| LinkTraffic::new(link)).collect(),
            spans: vec![Span::default(); known.len()],
            reported: vec![0; known.len()],
        }
    }

    /// A batch has come in.
    pub(crate) fn arrived(&mut self, arrival: Arrival) {
        let Arrival { from, bytes, sent, now, late } = arrival;
        let (Some(traffic), Some(span)) = (self.traffic.get_mut(from), self.spans.get_mut(from)) else {
            return;
        };
        span.bytes += bytes as u64;
        span.messages += 1;
        if late {
            return;
        }
        if let Some(sent) = sent {
            // The difference of two large floating-point numbers would be coarse, and that of two clocks can be negative.
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

    /// Links with something new to report, with their senders.
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

/// What rank 0 knows of all links.
#[derive(Debug)]
pub(crate) struct LinkTable {
    ranks: usize,
    /// What every rank's clock is ahead of every other's, if that is known: nothing, where time is simulated.
    offset: Option<f64>,
    /// By sender and receiver: when it was reported last, and its traffic.
    links: BTreeMap<(usize, usize), (Duration, LinkTraffic)>,
}

impl LinkTable {
    /// The links between `ranks` ranks; `same_clock` if they all have the same.
    pub(crate) fn new(ranks: usize, same_clock: bool) -> Self {
        LinkTable { ranks, offset: same_clock.then_some(0.0), links: BTreeMap::new() }
    }

    /// Rank `to` has reported, `now`, links into it.
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

    /// Links of whose traffic something is believed `now`.
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

    /// The platform that was probed, with the links that are known better `now`. Two ranks that have not talked to
    /// each other are as far apart as the farther of them is from rank 0, as it was when they were probed.
    pub(crate) fn correct(&self, platform: &mut Platform, now: Duration) -> Result<()> {
        let estimates = self.estimates(now);
        let set = |platform: &mut Platform, from, to, link| {
            platform.set_link(from, to, link).map_err(|e| {
                let text = format!("the traffic from rank {from} to rank {to} makes no sense: {e}");
                Error::new(ErrorKind::Config, text)
            })
        };
        for &(from, to, estimate) in &estimates {
            set(platform, from, to, estimate.link())?;
        }
        let with_root: Vec<bool> = (0..self.ranks)
            .map(|rank| estimates.iter().any(|&(from, to, _)| from.min(to) == 0 && from.max(to) == rank))
            .collect();
        for from in 1..self.ranks {
            for to in (1..self.ranks).filter(|&to| to != from) {
                if (with_root[from] || with_root[to]) && !self.links.contains_key(&(from, to)) {
                    let link = probe::farther(platform.link(from, 0), platform.link(0, to));
                    set(platform, from, to, link)?;
                }
            }
        }
        Ok(())
    }
}

/// What is known of a link, for the log of events.
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

    /// What `to` reports after `messages` of 100 kB over `link` from `from`; its clock is `ahead` seconds ahead.
    fn report(table: &mut LinkTable, (from, to): (usize, usize), link: Link, bytes: usize, ahead: f64) {
        let mut metrics = LinkMonitor::new(&[PROBED; 3]);
        for n in 0..200u64 {
            let sent = Duration::from_secs(100 + n);
            let now = sent.as_secs_f64() + ahead + link.time(bytes as f64);
            let now = Duration::from_secs_f64(now);
            metrics.arrived(Arrival { from, bytes, sent: Some(sent), now, late: false });
            // What was found late says nothing, nor what was sent by somebody who looked away.
            let long = now + Duration::from_secs(1);
            metrics.arrived(Arrival { from, bytes: 1, sent: Some(sent), now: long, late: true });
            metrics.arrived(Arrival { from, bytes: 1, sent: None, now: long, late: false });
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
    fn a_link_is_told_of_when_there_is_news() {
        let mut metrics = LinkMonitor::new(&[PROBED; 2]);
        let mut reported = Vec::new();
        for n in 1..=300 {
            let sent = Some(Duration::from_secs(9));
            let arrival =
                Arrival { from: 1, bytes: 1_000_000, sent, now: Duration::from_secs(8), late: false };
            metrics.arrived(arrival);
            metrics.arrived(Arrival { from: 7, ..arrival }); // There is no rank 7.
            if metrics.updates().iter().any(|(from, traffic)| *from == 1 && traffic.count() == n) {
                reported.push(n);
            }
        }
        assert_eq!(reported, [8, 16, 32, 64, 128, 192, 256]);
    }

    #[test]
    fn traffic_both_ways_corrects_the_probe_whatever_the_clocks_say() {
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
    fn one_way_is_enough_where_all_ranks_have_one_clock_and_others_follow_rank_0() {
        let mut table = LinkTable::new(3, true);
        report(&mut table, (0, 2), SLOW, 100_000, 0.0);
        let platform = corrected(&table, 1);
        for (from, to) in [(0, 2), (1, 2)] {
            let slow = platform.link(from, to);
            assert!((slow.bandwidth / SLOW.bandwidth - 1.0).abs() < 0.01, "{from}→{to}: {slow:?}");
        }
        // Nothing was seen of the way back.
        assert_eq!((platform.link(2, 0), platform.link(0, 1)), (PROBED, PROBED));
        report(&mut table, (1, 2), PROBED, 100_000, 0.0);
        assert!(corrected(&table, 1).link(1, 2).bandwidth > 0.9 * PROBED.bandwidth);
    }

    #[test]
    fn a_rank_that_does_not_exist_is_an_error() {
        let mut table = LinkTable::new(2, false);
        let error = table.reported(1, vec![(2, LinkTraffic::new(PROBED))], Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Wire);
    }
}
