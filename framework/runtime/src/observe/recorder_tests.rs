//! Tests of the event log about the ranks' use of their time, in runs of pipelines, farms, loops and workflows on ranks that are threads.

use std::path::Path;
use std::time::Duration;

use crate::farm::Farm;
use crate::loops::ParallelFor;
use crate::observe::activity::{Activity, Reached, Work};
use crate::observe::{Event, Record, read};
use crate::pipeline::Pipeline;
use crate::{BoxError, Config, Driver, Session};

const RANKS: usize = 3;
const ITEMS: u64 = 60;

fn burn(n: u64) -> u64 {
    std::thread::sleep(Duration::from_millis(1));
    n + 1
}

fn records(body: impl Fn(&mut Session) -> Result<(), BoxError> + Sync) -> Vec<Record> {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::new().ranks(RANKS).events(Some(dir.path().into()));
    crate::run(&config, body).unwrap();
    read(dir.path()).unwrap().records
}

/// Checks that the event log of each rank has a start event, covers all time of the rank without gaps, and has an end event. Returns the numbers of
/// completed items, tasks or units of a loop by kind, from the `Activity` events and from the `Work` events.
#[track_caller]
fn accounted(records: &[Record], kinds: usize) -> (Vec<u64>, Vec<u64>) {
    let (mut in_parts, mut in_tallies) = (vec![0; kinds], vec![0; kinds]);
    for rank in 0..RANKS {
        let own: Vec<&Record> =
            records.iter().filter(|r| r.rank == rank && r.event.is_of_activity()).collect();
        let Some(Event::RankStart(start)) = own.first().map(|r| &r.event) else {
            panic!("no start: {own:?}")
        };
        assert_eq!((start.ranks, start.kinds.len()), (RANKS, kinds));
        let mut until = own[0].at;
        for record in &own {
            match &record.event {
                Event::Activity(activity) => {
                    let Activity { seconds, work_s, idle_s, parked_s, lost_s, done, .. } = activity;
                    assert!((record.at - seconds - until).abs() < 1e-5, "a gap before {record:?}");
                    assert!(work_s + idle_s + parked_s <= seconds + 1e-5 && lost_s <= seconds, "{record:?}");
                    until = record.at;
                    in_parts.iter_mut().zip(done).for_each(|(sum, done)| *sum += done);
                }
                Event::Work(Work { of, done, steps, .. }) => {
                    in_tallies[*of] += done;
                    assert_eq!(*done, steps.iter().map(|(_, count)| count).sum::<u64>(), "{record:?}");
                }
                _ => {}
            }
        }
        assert!(
            own.iter().any(|record| matches!(record.event, Event::RankEnd { .. })),
            "rank {rank}: {own:?}"
        );
    }
    (in_parts, in_tallies)
}

#[test]
fn farm_records_all_tasks_and_work_time() {
    let records = records(|session| {
        Farm::new("toil", burn).collect(session, 0..ITEMS)?;
        Ok(())
    });
    assert_eq!(accounted(&records, 1), (vec![ITEMS], vec![ITEMS]));
    let work: f64 = records
        .iter()
        .filter_map(|record| match &record.event {
            Event::Activity(activity) => Some(activity.work_s),
            _ => None,
        })
        .sum();
    assert!(work >= 0.9e-3 * ITEMS as f64, "{work}");
    let sent = |record: &Record| matches!(&record.event, Event::Traffic(traffic) if !traffic.to.is_empty());
    assert!(records.iter().any(sent));
}

#[test]
fn farm_records_all_iterations_on_every_rank() {
    let records = records(|session| {
        let again = |results: Vec<u64>, iteration| Ok((iteration < 2).then_some(results));
        Farm::new("toil", burn).iterate(session, (0..ITEMS).collect::<Vec<u64>>(), again)?;
        Ok(())
    });
    assert_eq!(accounted(&records, 1), (vec![3 * ITEMS], vec![3 * ITEMS]));
    // The event log of rank 0 must cover its time until the end of all three iterations of the farm, like those of the workers.
    let end = |record: &&Record| record.rank == 0 && matches!(record.event, Event::RankEnd { .. });
    let whole = records.iter().find_map(|record| match record.event {
        Event::Finish { seconds, .. } => Some(seconds),
        _ => None,
    });
    let (end, whole) = (records.iter().find(end).unwrap().at, whole.unwrap());
    assert!(end > 0.8 * whole, "rank 0 tells of {end} s of {whole} s");
}

