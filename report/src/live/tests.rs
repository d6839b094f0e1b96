//! Tests of the display of synthetic logs on terminals of many sizes.

use armature::observe::activity::{Longest, Reached};
use armature::observe::{Held, TaskBegan};

use super::*;
use crate::account::KINDS;
use crate::situation::start;

const WIDTHS: [usize; 7] = [usize::MAX, 200, 120, 80, 60, 40, 30];
const HEIGHTS: [usize; 4] = [80, 50, 24, 10];

fn live(events: Vec<(f64, usize, Event)>) -> Live {
    let mut live = Live::default();
    let records = events.into_iter().map(|(at, rank, event)| Record { at, rank, run: 0, event });
    live.take(&records.collect::<Vec<_>>());
    live
}

fn picture(live: &Live, width: usize, height: usize) -> String {
    let state = vec!["running".to_string(), "restarted 2 times".to_string()];
    live.picture(&View { job: "events", state, quiet_s: None, width, height })
}

fn farm_start(ranks: usize) -> Event {
    let (farm, chunking, balance) = ("rows".into(), "auto".into(), "live".into());
    Event::FarmStart { farm, ranks, workers: ranks, chunking, balance }
}

fn activity(work_s: f64, idle_s: f64, done: u64, number: u64) -> Event {
    let longest = Some(Longest { of: 0, first: Some(number), count: 1, seconds: 0.03412 });
    let (seconds, lost_s, done) = (1.0, 0.01 * work_s, vec![done]);
    Event::Activity(Activity { seconds, work_s, lost_s, idle_s, done, longest, ..Activity::default() })
}

/// Returns the events of a run of 30 s. Most ranks compute all the time; every eighth waits for a third of it, and the last rank for a half.
fn events(ranks: usize, start_event: Event, more: Vec<(f64, usize, Event)>) -> Vec<(f64, usize, Event)> {
    let mut events = vec![(0.0, 0, start_event)];
    events.extend((0..ranks).map(|rank| (0.0, rank, Event::RankStart(start(ranks)))));
    for second in 1..=30_u32 {
        events.extend((0..ranks).map(|rank| {
            let idle = if rank + 1 == ranks {
                0.5
            } else if rank % 8 == 7 {
                1.0 / 3.0
            } else {
                0.002
            };
            let number = u64::from(second) * 100 + rank as u64;
            (f64::from(second), rank, activity(0.996 - idle, idle, 30, number))
        }));
        let done = u64::from(second) * ranks as u64 * 30;
        let reached = Reached { done, before: 0, total: 90_000, what: "tasks".into() };
        events.push((f64::from(second), 0, Event::Progress(reached)));
    }
    events.extend(more);
    events
}

fn runs(ranks: usize) -> Vec<Live> {
    let units = Event::LoopStart {
        name: "heat".into(),
        units: 5 * ranks as u64,
        held: vec![5; ranks],
        balance: "live".into(),
    };
    let names: Vec<String> = (0..ranks).map(|rank| rank.to_string()).collect();
    let mapping = format!("read@0 | segment+extract@{} | write@0", names.join(","));
    let pipeline = Event::Start { ranks, mapping, balance: "live".into() };
    let workflow: armature::observe::WorkflowStart = serde_json::from_value(
        serde_json::json!({"name": "montage", "ranks": ranks, "tasks": 5000, "known": 0}),
    )
    .unwrap();
    let tasks = (0..ranks).flat_map(|rank| {
        let task = format!("project the image of tile {rank} onto the common plane");
        let began = TaskBegan { task, attempt: 0, waits: Vec::new(), reads: Vec::new() };
        let held = Held { bytes: 300_000, most: 400_000, budget: Some(40_000_000) };
        [(17.5, rank, Event::TaskBegan(began)), (18.0, rank, Event::Held(held))]
    });
    vec![
        live(events(ranks, farm_start(ranks), Vec::new())),
        live(events(ranks, units, Vec::new())),
        live(events(ranks, pipeline, Vec::new())),
        live(events(ranks, Event::WorkflowStart(workflow), tasks.collect())),
    ]
}

/// Returns the lines of the table without its heading, the numbers of their ranks, and the sum of their shares in per cent.
fn table_rows(text: &str) -> Vec<(&str, usize, u32)> {
    let table = text.lines().skip_while(|line| !line.trim_start().starts_with("rank "));
    let rows = table.skip(1).take_while(|line| !line.is_empty() && !line.contains("not shown"));
    rows.map(|row| {
        let words: Vec<&str> = row.split_whitespace().collect();
        let percentages =
            words.windows(2).filter(|pair| pair[1] == "%").filter_map(|pair| pair[0].parse::<u32>().ok());
        let ranks = match words[..2] {
            ["all", _] => 0,
            [count, "ranks"] => count.parse().unwrap(),
            _ => 1,
        };
        (row, ranks, percentages.sum())
    })
    .collect()
}

