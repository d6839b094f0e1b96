//! Tests of the two text forms of an event: a sentence for people, and a line of the event log.

use super::*;
use crate::observe::activity::{Activity, Longest, RankStart, Reached, SCHEMA, Traffic, Work};
use crate::observe::{PlannedTask, TaskWait, WaitedFor};

pub(in super::super) fn samples() -> Vec<Event> {
    let mapping = || "read@0 | scale@1,2".to_string();
    let stage = || "scale".to_string();
    let decision = Event::Decision {
        of: Subject::Mapping,
        current: mapping(),
        candidate: Some("read@0 | scale@1".to_string()),
        current_s: 0.25,
        candidate_s: Some(0.125),
        gain: 0.5,
        threshold: 0.1,
        benefit_s: 12.0,
        cost_s: 1.5,
        works_s: vec![0.05, 0.2],
        speeds: vec![1.0, 0.5],
        inputs: Vec::new(),
        acted: true,
        reason: "the gain has lasted for three periods".to_string(),
    };
    let none = Event::Decision {
        of: Subject::Mapping,
        current: mapping(),
        candidate: None,
        current_s: 0.25,
        candidate_s: None,
        gain: f64::NEG_INFINITY,
        threshold: 0.1,
        benefit_s: 0.0,
        cost_s: f64::INFINITY,
        works_s: Vec::new(),
        speeds: Vec::new(),
        inputs: Vec::new(),
        acted: false,
        reason: "the time ahead is not known".to_string(),
    };
    vec![
        Event::Start { ranks: 3, mapping: mapping(), balance: "live".to_string() },
        Event::Probe {
            speeds: vec![1.0, 0.5],
            slowest_link: Some(1.25e8),
            longest_delay: Some(4e-5),
            sharing: vec![(vec![0, 1], 1.0)],
        },
        Event::Probe { speeds: vec![1.0], slowest_link: None, longest_delay: None, sharing: Vec::new() },
        Event::Measured {
            stage: stage(),
            rank: 1,
            items: 40,
            seconds_per_item: 2e-3,
            by: "trimmed mean".to_string(),
            settled: false,
        },
        Event::Link {
            from: 1,
            to: 2,
            bandwidth: f64::INFINITY,
            setup: 25e-6,
            by: "the envelope".to_string(),
            settled: true,
        },
        decision,
        none,
        Event::Prepare { epoch: 2, mapping: mapping() },
        Event::WarmUp { stage: stage(), seconds: 0.5 },
        Event::Ready { epoch: 2 },
        Event::Switch { epoch: 2, mapping: mapping() },
        Event::HandOver { stage: stage(), to: 2, next_batch: 17, bytes: 1 },
        Event::TakeOver { stage: stage(), from: 1, next_batch: 17 },
        Event::Forwarded { epoch: 2, batches: 1 },
        Event::Snapshot { items: 1000, bytes: 20, took_s: 0.5, written_s: 0.25, next_s: 60.0 },
        Event::Outcome { of: Subject::Mapping, epoch: 2, before_s: 0.25, predicted_s: 0.125, after_s: 0.13 },
        Event::RankStart(RankStart {
            schema: SCHEMA,
            ranks: 2,
            what: "the pipeline".to_string(),
            host: "h1".to_string(),
            program: "ferret".to_string(),
            clock_s: 1.75e9,
            kinds: vec!["read".to_string(), "scale".to_string()],
            memory_limit: Some(1 << 30),
            threads: vec![0, 1],
        }),
        Event::Activity(Activity {
            seconds: 0.5,
            work_s: 0.25,
            idle_s: 0.125,
            done: vec![0, 12],
            longest: Some(Longest { of: 1, first: Some(7), count: 3, seconds: 0.125 }),
            ..Activity::default()
        }),
        Event::Work(Work { of: 1, done: 12, seconds: 0.25, steps: vec![(40, 8), (41, 4)] }),
        Event::Traffic(Traffic { to: vec![(1, 3, 4096)], ..Traffic::default() }),
        Event::Progress(Reached { done: 8, before: 0, total: 9, what: "tasks".to_string() }),
        Event::Progress(Reached { done: 8, before: 3, total: 9, what: "items".to_string() }),
        Event::RankEnd { seconds: 9.5 },
        Event::Finish { items: 1000, seconds: 250.0 },
        Event::FarmStart {
            farm: "squares".to_string(),
            ranks: 40,
            workers: 12,
            chunking: "auto".to_string(),
            balance: "once".to_string(),
        },
        workers(),
        Event::Totals { done: vec![40.0, 2.5], busy_s: vec![1.5, 0.25] },
        chunks(Some(1.5)),
        chunks(None),
        Event::Lost { rank: 2, tasks: 12, why: "its process has ended".to_string() },
        Event::Heard { rank: 2 },
        Event::Copied { from: 2, to: 3, first: 90, tasks: 4 },
        Event::Failures { failed: 0, retried: 3, again: 1 },
        Event::Parked { ranks: vec![3] },
        Event::Woken { ranks: vec![3, 5] },
        Event::Outcome { of: Subject::Workers, epoch: 1, before_s: 0.25, predicted_s: 0.125, after_s: 0.13 },
        Event::LoopStart { name: "sor".to_string(), units: 9, held: vec![5, 4], balance: "live".to_string() },
        Event::LoopEnd { passes: 3, seconds: 0.5 },
        Event::Moved { number: 1, units: 2, messages: 1, seconds: 0.25 },
        Event::Grain { block: 12, reason: "blocks of 12 are the fastest of four".to_string() },
        Event::Split { sub_masters: vec![1, 6], workers: 8, reason: "as many as were asked for".to_string() },
    ]
    .into_iter()
    .chain(of_a_workflow())
    .collect()
}