#[test]
fn pipeline_records_each_stage() {
    let records = records(|session| {
        Pipeline::source("numbers", || 0..ITEMS).map("toil", burn).for_each(session, "out", drop)?;
        Ok(())
    });
    assert_eq!(accounted(&records, 3), (vec![ITEMS; 3], vec![ITEMS; 3]));
}

#[test]
fn loop_records_its_units() {
    let records = records(|session| {
        ParallelFor::new("toil", 0..ITEMS).collect(session, burn)?;
        Ok(())
    });
    assert_eq!(accounted(&records, 1), (vec![ITEMS], vec![ITEMS]));
}

#[test]
fn waiting_is_not_recorded_as_work_with_a_compute_thread() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::new().ranks(RANKS).driver(Driver::Threaded).events(Some(dir.path().into()));
    let pause = |ms| std::thread::sleep(Duration::from_millis(ms));
    crate::run(&config, |session| {
        let tasks = (0..15u64).inspect(|_| pause(30));
        Farm::new("doze", |n: u64| {
            pause(15);
            n
        })
        .collect(session, tasks)?;
        Ok(())
    })
    .unwrap();
    let (records, took) = recorded_and_took(dir.path());
    assert!(
        took > 0.2 && (0.9 * took..1.5 * took).contains(&records),
        "{records} s are recorded of {took} s"
    );
}

#[test]
fn progress_is_recorded_if_the_total_is_known() {
    let doze = |n: u64| {
        std::thread::sleep(Duration::from_millis(50));
        n
    };
    const DOZES: u64 = 90;
    let farm = records(|session| {
        Farm::new("doze", doze).collect(session, 0..DOZES)?;
        Ok(())
    });
    let pipeline = records(|session| {
        Pipeline::source("numbers", || 0..DOZES).map("doze", doze).for_each(session, "out", drop)?;
        Ok(())
    });
    let doall = records(|session| {
        ParallelFor::new("doze", 0..DOZES).collect(session, doze)?;
        Ok(())
    });
    for (records, counted) in [(farm, "tasks"), (pipeline, "items"), (doall, "units")] {
        let reached = records.iter().filter_map(|record| match &record.event {
            Event::Progress(reached) => Some((record.at, record.rank, reached)),
            _ => None,
        });
        let reached: Vec<(f64, usize, &Reached)> = reached.collect();
        assert!(!reached.is_empty(), "{counted}: nothing is recorded");
        let seconds = records.last().map_or(0.0, |record| record.at);
        assert!(reached.len() as f64 <= seconds, "{} words in {seconds} s", reached.len());
        for (at, rank, Reached { done, before, total, what }) in reached {
            assert!(at >= 1.0 && rank == 0, "{at} on rank {rank}");
            assert!(*done > 0 && done <= total && *before == 0, "{done} of {total}");
            assert_eq!((*total, what.as_str()), (DOZES, counted));
        }
    }
}

/// Returns the seconds in user code over all ranks twice: from the intervals of the ranks' time, and from the times of the calls.
fn recorded_and_took(log: &Path) -> (f64, f64) {
    let (mut records, mut took) = (0.0, 0.0);
    for record in read(log).unwrap().records {
        match record.event {
            Event::Activity(activity) => records += activity.work_s,
            Event::Work(work) => took += work.seconds,
            _ => {}
        }
    }
    (records, took)
}

/// Each call of user code must be counted as work, including the last one, although its duration is known only when it has ended.
#[test]
fn every_inline_job_is_recorded_as_work() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::new().ranks(2).driver(Driver::Inline).events(Some(dir.path().into()));
    crate::run(&config, |session| {
        let doze = |n: u64| {
            std::thread::sleep(Duration::from_millis(150));
            n
        };
        ParallelFor::new("doze", 0..4).collect(session, doze)?;
        Ok(())
    })
    .unwrap();
    let (records, took) = recorded_and_took(dir.path());
    assert!(
        took > 0.55 && (0.95 * took..1.1 * took).contains(&records),
        "{records} s are recorded of {took} s"
    );
}
