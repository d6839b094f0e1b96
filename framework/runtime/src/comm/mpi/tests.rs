//! Tests of the transport on a real MPI library: each test starts this test binary under `mpirun`, where the ranks run
//! one of the ignored tests.
//!
//! `ARMATURE_TEST_MPIRUN` is the launcher with its arguments, such as `mpirun.openmpi --oversubscribe`; the default is
//! the launcher of the library that this binary is linked to.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::start::YIELD_WHEN_IDLE;
use super::*;
use crate::comm::conformance;

/// Text that a rank of a test prints on success, followed by its rank, the number of ranks and the MPI library.
const MARK: &str = "conforming rank";

/// Time after which an `mpirun` of a test counts as hung.
const WATCHDOG: Duration = Duration::from_secs(120);

fn launcher(ranks: usize) -> Command {
    let library = start::library();
    let from_environment = std::env::var("ARMATURE_TEST_MPIRUN").ok();
    let default = if library.contains("Open MPI") {
        first_on_path(&["mpirun.openmpi", "mpirun"]) + " --oversubscribe --bind-to none"
    } else {
        first_on_path(&["mpirun.mpich", "mpiexec.hydra", "mpirun"])
    };
    let line = from_environment.unwrap_or(default);
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().expect("a launcher"));
    command.args(words).args(["-n", &ranks.to_string()]);
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    command
}

fn first_on_path(names: &[&str]) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |name: &&&str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    names.iter().find(found).expect("an MPI launcher on PATH").to_string()
}

