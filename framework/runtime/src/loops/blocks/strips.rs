//! How wide strips are.

use armature_planner::loops::{ShiftCost, Sweep};

/// What the first sweep is done in. Strips about as narrow suit kernels in which each value has to wait for the one before:
/// several rows of such a strip are on their way in the processor at the same time. No model knows that.
const NARROW: u64 = 16;
/// A width is judged by so many sweeps at least …
const LEAST: usize = 3;
/// … at most …
const MOST: usize = 48;
/// … and as many as take this long (s), by which widths can be told apart that differ by a hundredth or two …
const LONG: f64 = 24e-3;
/// … unless they take so many times as long as in another width: then it is out anyway.
const HOPELESS: f64 = 1.15;
/// Widths in which sweeps take up to so many times as long as in the best are as good. The narrowest of them is chosen: with
/// more rows, wide strips are the first that the cache does not hold.
const ALIKE: f64 = 1.01;
/// So many times a width is looked at.
const LOOKS: usize = 24;
/// Between two widths that are compared at last.
const FINE: f64 = std::f64::consts::SQRT_2;
/// Widths that are tried are multiples of this, but for the narrowest, and for all columns at once.
const STEP: f64 = 4.0;

/// Tries widths of strips in real sweeps, and keeps the best: around what the model (10) of Siegell and Steenkiste (1997)
/// finds for the measured costs of messages, and around a narrow one. Widths next to the best are looked at twice: what slows
/// a machine down for some milliseconds may be there for all sweeps of one look, and nothing makes sweeps faster than they are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Strips {
    /// Columns that are computed.
    columns: u64,
    ranks: usize,
    shift: Option<ShiftCost>,
    width: u64,
    tried: Vec<Tried>,
    /// Seconds of sweeps in the present width.
    laps: Vec<f64>,
    /// The next sweep does not count: it begins with what the one before has left.
    skips: bool,
    settled: bool,
}

/// A width that was looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tried {
    width: u64,
    /// Of a sweep: the median of a look, of the best look.
    seconds: f64,
    looks: usize,
}

impl Strips {
    /// For so many columns on so many ranks; of a fixed width, if one is given.
    pub(super) fn new(columns: usize, ranks: usize, fixed: Option<u64>) -> Self {
        let columns = (columns as u64).max(1);
        Strips {
            columns,
            ranks,
            shift: None,
            width: fixed.unwrap_or(NARROW).clamp(1, columns),
            tried: Vec::new(),
            laps: Vec::new(),
            skips: true,
            settled: fixed.is_some() || columns == 1,
        }
    }

    /// The width of the strips of the next sweep.
    pub(super) fn width(&self) -> u64 {
        self.width
    }

    /// Whether the costs of messages are asked for.
    pub(super) fn wants_shift(&self) -> bool {
        !self.settled && self.ranks > 1 && self.shift.is_none()
    }

    /// What a message to the next rank costs, by its number of elements.
    pub(super) fn know_shift(&mut self, shift: ShiftCost) {
        self.shift = Some(shift);
    }

    /// The sweeps up to the next do not count: something else happened in them.
    pub(super) fn disturb(&mut self) {
        self.laps.clear();
        self.skips = true;
    }

    /// Things have changed: other widths are tried again, beginning with those around the present one.
    pub(super) fn restart(&mut self) {
        if self.tried.len() > 1 {
            self.disturb();
            self.tried.clear();
            self.settled = false;
        }
    }

    /// A sweep has taken so many seconds. Says why, when a width is chosen for good.
    pub(super) fn lap(&mut self, seconds: f64) -> Option<String> {
        if self.settled {
            return None;
        }
        if std::mem::take(&mut self.skips) {
            return None;
        }
        self.laps.push(seconds);
        if self.laps.len() < LEAST {
            return None;
        }
        self.laps.sort_by(f64::total_cmp);
        let lap = self.laps[self.laps.len() / 2];
        let is_hopeless = self.tried.iter().any(|other| lap > HOPELESS * other.seconds);
        let is_long = self.laps.len() >= MOST || self.laps.iter().sum::<f64>() >= LONG;
        if !is_hopeless && !is_long {
            return None;
        }
        self.note(lap);
        self.disturb();
        let best = self.best();
        if let Some(next) = self.candidate(best) {
            self.width = next;
            return None;
        }
        let alike = self.tried.iter().filter(|other| other.seconds <= ALIKE * best.seconds);
        let chosen = alike.copied().min_by_key(|other| other.width).unwrap_or(best);
        self.width = chosen.width;
        self.settled = true;
        Some(format!(
            "of {} widths of strips that were tried this is the narrowest of the fastest, with {:.3} ms a sweep",
            self.tried.len(),
            1e3 * chosen.seconds
        ))
    }

