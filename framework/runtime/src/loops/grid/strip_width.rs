//! Choice of the strip width of a DOACROSS loop: number of columns that a rank computes between two messages to the rank below.

use armature_planner::loops::{ShiftCost, Sweep};

use crate::observe::number_format::seconds;

/// Initial strip width in columns. Narrow strips suit kernels in which each value has to wait for the previous one: the processor then works on
/// several rows of a strip at the same time, which no cost model describes.
const NARROW: u64 = 16;
/// Inverse of the part of a run's sweeps that the widest strip may take to pass all ranks: 2 %, but at least one sweep. The last rank waits that long for
/// its first work, and never makes up for it. Nothing on rank 0 shows this wait: on 64 simulated ranks, 50 sweeps took 6 % longer when wider strips were
/// tried.
const SWEEPS_FOR_LAG: u64 = 50;
/// Number of columns that a strip may always have. If only narrower strips were allowed, messages could take longer than the work.
const NARROWEST: u64 = 4;
/// Minimum number of sweeps from which the median time for a strip width is taken; with three, one slow sweep has no effect.
const LEAST: usize = 3;
/// Maximum number of sweeps from which the median time for a strip width is taken. Without it, many times would have to be sorted if sweeps are very
/// short.
const MOST: usize = 48;
/// Total time in seconds of the sweeps that are enough to judge a strip width (columns per strip): in experiments, widths whose times differed by one
/// or two per cent could be told apart.
const LONG: f64 = 24e-3;
/// Factor between the median times of two strip widths from which on the slower one is rejected after the minimum number of sweeps. In experiments no
/// median of three sweeps was wrong by this factor.
const HOPELESS: f64 = 1.15;
/// Factor between the median times of two strip widths up to which they count as equally good, because medians cannot tell them apart. The narrowest
/// of the equally good widths is chosen, because narrow strips still fit in the cache when a rank gets more rows.
const ALIKE: f64 = 1.01;
/// Ratio between the best strip width and the widths next to it that are tried in the last and finest comparison.
const FINE: f64 = std::f64::consts::SQRT_2;
/// Strip widths that are tried are multiples of this number of columns (a vector register of doubles). Exceptions are widths below it and the full
/// width.
const STEP: f64 = 4.0;

/// Tries strip widths in real sweeps and keeps the best one. The tried widths are near [`NARROW`] and near the width that model (10) of Siegell and
/// Steenkiste (1997) predicts from the measured costs of messages.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StripWidth {
    columns: u64,
    ranks: usize,
    shift: Option<ShiftCost>,
    width: u64,
    is_fixed: bool,
    /// Largest strip width in columns that suits the number of sweeps of the run.
    widest: u64,
    candidates: Vec<Candidate>,
    sweeps: Vec<f64>,
    /// True if the next sweep is not measured, because a change of the strip width or a movement of rows before it affects its time.
    skips: bool,
    settled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    width: u64,
    seconds: f64,
}

impl StripWidth {
    /// Creates the choice of the strip width (columns per strip); a `fixed` width is not changed.
    pub(super) fn new(columns: usize, ranks: usize, fixed: Option<u64>) -> Self {
        let columns = (columns as u64).max(1);
        StripWidth {
            columns,
            ranks,
            shift: None,
            width: fixed.unwrap_or(NARROW).clamp(1, columns),
            is_fixed: fixed.is_some(),
            widest: columns,
            candidates: Vec::new(),
            sweeps: Vec::new(),
            skips: true,
            settled: fixed.is_some() || columns == 1,
        }
    }

    /// Limits the strip width to one that suits a run of this number of sweeps (see [`SWEEPS_FOR_LAG`]), unless the width is fixed.
    pub(super) fn for_sweeps(mut self, sweeps: u64) -> Self {
        if !self.is_fixed {
            let sweeps_of_lag = (sweeps / SWEEPS_FOR_LAG).max(1);
            let widest = self.columns.saturating_mul(sweeps_of_lag) / self.ranks.max(1) as u64;
            self.widest = (widest - widest % NARROWEST).clamp(NARROWEST.min(self.columns), self.columns);
        }
        self
    }

