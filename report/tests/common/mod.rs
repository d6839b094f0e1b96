//! Synthetic logs for the tests of the page.

use std::path::{Path, PathBuf};

use armature::observe::activity::{Activity, Longest, RankStart, SCHEMA, Traffic, Work};
use armature::observe::{
    Event, Held, Log, PlanInForce, Planned, PlannedTask, Record, TaskBegan, TaskEnded, TaskWait, ValueCame,
    WaitedFor, WorkflowEnd, WorkflowStart,
};

/// Name that would run as a script if the page did not escape it.
pub(crate) const HOSTILE: &str =
    "</script><script>document.title='broken'</script><img src=x onerror=alert(1)>\"'&";

/// Returns the activity records of `rank` among `ranks` ranks, one for each of `parts` intervals of
/// `seconds` seconds.
pub(crate) fn rank(rank: usize, ranks: usize, parts: u32, seconds: f64, name: &str) -> Vec<Record> {
    let record = |at, event| Record { at, rank, run: 0, event };
    let start = RankStart {
        schema: SCHEMA,
        ranks,
        what: "the pipeline".into(),
        host: format!("h{}{name}", rank / 2),
        program: name.into(),
        clock_s: 1.7e9,
        kinds: vec!["numbers".into(), name.into(), "sum".into()],
        memory_limit: Some(8 << 30),
        threads: vec![2 * rank, 2 * rank + 1],
    };
    let mut records = vec![record(0.0, Event::RankStart(start))];
    for n in 1..=parts {
        // Rank 1 works all the time. The other ranks wait for it more and more, and rank 2 lacks its core in one of five intervals.
        let work = if rank == 1 { 0.97 } else { 0.9 - 0.6 * f64::from(n) / f64::from(parts) };
        let lost = if n % 50 < 10 && rank == 2 { 0.3 } else { 0.0 };
        let activity = Activity {
            seconds,
            work_s: work * seconds,
            idle_s: (1.0 - work) * 0.7 * seconds,
            messages_s: (1.0 - work) * 0.3 * seconds,
            lost_s: lost * seconds,
            done: vec![u64::from(rank == 0), 1, u64::from(rank == 0)],
            longest: Some(Longest { of: 1, first: Some(u64::from(n)), count: 1, seconds: work * seconds }),
            ..Activity::default()
        };
        records.push(record(f64::from(n) * seconds, Event::Activity(activity)));
    }
    let end = f64::from(parts) * seconds;
    let work = Work { of: 1, done: u64::from(parts), seconds: 0.6 * end, steps: vec![(44, 100), (45, 20)] };
    records.push(record(end, Event::Work(work)));
    let to = (0..ranks).filter(|to| *to != rank).map(|to| (to, 10, 4000 * (rank as u64 + 1))).collect();
    records.push(record(
        end,
        Event::Traffic(Traffic { to, memory_peak: Some(300 << 20), ..Traffic::default() }),
    ));
    records.push(record(end, Event::RankEnd { seconds: end }));
    records
}

/// Returns the log of a pipeline on four ranks whose mapping changes once. Stages, hosts and program contain `name`.
pub(crate) fn pipeline(name: &str) -> Log {
    let mut records: Vec<Record> = (0..4).flat_map(|n| rank(n, 4, 400, 0.025, name)).collect();
    let mut add_event = |at, event| records.push(Record { at, rank: 0, run: 0, event });
    let mapping = |ranks: &str| format!("numbers@0 | {name}@{ranks} | sum@0");
    add_event(0.0, Event::Start { ranks: 4, mapping: mapping("1"), balance: "live".into() });
    add_event(4.0, Event::Switch { epoch: 2, mapping: mapping("1-3") });
    let of = Default::default();
    add_event(6.0, Event::Outcome { of, epoch: 2, before_s: 0.03, predicted_s: 0.01, after_s: 0.012 });
    add_event(10.0, Event::Finish { items: 400, seconds: 10.0 });
    records.sort_by(|a, b| a.at.total_cmp(&b.at));
    let mut log = Log::new(records);
    log.notes.push(format!("rank-1.jsonl: {name}"));
    log
}

