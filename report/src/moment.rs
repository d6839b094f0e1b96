//! State of a run at one time, as sentences.

use armature::observe::WaitedFor;
use armature_text::quoted;

use crate::diagnosis::diagnosis_of_part;
use crate::live::arrangement_text;
use crate::run::{Run, TaskRun};
use crate::tables::shown_of;
use crate::units::{self, bytes_text};

/// The ranks' activities are summed over this fraction of the run before the described moment, and
/// over the same time after it.
const SPAN_FRACTION: f64 = 0.01;
/// The ranks' activities are summed over at least this time in seconds before the described moment,
/// and after it.
const MIN_SPAN: f64 = 0.5;
/// Maximum number of running tasks that are listed, and of waiting tasks.
const MAX_TASKS: usize = 16;

/// Returns the state of the run at a time, in seconds since its start: the work distribution, the running tasks, the waiting tasks and the causes of
/// waiting, the ranks' activities around that time, and the last decision before and the first one after. `None` if the time is outside of the
/// run.
///
/// ```
/// use armature::observe::{Event, Record};
/// use armature_report::{Run, moment};
///
/// let start = Event::FarmStart { farm: "rows".into(), ranks: 2, workers: 2, chunking: "auto".into(), balance: "live".into() };
/// let end = Event::Finish { items: 9, seconds: 4.0 };
/// let records = [(0.0, start), (4.0, end)].map(|(at, event)| Record { at, rank: 0, run: 0, event });
/// let run = &Run::all(&records)[0];
/// assert!(moment(run, 2.0).unwrap().contains(&"Workers: 2".to_string()));
/// assert_eq!(moment(run, 5.0), None);
/// ```
pub fn moment(run: &Run, at: f64) -> Option<Vec<String>> {
    if !(0.0..=run.seconds).contains(&at) {
        return None;
    }
    let arrangement = run.arrangements.iter().take_while(|(from, _)| *from <= at).last();
    let mut sentences: Vec<String> =
        arrangement.map(|(_, arrangement)| arrangement_text(arrangement)).into_iter().collect();
    sentences.extend(running(run, at));
    sentences.extend(waiting(run, at));
    for (rank, its) in run.ranks.iter().enumerate() {
        if let Some(held) = its.held.iter().take_while(|held| held.at <= at).last() {
            let of = its.budget.map_or(String::new(), |budget| format!(" (limit {})", bytes_text(budget)));
            sentences.push(format!("Rank {rank} held {} for tasks{of}.", bytes_text(held.bytes)));
        }
    }
    let half_width = MIN_SPAN.max(SPAN_FRACTION * run.seconds);
    let span = ((at - half_width).max(0.0), (at + half_width).min(run.seconds));
    if let Some(why) = diagnosis_of_part(run, span).filter(|_| span.1 > span.0) {
        sentences.push(format!("From {} to {}: {why}", units::time(span.0), units::time(span.1)));
    }
    let before = run.decisions.iter().take_while(|decision| decision.at <= at).last();
    let after = run.decisions.iter().find(|decision| decision.at > at);
    for (word, decision) in [("Before, at", before), ("Next, at", after)] {
        sentences.extend(
            decision.map(|decision| format!("{word} {}: {}", units::time(decision.at), decision.text)),
        );
    }
    Some(sentences)
}

fn running(run: &Run, at: f64) -> Vec<String> {
    let runs = |task: &&TaskRun| task.begin <= at && task.end.is_none_or(|end| at < end);
    let all: Vec<&TaskRun> = run.tasks.iter().filter(runs).collect();
    let sentences = all.iter().take(MAX_TASKS).map(|task| {
        format!(
            "Rank {} ran {}, which began {} before.",
            task.rank,
            quoted(&task.task),
            units::time(at - task.begin)
        )
    });
    sentences.chain(omitted_text(all.len(), "tasks that ran")).collect()
}

fn waiting(run: &Run, at: f64) -> Vec<String> {
    let all: Vec<(&TaskRun, &armature::observe::TaskWait)> =
        run.tasks.iter().filter_map(|task| Some((task, wait_at(task, at)?))).collect();
    let sentences = all.iter().take(MAX_TASKS).map(|(task, wait)| {
        let what = match (wait.waited_for, &wait.of) {
            (WaitedFor::Input, Some(of)) => format!("the output of {}", quoted(of)),
            (WaitedFor::Input, None) => "its inputs to be produced".to_string(),
            (WaitedFor::Transfer, _) => "its inputs to arrive".to_string(),
            (WaitedFor::Memory, _) => "memory".to_string(),
            _ => "other tasks of the rank".to_string(),
        };
        let (name, time) = (quoted(&task.task), units::time(wait.seconds));
        format!("{name} waited on rank {} for {what}, {time} in total.", task.rank)
    });
    sentences.chain(omitted_text(all.len(), "tasks that waited")).collect()
}

fn omitted_text(count: usize, what: &str) -> Option<String> {
    Some(shown_of(count, MAX_TASKS, what)).filter(|text| !text.is_empty())
}

/// Returns the cause for which a task waited at a time, if it waited. The waiting times in the log follow one another, and the last one ends when the
/// task begins.
fn wait_at(task: &TaskRun, at: f64) -> Option<&armature::observe::TaskWait> {
    let mut from = task.begin;
    for wait in task.waits.iter().rev() {
        let to = from;
        from -= wait.seconds;
        if from <= at && at < to {
            return Some(wait);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Decision, HeldAt, Rank};
    use crate::situation::Situation;
    use armature::observe::TaskWait;

    #[test]
    fn task_waits_precede_the_begin_of_the_task() {
        let wait = |waited_for, seconds| TaskWait { waited_for, of: None, seconds };
        let waits = vec![wait(WaitedFor::Input, 2.0), wait(WaitedFor::Memory, 1.0)];
        let task = TaskRun { begin: 10.0, waits, ..TaskRun::default() };
        let at = |at| wait_at(&task, at).map(|wait| wait.waited_for);
        assert_eq!(
            [6.9, 7.0, 8.9, 9.0, 10.0].map(at),
            [None, Some(WaitedFor::Input), Some(WaitedFor::Input), Some(WaitedFor::Memory), None]
        );
    }

    #[test]
    fn moment_describes_running_tasks_held_memory_and_last_decision() {
        let run = Situation::new(10.0).rank(9.5, 0.0).with(|run| {
            let decision = |at: f64, text: &str| Decision { at, acted: false, text: text.into() };
            run.decisions = vec![decision(2.0, "first"), decision(4.0, "second"), decision(6.0, "third")];
            run.tasks =
                vec![TaskRun { task: "sort".into(), begin: 4.5, end: Some(7.0), ..TaskRun::default() }];
            let held = vec![HeldAt { at: 1.0, bytes: 7, most: 9 }, HeldAt { at: 5.5, bytes: 8, most: 9 }];
            run.ranks[0] = Rank { held, budget: Some(100), ..run.ranks[0].clone() };
        });
        let sentences = moment(&run.run(), 5.0).unwrap();
        assert_eq!(
            sentences,
            [
                "Rank 0 ran \"sort\", which began 500 ms before.",
                "Rank 0 held 7 B for tasks (limit 100 B).",
                "From 4.5 s to 5.5 s: Nothing is wrong: the ranks computed for 95 % of the time, and waited for 5 %.",
                "Before, at 4 s: second",
                "Next, at 6 s: third",
            ]
        );
    }
}
