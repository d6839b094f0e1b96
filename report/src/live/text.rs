//! Lines above the table of ranks: the run and its state, the cause of the largest loss, and the distribution of work.

use armature::observe::number_format::{count, percent};
use armature_text::shown;

use super::View;
use super::lines::{Part, wrapped};
use super::progress::rough;
use super::rows::held_units;
use crate::account::{Shares, shares};
use crate::diagnosis::{diagnosis, diagnosis_of_part};
use crate::efficiency::efficiencies;
use crate::run::{Arrangement, Rank, Run, TaskRun};
use crate::units;

/// Minimum time in seconds without a report of a rank that the display calls silent.
pub(super) const MIN_SILENCE: f64 = 5.0;

/// Returns the program, the state, the elapsed time and the efficiency of the run until the time `to`, as parts of a line.
pub(super) fn head(run: &Run, to: f64, view: &View) -> Vec<Part> {
    let mut title = run.skeleton.word().to_string();
    if !run.name.is_empty() {
        title += &format!(" {}", shown(&run.name));
    }
    let mut parts = vec![(0, title)];
    if !run.program.is_empty() {
        parts.push((3, shown(&run.program)));
    }
    if run.number > 0 {
        parts.push((6, format!("run {}", run.number + 1)));
    }
    parts.push((3, format!("{}{}", count(run.ranks.len() as u64, "rank"), on_hosts(&run.ranks))));
    parts.extend(state(view));
    parts.push((2, units::time(run.seconds)));
    parts.extend(
        view.quiet_s
            .filter(|quiet| *quiet > MIN_SILENCE && !run.has_ended)
            .map(|quiet| (2, format!("nothing written for {}", rough(quiet)))),
    );
    let efficiency = efficiencies(run, "run", (0.0, to));
    let efficiency = efficiency.map_or("unknown".to_string(), |e| percent(e.parallel_efficiency, 1));
    parts.push((2, format!("efficiency {efficiency}")));
    if !run.balance.is_empty() {
        parts.push((7, format!("balance {}", shown(&run.balance))));
    }
    parts.push((8, view.job.to_string()));
    parts
}

/// Returns the state of the job as parts of a line. The reason of a failure is a part of its own.
pub(super) fn state(view: &View) -> Vec<Part> {
    let mut parts = Vec::new();
    for (place, text) in view.state.iter().enumerate() {
        let importance = if place == 0 { 1 } else { 4 };
        match text.split_once(": ") {
            Some((short, reason)) => parts.extend([(importance, short.to_string()), (4, reason.to_string())]),
            None => parts.push((importance, text.clone())),
        }
    }
    parts
}

fn on_hosts(ranks: &[Rank]) -> String {
    let mut hosts: Vec<&str> =
        ranks.iter().map(|rank| rank.host.as_str()).filter(|host| !host.is_empty()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    if hosts.is_empty() { String::new() } else { format!(" on {}", count(hosts.len() as u64, "host")) }
}

/// Returns the diagnosis of a part of the run or, if ranks are silent, the rank that has been silent for longest, and how the others spent their
/// time.
pub(super) fn why(run: &Run, span: (f64, f64)) -> Vec<String> {
    if run.has_ended {
        return vec![diagnosis(run)];
    }
    let last = if span.0 > 0.0 { format!("Last {}: ", rough(span.1 - span.0)) } else { String::new() };
    let silent: Vec<(usize, f64)> =
        (0..run.ranks.len()).filter_map(|rank| Some((rank, silence(run, rank)?))).collect();
    let Some((rank, silence)) = silent.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return vec![match diagnosis_of_part(run, span) {
            Some(why) => last + &why,
            None => "The activity of the ranks is unknown.".to_string(),
        }];
    };
    let silence = rough(*silence);
    let mut sentences = vec![match silent.len() {
        1 => format!("Rank {rank} has written nothing for {silence}."),
        count => format!("{count} ranks have written nothing, rank {rank} for {silence}."),
    }];
    let others = (0..run.ranks.len()).filter(|rank| self::silence(run, *rank).is_none());
    let sum = others.fold(Shares::default(), |sum, rank| sum.plus(shares(run, rank, span)));
    if sum.total() > 0.0 {
        sentences.push(format!(
            "{last}The other ranks computed for {} of the time and waited for {}.",
            percent(sum.useful() / sum.total(), 0),
            percent(sum.idle / sum.total(), 0)
        ));
    }
    sentences
}

