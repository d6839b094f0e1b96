//! Checks an event log: the times and item counts that each rank has logged must agree with the totals that rank 0 has logged at the end of the run.

use std::path::Path;

use armature::observe::{Event, Record, read};

/// Largest difference between a rank's logged times and its total, relative to the total.
const TOLERANCE: f64 = 0.02;
/// Additional tolerance in seconds for a rank's work time. If ranks outnumber cores, a thread may wait 5 ms for its core between two readings of the
/// clock.
const WORK_SLACK: f64 = 5e-3;
/// Additional tolerance in seconds for sums of call times, each of which is logged to 0.1 µs.
const CALLS_SLACK: f64 = 200e-6;

#[derive(Debug, Default)]
struct RankTotals {
    kinds: usize,
    is_pipeline: bool,
    is_workflow: bool,
    work: f64,
    calls: f64,
    messages: f64,
    done: u64,
    accounted: f64,
    seconds: f64,
    has_ended: bool,
}

/// Checks the times that the ranks have logged, for each run in `directory` that has logged its totals and has lost no rank. Returns the number of
/// checked runs.
///
/// # Panics
/// If the times of a rank differ from its totals, if the activities of a rank take longer than the
/// elapsed time, or if a single rank has logged message time. `what` names the program in the panic
/// message.
#[track_caller]
pub fn check(directory: &Path, what: &str) -> usize {
    let Ok(log) = read(directory) else { return 0 };
    let runs = log.records.chunk_by(|a, b| a.run == b.run);
    runs.filter(|records| check_run(records, what)).count()
}

#[track_caller]
fn check_run(records: &[Record], what: &str) -> bool {
    let totals = records.iter().find_map(|record| match &record.event {
        Event::Totals { done, busy_s } => Some((done, busy_s)),
        _ => None,
    });
    let is_without_a_rank = records.iter().any(|record| matches!(record.event, Event::Lost { .. }));
    let has_ended = records.iter().any(|record| record.event.is_end());
    assert!(totals.is_some() || !has_ended, "{what}, run {}: it has ended and has no totals", records[0].run);
    let Some((done, busy)) = totals.filter(|_| !is_without_a_rank) else { return false };
    // Near the end of a farm, idle ranks also compute tasks of slower ranks, and the farm ends when these results arrive. Only the logs of the slower
    // ranks count the tasks that they still compute.
    let has_copies = records.iter().any(|record| matches!(record.event, Event::Copied { .. }));
    for rank in 0..busy.len() {
        let rank_totals = sum_records(records, rank);
        let ranks = busy.len();
        let place = format!("{what}, run {}, rank {rank} of {ranks}: {rank_totals:?}", records[0].run);
        if !rank_totals.has_ended {
            continue;
        }
        let busy = busy[rank];
        let is_near = |seconds: f64, slack: f64| {
            let excess = seconds - busy;
            excess >= -(TOLERANCE * busy + slack) && (has_copies || excess <= TOLERANCE * busy + slack)
        };
        assert!(is_near(rank_totals.calls, CALLS_SLACK), "busy for {busy} s by the summary; {place}");
        // A rank of a workflow may run more commands at once than it has cores. Its work time is then less than the sum of its commands' times, which
        // would not fit into the time of the rank.
        let has_no_room = busy + rank_totals.accounted - rank_totals.work
            >= (1.0 - TOLERANCE) * rank_totals.seconds - WORK_SLACK;
        let is_full = rank_totals.is_workflow && rank_totals.work < busy && has_no_room;
        assert!(
            is_near(rank_totals.work, WORK_SLACK) || is_full,
            "busy for {busy} s by the summary; {place}"
        );
        let excess = rank_totals.done as f64 - done[rank];
        assert!(excess > -1.0 && (has_copies || excess < 1.0), "{} done by the summary; {place}", done[rank]);
        assert!(ranks > 1 || rank_totals.messages == 0.0, "with whom? {place}");
    }
    true
}

#[track_caller]
fn sum_records(records: &[Record], rank: usize) -> RankTotals {
    let mut rank_totals = RankTotals::default();
    for record in records.iter().filter(|record| record.rank == rank) {
        match &record.event {
            Event::RankStart(start) => {
                rank_totals.kinds = start.kinds.len();
                rank_totals.is_pipeline = start.what == "the pipeline";
                rank_totals.is_workflow = start.what == "the workflow";
            }
            Event::Activity(activity) => {
                let accounted = activity.work_s
                    + activity.idle_s
                    + activity.messages_s
                    + activity.set_up_s
                    + activity.parked_s;
                assert!(accounted <= activity.seconds + 1e-6, "rank {rank}: {accounted} s in {activity:?}");
                assert!(activity.lost_s <= activity.work_s + 1e-7, "rank {rank}: {activity:?}");
                rank_totals.accounted += accounted;
                rank_totals.work += activity.work_s;
                rank_totals.messages += activity.messages_s;
                rank_totals.seconds += activity.seconds;
            }
            Event::Work(work) => {
                rank_totals.calls += work.seconds;
                // The first and the last kind of user code of a pipeline are its source and its sink, whose items are not counted.
                if !rank_totals.is_pipeline || (1..rank_totals.kinds - 1).contains(&work.of) {
                    rank_totals.done += work.done;
                }
            }
            Event::RankEnd { seconds } => {
                rank_totals.has_ended = true;
                assert!(
                    (rank_totals.seconds - seconds).abs() < 1e-3,
                    "rank {rank}: {seconds} s, {rank_totals:?}"
                );
            }
            _ => {}
        }
    }
    rank_totals
}