    /// The present width was looked at, and a sweep took so many seconds.
    fn note(&mut self, seconds: f64) {
        match self.tried.iter_mut().find(|tried| tried.width == self.width) {
            Some(tried) => {
                tried.seconds = tried.seconds.min(seconds);
                tried.looks += 1;
            }
            None => self.tried.push(Tried { width: self.width, seconds, looks: 1 }),
        }
    }

    fn best(&self) -> Tried {
        let none = Tried { width: self.width, seconds: 0.0, looks: 0 };
        self.tried.iter().copied().min_by(|a, b| a.seconds.total_cmp(&b.seconds)).unwrap_or(none)
    }

    /// What is to be looked at next: what is new around the best, then what was looked at once; `None` if there is nothing.
    fn candidate(&self, best: Tried) -> Option<u64> {
        if self.tried.iter().map(|tried| tried.looks).sum::<usize>() >= LOOKS {
            return None;
        }
        let scaled = |factor: f64| best.width as f64 * factor;
        let model = self.shift.filter(|_| self.tried.len() == 1).map(|shift| {
            let sequential = self.ranks as f64 * best.seconds;
            Sweep { ranks: self.ranks, iterations: self.columns, sequential, shift }.grain().block as f64
        });
        let around = [scaled(2.0), scaled(0.5), scaled(FINE), scaled(1.0 / FINE)];
        let is_new = |width: &u64| self.tried.iter().all(|tried| tried.width != *width);
        let all = model.into_iter().chain(around);
        all.map(|width| even(width).clamp(1, self.columns)).find(is_new).or_else(|| self.second_look(best))
    }

    /// A width up to twice or half the best one that was looked at once only. A look at long sweeps is longer than most
    /// disturbances, and until a width is chosen rates are not known and no row moves: there one look is enough.
    fn second_look(&self, best: Tried) -> Option<u64> {
        let is_near = |width: u64| width <= 2 * best.width && best.width <= 2 * width;
        if LEAST as f64 * best.seconds > LONG {
            return None;
        }
        let mut others = self.tried.iter().filter(|other| other.width != best.width && other.looks == 1);
        others.find(|other| is_near(other.width)).map(|other| other.width)
    }
}

