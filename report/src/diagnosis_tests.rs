//! Tests of the diagnosis of synthetic runs, each with another cause of waiting.

use super::*;
use crate::mapping::Mapping;
use crate::run::Kind;
use crate::situation::Situation;

#[track_caller]
fn assert_diagnosis(run: &Run, expected: &str) {
    let text = diagnosis(run);
    assert!(text.contains(expected), "expected `{expected}` in: {text}");
}

/// Creates the statistics of a kind of user code. `by_rank` contains the number of calls and their total seconds on each rank.
fn kind(name: &str, by_rank: &[(u64, f64)]) -> Kind {
    let seconds = by_rank.iter().map(|(_, seconds)| seconds).sum();
    let by_rank = by_rank.iter().copied().enumerate().filter(|(_, (_, s))| *s > 0.0);
    Kind { name: name.into(), done: 100, seconds, by_rank: by_rank.collect(), ..Kind::default() }
}

#[test]
fn slow_rank_is_diagnosed() {
    let run = Situation::new(10.0).rank(5.0, 0.0).rank(5.2, 0.0).rank(9.6, 0.0).rank(5.1, 0.0);
    let run = run.with(|run| {
        run.kinds = vec![kind("task", &[(100, 5.0), (104, 5.2), (96, 9.6), (102, 5.1)])];
    });
    assert_diagnosis(&run.run(), "mostly for rank 2, which is 0.50 times as fast as the others");
}

#[test]
fn loaded_core_is_diagnosed() {
    let run = Situation::new(10.0).rank(5.0, 0.1).rank(5.2, 0.0).rank(9.6, 4.6).rank(5.1, 0.0).run();
    assert_diagnosis(&run, "mostly for rank 2, which had 0.52 of a core");
    let everywhere = Situation::new(10.0).rank(9.0, 4.5).rank(9.2, 4.6).run();
    assert_diagnosis(&everywhere, "each had 0.50 of a core");
}

#[test]
fn cpu_quota_is_diagnosed() {
    let run = Situation::new(10.0).rank(5.0, 0.0).rank(9.6, 8.45).with(|run| run.ranks[1].throttled_s = 8.0);
    assert_diagnosis(
        &run.run(),
        "rank 1, which had 0.12 of a core, because a CPU quota of its control group stopped it",
    );
    let both = Situation::new(10.0).rank(9.6, 8.45).rank(9.6, 8.45);
    let both = both.with(|run| run.ranks.iter_mut().for_each(|rank| rank.throttled_s = 8.0));
    assert_diagnosis(
        &both.run(),
        "because a CPU quota of their control groups stopped the ranks: each had 0.12 of a core",
    );
}

/// A cause is named only where at least 95 % of the time is known.
#[test]
fn no_cause_is_named_if_too_much_time_is_unknown() {
    for (unknown, is_named) in [(0.4, true), (0.6, false)] {
        let run = Situation::new(10.0).of(Skeleton::Loop).rank(9.5, 0.0).rank(4.0, 0.0).with(|run| {
            for part in run.ranks.iter_mut().flat_map(|rank| &mut rank.parts) {
                let activity = &mut part.activity;
                let moved = unknown * activity.seconds / 10.0;
                (activity.idle_s, activity.work_s) = (activity.idle_s - moved, activity.work_s);
                activity.work_s -= (activity.work_s + activity.idle_s + moved - activity.seconds).max(0.0);
            }
        });
        let text = diagnosis(&run.run());
        assert_eq!(text.contains("because the work is not balanced"), is_named, "{text}");
        assert_eq!(text.contains("another 6 % of the time was not measured"), !is_named, "{text}");
    }
}

/// The diagnosis of a run without messages does not name messages as a cause.
#[test]
fn single_rank_run_does_not_blame_messages() {
    let run = Situation::new(10.0).rank(4.0, 0.0).with(|run| {
        run.ranks[0].parts.iter_mut().for_each(|part| part.activity.idle_s = 0.0);
    });
    let text = diagnosis(&run.run());
    assert!(!text.contains("messages") && text.contains("60 % of the time was not measured"), "{text}");
}

#[test]
fn slow_link_is_diagnosed() {
    let run = Situation::new(10.0).of(Skeleton::Pipeline).rank(4.0, 0.0).rank(4.0, 0.0).rank(4.0, 0.0);
    let run = run.with(|run| {
        run.links.insert((1, 2), (1e6, 1e-4));
        run.slowest_probed = Some(1e8);
        run.ranks[1].sent.insert(2, (100, 9_000_000));
    });
    assert_diagnosis(&run.run(), "mostly for the link from rank 1 to rank 2, which carries 1000.0 kB/s");
}