fn run(ranks: usize, name: &str, env: &[(&str, &str)]) -> Output {
    let this = std::env::current_exe().expect("this binary");
    let test = format!("{}::{name}", module_path!().split_once("::").expect("a crate").1);
    let child = launcher(ranks)
        .arg(this)
        .args(["--exact", &test, "--ignored", "--nocapture", "--test-threads=1"])
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the launcher starts");
    let start = Instant::now();
    let id = child.id();
    let (done, finished) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if finished.recv_timeout(WATCHDOG) == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            && let Some(pid) = rustix::process::Pid::from_raw(id as i32)
        {
            // The launcher ends its ranks when it receives SIGTERM.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    });
    let output = child.wait_with_output().expect("the launcher ends");
    drop(done);
    watchdog.join().expect("the watchdog ends");
    assert!(start.elapsed() < WATCHDOG, "{name} on {ranks} ranks hung\n{}", text(&output));
    output
}

fn text(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\nstdout:\n{out}\nstderr:\n{err}", output.status)
}

/// Runs the conformance tests of transports, and checks that they ran on `ranks` ranks of the MPI library that this binary is linked to.
#[track_caller]
fn conforms(ranks: usize, env: &[(&str, &str)]) {
    let output = run(ranks, "as_rank", env);
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    for rank in 0..ranks {
        let line = format!("{MARK} {rank} of {ranks}, mpi: {}", start::library());
        assert!(text.contains(&line), "`{line}` is missing\n{text}");
    }
}

/// Environment variables that make MPI send almost no message eagerly. The values are the lowest eager limits that Open MPI accepts: a limit below
/// its largest header (56 bytes for ob1's rendezvous) breaks Open MPI. Shared memory still sends up to 256 bytes eagerly. The UCX variable is for an
/// MPICH that uses UCX.
const NO_EAGER: [(&str, &str); 5] = [
    ("UCX_RNDV_THRESH", "0"),
    ("OMPI_MCA_pml", "ob1"),
    ("OMPI_MCA_btl_vader_eager_limit", "64"),
    ("OMPI_MCA_btl_tcp_eager_limit", "64"),
    ("OMPI_MCA_btl_self_eager_limit", "64"),
];

#[test]
fn one_rank() {
    conforms(1, &[]);
}

#[test]
fn two_ranks() {
    conforms(2, &[]);
}

#[test]
fn two_ranks_with_yield_when_idle() {
    conforms(2, &[(YIELD_WHEN_IDLE, "1")]);
}

#[test]
fn three_ranks_with_bulk_data_in_tiny_pieces() {
    conforms(3, &[("TEST_SPLIT", "1009")]);
}

#[test]
fn four_ranks_with_few_small_slots() {
    conforms(4, &[("TEST_SLOTS", "2"), ("TEST_SLOT_BYTES", "64")]);
}

#[test]
fn two_ranks_without_eager_sends() {
    conforms(2, &NO_EAGER);
}

#[test]
fn three_ranks_without_eager_sends_over_tcp() {
    conforms(3, &[&NO_EAGER[..], &[("OMPI_MCA_btl", "self,tcp")]].concat());
}

#[test]
fn hostile_envelope_is_a_wire_error() {
    let output = run(2, "as_rank_with_a_hostile_peer", &[]);
    let text = text(&output);
    assert!(output.status.success() && text.contains("refused"), "{text}");
}

#[test]
fn abort_ends_every_rank_with_a_failure() {
    let start = Instant::now();
    let output = run(3, "as_rank_that_aborts", &[]);
    assert!(!output.status.success(), "{}", text(&output));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

/// The rank under test must end itself: all of its threads are in user code, and no other process ends it.
#[test]
fn computing_rank_exits_after_the_leave_limit() {
    let start = Instant::now();
    let output = run(1, "as_rank_that_computes_for_long", &[]);
    assert!(!output.status.success(), "{output:?}");
    assert!(start.elapsed() < COMPUTES / 2, "it was waited for");
}

#[test]
fn panic_with_an_open_transport_ends_the_job() {
    let start = Instant::now();
    let output = run(2, "as_rank_that_panics", &[]);
    let text = text(&output);
    assert!(!output.status.success() && text.contains("on purpose"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn unreceived_send_is_reported_on_close() {
    let output = run(2, "as_rank_that_leaves_sends_behind", &NO_EAGER);
    let text = text(&output);
    assert!(output.status.success() && text.contains("to rank 1"), "{text}");
}

#[test]
fn partially_arrived_message_counts_as_being_received() {
    let output = run(2, "as_rank_that_receives_in_parts", &[]);
    let text = text(&output);
    assert!(output.status.success() && text.contains("received in parts"), "{text}");
}

#[test]
fn launcher_of_another_mpi_is_reported() {
    // The environment is that of MPICH's mpiexec, but this binary is linked to Open MPI.
    if !start::library().contains("Open MPI") {
        return;
    }
    let this = std::env::current_exe().expect("this binary");
    let test = format!("{}::as_rank", module_path!().split_once("::").expect("a crate").1);
    let output = Command::new(this)
        .args(["--exact", &test, "--ignored", "--nocapture", "--test-threads=1"])
        .envs([("PMI_SIZE", "4"), ("PMI_RANK", "1")])
        .output()
        .expect("it starts");
    let text = text(&output);
    assert!(!output.status.success() && text.contains("one of 4 ranks by MPICH's mpiexec"), "{text}");
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn options() -> MpiOptions {
    let default = MpiOptions::default();
    MpiOptions {
        split: number("TEST_SPLIT", default.split),
        slots: number("TEST_SLOTS", default.slots),
        slot_bytes: number("TEST_SLOT_BYTES", default.slot_bytes),
        ..default
    }
}

#[test]
#[ignore = "runs under mpirun, started by the tests above"]
fn as_rank() {
    let asked = std::env::var(YIELD_WHEN_IDLE).ok();
    let mut transport = MpiTransport::open(options(), None).expect("open");
    let ours = transport.describe().contains("Open MPI").then(|| "0".to_string());
    assert_eq!(
        std::env::var(YIELD_WHEN_IDLE).ok(),
        asked.or(ours),
        "ranks of Open MPI yield only if asked to"
    );
    conformance::everything(&mut transport, 100_000);
    let nobody = transport.size();
    assert!(transport.send(nobody, Frame::default()).is_err(), "there is no rank {nobody}");
    let (rank, size, library) = (transport.rank(), transport.size(), transport.describe());
    transport.close().expect("close");
    assert!(transport.poll().is_err(), "it is closed");
    println!("\n{MARK} {rank} of {size}, {library}");
}

#[test]
#[ignore = "runs under mpirun, started by the tests above"]
fn as_rank_with_a_hostile_peer() {
    let mut transport = MpiTransport::open(options(), None).expect("open");
    if transport.rank() == 0 {
        announce(&mut transport, u64::MAX);
    } else {
        let error = loop {
            match transport.poll() {
                Ok(None) => transport.wait(None).expect("wait"),
                Ok(Some(_)) => panic!("a message was made of it"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Wire);
        println!("refused: {error}");
    }
    transport.close().expect("close");
}

#[test]
#[ignore = "runs under mpirun, started by the tests above"]
fn as_rank_that_aborts() {
    let mut transport = MpiTransport::open(options(), None).expect("open");
    if transport.rank() == 1 {
        transport.abort();
    }
    loop {
        transport.poll().expect("poll");
        transport.wait(None).expect("wait");
    }
}

/// Duration of the user code of a rank in a test, if the rank is not ended earlier: longer than any launcher takes to start and end.
const COMPUTES: Duration = Duration::from_secs(60);

#[test]
#[ignore = "runs under mpirun, started by the tests above"]
fn as_rank_that_computes_for_long() {
    let mut transport = MpiTransport::open(options(), None).expect("open");
    transport.leave_within(Duration::from_millis(200));
    std::thread::sleep(COMPUTES);
}

#[test]
#[ignore = "runs under mpirun, started by the tests above"]
fn as_rank_that_panics() {
    let mut transport = MpiTransport::open(options(), None).expect("open");
    if transport.rank() == 1 {
        // The rank panics during a receive and a send, whose buffers must outlive the unwinding.
        transport.send(0, Frame::new(vec![1; 10 << 20])).expect("send");
        panic!("on purpose");
    }
    loop {
        transport.wait(None).expect("wait");
    }
}

#[test]
#[ignore = "runs under mpirun, started by the tests above"]
fn as_rank_that_leaves_sends_behind() {
    let limit = Duration::from_millis(200);
    let mut transport =
        MpiTransport::open(MpiOptions { close_limit: limit, ..options() }, None).expect("open");
    if transport.rank() == 0 {
        // Rank 0 sends bulk data without an envelope, so rank 1 posts no receive for them.
        let data = bytes::Bytes::from(vec![0; 1 << 22]);
        transport.outbox.push(transport.world.bulk, (1, 0), BULK_TAG, data).expect("send");
        let error = transport.close().expect_err("nobody receives it");
        assert_eq!(error.kind(), ErrorKind::Timeout);
        println!("{error}");
        // Rank 0 sends the missing envelope, so that rank 1 receives the data and both ranks can leave.
        announce(&mut transport, 1 << 22);
    } else {
        assert_eq!(receive(&mut transport).head.len(), 1 << 22);
    }
    transport.close().expect("close");
}

#[test]
#[ignore = "runs under mpirun, started by the tests above"]
fn as_rank_that_receives_in_parts() {
    let mut transport = MpiTransport::open(options(), None).expect("open");
    if transport.rank() == 0 {
        announce(&mut transport, 1 << 22);
        receive(&mut transport);
        let data = bytes::Bytes::from(vec![0; 1 << 22]);
        transport.outbox.push(transport.world.bulk, (1, 0), BULK_TAG, data).expect("send");
    } else {
        assert!(!transport.is_receiving(), "nothing was sent");
        while !transport.is_receiving() {
            assert!(transport.poll().expect("poll").is_none(), "most of the message is missing");
        }
        // Rank 0 waits for this message of rank 1 before it sends the rest of its own message.
        transport.send(0, Frame::new(vec![1])).expect("send");
        assert_eq!(receive(&mut transport).head.len(), 1 << 22);
        assert!(!transport.is_receiving(), "it is here");
        println!("received in parts");
    }
    transport.close().expect("close");
}

/// Sends rank 1 an envelope that announces a message of `bytes` bytes of bulk data; the bulk data themselves are not sent.
fn announce(transport: &mut MpiTransport, bytes: u64) {
    let words: [u64; 2] = [1, 1 << 63 | bytes];
    let envelope: bytes::Bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let tag = envelope::tag(envelope::Kind::Envelope, Number::default());
    transport.outbox.push(transport.world.control, (1, 0), tag, envelope).expect("send");
}

fn receive(transport: &mut MpiTransport) -> Frame {
    loop {
        match transport.poll().expect("poll") {
            Some((_, message)) => break message,
            None => transport.wait(None).expect("wait"),
        }
    }
}
