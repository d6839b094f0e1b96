//! Made-up runs whose ideal times are known.

use std::time::Duration;

use armature::observe::activity::Activity;
use armature::observe::steps::{Step, Steps, TimedStep};
use armature::observe::{Event, Record};
use proptest::prelude::*;

use super::*;
use crate::diagnosis;
use crate::efficiency::{Efficiencies, Extent, efficiencies, tree};
use crate::run::Skeleton;

/// What a rank does in a made-up run. Times are in milliseconds.
#[derive(Clone, Copy, Debug)]
enum Do {
    Work(u64),
    /// Sends a message, which takes so long.
    Send(usize, u64),
    /// Waits for the next message of this rank.
    Await(usize),
    /// Begins a job, beside which it goes on.
    Begin(u64),
    /// Waits for that.
    End,
}
use Do::{Await, Begin, End, Send, Work};

const MS: f64 = 1e-3;

/// Runs the ranks as they would be on a network whose messages take as long as is said, and returns the log.
fn log(ranks: &[Vec<Do>]) -> Vec<Record> {
    let mut now = vec![0; ranks.len()];
    let mut next = vec![0; ranks.len()];
    let mut done: Vec<Vec<(u64, Step)>> = vec![Vec::new(); ranks.len()];
    let mut worked = vec![0; ranks.len()];
    // By sender and receiver: when messages come.
    let mut wires = vec![vec![Vec::<u64>::new(); ranks.len()]; ranks.len()];
    let mut taken = vec![vec![0; ranks.len()]; ranks.len()];
    let mut jobs: Vec<Option<(u64, u64)>> = vec![None; ranks.len()];
    loop {
        let mut moved = false;
        for me in 0..ranks.len() {
            let Some(what) = ranks[me].get(next[me]) else { continue };
            let step = match *what {
                Work(took) => {
                    now[me] += took;
                    worked[me] += took;
                    Step::Worked(Duration::from_millis(took))
                }
                Send(to, takes) => {
                    wires[me][to].push(now[me] + takes);
                    Step::Sent { to, number: wires[me][to].len() as u64 - 1 }
                }
                Await(from) => {
                    let number = taken[me][from];
                    let Some(&comes) = wires[from][me].get(number) else { continue };
                    taken[me][from] += 1;
                    now[me] = now[me].max(comes);
                    Step::Received { from, number: number as u64 }
                }
                Begin(took) => {
                    jobs[me] = Some((now[me] + took, took));
                    worked[me] += took;
                    Step::Begins
                }
                End => {
                    let (end, took) = jobs[me].take().expect("a job has begun");
                    now[me] = now[me].max(end);
                    Step::Ended(Duration::from_millis(took))
                }
            };
            done[me].push((now[me], step));
            next[me] += 1;
            moved = true;
        }
        if !moved {
            break;
        }
    }
    let time = now.iter().copied().max().unwrap_or_default();
    let mut records = Vec::new();
    for (rank, steps) in done.iter().enumerate() {
        let record = |at: u64, event| Record { at: at as f64 * MS, rank, run: 0, event };
        records.push(record(0, Event::RankStart(crate::situation::start(ranks.len()))));
        let before = |at: u64| Duration::from_millis(time - at);
        let seconds = time as f64 * MS;
        let steps = steps.iter().map(|&(at, step)| TimedStep { before: before(at), step }).collect();
        let work_s = worked[rank] as f64 * MS;
        let activity =
            Activity { seconds, work_s, idle_s: seconds - work_s, done: vec![1], ..Activity::default() };
        records.push(record(time, Event::Activity(activity)));
        records.push(record(time, Event::Steps(Steps { seconds, steps, is_cut: false })));
        records.push(record(time, Event::RankEnd { seconds }));
    }
    records.push(Record {
        at: time as f64 * MS,
        rank: 0,
        run: 0,
        event: Event::Finish { items: 1, seconds: time as f64 * MS },
    });
    records.sort_by(|a, b| a.at.total_cmp(&b.at));
    records
}

fn run(ranks: &[Vec<Do>]) -> Run {
    Run::all(&log(ranks)).remove(0)
}