#[test]
fn serial_stage_is_diagnosed() {
    let run = Situation::new(10.0).of(Skeleton::Pipeline).rank(2.0, 0.0).rank(9.5, 0.0).rank(3.0, 0.0);
    let run = run.with(|run| {
        let mapping = Mapping::parse("read@0 | sort@1 | write@2");
        run.arrangements.push((0.0, Arrangement::Mapping(mapping)));
        run.kinds = vec![
            kind("read", &[(100, 2.0)]),
            kind("sort", &[(0, 0.0), (100, 9.5)]),
            kind("write", &[(0, 0.0), (0, 0.0), (100, 3.0)]),
        ];
    });
    assert_diagnosis(&run.run(), "mostly for stage sort, which kept its only rank busy for 95 % of the time");
}

#[test]
fn too_small_chunks_are_diagnosed() {
    let run = Situation::new(10.0).busy(2.0, 0.0, 2.0).busy(3.0, 0.0, 4.0).busy(3.0, 0.0, 4.0);
    let run = run.with(|run| {
        run.kinds = vec![kind("task", &[(1_000_000, 2.0), (1_500_000, 3.0), (1_500_000, 3.0)])];
        run.kinds[0].done = 4_000_000;
        run.message_s = Some(1e-6);
    });
    assert_diagnosis(
        &run.run(),
        "the pieces of work are too small: a call of user code takes 2 µs, and a message 1 µs",
    );
}

#[test]
fn master_bottleneck_is_diagnosed() {
    let mut run = Situation::new(10.0).busy(0.5, 0.0, 0.5);
    for _ in 0..7 {
        run = run.rank(4.0, 0.0);
    }
    assert_diagnosis(
        &run.run(),
        "because rank 0, which dispatches the work, spent 90 % of its time on messages",
    );
}

#[test]
fn workflow_memory_shortage_is_diagnosed() {
    let run = Situation::new(10.0).of(Skeleton::Workflow).rank(5.0, 0.0).rank(5.0, 0.0);
    let run = run.with(|run| run.memory_wait_s = Some(8.0)).run();
    assert_diagnosis(&run, "because ready tasks waited for memory for 40 % of the time");
}

#[test]
fn unbalanced_work_is_diagnosed() {
    let run = Situation::new(10.0).of(Skeleton::Loop).rank(9.5, 0.0).rank(4.0, 0.0).rank(4.5, 0.0);
    let run = run.with(|run| run.kinds = vec![kind("unit", &[(190, 9.5), (80, 4.0), (90, 4.5)])]);
    assert_diagnosis(
        &run.run(),
        "because the work is not balanced: rank 0 computed for 9.5 s, and the mean is 6 s",
    );
}

#[test]
fn too_many_ranks_are_diagnosed() {
    let mut run = Situation::new(10.0);
    for _ in 0..8 {
        run = run.rank(2.0, 0.0);
    }
    assert_diagnosis(&run.run(), "2 ranks could have done it, and there are 8");
}

#[test]
fn efficient_run_has_no_diagnosed_problem() {
    let run = Situation::new(10.0).rank(9.5, 0.1).rank(9.4, 0.0).rank(9.6, 0.2).run();
    assert_diagnosis(&run, "Nothing is wrong: the ranks computed for 94 % of the time");
}

#[test]
fn unknown_causes_are_reported_as_unknown() {
    assert!(diagnosis(&Run::default()).contains("is unknown, because the log has no ranks"));
    let quiet = Situation::new(10.0).rank(6.9, 0.0).rank(7.1, 0.0).run();
    assert_diagnosis(&quiet, "no single cause stands out");
    let killed = Situation::new(10.0).rank(9.5, 0.0).with(|run| run.has_ended = false).run();
    assert_diagnosis(&killed, "The run did not end normally");
}

#[test]
fn more_ranks_than_cores_are_diagnosed() {
    let run = Situation::new(10.0).rank(9.0, 4.5).rank(9.2, 4.6).rank(9.1, 4.5).rank(9.0, 4.5);
    let run = run.with(|run| {
        for rank in &mut run.ranks {
            (rank.host, rank.threads) = ("node7".into(), vec![0, 1]);
        }
    });
    let run = run.run();
    assert_diagnosis(&run, "because 4 ranks share the 2 cores of node7: a computing rank had 0.50 of a core");
    assert!(advice(&run).unwrap().contains("at most as many ranks"));
}

#[test]
fn critical_path_is_diagnosed() {
    let task = |name: &str, rank, begin, end| crate::run::TaskRun {
        task: name.into(),
        rank,
        begin,
        end: Some(end),
        ..crate::run::TaskRun::default()
    };
    let run = Situation::new(10.0).of(Skeleton::Workflow).rank(9.9, 0.0).rank(3.0, 0.0);
    let run = run.with(|run| {
        run.tasks = vec![task("pull", 1, 0.0, 3.0), task("merge", 0, 0.0, 9.9)];
    });
    assert_diagnosis(
        &run.run(),
        "the 1 task of the critical path, one after another, took 99 % of the time; the longest is merge with 9.9 s",
    );
}

#[test]
fn workflow_without_open_tasks_had_nothing_to_do() {
    let run =
        Situation::new(0.001).of(Skeleton::Workflow).rank(0.0, 0.0).with(|run| run.total = Some(0)).run();
    assert_diagnosis(&run, "All tasks were completed before this run");
    assert_eq!(advice(&run), None);
}