/// Returns the log of a workflow of `tasks` tasks on `ranks` ranks. Each task reads the results of up to three earlier
/// tasks. The run takes a third longer than planned, and after half of the time a new plan is made.
#[allow(dead_code, reason = "not every test program that shares this file uses it")]
pub(crate) fn workflow(tasks: usize, ranks: usize, name: &str) -> Log {
    let task_name = |n: usize| format!("{name}-{n}");
    let reads = |n: usize| {
        // Each task reads the results of the tasks with half and a third of its number, so that the dependencies form layers of growing width.
        let some = [n / 2, n / 3, n.saturating_sub(ranks)];
        let mut some: Vec<usize> = some.into_iter().filter(|&of| of < n).collect();
        some.sort_unstable();
        some.dedup();
        some
    };
    // Computes rank, begin and end of each task; each task takes `longer` times its planned time.
    let times = |longer: f64| {
        let (mut free, mut times) = (vec![0.0f64; ranks], Vec::new());
        for n in 0..tasks {
            let rank = n % ranks;
            let inputs = reads(n).into_iter().map(|of: usize| -> f64 {
                let (_, _, end) = times[of];
                end
            });
            let begin = inputs.fold(free[rank], f64::max);
            let end: f64 = begin + longer * (1.0 + (n * 7 % 5) as f64);
            free[rank] = end;
            times.push((rank, begin, end));
        }
        times
    };
    let (planned, actual) = (times(1.0), times(1.33));
    let last = |times: &[(usize, f64, f64)]| times.iter().map(|time| time.2).fold(0.0, f64::max);
    let seconds = last(&actual);
    let plan = |from: f64| {
        let some = planned.iter().enumerate().filter(|(_, time)| time.1 >= from).take(1000);
        PlanInForce {
            tasks: planned.iter().filter(|time| time.1 >= from).count() as u64,
            longest: some
                .map(|(n, &(rank, begin, end))| PlannedTask {
                    task: task_name(n),
                    rank,
                    begin_s: begin - from,
                    end_s: end - from,
                })
                .collect(),
            held: match from == 0.0 {
                true => {
                    (0..ranks).map(|_| (0..40).map(|n| (f64::from(n), 1 << (20 + n % 7))).collect()).collect()
                }
                false => Vec::new(),
            },
        }
    };
    let mut records = Vec::new();
    let mut add_event = |at, rank, event| records.push(Record { at, rank, run: 0, event });
    add_event(
        0.0,
        0,
        Event::WorkflowStart(WorkflowStart { name: name.into(), ranks, tasks: tasks as u64, known: 0 }),
    );
    for (at, from, reason) in
        [(0.0, 0.0, "the run begins"), (seconds / 2.0, last(&planned) / 2.0, "tasks take longer")]
    {
        let (by, ends_s) = (Some("HEFTM-BL".to_string()), Some(last(&planned) - from));
        add_event(
            at,
            0,
            Event::Planned(Planned { by, ends_s, seconds: 0.01, reason: reason.into(), kept: false }),
        );
        add_event(at, 0, Event::Plan(plan(from)));
    }
    for (n, &(rank, begin, end)) in actual.iter().enumerate() {
        let wait = TaskWait { waited_for: WaitedFor::Transfer, of: None, seconds: 0.25 };
        for of in reads(n).into_iter().filter(|&of| actual[of].0 != rank) {
            add_event(
                begin,
                rank,
                Event::ValueCame(ValueCame {
                    task: task_name(of),
                    from: actual[of].0,
                    bytes: 4096 * of as u64,
                }),
            );
        }
        let reads = reads(n).into_iter().map(task_name).collect();
        add_event(
            begin,
            rank,
            Event::TaskBegan(TaskBegan { task: task_name(n), attempt: 0, waits: vec![wait], reads }),
        );
        let (bytes, most) = (1 << (20 + n % 6), 1 << (20 + n % 8));
        add_event(begin, rank, Event::Held(Held { bytes, most, budget: Some(200 << 20) }));
        let failure = (n == 5).then(|| "torn".to_string());
        let ended = TaskEnded {
            task: task_name(n),
            seconds: end - begin,
            bytes: 1 << 20,
            peak_memory: None,
            failure,
        };
        add_event(end, rank, Event::TaskEnded(ended));
    }
    add_event(seconds, 0, Event::WorkflowEnd(WorkflowEnd { tasks: tasks as u64, failed: 0, seconds }));
    records.sort_by(|a, b| a.at.total_cmp(&b.at));
    Log::new(records)
}

/// Returns the stored log of a simulated run.
#[allow(dead_code, reason = "not every test program that shares this file uses it")]
pub(crate) fn stored_log(name: &str) -> Log {
    let path = repository().join("tests/golden/events").join(format!("{name}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut records: Vec<Record> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    records.sort_by(|a, b| a.run.cmp(&b.run).then(a.at.total_cmp(&b.at)));
    Log::new(records)
}

#[allow(dead_code, reason = "not every test program that shares this file uses it")]
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