    pub(super) fn width(&self) -> u64 {
        self.width.min(self.widest)
    }

    /// Returns true if the next strip width (columns per strip) can be chosen only with measured costs of messages.
    pub(super) fn wants_shift(&self) -> bool {
        !self.settled && self.ranks > 1 && self.shift.is_none()
    }

    pub(super) fn know_shift(&mut self, shift: ShiftCost) {
        self.shift = Some(shift);
    }

    /// Discards the times measured for the present strip width, and does not measure the next sweep, because
    /// an event such as a movement of rows has affected them.
    pub(super) fn disturb(&mut self) {
        self.sweeps.clear();
        self.skips = true;
    }

    /// Tries strip widths again after the loop has changed, such as its largest number of rows per rank; begins with the present width and those near
    /// it.
    pub(super) fn restart(&mut self) {
        if self.candidates.len() > 1 {
            self.disturb();
            self.candidates.clear();
            self.settled = false;
        }
    }

    /// Adds the time `took` of a sweep in seconds. When this ends the trials, returns the reason for the strip width (columns per
    /// strip) that is chosen.
    pub(super) fn on_sweep(&mut self, took: f64) -> Option<String> {
        if self.settled {
            return None;
        }
        if std::mem::take(&mut self.skips) {
            return None;
        }
        self.sweeps.push(took);
        if self.sweeps.len() < LEAST {
            return None;
        }
        self.sweeps.sort_by(f64::total_cmp);
        let median = self.sweeps[self.sweeps.len() / 2];
        let is_hopeless = self.candidates.iter().any(|other| median > HOPELESS * other.seconds);
        let is_long = self.sweeps.len() >= MOST || self.sweeps.iter().sum::<f64>() >= LONG;
        if !is_hopeless && !is_long {
            return None;
        }
        self.candidates.push(Candidate { width: self.width(), seconds: median });
        self.disturb();
        let best = self.best();
        if let Some(next) = self.candidate(best) {
            self.width = next;
            return None;
        }
        let alike = self.candidates.iter().filter(|other| other.seconds <= ALIKE * best.seconds);
        let chosen = alike.copied().min_by_key(|other| other.width).unwrap_or(best);
        self.width = chosen.width;
        self.settled = true;
        Some(format!(
            "of {} widths of strips that were tried this is the narrowest of the fastest, with {} a sweep",
            self.candidates.len(),
            seconds(chosen.seconds)
        ))
    }

    fn best(&self) -> Candidate {
        let none = Candidate { width: self.width(), seconds: 0.0 };
        self.candidates.iter().copied().min_by(|a, b| a.seconds.total_cmp(&b.seconds)).unwrap_or(none)
    }

    /// Returns a strip width (columns per strip) near the best one that was not tried yet; `None` if all were tried.
    fn candidate(&self, best: Candidate) -> Option<u64> {
        let scaled = |factor: f64| best.width as f64 * factor;
        let model = self.shift.filter(|_| self.candidates.len() == 1).map(|shift| {
            let sequential = self.ranks as f64 * best.seconds;
            Sweep { ranks: self.ranks, iterations: self.columns, sequential, shift }.grain().block as f64
        });
        let around = [scaled(2.0), scaled(0.5), scaled(FINE), scaled(1.0 / FINE)];
        let is_new = |width: &u64| self.candidates.iter().all(|candidate| candidate.width != *width);
        let all = model.into_iter().chain(around);
        all.map(|width| even(width).clamp(1, self.widest)).find(is_new)
    }
}

