//! Down-sampled time line of the ranks: the time of each rank is divided into bins of equal length, each with the seconds of each kind of activity.

use crate::account::{KINDS, Shares};
use crate::run::{Run, call_text};

/// Maximum number of bins of all ranks and runs of a page. A bin takes six bytes, which are eight characters of the page.
const MAX_PAGE_BINS: usize = 160_000;
/// Maximum number of bins (intervals of the time line) of a rank. It exceeds the pixels of a screen, so that zooming in
/// shows more detail.
const MAX_RANK_BINS: usize = 4000;
/// Minimum number of bins of a rank: the number of pixels of a narrow screen.
const MIN_RANK_BINS: usize = 300;
/// Maximum number of calls of user code whose descriptions a page contains, for all ranks and runs. The longest calls are described.
const MAX_NAMED_CALLS: usize = 20_000;

/// Seconds that each rank spent on each kind of activity, in bins of equal length.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bins {
    /// Number of bins (intervals of equal length) into which the time of each rank is divided.
    pub count: usize,
    /// Length of a bin in seconds.
    pub width: f64,
    /// Seconds of each kind of activity in each bin, by rank and bin.
    pub cells: Vec<Vec<Shares>>,
    /// Longest calls of each rank: the bin at whose time the call was recorded, its description, and its time in seconds.
    pub named: Vec<Vec<(usize, String, f64)>>,
    /// Number of calls that the log describes as the longest of an interval, and the number of them in `named`.
    pub named_of: (usize, usize),
}

impl Bins {
    /// Divides the time of a run, one of `runs` runs on a page, into bins. If the run has too many ranks for the page,
    /// only the first ones get bins.
    pub(crate) fn of(run: &Run, runs: usize) -> Self {
        let room = MAX_PAGE_BINS / runs.max(1);
        let ranks = run.ranks.len().min(room / MIN_RANK_BINS);
        let parts = run.ranks.iter().map(|rank| rank.parts.len()).max().unwrap_or(0);
        // An activity record of the log describes a part of a rank's time. Two bins for each record suffice to show all of them.
        let count =
            (room / ranks.max(1)).clamp(MIN_RANK_BINS, MAX_RANK_BINS).min((2 * parts).max(MIN_RANK_BINS));
        let width = if run.seconds > 0.0 { run.seconds / count as f64 } else { 1.0 };
        let cells = (0..ranks).map(|rank| cells(run, rank, count, width)).collect();
        let mut bins = Bins { count, width, cells, named: Vec::new(), named_of: (0, 0) };
        bins.name(run, ranks, MAX_NAMED_CALLS / runs.max(1));
        bins
    }

    /// Stores descriptions of the longest calls of user code, at most `most` of them.
    fn name(&mut self, run: &Run, ranks: usize, most: usize) {
        let mut all = Vec::new();
        for (rank, its) in run.ranks[..ranks].iter().enumerate() {
            for part in &its.parts {
                if let Some(longest) = &part.activity.longest {
                    all.push((rank, part.to, longest));
                }
            }
        }
        let count = all.len();
        all.sort_by(|a, b| b.2.seconds.total_cmp(&a.2.seconds));
        all.truncate(most);
        self.named_of = (count, all.len());
        self.named = vec![Vec::new(); ranks];
        for (rank, to, longest) in all {
            let bin = ((to / self.width).ceil() as usize).clamp(1, self.count) - 1;
            self.named[rank].push((bin, call_text(longest, &run.kinds), longest.seconds));
        }
        self.named.iter_mut().for_each(|calls| calls.sort_by_key(|call| call.0));
    }

    /// Returns the bins of all ranks, one rank after another, in base64: one byte per kind of [`KINDS`], in units of 1/255 of the bin's length. The
    /// last kind is omitted, because it is the rest of the bin.
    pub(crate) fn encoded(&self) -> String {
        let mut bytes = Vec::with_capacity((KINDS.len() - 1) * self.cells.len() * self.count);
        for cell in self.cells.iter().flatten() {
            let part = |seconds: f64| (255.0 * seconds / self.width).round().clamp(0.0, 255.0) as u8;
            bytes.extend(cell.named()[..KINDS.len() - 1].iter().map(|&share| part(share)));
        }
        base64(&bytes)
    }