fn of_a_workflow() -> Vec<Event> {
    let task = || "sort".to_string();
    let wait =
        |waited_for, of: Option<&str>, seconds| TaskWait { waited_for, of: of.map(str::to_string), seconds };
    let waits = vec![
        wait(WaitedFor::Input, Some("split"), 1.5),
        wait(WaitedFor::Transfer, None, 0.25),
        wait(WaitedFor::Core, None, 2.5e-3),
        wait(WaitedFor::Memory, None, 0.125),
    ];
    let (by, reason) = (Some("HEFTM-MM".to_string()), "rank 1 is lost".to_string());
    let failure = Some("torn".to_string());
    vec![
        Event::WorkflowStart(WorkflowStart { name: "small".to_string(), ranks: 2, tasks: 11, known: 3 }),
        Event::Planned(Planned {
            by,
            ends_s: Some(12.5),
            seconds: 0.25,
            reason: reason.clone(),
            kept: false,
        }),
        Event::Planned(Planned { by: None, ends_s: None, seconds: 0.25, reason, kept: false }),
        Event::Plan(PlanInForce {
            tasks: 2,
            longest: vec![PlannedTask { task: task(), rank: 1, begin_s: 0.5, end_s: 2.0 }],
            held: vec![vec![(0.0, 12), (2.0, 0)], Vec::new()],
        }),
        Event::TaskHeld(TaskHeld { task: task(), limit: "db".to_string() }),
        Event::TaskBegan(TaskBegan { task: task(), attempt: 1, waits, reads: vec!["split".to_string()] }),
        Event::TaskBegan(TaskBegan { task: task(), attempt: 0, waits: Vec::new(), reads: Vec::new() }),
        Event::TaskEnded(TaskEnded {
            task: task(),
            seconds: 2.0,
            bytes: 4096,
            peak_memory: Some(1 << 20),
            failure: None,
        }),
        Event::TaskEnded(TaskEnded { task: task(), seconds: 2.0, bytes: 0, peak_memory: None, failure }),
        Event::ValueCame(ValueCame { task: task(), from: 1, bytes: 4096 }),
        Event::ValueSpilled(ValueOnDisk { task: task(), bytes: 4096 }),
        Event::ValueLoaded(ValueOnDisk { task: task(), bytes: 4096 }),
        Event::Held(Held { bytes: 4096, most: 8192, budget: Some(1 << 20) }),
        Event::WorkflowEnd(WorkflowEnd { tasks: 10, failed: 1, seconds: 12.0 }),
    ]
}

