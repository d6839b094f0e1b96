//! Tests that the bytes of the messages for start-up, collective operations and shutdown do not change from version to version.

use super::agreement::{Announcement, Opening};
use super::bootstrap::{Node, Register};
use super::placement::Placement;
use super::platform::{JobPlatform, Processors};
use super::program::Program;
use super::values::{encode_items, packed};
use crate::comm::message::{Control, frame_header};
use crate::comm::process::Process;
use crate::golden::{Messages, RUN};
use crate::session::topology::{Core, Source, Topology};
use crate::wire::Codec;

#[test]
fn session_message_encoding_is_unchanged() {
    let process = || Process { place: "host/4026531836".into(), number: 4711, started: 987_654 };
    let topology = Topology {
        host: "node-1".into(),
        packages: 1,
        cores: vec![Core { package: 0, processing_units: vec![0, 300] }],
        core_limit: Some(armature_host::CoreLimit::new(1.5, "/job")),
        caches: [Some(32 << 10), Some(1 << 20), None],
        memory_total: 64 << 30,
        memory_available: 60 << 30,
        source: Source::Sysfs,
    };
    let program = Program {
        file: "/bin/app".into(),
        build: Some("12ab".into()),
        arguments: "\"-n\"\n\"3\"".into(),
        checksum: 0x1234_5678,
    };
    let register = |node| {
        let (version, transport) = ("0.1.0".into(), "mpi".into());
        let peer_limit = std::time::Duration::from_millis(1_500);
        Register { version, transport, split_bytes: 64 << 20, peer_limit, node }
    };
    let mut messages = Messages::default();
    messages.value(
        "a rank starts",
        Control::Register,
        &register(Some(Node { topology, process: process(), program: Some(program) })),
    );
    messages.value("a simulated rank starts", Control::Register, &register(None));
    let processors = Processors { host: "a".into(), count: 1, speed: Some(1.5), memory: Some(1 << 30) };
    let platform = JobPlatform { processors: vec![processors], bandwidth: Some(1e9), links: Vec::new() };
    let place = |units| Placement { cores: 1, units };
    messages.value(
        "a rank's place, bound",
        Control::Placement,
        &(place(Some(vec![2, 70_000])), process(), 3_u32.to_le_bytes(), Some(platform)),
    );
    let nothing = (place(None), Process::default(), [0_u8; 4], None::<JobPlatform>);
    messages.value("a rank's place", Control::Placement, &nothing);
    let run = Announcement::new("runs the farm \"a\"").with("policy", "factoring").without_the_dead();
    let run = run.with_checksum("plan", Some(&7));
    messages.value("what is run next", Control::Announce, &Opening { what: run, lost: vec![3, 300] });
    messages.value("a rank has done its part", Control::Leave, &());
    messages.value("the job is over, ranks 3 and 300 are lost", Control::Dismiss, &vec![3_usize, 300]);
    messages.value("a rank is alive", Control::Heartbeat, &());
    let what = Announcement::new("broadcasts a value").with("values of type", "u8").without_the_dead();
    messages.value("the only piece of a value", Control::LastPiece, &Opening { what, lost: vec![3, 300] });
    let parts = packed(encode_items(&Codec::of_type(), vec![7_u8]).unwrap());
    messages.head_and_parts("a piece behind the first", &frame_header(RUN, Control::Piece), &parts);
    messages.head_and_parts(
        "a value of a rank and those below it",
        &frame_header(RUN, Control::Values),
        &parts,
    );
    messages.check("session");
}