    /// Returns for each bin (interval of the run) the mean number of ranks that compute.
    pub(crate) fn busy(&self) -> Vec<f64> {
        let at = |bin: usize| self.cells.iter().map(|rank| rank[bin].work).sum::<f64>() / self.width;
        (0..self.count).map(at).collect()
    }
}

fn cells(run: &Run, rank: usize, count: usize, width: f64) -> Vec<Shares> {
    let mut cells = vec![Shares::default(); count];
    for part in &run.ranks[rank].parts {
        let activity = &part.activity;
        let (from, to) = (part.from().max(0.0), part.to);
        if activity.seconds <= 0.0 || to <= from {
            continue;
        }
        let first = ((from / width) as usize).min(count - 1);
        let last = ((to / width) as usize).min(count - 1);
        for (bin, cell) in cells.iter_mut().enumerate().take(last + 1).skip(first) {
            let (begin, end) = (bin as f64 * width, (bin + 1) as f64 * width);
            cell.add(activity, (to.min(end) - from.max(begin)).max(0.0) / activity.seconds);
        }
    }
    cells
}

/// Encodes bytes in base64 (RFC 4648).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit <= three.len() { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
    text
}

/// Returns the cumulative number of completed items of a kind at `count` + 1 equidistant times from the start to the end of the run.
pub(crate) fn done_by(run: &Run, kind: usize, count: usize) -> Vec<f64> {
    let mut steps = vec![0.0; count + 1];
    for part in run.ranks.iter().flat_map(|rank| &rank.parts) {
        let done = part.activity.done.get(kind).copied().unwrap_or(0) as f64;
        if done > 0.0 && run.seconds > 0.0 {
            let at = (part.to / run.seconds * count as f64).ceil().clamp(0.0, count as f64);
            steps[at as usize] += done;
        }
    }
    let mut sum = 0.0;
    steps
        .into_iter()
        .map(|step| {
            sum += step;
            sum
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::situation::Situation;

    #[test]
    fn base64_matches_the_rfc_examples() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, encoded) in pairs {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn bins_preserve_total_times() {
        let run = Situation::new(10.0).rank(6.0, 1.0).busy(2.0, 0.0, 5.0).run();
        let bins = Bins::of(&run, 1);
        for (rank, work) in [(0, 6.0), (1, 2.0)] {
            let sum: f64 = bins.cells[rank].iter().map(|cell| cell.work).sum();
            assert!((sum - work).abs() < 1e-6, "{sum}");
        }
        let messages: f64 = bins.cells[1].iter().map(|cell| cell.messages).sum();
        assert!((messages - 3.0).abs() < 1e-6, "{messages}");
        assert!((bins.busy().iter().sum::<f64>() * bins.width - 8.0).abs() < 1e-6);
    }

    #[test]
    fn size_of_bins_is_bounded_for_a_million_parts() {
        let mut run = Situation::new(1000.0).run();
        for _ in 0..100 {
            run = {
                let more = Situation::new(1000.0).rank(500.0, 0.0).run();
                run.ranks.extend(more.ranks);
                run
            };
        }
        for rank in &mut run.ranks {
            let one = rank.parts[0].activity.clone();
            let part = |n: u32| {
                let activity = armature::observe::activity::Activity { seconds: 0.1, ..one.clone() };
                crate::run::Part { to: 0.1 * f64::from(n), activity }
            };
            rank.parts = (1..=10_000).map(part).collect();
        }
        let bins = Bins::of(&run, 1);
        assert!(bins.encoded().len() < 2_500_000, "{}", bins.encoded().len());
    }

    #[test]
    fn completed_items_accumulate_over_time() {
        let run = Situation::new(10.0).rank(6.0, 1.0).rank(2.0, 0.0).run();
        let done = done_by(&run, 0, 50);
        assert_eq!((done.len(), done[0], done[50]), (51, 0.0, 200.0));
        assert!(done.windows(2).all(|pair| pair[0] <= pair[1]));
    }
}
