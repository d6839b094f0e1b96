//! Several pipelines in one session, with and without pauses between them, and mappings from a file.

use std::time::Duration;

use armature::pipeline::{MappingChoice, Pipeline};
use armature::{BoxError, Session};

use crate::Case;
use crate::check::{Work, check_equal, noise};

pub(super) const CASES: &[Case] = &[
    Case { name: "many-pipelines", run: many_pipelines },
    Case { name: "ranks-come-late", run: ranks_come_late },
    Case { name: "mapping-file", run: mapping_file },
    Case { name: "body-only", run: |_| Ok(()) },
];

/// Pipelines that follow each other without a pause: no item or message of one may reach the next.
fn many_pipelines(session: &mut Session) -> Result<(), BoxError> {
    for run in 0..60u64 {
        let mut out = Vec::new();
        Pipeline::source("numbers", move || run..run + run % 7)
            .map("a", move |x| x * run)
            .map("b", |x| format!("{x}"))
            .mapping(if run % 3 == 0 { MappingChoice::Serial } else { MappingChoice::Orderly })
            .for_each(session, "collect", |item| out.push(item))?;
        let expected: Vec<String> = (run..run + run % 7).map(|x| format!("{}", x * run)).collect();
        check_equal(session, &format!("pipeline {run}"), &out, &expected)?;
    }
    Ok(())
}

/// Ranks enter each pipeline one after another, because they compute for different times before it.
fn ranks_come_late(session: &mut Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    for run in 0..4u64 {
        work.take(Duration::from_millis(noise(run, session.rank() as u64) % 40));
        let mut out = Vec::new();
        Pipeline::source("numbers", || 0..30u32)
            .map("a", move |x| x + run as u32)
            .map("b", |x| x * 2)
            .map("c", |x| x)
            .mapping(MappingChoice::Orderly)
            .for_each(session, "collect", |item| out.push(item))?;
        check_equal(session, "late", &out, &(0..30).map(|x| (x + run as u32) * 2).collect::<Vec<u32>>())?;
    }
    Ok(())
}

/// Reads the mapping of stages to ranks from a file with several lines and comments, which only rank 0 has.
fn mapping_file(session: &mut Session) -> Result<(), BoxError> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join(format!("mapping-{}.txt", session.rank()));
    let hosts: Vec<String> = (0..session.size()).map(|r| r.to_string()).collect();
    if session.is_root() {
        let text = format!("# by hand\nsquare@{} |\n  show@0 # the end\n", hosts.join(","));
        std::fs::write(&path, text)?;
    }
    let mut out = Vec::new();
    let outcome = Pipeline::source("numbers", || 0..40u64)
        .map("square", |x| x * x)
        .map("show", |x| x.to_string())
        .mapping(MappingChoice::from_arg(&path.to_string_lossy()))
        .for_each(session, "collect", |item| out.push(item))?;
    check_equal(session, "from a file", &out, &(0..40u64).map(|x| (x * x).to_string()).collect::<Vec<_>>())?;
    if let Some(summary) = outcome.into_summary() {
        assert_eq!(summary.mapping_text, format!("square@{} | show@0", hosts.join(",")));
    }
    Ok(())
}