/// About as many columns, and those that begin a strip at the same places of cache lines and vectors in all strips.
fn even(width: f64) -> u64 {
    let step = if width < 2.0 * STEP { 1.0 } else { STEP };
    ((width / step).round() * step) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets widths be tried where a sweep takes what `seconds` says; returns the chosen one and after how many sweeps.
    fn choose(strips: &mut Strips, seconds: impl Fn(u64) -> f64) -> (u64, usize) {
        for sweep in 0..2_000 {
            if strips.lap(seconds(strips.width())).is_some() {
                return (strips.width(), sweep + 1);
            }
        }
        panic!("no end: {strips:?}");
    }

    /// Seconds of a sweep over 2000 columns by two ranks, 3 ms of computing each, 1.5 µs a message, where strips beyond 12
    /// columns are slower by up to twice.
    fn sor(width: u64) -> f64 {
        let strips = 2_000_f64 / width as f64;
        let slow = 1.0 + (1.0 - 12.0 / width as f64).max(0.0);
        3e-3 * slow * (1.0 + 1.0 / strips) + strips * 1.5e-6
    }

    #[test]
    fn the_best_width_is_found_within_three_per_cent() {
        let costs: [fn(u64) -> f64; 4] = [
            sor,
            // Messages are dear.
            |width| 3e-3 * (1.0 + width as f64 / 2_000.0) + 2_000.0 / width as f64 * 50e-6,
            // Nothing matters.
            |_| 1e-3,
            // A long sweep, and the fewer strips the better.
            |width| 0.1 + 1e-4 * 2_000.0 / width as f64,
        ];
        for cost in costs {
            let mut strips = Strips::new(2_000, 2, None);
            assert!(strips.wants_shift());
            strips.know_shift(ShiftCost { fixed: 2e-6, per_element: 1e-9 });
            let (width, sweeps) = choose(&mut strips, cost);
            let best = (1..=2_000).map(cost).fold(f64::INFINITY, f64::min);
            assert!(cost(width) <= 1.03 * best, "{width}: {} instead of {best}", cost(width));
            // Ten looks of 24 ms, with a sweep before each that does not count, where nothing matters.
            assert!(sweeps <= 10 * 25, "{sweeps}");
            assert_eq!(strips.lap(1.0), None, "chosen for good");
        }
    }

    #[test]
    fn single_slow_sweeps_change_nothing() {
        let mut strips = Strips::new(2_000, 1, None);
        assert!(!strips.wants_shift());
        let count = std::cell::Cell::new(0);
        let (width, _) = choose(&mut strips, |width| {
            count.set(count.get() + 1);
            sor(width) * if count.get() % 5 == 0 { 3.0 } else { 1.0 }
        });
        assert!(sor(width) <= 1.03 * (1..=2_000).map(sor).fold(f64::INFINITY, f64::min), "{width}");
    }

    #[test]
    fn a_look_that_was_disturbed_does_not_decide() {
        let mut strips = Strips::new(2_000, 1, None);
        let (now, looks) = (std::cell::Cell::new(0), std::cell::RefCell::new([0; 2_001]));
        // The narrower strips are, the slower they seem at the first look, up to 64 columns: that is the best of first looks.
        let (width, _) = choose(&mut strips, |width| {
            let mut looks = looks.borrow_mut();
            looks[width as usize] += usize::from(now.replace(width) != width);
            sor(width) * if looks[width as usize] == 1 { (60.0 / width as f64).max(1.0) } else { 1.0 }
        });
        assert!(
            sor(width) <= 1.03 * (1..=2_000).map(sor).fold(f64::INFINITY, f64::min),
            "{width} {strips:?}"
        );
    }

    #[test]
    fn strips_begin_at_even_places() {
        let mut strips = Strips::new(2_000, 2, None);
        let shift = ShiftCost { fixed: 2e-6, per_element: 1e-9 };
        strips.know_shift(shift);
        choose(&mut strips, sor);
        let sequential = 2.0 * sor(NARROW);
        let model = Sweep { ranks: 2, iterations: 2_000, sequential, shift }.grain().block;
        assert_eq!(model, 45, "what the model proposes is no multiple of four itself");
        let mut tried: Vec<u64> = strips.tried.iter().map(|tried| tried.width).collect();
        tried.sort_unstable();
        assert_eq!(tried, [4, 6, 8, 12, 16, 24, 32, 44]);
    }

    #[test]
    fn a_width_that_is_far_worse_is_left_soon() {
        let mut strips = Strips::new(2_000, 1, None);
        let (width, sweeps) = choose(&mut strips, |width| if width == NARROW { 1e-3 } else { 2e-3 });
        // The first one takes 24 sweeps and one that does not count, each of two looks at the others three and one.
        assert_eq!((width, sweeps), (NARROW, 25 + 2 * 4 * (strips.tried.len() - 1)), "{strips:?}");
    }

    #[test]
    fn long_sweeps_are_not_looked_at_again() {
        let mut strips = Strips::new(2_000, 1, None);
        let (width, sweeps) = choose(&mut strips, |width| if width == NARROW { 0.015 } else { 0.012 });
        // Three sweeps and one that does not count, for each.
        assert!(width != NARROW && sweeps == 4 * strips.tried.len(), "{width} {sweeps} {strips:?}");
    }

    #[test]
    fn of_widths_that_are_as_good_the_narrowest_is_chosen() {
        let mut strips = Strips::new(2_000, 1, None);
        // From 20 columns on each doubling gains a thousandth, and narrower strips lose.
        let flat =
            |width: u64| 1e-3 * if width < 20 { 2.0 } else { 1.0 - 0.001 * (width as f64 / 20.0).log2() };
        let (width, _) = choose(&mut strips, flat);
        let narrowest = strips.tried.iter().map(|tried| tried.width).filter(|&width| width >= 20).min();
        assert_eq!((Some(width), width < 100), (narrowest, true), "{strips:?}");
    }

    #[test]
    fn a_width_that_is_set_stays() {
        let mut strips = Strips::new(50, 3, Some(80));
        assert_eq!((strips.width(), strips.wants_shift(), strips.lap(1.0)), (50, false, None));
        strips.restart();
        assert_eq!((strips.lap(1.0), strips.lap(2.0), strips.width()), (None, None, 50));
        assert_eq!(Strips::new(1, 3, None).lap(1.0), None, "one column needs no choice");
        assert_eq!(Strips::new(0, 3, None).width(), 1);
    }

    #[test]
    fn after_a_change_the_widths_around_are_tried_again() {
        let mut strips = Strips::new(2_000, 1, None);
        let (before, _) = choose(&mut strips, sor);
        strips.restart();
        let dear = |width: u64| sor(width) + 2_000.0 / width as f64 * 100e-6;
        let (after, _) = choose(&mut strips, dear);
        assert!(after > 4 * before, "{before} {after}");
    }
}
