//! Farms whose workers die: programs for tests that kill ranks, which no other transport than processes can do.

use std::time::Duration;

use armature::farm::{Chunking, Farm};
use armature::{BoxError, Session};

use crate::Case;
use crate::check::{Work, noise, same, setting, that};

/// Not among the cases that run everywhere.
pub const CASES: &[Case] = &[Case { name: "farm-deaths", run: deaths }];

/// Tasks of one to three milliseconds. Whoever dies meanwhile, every result comes once; rank 0 says who was lost.
/// `ARMATURE_TEST_TASKS` is their number, `ARMATURE_TEST_SILENCE` how long a worker may be silent, in milliseconds.
fn deaths(session: &Session) -> Result<(), BoxError> {
    let work = Work::on(session);
    let tasks = setting("ARMATURE_TEST_TASKS", 1_000)? as u64;
    let silence = Duration::from_millis(setting("ARMATURE_TEST_SILENCE", 2_000)? as u64);
    let chunking = match std::env::var("ARMATURE_TEST_CHUNKING") {
        Ok(text) => text.parse()?,
        Err(_) => Chunking::Auto,
    };
    let mut farm = Farm::new("mortal", |x: u64| {
        work.take(Duration::from_micros(1_000 + noise(7, x) % 2_000));
        noise(3, x)
    });
    farm = farm.chunking(chunking).silence_limit(silence);
    let mut out = Vec::new();
    let summary = farm.map(session, 0..tasks, |number, x| {
        if number == 10 {
            crate::say("farm under way");
        }
        out.push((number, x.unwrap_or(0)));
    })?;
    let Some(summary) = summary else { return Ok(()) };
    same(session, "results", &out, &(0..tasks).map(|x| (x, noise(3, x))).collect::<Vec<_>>())?;
    that(summary.tasks == tasks && summary.failed == 0, || format!("not every task ended once\n{summary}"))?;
    crate::say(&format!("farm complete, lost {:?}, {:.3} s", summary.lost, summary.elapsed.as_secs_f64()));
    Ok(())
}