/// Returns the sentences of [`why`] in at most `most` lines. If they do not fit, the shares of the time are left out, so that the cause is shown.
pub(super) fn why_lines(run: &Run, span: (f64, f64), width: usize, most: usize) -> Vec<String> {
    let text = why(run, span).join(" ");
    let lines = wrapped(&text, width, usize::MAX);
    if lines.len() <= most {
        return lines;
    }
    let cause = [", mostly for ", ", because "].iter().filter_map(|word| text.find(word)).min();
    let cause = cause.map(|place| format!("Loss: {}", &text[place + 2..]));
    wrapped(&cause.unwrap_or(text), width, most)
}

/// Returns the seconds since the last activity record of a rank, if the rank still runs and has recorded nothing for an
/// unusually long time.
pub(super) fn silence(run: &Run, rank: usize) -> Option<f64> {
    let its = &run.ranks[rank];
    if its.end.is_some() || run.has_ended || run.lost.contains(&rank) {
        return None;
    }
    let last = its.parts.last()?;
    let silence = run.seconds - last.to;
    (silence > MIN_SILENCE.max(3.0 * last.activity.seconds)).then_some(silence)
}

/// Returns the distribution of work, the number of decisions and the last change, as parts of a line.
pub(super) fn distribution(run: &Run) -> Vec<Part> {
    let mut parts = Vec::new();
    parts.extend(run.arrangements.last().map(|(at, arrangement)| match arrangement {
        Arrangement::Units(held) => {
            let (least, most) = (held.iter().min().unwrap_or(&0), held.iter().max().unwrap_or(&0));
            let total = held.iter().sum::<u64>();
            let left = if held_units(run).is_some() {
                String::new()
            } else {
                format!(" left at {}", units::time(*at))
            };
            (0, format!("Units{left}: {least} to {most} a rank, {total} in total"))
        }
        other => (0, arrangement_text(other)),
    }));
    let running: Vec<&TaskRun> =
        run.ranks.iter().flat_map(|rank| &rank.running).map(|&number| &run.tasks[number]).collect();
    let oldest = running.iter().min_by(|a, b| a.begin.total_cmp(&b.begin)).filter(|_| !run.has_ended);
    parts.extend(oldest.map(|task| {
        let (name, time) = (shown(&task.task), rough((run.seconds - task.begin).max(0.0)));
        let which = match running.len() {
            1 => "1 task runs,".to_string(),
            count => format!("{count} tasks run, longest"),
        };
        (0, format!("{which} on rank {} for {time}: {name}", task.rank))
    }));
    match run.decisions.len() {
        0 => {}
        count => {
            let acted = run.decisions.iter().filter(|decision| decision.acted).count();
            parts.push((4, format!("of {count} decisions {acted} made a change")));
        }
    }
    parts.extend(
        run.changes.last().map(|(at, name)| (3, format!("last change: {name} at {}", units::time(*at)))),
    );
    parts
}

/// Returns the distribution of work as one line: the mapping, the number of units (rows or
/// indices) of each rank of a loop, or the number of workers.
pub(crate) fn arrangement_text(arrangement: &Arrangement) -> String {
    match arrangement {
        Arrangement::Mapping(mapping) => {
            let stages: Vec<String> =
                mapping.stages.iter().map(|(name, ranks)| format!("{}@{ranks}", shown(name))).collect();
            format!("Stages: {}", stages.join(" | "))
        }
        Arrangement::Units(held) => {
            let some: Vec<String> = held.iter().take(32).map(u64::to_string).collect();
            let rest = if held.len() > 32 { " …" } else { "" };
            format!("Units of the ranks: {}{rest}", some.join(" "))
        }
        Arrangement::Workers(workers) => format!("Workers: {workers}"),
    }
}
