//! Down-sampled time line of the ranks: the time of each rank is divided into bins of equal length, each with the seconds of each kind of activity.

use crate::account::{KINDS, Shares};
use crate::run::{Run, call_text};

/// Maximum number of bins on a page, for the time lines of all ranks and runs. A bin takes six bytes, which become eight characters of the page.
pub(crate) const MAX_PAGE_BINS: usize = 160_000;
/// Maximum number of bins (intervals of the time line) of a row. It exceeds the pixels of a screen, so that zooming in
/// shows more detail.
const MAX_ROW_BINS: usize = 4000;
/// Minimum number of bins of a row: the number of pixels of a narrow screen.
pub(crate) const MIN_ROW_BINS: usize = 300;
/// Maximum number of calls of user code whose descriptions a page contains, for all ranks and runs. The longest calls are described.
const MAX_NAMED_CALLS: usize = 20_000;

/// Time line of one or several ranks: the seconds of each kind of activity, in bins of equal length.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bins {
    /// Length of a bin in seconds.
    pub width: f64,
    /// Seconds of each kind of activity in each bin: the mean of the ranks.
    pub cells: Vec<Shares>,
}

/// Call of user code that the log describes as the longest of an interval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NamedCall {
    /// Bin (interval of the time line) at whose time the call was recorded.
    pub bin: usize,
    /// Description of the call.
    pub name: String,
    pub seconds: f64,
}

/// Returns the number of bins for each of `rows` rows of a page with `runs` runs.
pub(crate) fn bin_count(run: &Run, rows: usize, runs: usize) -> usize {
    let parts = run.ranks.iter().map(|rank| rank.parts.len()).max().unwrap_or(0);
    let room = MAX_PAGE_BINS / runs.max(1) / rows.max(1);
    // An activity record of the log describes a part of a rank's time. Two bins for each record suffice to show all of them.
    room.clamp(MIN_ROW_BINS, MAX_ROW_BINS).min((2 * parts).max(MIN_ROW_BINS))
}

/// Returns descriptions of the longest calls of user code by rank, with the number of calls in the log and the number of returned ones.
pub(crate) fn named_calls(run: &Run, count: usize, runs: usize) -> (Vec<Vec<NamedCall>>, (usize, usize)) {
    let width = run.seconds.max(f64::MIN_POSITIVE) / count as f64;
    let mut all = Vec::new();
    for (rank, its) in run.ranks.iter().enumerate() {
        all.extend(
            its.parts.iter().filter_map(|part| Some((rank, part.to, part.activity.longest.as_ref()?))),
        );
    }
    let of = all.len();
    all.sort_by(|a, b| b.2.seconds.total_cmp(&a.2.seconds));
    all.truncate(MAX_NAMED_CALLS / runs.max(1));
    let kept = all.len();
    let mut named = vec![Vec::new(); run.ranks.len()];
    for (rank, to, longest) in all {
        let bin = ((to / width).ceil() as usize).clamp(1, count) - 1;
        named[rank].push(NamedCall { bin, name: call_text(longest, &run.kinds), seconds: longest.seconds });
    }
    named.iter_mut().for_each(|calls| calls.sort_by_key(|call| call.bin));
    (named, (of, kept))
}

impl Bins {
    /// Returns the mean time line of some ranks in `count` bins.
    pub(crate) fn of(run: &Run, ranks: &[usize], count: usize) -> Self {
        let width = if run.seconds > 0.0 { run.seconds / count as f64 } else { 1.0 };
        let mut cells = vec![Shares::default(); count];
        for &rank in ranks {
            add_rank(&mut cells, run, rank, width, 1.0 / ranks.len() as f64);
        }
        Bins { width, cells }
    }

    /// Returns the bins in base64: one byte per kind of [`KINDS`], in units of 1/255 of the bin's length. The
    /// last kind is omitted, because it is the rest of the bin.
    pub(crate) fn encoded(&self) -> String {
        let mut bytes = Vec::with_capacity((KINDS.len() - 1) * self.cells.len());
        for cell in &self.cells {
            let part = |seconds: f64| (255.0 * seconds / self.width).round().clamp(0.0, 255.0) as u8;
            bytes.extend(cell.named()[..KINDS.len() - 1].iter().map(|&share| part(share)));
        }
        base64(&bytes)
    }
}

/// Adds the seconds of a rank, multiplied by `weight`, to the bins.
fn add_rank(cells: &mut [Shares], run: &Run, rank: usize, width: f64, weight: f64) {
    let count = cells.len();
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
            cell.add(activity, weight * (to.min(end) - from.max(begin)).max(0.0) / activity.seconds);
        }
    }
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
        let sum = |ranks: &[usize], of: fn(&Shares) -> f64| {
            Bins::of(&run, ranks, 300).cells.iter().map(of).sum::<f64>()
        };
        for (ranks, work) in [(vec![0], 6.0), (vec![1], 2.0), (vec![0, 1], 4.0)] {
            let sum = sum(&ranks, |cell| cell.work);
            assert!((sum - work).abs() < 1e-6, "{sum}");
        }
        let messages = sum(&[1], |cell| cell.messages);
        assert!((messages - 3.0).abs() < 1e-6, "{messages}");
    }

    #[test]
    fn completed_items_accumulate_over_time() {
        let run = Situation::new(10.0).rank(6.0, 1.0).rank(2.0, 0.0).run();
        let done = done_by(&run, 0, 50);
        assert_eq!((done.len(), done[0], done[50]), (51, 0.0, 200.0));
        assert!(done.windows(2).all(|pair| pair[0] <= pair[1]));
    }
}