fn whole(run: &Run) -> Efficiencies {
    efficiencies(run, "run", (0.0, run.seconds)).expect("ranks tell of their time")
}

/// Serialisation and transfer efficiency of the run.
fn both(ranks: &[Vec<Do>]) -> (f64, f64) {
    let whole = whole(&run(ranks));
    (whole.serialisation_efficiency.expect("known"), whole.transfer_efficiency.expect("known"))
}

#[track_caller]
fn near(found: (f64, f64), expected: (f64, f64)) {
    assert!(
        (found.0 - expected.0).abs() < 1e-9 && (found.1 - expected.1).abs() < 1e-9,
        "{found:?} and not {expected:?}"
    );
}

#[test]
fn what_messages_alone_take_is_transfer() {
    // Both work all the time that they do not wait for messages, each of which takes 2 ms.
    let rank =
        |other: usize| -> Vec<Do> { (0..10).flat_map(|_| [Work(8), Send(other, 2), Await(other)]).collect() };
    near(both(&[rank(1), rank(0)]), (1.0, 0.8));
}

#[test]
fn work_that_goes_to_and_fro_is_serialisation() {
    let first = [Work(5), Send(1, 0), Await(1)].repeat(4);
    let second = [Await(0), Work(5), Send(0, 0)].repeat(4);
    near(both(&[first, second]), (0.5, 1.0));
}

#[test]
fn both_are_told_apart_where_there_are_both() {
    // 40 ms in turns of 5 ms, and 8 messages of 5 ms.
    let first = [Work(5), Send(1, 5), Await(1)].repeat(4);
    let second = [Await(0), Work(5), Send(0, 5)].repeat(4);
    near(both(&[first, second]), (0.5, 0.5));
}

#[test]
fn uneven_work_is_neither() {
    let run = run(&[vec![Work(10)], vec![Work(2)], vec![Work(6)]]);
    let whole = whole(&run);
    assert!((whole.load_balance - 0.6).abs() < 1e-9);
    near((whole.serialisation_efficiency.unwrap(), whole.transfer_efficiency.unwrap()), (1.0, 1.0));
}

#[test]
fn messages_that_come_beside_a_job_do_not_hold_it_up() {
    // Rank 0 computes 10 ms and serves rank 1 meanwhile, whose requests come late because messages are slow.
    let first = vec![Begin(10), Await(1), Send(1, 3), Await(1), End];
    let second = vec![Work(1), Send(0, 3), Await(0), Work(1), Send(0, 1)];
    let run = run(&[first, second]);
    assert!((run.seconds - 0.010).abs() < 1e-9, "{}", run.seconds);
    near(
        (whole(&run).serialisation_efficiency.unwrap(), whole(&run).transfer_efficiency.unwrap()),
        (1.0, 1.0),
    );
}

#[test]
fn a_phase_counts_what_lies_inside() {
    // Serial for 20 ms, and then messages of 5 ms between pieces of 5 ms.
    let mut first = vec![Work(10), Send(1, 0), Await(1)];
    let mut second = vec![Await(0), Work(10), Send(0, 0)];
    first.extend([Work(5), Send(1, 5), Await(1)].repeat(2));
    second.extend([Work(5), Send(0, 5), Await(0)].repeat(2));
    let mut run = run(&[first, second]);
    run.changes = vec![(0.020, "mapping 2".into())];
    let (rows, _) = tree(&run, 10);
    let of =
        |row: usize| (rows[row].serialisation_efficiency.unwrap(), rows[row].transfer_efficiency.unwrap());
    near(of(1), (0.5, 1.0));
    near(of(2), (1.0, 0.5));
    // A border in the middle of a piece of work.
    run.changes = vec![(0.005, "mapping 2".into())];
    let (rows, _) = tree(&run, 10);
    near((rows[1].ideal_time.unwrap(), rows[2].ideal_time.unwrap()), (0.005, 0.025));
}