#[test]
fn workflow_events_are_displayed_as_sentences() {
    let texts: Vec<String> = of_a_workflow().iter().map(ToString::to_string).collect();
    assert_eq!(texts[0], "Workflow small starts with 11 tasks on 2 ranks; 3 were finished before.");
    assert_eq!(
        texts[1],
        "The planner ran for 250.000 ms, because rank 1 is lost: tasks now follow a plan of HEFTM-MM, which ends in 12.500 s."
    );
    assert_eq!(
        texts[5],
        "Task \"sort\" begins once more; it waited 1.500 s for the output of \"split\", 250.000 ms for its inputs to arrive, \
         2.500 ms for other tasks of the rank, 125.000 ms for memory."
    );
    assert_eq!(texts[6], "Task \"sort\" begins.");
    assert_eq!(texts[8], "Task \"sort\" failed after 2.000 s: torn.");
    assert!(
        texts[10].starts_with("The output of task \"sort\" was written to disk, because memory is short: "),
        "{}",
        texts[10]
    );
    assert_eq!(texts[12], "The rank holds 4 KiB for tasks (limit 1 MiB).");
}

fn workers() -> Event {
    Event::Decision {
        of: Subject::Workers,
        current: "12".to_string(),
        candidate: Some("23".to_string()),
        current_s: 0.25,
        candidate_s: Some(0.2),
        gain: 0.1,
        threshold: 0.02,
        benefit_s: 12.0,
        cost_s: 1.5e-3,
        works_s: Vec::new(),
        speeds: Vec::new(),
        inputs: vec![
            Input::new("start-up of a message", 1e-3, "s"),
            Input::new("and then", 2e-9, "s/byte"),
            Input::new("traffic", 4096.0, "bytes"),
            Input::new("part to workers", 0.5, ""),
        ],
        acted: true,
        reason: "the gain has lasted".to_string(),
    }
}

fn chunks(before_s: Option<f64>) -> Event {
    Event::Chunks {
        by: "fac2".to_string(),
        before: "dpf with f = 0.25".to_string(),
        left: 1000,
        workers: 3,
        mean_s: 4e-3,
        deviation_s: 2e-3,
        block: 1.2,
        message_s: 2e-6,
        predicted_s: 1.4,
        before_s,
        compared: 27,
    }
}

#[test]
fn farm_events_are_displayed_as_sentences() {
    assert_eq!(
        chunks(Some(1.5)).to_string(),
        "Chunking is now `fac2`, because it is the fastest of 27 for the 1000 tasks left on 3 workers: 1.400 s are \
         predicted, and 1.500 s with `dpf with f = 0.25`; a task takes 4.000 ms ± 50 %, neighbours differ as much as \
         other tasks, and a message takes 2.000 us."
    );
    assert_eq!(
        Event::Copied { from: 2, to: 3, first: 90, tasks: 1 }.to_string(),
        "Rank 3 is idle and runs 1 task from number 90 on as well, which rank 2 has not completed."
    );
    let lost = |tasks| Event::Lost { rank: 2, tasks, why: "its process has ended".to_string() }.to_string();
    assert_eq!(Event::Heard { rank: 2 }.to_string(), "Rank 2 sends heartbeats again and receives tasks.");
    assert_eq!(lost(0), "Rank 2 is lost: its process has ended; it held no tasks.");
    assert!(lost(12).ends_with("; its 12 tasks are requeued."), "{}", lost(12));
    assert_eq!(
        Event::Failures { failed: 0, retried: 3, again: 1 }.to_string(),
        "0 tasks failed at every attempt, 3 attempts were retried, and 1 task was requeued because a rank was lost."
    );
}

#[test]
fn every_event_is_one_sentence() {
    for event in samples() {
        let text = event.to_string();
        assert!(text.ends_with('.') && !text.contains('\n'), "{text}");
        assert!(text.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit()), "{text}");
    }
}

#[test]
fn every_event_round_trips_through_json() {
    for event in samples() {
        let line = serde_json::to_string(&event).unwrap();
        let back: Event = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert_eq!(back, event, "{line}");
    }
}

