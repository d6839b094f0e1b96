//! Tests that the bytes of farm messages and farm journals do not change.

use std::path::Path;
use std::time::Duration;

use super::chunk_result::{ChunkResult, Failure};
use super::messages::aggregate::put;
use super::messages::{
    Attach, ChunkHeader, Entry, ExecutionMode, Join, Lead, Lost, Status, Tag, Times, ToMaster, ToWorker,
    encode_chunk, encode_result, with_incumbent,
};
use super::result_journal::{Kind as JournalKind, ResultJournal};
use super::summary::RankReport;
use crate::comm::clock::Clock;
use crate::comm::message::{Encode, Put, frame, frame_header};
use crate::comm::process::Process;
use crate::comm::{Frame, Part};
use crate::error::ErrorKind;
use crate::failed_task::FailedTask;
use crate::golden::{Messages, RUN, check_file, place};
use crate::rank::flight_recorder::FlightRecordLocation;
use crate::tasks::{Attempts, LastActivity, Suspicion};
use crate::wire::{self, Codec};

const SOME: ChunkHeader = ChunkHeader {
    id: 0x0706_0504_0302_0100,
    first: 40,
    count: 3,
    skip: 0,
    attempt: 2,
    suspect: false,
    alone: false,
};

#[test]
fn chunk_and_result_encoding_is_unchanged() {
    let mut messages = Messages::default();
    let numbers = Codec::<u64>::of_type();
    let chunk = |header| encode_chunk(RUN, header, &numbers, Box::new(vec![1_u64, 2, 3])).unwrap().0;
    messages.message("a chunk of three tasks", &chunk(SOME));
    messages.message("a chunk to be done alone", &chunk(ChunkHeader { alone: true, ..SOME }));
    let suspect = chunk(ChunkHeader { suspect: true, ..SOME });
    messages.message("a chunk to be done with care", &suspect);
    let (_, payload) = encode_chunk(RUN, SOME, &numbers, Box::new(vec![1_u64, 2, 3])).unwrap();
    let again = ToWorker::Chunk(ChunkHeader { suspect: true, ..SOME }, payload).encode(RUN).unwrap();
    assert_eq!(again.head, suspect.head, "who sends a chunk on marks it as who packs it");
    let (header, wide) = (ChunkHeader { count: 1, ..SOME }, Box::new(vec![vec![7_u8; 40_000]]));
    let large = encode_chunk(RUN, header, &Codec::<Vec<u8>>::of_type(), wide).unwrap().0;
    messages.bytes("a chunk of one large task, without its part", &large.head);
    assert_eq!((large.parts.len(), large.parts[0].len()), (1, 40_000));

    let times = Times { took: Duration::from_nanos(1_500_000), sum: 1.5, squares: 0.75 };
    let sheet =
        |results: Vec<u64>, failures| ChunkResult { results: Box::new(results), failures, rest: None };
    let results = encode_result(RUN, SOME, &numbers, sheet(vec![10_u64, 20, 30], vec![]), times).unwrap();
    messages.message("three results", &results);
    let failures = vec![Failure { place: 1, panicked: true, message: "no".into() }];
    let results = encode_result(RUN, SOME, &numbers, sheet(vec![10, 30], failures), times).unwrap();
    messages.message("two results and a failed task", &results);

    let one = |by, body: &'static [u8]| Entry { by, body: body.into(), parts: vec![Part::of(vec![9_u8; 3])] };
    let both = || vec![([], one(3, b"abc")), ([], one(0x0403_0201, b"de"))];
    let chunks = frame(RUN, Tag::Chunks, 0, |head, parts| {
        2_u32.put(head, parts)?;
        20_u32.put(head, parts)?;
        put(both(), head, parts);
        Ok(())
    });
    messages.message("chunks for a sub-master", &chunks.unwrap());
    let results = both().into_iter().map(|([], entry)| entry).collect();
    messages.message("results of a sub-master", &ToMaster::Results(results).encode(RUN).unwrap());

    messages.message(
        "a chunk that carries the incumbent",
        &with_incumbent(chunk(SOME), &wire::to_bytes(&1.5).unwrap()),
    );
    let alone = Frame::new(frame_header(RUN, Tag::Incumbent).to_vec());
    messages.message("the incumbent alone", &with_incumbent(alone, &wire::to_bytes(&1.5).unwrap()));
    messages.check("farm-chunks");
}

