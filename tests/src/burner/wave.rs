//! Times at which a load is busy or rests (a square wave), for real cores and for simulated hosts.

use std::fmt::Write as _;
use std::time::Duration;

use armature::BoxError;
use armature_apps::random::Random;

/// Periodic load: in each period it is busy first and then rests. Times are whole nanoseconds, so that loads on real and on simulated hosts change at
/// equal times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wave {
    period: u64,
    busy: u64,
    phase: u64,
}

impl Wave {
    /// Load that never rests.
    pub const ALWAYS_BUSY: Wave = Wave { period: 1_000_000_000, busy: 1_000_000_000, phase: 0 };

    /// Returns a load that is busy for the fraction `duty` at the beginning of each `period`, and rests for the
    /// remainder.
    ///
    /// # Errors
    /// Returns an error if the period is zero or longer than a century, or if the duty is not from 0 to 1.
    pub fn new(period: Duration, duty: f64) -> Result<Self, BoxError> {
        const CENTURY: u64 = 3_155_760_000_000_000_000;
        let length = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        if !(1..=CENTURY).contains(&length) || !(0.0..=1.0).contains(&duty) {
            let text =
                format!("a wave needs a period above 0 and a duty from 0 to 1, not {period:?} and {duty}");
            return Err(text.into());
        }
        let busy = ((length as f64 * duty).round() as u64).min(length);
        Ok(Wave { period: length, busy, phase: 0 })
    }

    /// Returns this load with a start position in its period that depends only on the seed.
    pub fn seeded(self, seed: u64) -> Self {
        let part = f64::from(Random::new(seed).unit());
        Wave { phase: ((self.period as f64 * part) as u64).min(self.period - 1), ..self }
    }

    /// Returns this load with its start at the end of a busy time, so that it rests first.
    pub fn rest_first(self) -> Self {
        Wave { phase: self.busy % self.period, ..self }
    }

    /// Returns true if the load is busy at `time` after the start, and the remaining duration of this state.
    pub fn state_at(&self, time: Duration) -> (bool, Duration) {
        let place = self.position_in_period(time);
        let (busy, end) = if place < self.busy { (true, self.busy) } else { (false, self.period) };
        (busy, Duration::from_nanos(end - place))
    }

