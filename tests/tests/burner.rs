//! The process that burns a core as a load for tests must take its intended share of the core, and end with its parent.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use armature::loops::ParallelFor;
use armature::pipeline::{MappingChoice, Pipeline};
use armature::{BatchMode, Config, Driver};
use armature_tests::burner::{Load, Wave, share, two_cores};

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_armature-burner"))
}

/// Lock for the tests of this file, which compete for the same core.
fn alone() -> MutexGuard<'static, ()> {
    static CORE: Mutex<()> = Mutex::new(());
    CORE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn core() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().split([',', '-']).next().unwrap().parse().unwrap()
}

/// Fields of /proc/PID/stat count from 1 as in proc(5). Fields before the end of the process name cannot be read.
fn stat(id: u32, field: usize) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    text.rsplit_once(") ")?.1.split(' ').nth(field - 3)?.parse().ok()
}

fn median(mut values: [f64; 5]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[2]
}

const WINDOW: Duration = Duration::from_millis(300);

#[test]
fn load_process_gets_the_same_core_share_as_a_competing_thread() {
    let _alone = alone();
    let core = core();
    // Other work on the core takes equal time from the load and from the thread, so that the ratio of their times does not change.
    let ratio = median([(); 5].map(|()| {
        let burner = Load::on_core(core).start_from(binary()).unwrap();
        let thread_share = share(core, WINDOW).unwrap();
        let part = burner.part().unwrap();
        assert!((0.05..0.95).contains(&part), "the load says that it had {part} of a core that it shared");
        part / thread_share
    }));
    assert!((0.5..2.0).contains(&ratio), "it had {ratio} of what a thread beside it had");
}

#[test]
fn load_is_busy_for_the_duty_fraction_of_the_time() {
    let _alone = alone();
    let load = Load::on_core(core());
    let burnt = |load: Load| {
        let burner = load.start_from(binary()).unwrap();
        sleep(WINDOW);
        burner.cpu_time().unwrap().as_secs_f64()
    };
    let part = median([(); 5].map(|()| {
        let wave = burnt(load.wave(Wave::new(Duration::from_millis(30), 0.3).unwrap()));
        wave / burnt(load).max(0.01)
    }));
    assert!((0.1..0.65).contains(&part), "a wave of 0.3 burnt {part} of what a load without rest did");
}

#[test]
fn load_process_runs_in_the_session_of_its_parent() {
    let _alone = alone();
    let burner = Load::on_core(core()).start_from(binary()).unwrap();
    assert_eq!(stat(burner.id(), 6), stat(std::process::id(), 6));
}

#[test]
fn dropped_load_leaves_no_process() {
    let _alone = alone();
    let burner = Load::on_core(core()).start_from(binary()).unwrap();
    let id = burner.id();
    assert!(stat(id, 14).is_some());
    drop(burner);
    assert_eq!(stat(id, 14), None);
}

/// Waits for the end of a load, and kills it after 20 s, far longer than a correct load takes.
fn ends(child: &mut Child) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

#[test]
fn load_process_ends_when_its_parent_dies() {
    let _alone = alone();
    let core = core().to_string();
    let mut command = Command::new(binary());
    command
        .args(["burn", &core, "1000000000", "1000000000", "0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    sleep(Duration::from_millis(50));
    assert!(child.try_wait().unwrap().is_none(), "it has ended by itself");
    // The test closes the pipe to the load, as the kernel does when the parent of the load dies.
    drop(child.stdin.take());
    assert!(ends(&mut child));
}

#[test]
fn nonexistent_core_is_an_error() {
    let error = Load::on_core(1023).start_from(binary()).unwrap_err().to_string();
    assert!(error.contains("core 1023"), "{error}");
}

fn spin(seed: u64) -> u64 {
    (0..200_000)
        .fold(seed + 1, |x, _| std::hint::black_box(x.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (x >> 29)))
}

/// If another process takes the core at any moment, even while the rank reads a clock, the lost time must count as time of the loop body, which then
/// takes nearly the whole run. The loop runs on the communicating thread (driver `inline`): another thread could wait for its core before the time
/// measurement.
#[test]
fn time_lost_to_other_processes_counts_as_loop_busy_time() {
    let _alone = alone();
    let _loads = two_cores().unwrap().map(|core| Load::on_core(core).start_from(binary()).unwrap());
    let body = |range: std::ops::Range<u64>| {
        // Each call takes long enough that the runtime reads its CPU time.
        spin(range.start);
        Ok(())
    };
    let run = |session: &mut armature::Session| {
        Ok(ParallelFor::new("spin", 0..600).block_size(1).run(session, body)?.into_summary())
    };
    let config = Config::new().driver(Driver::Inline);
    let summary = armature::run(&config, run).unwrap().unwrap();
    let (computing, elapsed) = (summary.ranks[0].busy, summary.elapsed);
    assert!(computing > elapsed.mul_f64(0.95), "{computing:?} of {elapsed:?}");
    assert!(summary.ranks[0].off_core > elapsed.mul_f64(0.2), "the load was beside it: {summary}");
}

/// Stage times determine the estimated speed of a rank, so that time which another process takes from the core must count as stage time.
#[test]
fn time_lost_to_other_processes_counts_as_stage_time() {
    let _alone = alone();
    let _loads = two_cores().unwrap().map(|core| Load::on_core(core).start_from(binary()).unwrap());
    let run = |session: &mut armature::Session| {
        let pipeline = Pipeline::source("numbers", || 0..600u64).map("spin", spin);
        let pipeline = pipeline.mapping(MappingChoice::Serial).batch(BatchMode::Fixed(1));
        Ok(pipeline.for_each(session, "drop", drop)?.into_summary())
    };
    let config = Config::new().driver(Driver::Inline);
    let summary = armature::run(&config, run).unwrap().unwrap();
    let stage = &summary.ranks[0].stages[0];
    let (busy, elapsed) = (stage.busy(), summary.elapsed);
    assert!(busy > elapsed.mul_f64(0.95), "{busy:?} of {elapsed:?}");
    assert!(stage.lost > elapsed.mul_f64(0.2), "the load was beside it: {summary}");
}
