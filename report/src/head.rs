//! Head of a run's section: what ran, how efficient it was, what balancing gained; and the comparison of two runs.

use std::time::{Duration, SystemTime};

use armature::observe::number_format::{count, percent};

use crate::efficiency::{Efficiencies, efficiencies, tree};
use crate::run::{Run, Skeleton};
use crate::units::{ranges, short_count, time};

/// Main facts about a run.
pub(crate) struct Head {
    /// Parallel efficiency as a percentage; `None` if the log has no activity.
    pub(crate) efficiency: Option<String>,
    /// Ranks, hosts, time and work in one line.
    pub(crate) summary: String,
    /// Further facts with their names.
    pub(crate) facts: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn of(run: &Run) -> Self {
        Head {
            efficiency: whole(run).map(|e| percent(e.parallel_efficiency, 0)),
            summary: summary(run),
            facts: facts(run),
        }
    }
}

fn whole(run: &Run) -> Option<Efficiencies> {
    efficiencies(run, "run", (0.0, run.seconds))
}

/// Returns the heading of a run, such as "Farm rows of mandelbrot".
pub(crate) fn heading(run: &Run) -> String {
    let name = if run.name.is_empty() { String::new() } else { format!(" {}", run.name) };
    let of = if run.program.is_empty() || run.program == run.name {
        String::new()
    } else {
        format!(" of {}", run.program)
    };
    format!("{}{name}{of}", run.skeleton.word())
}

fn summary(run: &Run) -> String {
    // The host of simulated ranks has the name `simulated`, which is not shown.
    let ranks = match run.on_hosts(0..run.ranks.len()) {
        on if on == " on simulated" => count(run.ranks.len() as u64, "simulated rank"),
        on => count(run.ranks.len() as u64, "rank") + &on,
    };
    let mut parts = vec![ranks];
    parts.push(time(run.seconds));
    parts.extend(run.done.map(|done| format!("{} {}", short_count(done), run.done_things())));
    parts.join(" · ")
}

fn facts(run: &Run) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| facts.push((name.to_string(), value));
    if let Some(began) = run.began {
        add("began", date(began));
    }
    let balance = match run.balance.as_str() {
        "off" => "off",
        "once" => "changes once at most",
        "live" => "changes when a change pays off",
        _ => "",
    };
    if !balance.is_empty() {
        add("balance", balance.to_string());
    }
    add("changes", run.changes.len().to_string());
    if !run.lost.is_empty() {
        add("ranks lost", ranges(&run.lost));
    }
    add(
        "end",
        if run.has_ended { "normal" } else { "not in the log: it failed, was killed, or still runs" }.into(),
    );
    facts
}

/// Formats seconds since 1970 as a date and time in UTC.
fn date(at: f64) -> String {
    // Last second of the year 9999: a later date would have more than four digits for the year.
    const LAST: u64 = 253_402_300_799;
    let since = Duration::from_secs((at.max(0.0) as u64).min(LAST));
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + since).to_string()
}

/// Returns sentences on what balancing changed, on the measured difference between the time before the first and after the last change, and on
/// lost ranks.
pub(crate) fn gain(run: &Run) -> String {
    let lost = match run.lost.as_slice() {
        [] => String::new(),
        [rank] => format!("Rank {rank} was lost. "),
        ranks => format!("Ranks {} were lost. ", ranges(ranks)),
    };
    lost + &balancing(run)
}

fn balancing(run: &Run) -> String {
    // A lost rank is listed as a change, but balancing did not make it.
    let changes = run.changes.len().saturating_sub(run.lost.len()) as u64;
    if changes == 0 {
        let acted = run.decisions.iter().filter(|decision| decision.acted).count();
        return match (run.balance.as_str(), run.decisions.len(), acted) {
            ("off", ..) => "Balancing was off.".to_string(),
            (_, 0, _) => "Balancing made no decision.".to_string(),
            (_, 1, 0) => "Balancing made one decision, against a change.".to_string(),
            (_, decisions, 0) => format!("Balancing made {decisions} decisions, all against a change."),
            // Some changes, such as that of a chunk size, are not in the list of changes, and the last one may not have taken effect.
            _ => decisions(run),
        };
    }
    if run.skeleton == Skeleton::Workflow {
        return format!(
            "The tasks were planned again {}.",
            if changes == 1 { "once".to_string() } else { format!("{changes} times") }
        );
    }
    let made = format!(
        "The distribution of work was changed {}",
        if changes == 1 { "once".to_string() } else { format!("{changes} times") }
    );
    let measured = |o: &&crate::run::ChangeResult| {
        o.before_s > 0.0 && o.after_s > 0.0 && o.before_s.is_finite() && o.after_s.is_finite()
    };
    let first = run.outcomes.iter().find(measured);
    let last = run.outcomes.iter().rev().find(measured);
    if let (Some(first), Some(last)) = (first, last) {
        return format!(
            "{made}: measured before the first change {} per {}, after the last {}, which is {:.2} times as fast.",
            time(first.before_s),
            run.things().trim_end_matches('s'),
            time(last.after_s),
            first.before_s / last.after_s
        );
    }
    let (phases, _) = tree(run, usize::MAX);
    match phases.as_slice() {
        [_, first, .., last] if run.lost.is_empty() => format!(
            "{made}: the efficiency was {} before the first change and {} after the last.",
            percent(first.parallel_efficiency, 0),
            percent(last.parallel_efficiency, 0)
        ),
        _ => format!("{made}; the gain was not measured."),
    }
}