#[test]
fn farm_message_encoding_is_unchanged() {
    let mut messages = Messages::default();
    let warm_up = Duration::from_millis(1500);
    let flight_recorder = FlightRecordLocation { process: Process::default(), file: 5 };
    messages.message(
        "a worker joins",
        &ToMaster::Join(Join { warm_up, flight_recorder: None }).encode(RUN).unwrap(),
    );
    messages.message(
        "a worker joins and has a trail",
        &ToMaster::Join(Join { warm_up, flight_recorder: Some(flight_recorder) }).encode(RUN).unwrap(),
    );
    let status = |task, mode| Status { task, waiting: 2, mode };
    let mut alive = |what, status: Status| messages.bytes(what, &wire::to_bytes(&status).unwrap());
    alive("a worker is alive, computing beside", status(Some(300), ExecutionMode::OnThread));
    alive("a worker is alive, computing between", status(None, ExecutionMode::Interleaved));
    alive("a worker is alive, computing inline", status(None, ExecutionMode::Inline));
    messages.message("a task is over its limit", &ToMaster::TimedOut { task: 300 }.encode(RUN).unwrap());
    let order = Attach { number: 4, instead_of: None };
    let lead = Lead { members: vec![(3, true), (300, false)], order };
    messages.value("a worker becomes a sub-master", Tag::Lead, &lead);
    messages.value("a worker gets a sub-master", Tag::Attach, &order);
    let another = Attach { instead_of: Some(300), ..order };
    messages.value("a worker gets another sub-master", Tag::Attach, &another);
    messages.value("a sub-master is one no more", Tag::Retired, &());
    let last_activity = [
        ("without blame", LastActivity::Innocent),
        ("behind a task", LastActivity::Behind(Some(300))),
        ("somewhere", LastActivity::Behind(None)),
        ("in a chunk", LastActivity::Chunk { id: 300, task: None }),
        ("in a task of a chunk", LastActivity::Chunk { id: 300, task: Some(70_000) }),
        ("in no suspect", LastActivity::Unrecorded(Some(300))),
    ];
    for (what, last_activity) in last_activity {
        let lost = Lost { rank: 3, why: "its process has ended".into(), chunks: vec![1, 300], last_activity };
        messages.value(&format!("a member is lost {what}"), Tag::Lost, &lost);
    }
    messages.value("a worker is parked", Tag::Park, &true);
    messages.value("a worker is woken", Tag::Park, &false);
    messages.message("the farm is over", &ToWorker::Finish.encode(RUN).unwrap());
    let report = RankReport { tasks: 300, chunks: 7, busy: 2 * warm_up, warm_up };
    messages.value("what a worker did", Tag::Report, &report);
    messages.check("farm");
}

const FINGERPRINT: &[u8] = b"seed 7";

fn open(path: &Path, kind: JournalKind) -> ResultJournal {
    ResultJournal::open(path, "golden", kind, FINGERPRINT, Clock::wall()).unwrap()
}

/// Writes a journal and compares it with the stored file `name`. Returns the stored journal, opened as a copy because opening
/// locks the file.
fn rewritten(name: &str, kind: JournalKind, write: impl FnOnce(&mut ResultJournal)) -> ResultJournal {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    let mut journal = open(&new, kind);
    write(&mut journal);
    journal.close().unwrap();
    check_file(name, &new);
    std::fs::copy(place(&format!("files/{name}")), &old).unwrap();
    open(&old, kind)
}

#[test]
fn stream_journal_format_is_unchanged() {
    let texts = ["".to_string(), "wörter".to_string(), "x".repeat(40_000)];
    let suspicion = Suspicion { certain: 1, shared: 2, death: 3, most: 4 };
    let attempts = Attempts { failed: 2, suspicion };
    let codec = Codec::<String>::of_type();

    let mut journal = rewritten("farm-stream.journal", JournalKind::Stream, |journal| {
        for (task, text) in (0..).zip(&texts) {
            journal.keep(task * 300, Box::new(vec![text.clone()]), &codec).unwrap();
        }
        journal.record_attempts(5..70_000, attempts).unwrap();
    });
    for (task, text) in (0..).zip(&texts) {
        assert_eq!(journal.next_known(task * 300), Some(task * 300));
        assert_eq!(journal.take_typed(task * 300).unwrap(), Some(Ok(text.clone())));
    }
    assert_eq!((journal.next_known(0), journal.deaths()), (None, 1));
    assert_eq!(journal.recorded(0), Some((5, None)));
    assert_eq!(journal.recorded(5), Some((70_000, Some(attempts))));
}

#[test]
fn iteration_journal_format_is_unchanged() {
    let codec = Codec::<(u32, String)>::of_type();
    let tasks = |iteration: usize| vec![(iteration as u32, "a".to_string()), (300, "b".to_string())];
    let failed = FailedTask {
        task: 1,
        name: None,
        rank: 2,
        tries: 3,
        kind: ErrorKind::Panic,
        message: "no".to_string(),
    };

    let mut journal = rewritten("farm-iterations.journal", JournalKind::Iterations, |journal| {
        for iteration in 0..2 {
            journal.begin_set(iteration, Box::new(tasks(iteration)), &codec).unwrap();
            journal.keep(0, Box::new(vec![(iteration as u32, "A".to_string())]), &codec).unwrap();
            journal.keep_failure(&failed).unwrap();
        }
    });
    for iteration in 0..2 {
        journal.begin_set(iteration, Box::new(tasks(iteration)), &codec).unwrap();
        assert_eq!(journal.take_typed(0).unwrap(), Some(Ok((iteration as u32, "A".to_string()))));
        assert_eq!(journal.take_typed::<(u32, String)>(1).unwrap(), Some(Err(failed.clone())));
    }
}