/// On a terminal of any size, no line is too long. Each rank is in one row of the table or counted as left out. The shares of each row have the sum
/// 100 %.
#[test]
fn picture_fits_terminals_of_all_sizes_and_its_columns_add_up() {
    for ranks in [1, 4, 64, 256] {
        for live in runs(ranks) {
            for (width, height) in WIDTHS.iter().flat_map(|width| HEIGHTS.map(|height| (*width, height))) {
                let text = picture(&live, width, height);
                let at = format!("{ranks} ranks, {width} x {height}:\n{text}");
                assert!(text.lines().count() <= height, "{at}");
                assert!(text.lines().all(|line| length(line) <= width), "{at}");
                let rows = table_rows(&text);
                assert!(rows.iter().all(|(_, _, sum)| *sum == 100), "{at}");
                assert_eq!(
                    rows.iter().filter(|(_, ranks, _)| *ranks == 0).count(),
                    usize::from(ranks > 1),
                    "{at}"
                );
                let left_out = text
                    .lines()
                    .find_map(|line| line.split_once(&format!(" of {ranks} ranks are not shown")));
                let left_out: usize = left_out.map_or(0, |(count, _)| count.parse().unwrap());
                assert_eq!(rows.iter().map(|row| row.1).sum::<usize>() + left_out, ranks, "{at}");
            }
        }
    }
}

/// Whatever the size of the terminal, the state, the finished work, the predicted end and the cause of waiting are shown.
#[test]
fn small_terminals_keep_what_matters() {
    for live in runs(64) {
        for (width, height) in [(80, 24), (60, 24), (40, 24), (60, 10), (40, 10)] {
            let text = picture(&live, width, height);
            for part in ["running", "57600 of 90000 tasks done", "about 17 s left", "computes", "waits"] {
                let is_workflow = text.starts_with("Workflow");
                assert!(is_workflow || text.contains(part), "{part} at {width} x {height}:\n{text}");
            }
        }
    }
}

#[test]
fn narrow_terminals_leave_out_the_least_important_columns_first() {
    let [farm, pixels, _, workflow] = runs(4).try_into().unwrap();
    let head = |live: &Live, width| {
        let text = picture(live, width, 24);
        let line = text.lines().find(|line| line.trim_start().starts_with("rank ")).unwrap().to_string();
        line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("|")
    };
    let all = KINDS.join("|");
    assert_eq!(head(&farm, 200), format!("rank|host|does|{all}|tasks|a second|longest call"));
    assert_eq!(head(&farm, 125), format!("rank|does|{all}|tasks|a second|longest call"));
    assert_eq!(head(&farm, 110), format!("rank|does|{all}|tasks|a second"));
    assert_eq!(head(&farm, 92), format!("rank|does|{all}|tasks"));
    assert_eq!(head(&farm, 80), "rank|does|computes|no core|messages|not known|other|waits|tasks");
    assert_eq!(head(&farm, 60), "rank|does|computes|no core|other|waits|tasks");
    assert_eq!(head(&farm, 40), "rank|does|computes|other|waits");
    assert_eq!(head(&farm, 30), "rank|computes|other|waits");
    assert_eq!(head(&farm, 20), "rank|computes");
    assert_eq!(head(&pixels, 60), "rank|does|computes|no core|other|waits|holds");
    assert_eq!(head(&workflow, 80), "rank|does|computes|no core|other|waits|tasks|runs");
    assert_eq!(head(&workflow, 40), "rank|does|computes|other|waits");
}

/// A decision in the middle of a pass of a DOALL loop is about the units that are left at its time. They are not all units of the loop.
#[test]
fn units_left_in_a_pass_are_not_shown_as_all_units() {
    let units =
        Event::LoopStart { name: "rows".into(), units: 800, held: vec![400; 2], balance: "live".into() };
    let mut live = live(events(2, units, Vec::new()));
    assert!(picture(&live, 120, 24).contains("400 of 800"));
    let decision = serde_json::json!({"kind": "decision", "of": "units", "current": "100 50", "candidate": "75 75", "current_s": 2.0,
        "candidate_s": 1.0, "gain": 0.5, "threshold": 0.1, "benefit_s": 1.0, "cost_s": 0.0, "acted": true, "reason": "it pays"});
    let event = serde_json::from_value(decision).unwrap();
    live.take(&[Record { at: 30.0, rank: 0, run: 0, event }]);
    let text = picture(&live, 120, 24);
    assert!(text.contains("Units left at 30 s: 75 to 75 a rank, 150 in total"), "{text}");
    assert!(!text.contains("of 150") && text.contains(" units  a second"), "{text}");
}