/// Rounds a strip width to a multiple of [`STEP`], so that all strips begin at the same offset in cache lines and vectors.
fn even(width: f64) -> u64 {
    let step = if width < 2.0 * STEP { 1.0 } else { STEP };
    ((width / step).round() * step) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries strip widths (columns per strip) until one is chosen; a sweep takes `seconds(width)`. Returns the chosen width and the
    /// number of sweeps.
    fn choose(strip_width: &mut StripWidth, seconds: impl Fn(u64) -> f64) -> (u64, usize) {
        for sweep in 0..2_000 {
            if strip_width.on_sweep(seconds(strip_width.width())).is_some() {
                return (strip_width.width(), sweep + 1);
            }
        }
        panic!("no end: {strip_width:?}");
    }

    /// Returns the seconds of a sweep over 2,000 columns on two ranks with strips of `width` columns: each rank computes for 3 ms, a message takes
    /// 1.5 µs, and strips wider than 12 columns are slower by a factor of up to two.
    fn sor(width: u64) -> f64 {
        let strip_width = 2_000_f64 / width as f64;
        let slow = 1.0 + (1.0 - 12.0 / width as f64).max(0.0);
        3e-3 * slow * (1.0 + 1.0 / strip_width) + strip_width * 1.5e-6
    }

    #[test]
    fn best_width_is_found_within_three_percent() {
        let costs: [fn(u64) -> f64; 4] = [
            sor,
            // Seconds of a sweep in a loop in which a message takes 50 µs.
            |width| 3e-3 * (1.0 + width as f64 / 2_000.0) + 2_000.0 / width as f64 * 50e-6,
            // Seconds of a sweep in a loop in which the strip width (columns per strip) has no effect.
            |_| 1e-3,
            // Seconds of a sweep in a loop whose sweeps take 0.1 s, and in which fewer strips are better.
            |width| 0.1 + 1e-4 * 2_000.0 / width as f64,
        ];
        for cost in costs {
            let mut strip_width = StripWidth::new(2_000, 2, None);
            assert!(strip_width.wants_shift());
            strip_width.know_shift(ShiftCost { fixed: 2e-6, per_element: 1e-9 });
            let (width, sweeps) = choose(&mut strip_width, cost);
            let best = (1..=2_000).map(cost).fold(f64::INFINITY, f64::min);
            assert!(cost(width) <= 1.03 * best, "{width}: {} instead of {best}", cost(width));
            // Where the strip width (columns per strip) has no effect, sweeps take 1 ms. Each of ten widths needs 25 sweeps: the
            // first is not measured, and 24 are.
            assert!(sweeps <= 10 * 25, "{sweeps}");
            assert_eq!(strip_width.on_sweep(1.0), None, "chosen for good");
        }
    }

    #[test]
    fn single_slow_sweeps_do_not_change_the_choice() {
        let mut strip_width = StripWidth::new(2_000, 1, None);
        assert!(!strip_width.wants_shift());
        let count = std::cell::Cell::new(0);
        let (width, _) = choose(&mut strip_width, |width| {
            count.set(count.get() + 1);
            sor(width) * if count.get() % 5 == 0 { 3.0 } else { 1.0 }
        });
        assert!(sor(width) <= 1.03 * (1..=2_000).map(sor).fold(f64::INFINITY, f64::min), "{width}");
    }

    #[test]
    fn strip_widths_are_multiples_of_the_alignment() {
        let mut strip_width = StripWidth::new(2_000, 2, None);
        let shift = ShiftCost { fixed: 2e-6, per_element: 1e-9 };
        strip_width.know_shift(shift);
        choose(&mut strip_width, sor);
        let sequential = 2.0 * sor(NARROW);
        let model = Sweep { ranks: 2, iterations: 2_000, sequential, shift }.grain().block;
        assert_eq!(model, 45, "what the model proposes is no multiple of four itself");
        let mut tried: Vec<u64> = strip_width.candidates.iter().map(|candidate| candidate.width).collect();
        tried.sort_unstable();
        assert_eq!(tried, [4, 6, 8, 12, 16, 24, 32, 44]);
    }

    #[test]
    fn much_worse_width_is_abandoned_early() {
        let mut strip_width = StripWidth::new(2_000, 1, None);
        let (width, sweeps) = choose(&mut strip_width, |width| if width == NARROW { 1e-3 } else { 2e-3 });
        // The first sweep at each width is not measured. The initial width is then measured in 24 sweeps, and
        // each of the other widths, which are much slower, in three.
        assert_eq!((width, sweeps), (NARROW, 25 + 4 * (strip_width.candidates.len() - 1)), "{strip_width:?}");
    }

    #[test]
    fn long_sweeps_are_timed_three_times() {
        let mut strip_width = StripWidth::new(2_000, 1, None);
        let (width, sweeps) = choose(&mut strip_width, |width| if width == NARROW { 0.015 } else { 0.012 });
        // The first sweep at each width is not measured. Three measured sweeps are then enough for each
        // width, because sweeps are long.
        assert!(
            width != NARROW && sweeps == 4 * strip_width.candidates.len(),
            "{width} {sweeps} {strip_width:?}"
        );
    }

    #[test]
    fn narrowest_of_equally_good_widths_is_chosen() {
        let mut strip_width = StripWidth::new(2_000, 1, None);
        // From a strip width of 20 columns on, each doubling of the width saves a thousandth of the time of a sweep; with narrower
        // strips a sweep takes twice as long.
        let flat =
            |width: u64| 1e-3 * if width < 20 { 2.0 } else { 1.0 - 0.001 * (width as f64 / 20.0).log2() };
        let (width, _) = choose(&mut strip_width, flat);
        let narrowest =
            strip_width.candidates.iter().map(|candidate| candidate.width).filter(|&width| width >= 20).min();
        assert_eq!((Some(width), width < 100), (narrowest, true), "{strip_width:?}");
    }

    #[test]
    fn configured_width_is_kept() {
        let mut strip_width = StripWidth::new(50, 3, Some(80));
        assert_eq!(
            (strip_width.width(), strip_width.wants_shift(), strip_width.on_sweep(1.0)),
            (50, false, None)
        );
        strip_width.restart();
        assert_eq!(
            (strip_width.on_sweep(1.0), strip_width.on_sweep(2.0), strip_width.width()),
            (None, None, 50)
        );
        assert_eq!(StripWidth::new(1, 3, None).on_sweep(1.0), None, "one column needs no choice");
        assert_eq!(StripWidth::new(0, 3, None).width(), 1);
    }

    #[test]
    fn strips_pass_all_ranks_in_a_small_part_of_the_run() {
        let widest = |ranks: usize, sweeps: u64| {
            let mut strip_width = StripWidth::new(2_000, ranks, None).for_sweeps(sweeps);
            strip_width.know_shift(ShiftCost { fixed: 1e-3, per_element: 0.0 });
            // Each message takes 1 ms, so wide strips are faster.
            choose(&mut strip_width, |width| 3e-3 + 2_000.0 / width as f64 * 1e-3);
            (strip_width.candidates[0].width, strip_width.width())
        };
        // First and chosen width, by ranks and sweeps.
        assert_eq!(widest(1, 1), (16, 2_000));
        assert_eq!(widest(64, 99), (16, 28));
        assert_eq!(widest(64, 1_000), (16, 624));
        assert_eq!(widest(250, 50), (8, 8));
        assert_eq!(widest(4_000, 50), (4, 4));
        let chosen = StripWidth::new(2_000, 250, None).for_sweeps(50_000);
        assert_eq!(
            (chosen.clone().for_sweeps(1).width(), chosen.for_sweeps(1).for_sweeps(100).width()),
            (8, 16)
        );
        assert_eq!(StripWidth::new(2_000, 250, Some(500)).for_sweeps(1).width(), 500);
    }

    #[test]
    fn restart_tries_neighbouring_widths_again() {
        let mut strip_width = StripWidth::new(2_000, 1, None);
        let (before, _) = choose(&mut strip_width, sor);
        strip_width.restart();
        let dear = |width: u64| sor(width) + 2_000.0 / width as f64 * 100e-6;
        let (after, _) = choose(&mut strip_width, dear);
        assert!(after > 4 * before, "{before} {after}");
    }
}
