//! Tests of the page of complete logs: its content, its escaping and its size.

mod common;

use std::time::Instant;

use armature::observe::{Event, Log, PlanInForce, PlannedTask, Record};
use armature_report::{Figure, Job, Run, diagnosis, figure, page};

fn job() -> Job {
    Job { title: "a run".into(), ..Job::default() }
}

#[test]
fn page_has_no_external_resources() {
    let page = page(&common::pipeline("square"), &job());
    for from_elsewhere in ["http://", "https://", "src=\"", "href=", "@import", "url("] {
        let found = page.match_indices(from_elsewhere).map(|(at, _)| &page[at..(at + 60).min(page.len())]);
        // Addresses of the SVG namespace are allowed, because they are names that a browser does not load.
        let found: Vec<&str> = found.filter(|text| !text.starts_with("http://www.w3.org/2000/svg")).collect();
        assert!(found.is_empty(), "{found:?}");
    }
    for part in [
        "\"Ranks\"",
        "Efficiencies",
        "Ranks of each stage",
        "Speed of the ranks",
        "Items between source and sink",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn names_from_events_are_escaped_in_html() {
    let job = Job {
        title: common::HOSTILE.into(),
        outcome: Some(common::HOSTILE.into()),
        restarts: Some(1),
        ..Job::default()
    };
    let page_of = page;
    let page = page(&common::pipeline(common::HOSTILE), &job);
    // The page has two scripts, one of which contains data. A third script would come from a name that the
    // page does not escape.
    assert_eq!(page.matches("<script").count(), 2, "a name has become a script");
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<img"));
    let svg = figure(&Run::all(&common::pipeline(common::HOSTILE).records)[0], Figure::Mapping).unwrap();
    assert!(!svg.contains("<script") && !svg.contains("<img"));
    for tasks in [60, 600] {
        let log = common::workflow(tasks, 4, common::HOSTILE);
        let page = page_of(&log, &job);
        assert_eq!((page.matches("<script").count(), page.matches("<img").count()), (2, 0));
        for which in [Figure::Gantt, Figure::Graph, Figure::Memory] {
            let svg = figure(&Run::all(&log.records)[0], which).unwrap();
            assert!(!svg.contains("<script") && !svg.contains("<img"), "{which:?}");
        }
    }
}

/// The page must show the first plan and the last plan above the actual run, on the same time axis.
#[test]
fn workflow_page_shows_plans_above_execution_and_a_graph() {
    let log = common::workflow(40, 4, "task");
    let run = &Run::all(&log.records)[0];
    let gantt = figure(run, Figure::Gantt).unwrap();
    let at = |text: &str| gantt.find(text).unwrap_or_else(|| panic!("no {text} in {gantt}"));
    assert!(at("rank 0: task-0, planned from ") < at("rank 0: task-0 from "));
    assert!(at("rank 0: task-0 from ") < at("rank 1: task-1, planned from "));
    let page = page(&log, &job());
    assert!(page.contains("The initial plan predicts "), "no words on the plan");
    assert!(page.contains("One more plan was made during the run"));
    assert!(page.contains("1 change was made.") && !page.contains("Nothing was decided"));
    assert!(page.contains("\"name\":\"planned\""), "no memory that was planned");
    assert!(page.contains("<summary>Graph of the tasks</summary>"));
    let graph = figure(run, Figure::Graph).unwrap();
    assert_eq!(graph.matches("<circle class=\"node r").count(), 40);
    assert!(graph.contains("class=\"edge on-path\"") && graph.contains("; on the critical path</title>"));
    assert_eq!(graph.matches("failed\"").count(), 1);
    let memory = figure(run, Figure::Memory).unwrap();
    assert_eq!(memory.matches(">planned</text>").count(), 4);
    // A later plan is not drawn and does not widen the axis, even if it ended late.
    let delayed_task = PlannedTask { task: "late".into(), rank: 0, begin_s: 0.0, end_s: 1e6 };
    let delayed_task = PlanInForce { tasks: 1, longest: vec![delayed_task], held: Vec::new() };
    let mut three = run.clone();
    three.schedules.insert(1, (1.0, delayed_task));
    assert_eq!(figure(&three, Figure::Gantt).unwrap(), gantt);
    // The report of a run that is not a workflow has no task graph.
    assert_eq!(figure(&Run::all(&common::pipeline("square").records)[0], Figure::Graph), None);
}

/// With more than 500 tasks, the page must show a graph of the ranks instead of a graph of the tasks, and state this.
#[test]
fn graph_of_a_large_workflow_shows_ranks_instead_of_tasks() {
    for (tasks, ranks, circles) in [(500, 5, 500), (501, 5, 5), (20_000, 60, 32)] {
        let log = common::workflow(tasks, ranks, "t");
        let page = page(&log, &job());
        let is_of_ranks = page.contains(&format!("With {tasks} tasks the graph shows the ranks"));
        assert_eq!(is_of_ranks, tasks > 500);
        assert_eq!(page.contains("Showing 32 of 60 ranks, those that ran most tasks."), ranks > 32);
        let graph = figure(&Run::all(&log.records)[0], Figure::Graph).unwrap();
        let shapes = graph.matches("class=\"node r").count();
        assert_eq!(shapes, circles);
        assert_eq!(graph.contains("from rank 0 to rank 1: "), tasks > 500, "arrows");
        assert!(page.len() < 5_000_000, "{}", page.len());
    }
}

#[test]
fn million_events_make_a_page_below_5_mb() {
    let mut records: Vec<Record> =
        (0..64).flat_map(|n| common::rank(n, 64, 14_000, 0.01, "square")).collect();
    let activities = (0..120_000).map(|n| {
        let event = Event::Measured {
            stage: "square".into(),
            rank: 1,
            items: n,
            seconds_per_item: 0.001,
            by: "the mean".into(),
            settled: n % 2 == 0,
        };
        Record { at: 0.001 * n as f64, rank: 0, run: 0, event }
    });
    records.extend(activities);
    records.sort_by(|a, b| a.at.total_cmp(&b.at));
    assert!(records.len() > 1_000_000);
    let begin = Instant::now();
    let page = page(&Log::new(records), &job());
    eprintln!("{} bytes in {:?}", page.len(), begin.elapsed());
    assert!(page.len() < 5_000_000, "{}", page.len());
    assert!(page.contains("of 120000 events; armature events prints all"));
}

/// The size of the page must stay bounded for a program that runs many large workflows.
#[test]
fn many_large_workflows_make_a_page_below_5_mb() {
    let mut records = Vec::new();
    for run in 0..10 {
        let log = common::workflow(2500, 64, &format!("a-task-with-a-long-name-of-run-{run}"));
        records.extend(log.records.into_iter().map(|record| Record { run, ..record }));
        let ranks = (0..200).flat_map(|n| common::rank(n, 200, 100, 1.0, "square"));
        records.extend(ranks.map(|record| Record { run, ..record }));
    }
    records.sort_by(|a, b| a.run.cmp(&b.run).then(a.at.total_cmp(&b.at)));
    let page = page(&Log::new(records), &job());
    assert!(page.contains("Showing the 8 longest of 10 kinds of runs."));
    assert_eq!(page.matches("<section class=\"run\">").count(), 8);
    assert!(page.len() < 5_000_000, "{}", page.len());
}

#[test]
fn killed_run_is_shown_up_to_the_end_of_its_log() {
    let mut log = common::pipeline("square");
    log.records
        .retain(|record| record.at < 5.0 && !matches!(record.event, Event::Work(_) | Event::Traffic(_)));
    let run = &Run::all(&log.records)[0];
    assert!(!run.has_ended && (4.9..5.0).contains(&run.seconds), "{}", run.seconds);
    assert!(diagnosis(run).contains("did not end normally"));
    assert!(page(&log, &job()).contains("not in the log: it failed, was killed, or still runs"));
    // The records of half of the ranks and the start records of all ranks are removed from the log.
    log.records.retain(|record| record.rank > 1 && !matches!(record.event, Event::RankStart(_)));
    assert!(page(&log, &job()).contains("\"kind\":\"activity\""));
}

#[test]
fn non_finite_numbers_do_not_break_the_page() {
    let mut log = common::pipeline("square");
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1e300, 1e300] {
        let of = Default::default();
        let event = Event::Outcome { of, epoch: 9, before_s: value, predicted_s: value, after_s: value };
        log.records.push(Record { at: 1.0, rank: 0, run: 0, event });
        let event = Event::Probe {
            speeds: vec![value; 4],
            slowest_link: Some(value),
            longest_delay: None,
            sharing: vec![],
        };
        log.records.push(Record { at: 2.0, rank: 0, run: 0, event });
    }
    let page = page(&log, &job());
    // Beginnings of SVG attributes with positions and sizes, whose values must be valid numbers.
    for begin in
        [" d=\"", " x=\"", " y=\"", " cx=\"", " cy=\"", " x1=\"", " x2=\"", " y1=\"", " y2=\"", " width=\""]
    {
        for rest in page.split(begin).skip(1) {
            let value = rest.split('"').next().unwrap_or_default();
            assert!(!value.contains("NaN") && !value.contains("inf"), "{begin}{value}");
        }
    }
}

/// Compares the pages of stored simulated runs (pipeline, farm, loop, grid and workflow) with
/// golden files byte for byte. `ARMATURE_GOLDEN=write` updates the golden files.
#[test]
fn pages_of_simulated_runs_match_golden_files() {
    for name in ["pipeline", "farm", "doall", "grid", "workflow"] {
        let log = common::stored_log(name);
        let page = page(&log, &Job { title: name.into(), ..Job::default() });
        let golden = common::repository().join("report/tests/golden").join(format!("{name}.html"));
        // The script and the style sheet are the same on each page, so the golden files contain placeholders for them.
        let page_text = page
            .replace(include_str!("../assets/page.js"), "SCRIPT")
            .replace(include_str!("../assets/page.css"), "STYLE");
        if std::env::var("ARMATURE_GOLDEN").is_ok_and(|how| how == "write") {
            std::fs::write(&golden, &page_text).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        assert!(
            page_text == expected,
            "{name}: the page has changed; if it should have, ARMATURE_GOLDEN=write cargo test -p armature-report"
        );
    }
}