#[test]
fn ranks_that_do_alike_share_a_row_if_there_are_too_many() {
    let live = &runs(64)[0];
    let text = picture(live, 140, 24);
    let rows: Vec<String> = table_rows(&text)
        .iter()
        .map(|(row, _, _)| row.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let expected = [
        "63 h waits 49 % 1 % 0 % 0 % 0 % 0 % 50 % 900 30.00 task 3063: 34.1 ms",
        "7 ranks h computes 66 % 1 % 0 % 0 % 0 % 0 % 33 % 6300 210 ranks 7, 15, 23, 31, 39, 47, 55",
        "56 ranks h computes 99 % 1 % 0 % 0 % 0 % 0 % 0 % 50400 1680 ranks 0-6, 8-14, 16-22, 24-30, 32…",
        "all h 94 % 1 % 0 % 0 % 0 % 0 % 5 % 57600 1920",
    ];
    assert_eq!(rows, expected, "{text}");
    let text = picture(live, 120, 6);
    assert!(text.contains("63 of 64 ranks are not shown · none has a larger loss"), "{text}");
    assert_eq!(table_rows(&picture(live, 120, 80)).len(), 65);
}

/// The running task and its duration are shown even if its name does not fit.
#[test]
fn running_tasks_of_a_workflow_are_shown() {
    let workflow = &runs(4)[3];
    let wide = picture(workflow, 220, 24);
    assert!(
        wide.contains(
            "project the image of tile 3 onto the common plane for 13 s, holds 300.0 kB of 40.0 MB"
        ),
        "{wide}"
    );
    assert!(picture(workflow, 80, 24).contains("project the im… for 13 s"), "{}", picture(workflow, 80, 24));
    assert!(
        picture(workflow, 60, 10).contains("4 tasks run, longest on rank 0 for 13 s: project the image…")
    );
}

/// A run that has ended shows the shares of the whole run, as the page does, although the parts of the ranks' time were merged.
#[test]
fn ended_run_shows_the_whole_run() {
    let mut live = Live::default();
    for second in 1..=200_u32 {
        let work_s = if second <= 100 { 0.5 } else { 1.0 };
        let event = activity(work_s, 1.0 - work_s, 10, u64::from(second));
        live.take(&[Record { at: f64::from(second), rank: 0, run: 0, event }]);
    }
    assert!(live.run.as_ref().unwrap().ranks[0].parts.len() < 30);
    let text = picture(&live, 120, 24);
    assert!(text.contains("efficiency 74.2 %") && text.contains("Last 10 s: Nothing is wrong"), "{text}");
    live.take(&[Record { at: 200.0, rank: 0, run: 0, event: Event::Finish { items: 2000, seconds: 200.0 } }]);
    let text = picture(&live, 120, 24);
    assert!(text.contains("2000 tasks done in 3 min 20 s · the run has ended"), "{text}");
    assert!(text.contains(" 74 %") && text.contains(" 25 %   2000"), "{text}");
}

/// The display must not show the number of dispatched tasks as their total number, which is unknown. The final event contains the number of
/// completed tasks.
#[test]
fn unknown_total_is_not_shown() {
    let chunks = Event::Chunks {
        by: "gss".into(),
        before: "dpf".into(),
        left: 222,
        workers: 2,
        mean_s: 1e-3,
        deviation_s: 1e-4,
        block: 1.0,
        message_s: 1e-6,
        predicted_s: 0.2,
        before_s: None,
        compared: 11,
    };
    let mut events = vec![(0.0, 0, farm_start(2)), (1.0, 0, activity(0.9, 0.1, 60, 1)), (1.0, 0, chunks)];
    let text = picture(&live(events.clone()), 120, 20);
    assert!(text.contains("60 tasks done · 60.00 tasks/s in the last 1 s · end unknown"), "{text}");
    events.push((2.0, 0, Event::Finish { items: 300, seconds: 2.0 }));
    let text = picture(&live(events), 120, 20);
    assert!(text.contains("300 tasks done in 2 s · the run has ended"), "{text}");
}

/// Without any activity in the log, the display states that it is unknown and shows no empty table.
#[test]
fn activity_that_is_not_in_the_log_is_unknown() {
    let text = picture(&live(vec![(0.0, 0, farm_start(4))]), 80, 24);
    let expected = "Farm rows · 4 ranks · running · restarted 2 times · 0 s · efficiency unknown
progress unknown
The activity of the ranks is unknown.
Workers: 4
";
    assert_eq!(text, expected);
    let (state, quiet_s) = (vec!["killed: rank 0 has died".to_string()], Some(12.4));
    let view = View { job: "events", state, quiet_s, width: 80, height: 9 };
    assert_eq!(Live::default().picture(&view), "killed · rank 0 has died · no run has begun yet · events\n");
    let quiet = live(vec![(0.0, 0, farm_start(4))]).picture(&view);
    assert!(quiet.contains("nothing written for 12 s"), "{quiet}");
}