/// Returns a sentence on the number of decisions about the distribution of work, and on how many of them changed it.
pub(crate) fn decisions(run: &Run) -> String {
    let acted = run.decisions.iter().filter(|decision| decision.acted).count();
    match (run.decisions.len(), run.changes.len()) {
        (0, 0) => "No decision was made during the run.".to_string(),
        (0, 1) => "1 change was made.".to_string(),
        (0, changes) => format!("{changes} changes were made."),
        (count, _) => format!("Of {count} decisions {acted} made a change."),
    }
}

/// Row of the table that compares two runs: what is compared, its value in each run, and the second value as a multiple of the first.
pub(crate) struct ComparedRow {
    pub(crate) name: &'static str,
    pub(crate) values: [String; 2],
    pub(crate) ratio: String,
}

/// Returns a sentence that compares the times of two runs with their names.
pub(crate) fn compared_text((name_a, a): (&str, &Run), (name_b, b): (&str, &Run)) -> String {
    if a.seconds <= 0.0 {
        return format!("{name_a} took no time.");
    }
    let ratio = format!("{:.2}", b.seconds / a.seconds);
    let ratio = ratio.trim_end_matches('0').trim_end_matches('.');
    let mut text = format!(
        "{name_b} took {ratio} times as long as {name_a}: {} instead of {}",
        time(b.seconds),
        time(a.seconds)
    );
    if let (Some(a), Some(b)) = (whole(a), whole(b)) {
        text += &format!(
            ", with an efficiency of {} instead of {}",
            percent(b.parallel_efficiency, 0),
            percent(a.parallel_efficiency, 0)
        );
    }
    text + "."
}

/// Returns the numbers of two runs beside each other.
pub(crate) fn compared(a: &Run, b: &Run) -> Vec<ComparedRow> {
    let mut rows = Vec::new();
    let mut add = |name, of: &dyn Fn(&Run) -> Option<f64>, text: &dyn Fn(f64) -> String| {
        let (a, b) = (of(a), of(b));
        let shown = |value: Option<f64>| value.map_or("–".to_string(), text);
        let ratio =
            a.zip(b).filter(|(a, _)| *a > 0.0).map_or(String::new(), |(a, b)| format!("{:.2}", b / a));
        rows.push(ComparedRow { name, values: [shown(a), shown(b)], ratio });
    };
    let share = |x: f64| percent(x, 1);
    let number = |x: f64| short_count(x as u64);
    let sent = |run: &Run, of: fn(&(u64, u64)) -> u64| {
        run.has_activity()
            .then(|| run.ranks.iter().flat_map(|rank| rank.sent.values()).map(of).sum::<u64>() as f64)
    };
    add("time", &|run| Some(run.seconds), &time);
    add("ranks", &|run| Some(run.ranks.len() as f64), &number);
    add("parallel efficiency", &|run| whole(run).map(|e| e.parallel_efficiency), &share);
    add("load balance", &|run| whole(run).map(|e| e.load_balance), &share);
    add("communication efficiency", &|run| whole(run).map(|e| e.communication_efficiency), &share);
    add("computing time of all ranks", &|run| whole(run).map(|e| e.useful_time), &time);
    add("items, tasks or passes", &|run| run.done.map(|done| done as f64), &number);
    add("changes of the distribution", &|run| Some(run.changes.len() as f64), &number);
    add("messages", &|run| sent(run, |sent| sent.0), &number);
    add("bytes sent", &|run| sent(run, |sent| sent.1), &|bytes| crate::units::bytes_text(bytes as u64));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::ChangeResult;
    use crate::situation::Situation;

    #[test]
    fn gain_is_measured_before_the_first_and_after_the_last_change() {
        let run = Situation::new(10.0).rank(5.0, 0.0).rank(5.0, 0.0).run();
        assert_eq!(gain(&run), "Balancing made no decision.");
        let decision = |acted| crate::run::Decision { at: 1.0, acted, text: String::new() };
        let mut decided = run.clone();
        decided.decisions = vec![decision(false), decision(false)];
        assert_eq!(gain(&decided), "Balancing made 2 decisions, all against a change.");
        decided.decisions.push(decision(true));
        assert_eq!(gain(&decided), "Of 3 decisions 1 made a change.");
        let mut changed = run.clone();
        changed.changes = vec![(2.0, "mapping 2".into()), (4.0, "mapping 3".into())];
        assert_eq!(
            gain(&changed),
            "The distribution of work was changed 2 times: the efficiency was 50 % before the first change and 50 % after the last."
        );
        let mut without = run.clone();
        (without.changes, without.lost) = (vec![(2.0, "rank 1 lost".into())], vec![1]);
        assert_eq!(gain(&without), "Rank 1 was lost. Balancing made no decision.");
        let outcome = |before_s, after_s| ChangeResult { at: 1.0, before_s, predicted_s: f64::NAN, after_s };
        changed.outcomes = vec![outcome(0.03, 0.02), outcome(f64::NAN, 1.0), outcome(0.02, 0.012)];
        assert!(gain(&changed).ends_with(
            "before the first change 30 ms per task, after the last 12 ms, which is 2.50 times as fast."
        ));
    }

    #[test]
    fn comparison_has_ratios_of_the_second_to_the_first_run() {
        let a = Situation::new(10.0).rank(5.0, 0.0).rank(5.0, 0.0).run();
        let b = Situation::new(5.0).rank(4.5, 0.0).rank(4.5, 0.0).run();
        let rows = compared(&a, &b);
        assert_eq!(
            (rows[0].values[0].as_str(), rows[0].values[1].as_str(), rows[0].ratio.as_str()),
            ("10 s", "5 s", "0.50")
        );
        assert_eq!(rows[2].ratio, "1.80");
        assert!(
            compared_text(("a", &a), ("b", &b)).starts_with(
                "b took 0.5 times as long as a: 5 s instead of 10 s, with an efficiency of 90 %"
            )
        );
    }
}