#[test]
fn decision_shows_its_inputs() {
    let texts: Vec<String> = samples().iter().map(ToString::to_string).collect();
    assert_eq!(
        texts[5],
        "The mapping is changed, because the gain has lasted for three periods: `read@0 | scale@1,2` takes \
         250.000 ms an item, `read@0 | scale@1` would take 125.000 ms; the gain is 50.0 % \
         (threshold 10.0 %); the change would save 12.000 s and cost 1.500 s; on the fastest rank an item takes 50.000 ms in read, \
         200.000 ms in scale, and the ranks' speeds are 1.00, 0.50."
    );
    assert!(texts[1].ends_with("; ranks 0, 1 share 1 core."), "{}", texts[1]);
    assert!(texts[6].starts_with("The mapping stays, because the time ahead is not known: "), "{}", texts[6]);
}

#[test]
fn plan_equal_to_the_current_mapping_is_shown_once() {
    let mapping = "read+scale@0 | write@0".to_string();
    let stays = Event::Decision {
        of: Subject::Mapping,
        current: mapping.clone(),
        candidate: Some(mapping),
        current_s: 0.25,
        candidate_s: Some(0.25),
        gain: 0.0,
        threshold: 0.1,
        benefit_s: 0.0,
        cost_s: 2.0,
        works_s: vec![0.05, 0.2, 0.0],
        speeds: vec![1.0],
        inputs: Vec::new(),
        acted: false,
        reason: "nothing better was found".to_string(),
    };
    assert_eq!(
        stays.to_string(),
        "The mapping stays, because nothing better was found: `read+scale@0 | write@0` takes 250.000 ms an item; on \
         the fastest rank an item takes 50.000 ms in read, 200.000 ms in scale, 0 s in write, and the ranks' speeds are 1.00."
    );
}

#[test]
fn decision_on_workers_mentions_workers() {
    let of_workers = |event: &Event| matches!(event, Event::Outcome { of: Subject::Workers, .. });
    let outcome = samples().into_iter().find(of_workers).unwrap();
    assert_eq!(
        workers().to_string(),
        "The number of workers is changed, because the gain has lasted: `12` takes 250.000 ms an iteration (a task of a stream), `23` would \
         take 200.000 ms; the gain is 10.0 %, including released workers (threshold 2.0 %); the change would save 12.000 s \
         and cost 1.500 ms; measured: start-up of a message 1.000 ms, and then 2.0 ns a byte, \
         traffic 4096 bytes, part to workers 0.50."
    );
    assert_eq!(
        outcome.to_string(),
        "After change number 1 of the number of workers, an iteration (a task of a stream) takes 130.000 ms; 125.000 \
         ms was predicted, and it took 250.000 ms before."
    );
}

#[test]
fn every_event_is_one_line_with_any_names() {
    const NAME: &str = "x\\n[ERROR rank 0] \\u001b[2J\\u2028\\u202e";
    for event in samples() {
        let mut value = serde_json::to_value(&event).unwrap();
        let before = event.to_string();
        for (key, field) in value.as_object_mut().unwrap() {
            let is_name =
                ["stage", "farm", "name", "mapping", "task", "limit", "host", "program", "failure", "why"];
            if is_name.contains(&key.as_str()) && field.is_string() {
                *field = serde_json::from_str(&format!("\"{NAME}\"")).unwrap();
            }
        }
        let text = serde_json::from_value::<Event>(value).unwrap().to_string();
        assert_eq!(text, armature_text::line(&text), "{before}");
    }
    let farm = |name: String| {
        let (chunking, balance) = ("auto".to_string(), "off".to_string());
        Event::FarmStart { farm: name, ranks: 1, workers: 1, chunking, balance }.to_string()
    };
    let start = farm(serde_json::from_str(&format!("\"{NAME}\"")).unwrap());
    assert!(start.starts_with(r"Farm x\n[ERROR rank 0] \u{1b}[2J\u{2028}\u{202e} starts"), "{start}");
    assert!(farm("x".repeat(500_000)).len() < 250);
}