#[test]
fn of_a_job_that_was_killed_as_much_is_known_as_its_log_has() {
    let rank =
        |other: usize| -> Vec<Do> { (0..10).flat_map(|_| [Work(8), Send(other, 2), Await(other)]).collect() };
    let mut records = log(&[rank(1), rank(0)]);
    records.retain(|record| !matches!(record.event, Event::RankEnd { .. } | Event::Finish { .. }));
    // Rank 1's log ends at 60 ms of 100.
    for record in records.iter_mut().filter(|record| record.rank == 1 && record.at > 0.0) {
        match &mut record.event {
            Event::Activity(activity) => {
                (activity.seconds, activity.work_s, activity.idle_s) = (0.06, 0.048, 0.012)
            }
            Event::Steps(steps) => {
                steps.seconds = 0.06;
                steps.steps.retain(|step| step.before >= Duration::from_millis(40));
                for step in &mut steps.steps {
                    step.before -= Duration::from_millis(40);
                }
            }
            _ => {}
        }
        record.at = 0.06;
    }
    records.sort_by(|a, b| a.at.total_cmp(&b.at));
    let run = Run::all(&records).remove(0);
    let (rows, _) = tree(&run, 10);
    assert_eq!(rows[0].serialisation_efficiency, None);
    assert_eq!((rows[1].extent, rows[1].name.as_str()), (Extent::Recorded, "recorded: 0.00 s to 0.06 s"));
    near((rows[1].serialisation_efficiency.unwrap(), rows[1].transfer_efficiency.unwrap()), (1.0, 0.8));
}

#[test]
fn what_the_log_lacks_is_not_known() {
    let rank =
        |other: usize| -> Vec<Do> { (0..10).flat_map(|_| [Work(8), Send(other, 2), Await(other)]).collect() };
    let records = log(&[rank(1), rank(0)]);
    let row = |records: &[Record]| tree(&Run::all(records)[0], 10).0;
    let keys = ["serialisationEfficiency", "transferEfficiency", "idealTime"];
    let known = |rows: &[Efficiencies]| {
        let json = serde_json::to_value(&rows[0]).expect("numbers");
        keys.map(|key| json.get(key).and_then(serde_json::Value::as_f64))
    };
    let rows = row(&records);
    assert_eq!(
        known(&rows),
        [rows[0].serialisation_efficiency, rows[0].transfer_efficiency, rows[0].ideal_time]
    );
    assert!(known(&rows).iter().all(Option::is_some));
    assert!(crate::csv(&rows).lines().next().is_some_and(|names| names.ends_with(&keys.join(","))));
    // Too many steps: the last of rank 0's are not written.
    let mut cut = records.clone();
    for record in cut.iter_mut().filter(|record| record.rank == 0) {
        if let Event::Steps(steps) = &mut record.event {
            steps.steps.retain(|step| step.before >= Duration::from_millis(50));
            (steps.is_cut, steps.seconds) = (true, 0.05);
        }
    }
    let rows = row(&cut);
    assert_eq!(known(&rows), [None; 3]);
    assert!(crate::csv(&rows).lines().nth(1).is_some_and(|row| row.ends_with(",,,")));
    assert_eq!(rows[1].name, "recorded: 0.00 s to 0.05 s");
    near((rows[1].serialisation_efficiency.unwrap(), rows[1].transfer_efficiency.unwrap()), (1.0, 0.8));
    // A log of before there were steps, and one of which a rank's file is missing.
    for is_kept in
        [(|record: &Record| !matches!(record.event, Event::Steps(_))) as fn(&Record) -> bool, |record| {
            record.rank == 0
        }]
    {
        let mut records = records.clone();
        records.retain(is_kept);
        let rows = row(&records);
        assert!(
            rows.len() == 1 && rows[0].ideal_time.is_none() && rows[0].transfer_efficiency.is_none(),
            "{rows:?}"
        );
    }
    // One whose messages go round in a circle.
    let mut circle = records.clone();
    for record in &mut circle {
        if let Event::Steps(steps) = &mut record.event {
            let (from, to) = (1 - record.rank, 1 - record.rank);
            let steps_of = [Step::Received { from, number: 0 }, Step::Sent { to, number: 0 }];
            steps.steps = steps_of.map(|step| TimedStep { before: Duration::ZERO, step }).to_vec();
        }
    }
    assert_eq!(row(&circle)[0].ideal_time, None);
}