    /// Returns the total busy time of the load from the start until `time`.
    pub fn burnt(&self, time: Duration) -> Duration {
        let (whole, period) = (time.as_nanos() + u128::from(self.phase), u128::from(self.period));
        let busy = u128::from(self.busy);
        let nanos = whole / period * busy + (whole % period).min(busy) - u128::from(self.phase).min(busy);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns lines of a SimGrid platform file that reduce the speed of `host` to the fraction `share` while the
    /// load is busy. The lines belong after the zone that contains the host.
    ///
    /// ```
    /// use armature_tests::burner::Wave;
    /// use std::time::Duration;
    ///
    /// let wave = Wave::new(Duration::from_secs(20), 0.5)?.rest_first();
    /// let lines = "<trace id=\"load-h3\" periodicity=\"20.000000000\">\n\
    ///              0.000000000 1\n10.000000000 0.5\n\
    ///              </trace>\n\
    ///              <trace_connect trace=\"load-h3\" element=\"h3\" kind=\"SPEED\"/>\n";
    /// assert_eq!(wave.simgrid("h3", 0.5)?, lines);
    /// # Ok::<(), armature::BoxError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the share is not above 0 and at most 1. SimGrid cannot simulate a host of speed 0.
    pub fn simgrid(&self, host: &str, share: f64) -> Result<String, BoxError> {
        if !(share > 0.0 && share <= 1.0) {
            return Err(format!("a host beside a load keeps a part of its speed above 0, not {share}").into());
        }
        let seconds = |nanos: u64| format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
        let mut text = format!("<trace id=\"load-{host}\" periodicity=\"{}\">\n", seconds(self.period));
        for (nanos, busy) in self.edges() {
            let _ = writeln!(text, "{} {}", seconds(nanos), if busy { share } else { 1.0 });
        }
        let _ = write!(
            text,
            "</trace>\n<trace_connect trace=\"load-{host}\" element=\"{host}\" kind=\"SPEED\"/>\n"
        );
        Ok(text)
    }

    /// Returns the changes between busy and resting in one period: times in nanoseconds, and true if the load is busy from then on.
    fn edges(&self) -> Vec<(u64, bool)> {
        let mut edges = Vec::new();
        let mut now = 0;
        while now < self.period {
            let (busy, remaining) = self.state_at(Duration::from_nanos(now));
            if edges.last().is_none_or(|&(_, before)| before != busy) {
                edges.push((now, busy));
            }
            now += u64::try_from(remaining.as_nanos()).unwrap_or(self.period);
        }
        edges
    }

    fn position_in_period(&self, time: Duration) -> u64 {
        ((time.as_nanos() + u128::from(self.phase)) % u128::from(self.period)) as u64
    }

    pub(super) fn arguments(&self) -> [String; 3] {
        [self.period, self.busy, self.phase].map(|nanos| nanos.to_string())
    }

    pub(super) fn parse(arguments: &[String]) -> Result<Self, BoxError> {
        let expected = || format!("expected PERIOD BUSY PHASE in nanoseconds, not `{}`", arguments.join(" "));
        let [period, busy, phase] = arguments else { return Err(expected().into()) };
        let number = |word: &String| word.parse::<u64>().map_err(|_| expected());
        let wave = Wave { period: number(period)?, busy: number(busy)?, phase: number(phase)? };
        if wave.phase < wave.period && wave.busy <= wave.period { Ok(wave) } else { Err(expected().into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn wave_alternates_between_busy_and_idle() {
        let wave = Wave::new(ms(100), 0.3).unwrap();
        let seen: Vec<_> = [0, 29, 30, 99, 100, 131].map(|t| wave.state_at(ms(t))).to_vec();
        let expected = [(true, 30), (true, 1), (false, 70), (false, 1), (true, 30), (false, 69)];
        assert_eq!(seen, expected.map(|(busy, remaining)| (busy, ms(remaining))));
        assert_eq!(wave.rest_first().state_at(ms(0)), (false, ms(70)));
        assert_eq!(wave.rest_first().state_at(ms(70)), (true, ms(30)));
    }

    #[test]
    fn wave_that_is_always_busy_or_always_idle_has_one_edge() {
        for (duty, busy) in [(1.0, true), (0.0, false)] {
            let wave = Wave::new(ms(100), duty).unwrap();
            for wave in [wave, wave.seeded(3), wave.rest_first()] {
                assert!([0, 50, 100, 170].iter().all(|&t| wave.state_at(ms(t)).0 == busy), "{wave:?}");
                assert_eq!(wave.edges(), [(0, busy)], "{wave:?}");
            }
        }
    }

    #[test]
    fn seeds_give_different_reproducible_phases() {
        let wave = Wave::new(ms(100), 0.5).unwrap();
        let busy = (0..200).filter(|&seed| wave.seeded(seed).state_at(ms(0)).0).count();
        assert!((70..130).contains(&busy), "{busy} of 200 begin busy");
        assert_eq!(wave.seeded(7), wave.seeded(7));
        assert_ne!(wave.seeded(7), wave.seeded(8));
    }

    #[test]
    fn burnt_time_is_the_sum_of_busy_intervals() {
        for seed in 0..20 {
            let wave = Wave::new(ms(90), 0.37).unwrap().seeded(seed);
            let (mut now, mut burnt) = (Duration::ZERO, Duration::ZERO);
            while now < ms(1000) {
                assert_eq!(wave.burnt(now), burnt, "{wave:?} at {now:?}");
                let (busy, remaining) = wave.state_at(now);
                (now, burnt) = (now + remaining, burnt + if busy { remaining } else { Duration::ZERO });
            }
            let half = ms(45) + wave.state_at(Duration::ZERO).1 / 2;
            assert_eq!(wave.burnt(half + ms(90)) - wave.burnt(half), Duration::from_nanos(33_300_000));
        }
    }

    #[test]
    fn wave_edges_match_the_busy_intervals() {
        for seed in 0..20 {
            let wave = Wave::new(ms(1300), 0.4).unwrap().seeded(seed);
            let edges = wave.edges();
            assert!((2..=3).contains(&edges.len()), "{edges:?}");
            for (place, &(nanos, busy)) in edges.iter().enumerate() {
                let end = edges.get(place + 1).map_or(wave.period, |next| next.0);
                for at in [nanos, nanos.midpoint(end), end - 1] {
                    assert_eq!(wave.state_at(Duration::from_nanos(at)).0, busy, "{wave:?} at {at}");
                    assert_eq!(wave.state_at(Duration::from_nanos(at + 3 * wave.period)).0, busy);
                }
            }
        }
    }

    #[test]
    fn wave_arguments_round_trip_and_malformed_ones_are_refused() {
        let wave = Wave::new(ms(20), 0.25).unwrap().seeded(7);
        assert_eq!(Wave::parse(&wave.arguments()).unwrap(), wave);
        for arguments in ["", "0 0 0", "5 6 0", "5 1 5", "5 1 -1", "x 1 0"] {
            let arguments: Vec<String> = arguments.split_whitespace().map(str::to_string).collect();
            assert!(Wave::parse(&arguments).is_err(), "{arguments:?}");
        }
        for (period, duty) in [(ms(0), 0.5), (ms(1), 1.5), (ms(1), f64::NAN), (Duration::MAX, 0.5)] {
            assert!(Wave::new(period, duty).is_err(), "{period:?} {duty}");
        }
        assert!(wave.simgrid("h0", 0.0).is_err() && wave.simgrid("h0", f64::NAN).is_err());
    }
}
