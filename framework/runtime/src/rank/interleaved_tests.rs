//! Tests of user code that runs on the communicating thread, because its calls were short, until one call takes longer than a rank may be
//! silent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::farm::Farm;
use crate::loops::ParallelFor;
use crate::pipeline::{MappingChoice, Pipeline};
use crate::session::{Config, Session, run};

const LIMIT: Duration = Duration::from_secs(1);

/// User code whose calls are short until the ranks have sent heartbeats, and whose next call is long.
struct Calls {
    begin: Instant,
    had_long: AtomicBool,
}

impl Calls {
    fn call(&self) {
        if self.begin.elapsed() > LIMIT && !self.had_long.swap(true, Ordering::Relaxed) {
            sleep(2 * LIMIT);
        }
    }

    fn are_over(&self) -> bool {
        self.had_long.load(Ordering::Relaxed)
    }
}

fn may_skip_poll(body: impl Fn(&mut Session, &Calls) -> crate::Result<()> + Sync) {
    let calls = Calls { begin: Instant::now(), had_long: AtomicBool::new(false) };
    let config = Config::new().ranks(2).progress(crate::Progress::Off).peer_limit(LIMIT);
    run(&config, |session| Ok(body(session, &calls)?)).unwrap();
    assert!(calls.are_over());
}

fn in_a_sink_of_a_pipeline(session: &mut Session, calls: &Calls) -> crate::Result<()> {
    let numbers = Pipeline::source("numbers", || (0u64..).take_while(|_| !calls.are_over()));
    let doubled = numbers.map("double", |n| 2 * n).mapping(MappingChoice::Text("double@1".into()));
    doubled.for_each(session, "sink", |_| calls.call()).map(drop)
}

fn in_a_source_of_a_pipeline(session: &mut Session, calls: &Calls) -> crate::Result<()> {
    let may_skip_poll = |_: &u64| {
        calls.call();
        !calls.are_over()
    };
    let numbers = Pipeline::source("numbers", || (0u64..).take_while(may_skip_poll));
    let doubled = numbers.map("double", |n| 2 * n).mapping(MappingChoice::Text("double@1".into()));
    doubled.for_each(session, "sink", drop).map(drop)
}

fn in_a_source_of_a_farm(session: &mut Session, calls: &Calls) -> crate::Result<()> {
    let may_skip_poll = |_: &u64| {
        calls.call();
        !calls.are_over()
    };
    let numbers = (0u64..).take_while(may_skip_poll);
    Farm::new("double", |n| 2 * n).dedicated_master().for_each(session, numbers, |_, _| ()).map(drop)
}

fn in_a_sink_of_a_farm(session: &mut Session, calls: &Calls) -> crate::Result<()> {
    let numbers = (0u64..).take_while(|_| !calls.are_over());
    Farm::new("double", |n| 2 * n)
        .dedicated_master()
        .for_each(session, numbers, |_, _| calls.call())
        .map(drop)
}

fn in_a_loop(session: &mut Session, calls: &Calls) -> crate::Result<()> {
    // While one rank is in the long call of user code, the other rank must wait for it.
    let body = |range: std::ops::Range<u64>| {
        range.for_each(|_| {
            calls.call();
            sleep(Duration::from_micros(1));
        });
        Ok(())
    };
    ParallelFor::new("indices", 0..60_000).block_size(4).run(session, body).map(drop)
}

#[test]
fn long_call_after_short_calls_does_not_end_the_job() {
    std::thread::scope(|scope| {
        for body in [
            in_a_sink_of_a_pipeline,
            in_a_source_of_a_pipeline,
            in_a_sink_of_a_farm,
            in_a_source_of_a_farm,
            in_a_loop,
        ] {
            scope.spawn(move || may_skip_poll(body));
        }
    });
}