#[test]
fn the_sentence_says_which_of_both_it_is() {
    let slow: Vec<Vec<Do>> = (0..2).map(|me| [Work(5), Send(1 - me, 5), Await(1 - me)].repeat(9)).collect();
    let mut slow = run(&slow);
    let said = diagnosis(&slow);
    assert!(
        said.contains(
            "because messages took long: if they took no time, the run would take 45.000 ms and not 90.000 ms"
        ),
        "{said}"
    );
    // Of a farm it may be something else that is not timed.
    slow.skeleton = Skeleton::Farm;
    assert!(
        diagnosis(&slow).contains("because messages, or the farm's source or sink, took long: if these took")
    );
    let first = [Work(5), Send(1, 0), Await(1)].repeat(4);
    let second = [Await(0), Work(5), Send(0, 0)].repeat(4);
    let said = diagnosis(&run(&[first, second]));
    assert!(said.contains("because ranks waited for what others computed: if messages took no time, the run would still take 40.000 ms of 40.000 ms"), "{said}");
}

/// Ranks that do anything, in an order in which no message is awaited before somebody sends it.
fn anything() -> impl Strategy<Value = Vec<Vec<Do>>> {
    let step = (0..4usize, 0..4usize, 0..5u8, 0..20u64);
    (2..5usize, prop::collection::vec(step, 1..80)).prop_map(|(ranks, steps)| {
        let mut all = vec![Vec::new(); ranks];
        let mut under_way = vec![vec![0; ranks]; ranks];
        let mut busy = vec![false; ranks];
        for (me, other, what, time) in steps {
            let (me, other) = (me % ranks, other % ranks);
            match what {
                0 if !busy[me] => all[me].push(Work(time)),
                1 if me != other => {
                    all[me].push(Send(other, time));
                    under_way[me][other] += 1;
                }
                2 if under_way[other][me] > 0 => {
                    all[me].push(Await(other));
                    under_way[other][me] -= 1;
                }
                3 if !busy[me] => {
                    all[me].push(Begin(time));
                    busy[me] = true;
                }
                4 if busy[me] => {
                    all[me].push(End);
                    busy[me] = false;
                }
                _ => {}
            }
        }
        (0..ranks).filter(|&me| busy[me]).for_each(|me| all[me].push(End));
        all
    })
}

proptest! {
    /// Messages that take no time make no run longer, none is shorter than what its busiest rank computes, and the tree multiplies to its root.
    #[test]
    fn the_ideal_time_lies_between_work_and_time(ranks in anything(), borders in (0.0..1.0f64, 0.0..1.0f64)) {
        let run = run(&ranks);
        let ideal = ideal_time(&run, (0.0, run.seconds));
        prop_assume!(run.seconds > 0.0);
        let ideal = ideal.expect("all is known");
        let useful = |run: &Run, times| {
            let worked = |rank| crate::efficiency::shares(run, rank, times).useful();
            (0..run.ranks.len()).map(worked).fold(0.0, f64::max)
        };
        prop_assert!(ideal <= run.seconds + 1e-9, "{ideal} of {}", run.seconds);
        prop_assert!(ideal >= useful(&run, (0.0, run.seconds)) - 1e-9);
        let whole = whole(&run);
        let (serialisation, transfer) = (whole.serialisation_efficiency.unwrap(), whole.transfer_efficiency.unwrap());
        if whole.useful_time > 0.0 {
            prop_assert!((serialisation * transfer - whole.communication_efficiency).abs() < 1e-9);
            prop_assert!((whole.load_balance * serialisation * transfer - whole.parallel_efficiency).abs() < 1e-9);
        }
        let part = (f64::min(borders.0, borders.1) * run.seconds, f64::max(borders.0, borders.1) * run.seconds);
        if part.1 > part.0 {
            let ideal = ideal_time(&run, part).expect("all is known");
            prop_assert!(ideal <= part.1 - part.0 + 1e-9, "{ideal} of {part:?}");
        }
    }
}
