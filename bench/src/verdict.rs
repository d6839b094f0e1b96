//! Measured values with targets (printed as "mark"), and the verdict whether a target was reached.

use std::fmt;

use crate::table::significant;

/// Measured value with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Estimate of the measured quantity: the median or the mean of its samples, or an exact value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Interval {
    /// Creates a value without uncertainty, such as a count or the maximum over a fixed set of instances.
    pub fn exact(value: f64) -> Self {
        Interval { value, low: value, high: value }
    }
}

/// Target for a measured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// The measured value must be at least this number.
    AtLeast(f64),
    /// The measured value must be at most this number.
    AtMost(f64),
}

/// Verdict on a measured value with a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval fulfils the target.
    Reached,
    /// The whole interval misses the target.
    Short,
    /// The target lies within the interval: more rounds are needed.
    NotResolved,
}

/// Measured value with its target.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetedValue {
    what: String,
    interval: Interval,
    unit: String,
    target: Target,
}

impl TargetedValue {
    /// Creates a value with its target. `what` distinguishes several targets of one experiment; it may be empty.
    pub fn new(what: &str, interval: Interval, unit: &str, target: Target) -> Self {
        TargetedValue { what: what.into(), interval, unit: unit.into(), target }
    }

    /// Compares the value with its target. A value that is not a number never reaches the target; its verdict is `NotResolved`.
    pub fn verdict(&self) -> Verdict {
        let Interval { value, low, high } = self.interval;
        let (right, wrong) = match self.target {
            Target::AtLeast(mark) => (low >= mark && value >= mark, high < mark && value < mark),
            Target::AtMost(mark) => (high <= mark && value <= mark, low > mark && value > mark),
        };
        match (right, wrong) {
            (true, _) => Verdict::Reached,
            (_, true) => Verdict::Short,
            _ => Verdict::NotResolved,
        }
    }

    /// Formats the value and its target as `NAME: VALUE UNIT, mark TARGET: VERDICT`.
    pub fn line(&self, experiment: &str) -> String {
        let TargetedValue { what, interval, unit, target } = self;
        let space = if what.is_empty() { "" } else { " " };
        let mut line =
            format!("{experiment}{space}{what}: {} {unit}, mark {target}: ", significant(interval.value));
        line += &self.verdict().to_string();
        if self.verdict() == Verdict::NotResolved {
            line +=
                &format!(" (95 % interval {} to {})", significant(interval.low), significant(interval.high));
        }
        line
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::AtLeast(mark) => write!(f, "at least {mark}"),
            Target::AtMost(mark) => write!(f, "at most {mark}"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Reached => "reached",
            Verdict::Short => "short",
            Verdict::NotResolved => "not resolved",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(low: f64, value: f64, high: f64, target: Target) -> Verdict {
        TargetedValue::new("", Interval { value, low, high }, "", target).verdict()
    }

    #[test]
    fn verdict_needs_the_whole_interval_on_one_side() {
        let at_least = Target::AtLeast(0.9);
        assert_eq!(judge(0.9, 0.95, 1.0, at_least), Verdict::Reached);
        assert_eq!(judge(0.89, 0.95, 1.0, at_least), Verdict::NotResolved);
        assert_eq!(judge(0.7, 0.8, 0.9, at_least), Verdict::NotResolved);
        assert_eq!(judge(0.7, 0.8, 0.89, at_least), Verdict::Short);
        let at_most = Target::AtMost(2.0);
        assert_eq!(judge(1.0, 1.5, 2.0, at_most), Verdict::Reached);
        assert_eq!(judge(1.0, 1.5, 2.1, at_most), Verdict::NotResolved);
        assert_eq!(judge(2.1, 2.2, 2.3, at_most), Verdict::Short);
    }

    #[test]
    fn nan_never_reaches_a_target() {
        assert_eq!(judge(f64::NAN, f64::NAN, f64::NAN, Target::AtLeast(0.0)), Verdict::NotResolved);
        assert_eq!(judge(1.0, f64::NAN, 1.0, Target::AtLeast(0.0)), Verdict::NotResolved);
    }

    #[test]
    fn verdict_line_shows_the_interval_only_if_not_resolved() {
        let mark = |high| {
            let interval = Interval { value: 0.95, low: 0.91, high };
            TargetedValue::new("8 B", interval, "of MPI", Target::AtLeast(0.9)).line("pipe")
        };
        assert_eq!(mark(1.0), "pipe 8 B: 0.9500 of MPI, mark at least 0.9: reached");
        let open =
            TargetedValue::new("", Interval { value: 0.95, low: 0.8, high: 1.0 }, "s", Target::AtMost(0.9));
        assert_eq!(
            open.line("pipe"),
            "pipe: 0.9500 s, mark at most 0.9: not resolved (95 % interval 0.8000 to 1.000)"
        );
    }
}
