//! The bytes of a farm's messages and of its journals.

use std::path::Path;
use std::time::Duration;

use super::bundle::{Wrapped, wrap};
use super::machine::{Attach, Driving, Giving, Hung, InHand, Join, Lead, Lost, Status, Suspicion, Times};
use super::outcome::FailedTask;
use super::parcel::{done, give, make_careful};
use super::sheet::{Failure, Sheet};
use super::store::{Kind as JournalKind, Store};
use super::summary::RankReport;
use super::trail::Place;
use crate::comm::Part;
use crate::comm::clock::Clock;
use crate::comm::message::{Tag, frame_header};
use crate::comm::process::Process;
use crate::golden::{Messages, RUN, check_file, place};
use crate::wire::Codec;

const SOME: Giving =
    Giving { id: 0x0706_0504_0302_0100, first: 40, count: 3, attempt: 2, careful: false, alone: false };

#[test]
fn chunks_and_results_are_as_they_were() {
    let mut messages = Messages::default();
    let numbers = Codec::<u64>::of_type();
    let chunk = |giving| give(RUN, giving, &numbers, vec![1, 2, 3]).unwrap().0;
    messages.message("a chunk of three tasks", &chunk(SOME));
    messages.message("a chunk to be done alone", &chunk(Giving { alone: true, ..SOME }));
    let careful = chunk(Giving { careful: true, ..SOME });
    messages.message("a chunk to be done with care", &careful);
    let mut head = chunk(SOME).head.to_vec();
    make_careful(&mut head);
    assert_eq!(head, careful.head, "who marks a chunk that is packed marks it as who packs it");
    let large =
        give(RUN, Giving { count: 1, ..SOME }, &Codec::of_type(), vec![vec![7_u8; 40_000]]).unwrap().0;
    messages.bytes("a chunk of one large task, without its part", &large.head);
    assert_eq!((large.parts.len(), large.parts[0].len()), (1, 40_000));

    let times = Times { took: Duration::from_nanos(1_500_000), sum: 1.5, squares: 0.75 };
    let sheet = |results, failures| Sheet { results, failures, sum: 0.0, squares: 0.0 };
    let results = done(RUN, SOME, &numbers, sheet(vec![10_u64, 20, 30], vec![]), times).unwrap();
    messages.message("three results", &results);
    let failures = vec![Failure { place: 1, panicked: true, message: "no".into() }];
    let results = done(RUN, SOME, &numbers, sheet(vec![10, 30], failures), times).unwrap();
    messages.message("two results and a failed task", &results);

    let one =
        |by, body: &'static [u8]| Wrapped { by, body: body.into(), parts: vec![Part::of(vec![9_u8; 3])] };
    let both = || vec![one(3, b"abc"), one(0x0403_0201, b"de")];
    messages.message("chunks for a sub-master", &wrap(RUN, Tag::Bulk, 2, both()));
    messages.message("results of a sub-master", &wrap(RUN, Tag::Bundle, 0, both()));
    messages.check("farm-chunks");
}

#[test]
fn messages_of_a_farm_are_as_they_were() {
    let mut messages = Messages::default();
    let warm_up = Duration::from_millis(1500);
    let trail = Place { process: Process::default(), file: 5 };
    messages.value("a worker joins", Tag::Join, &Join { warm_up, trail: None });
    messages.value("a worker joins and has a trail", Tag::Join, &Join { warm_up, trail: Some(trail) });
    let status = |task, driving| Status { task, waiting: 2, driving };
    messages.value("a worker is alive, computing beside", Tag::Status, &status(Some(300), Driving::Beside));
    messages.value("a worker is alive, computing between", Tag::Status, &status(None, Driving::Between));
    messages.value("a worker is alive, computing inline", Tag::Status, &status(None, Driving::Inline));
    messages.value("a task is over its limit", Tag::Hung, &Hung { task: 300 });
    let order = Attach { number: 4, instead_of: None };
    let lead = Lead { members: vec![(3, true), (300, false)], order };
    messages.value("a worker becomes a sub-master", Tag::Lead, &lead);
    messages.value("a worker gets a sub-master", Tag::Attach, &order);
    let heir = Attach { instead_of: Some(300), ..order };
    messages.value("a worker gets another sub-master", Tag::Attach, &heir);
    messages.value("a sub-master is one no more", Tag::Retire, &());
    let in_hand = [
        ("without blame", InHand::Innocent),
        ("behind a task", InHand::Behind(Some(300))),
        ("somewhere", InHand::Behind(None)),
        ("in a chunk", InHand::Chunk { id: 300, task: None }),
        ("in a task of a chunk", InHand::Chunk { id: 300, task: Some(70_000) }),
    ];
    for (what, in_hand) in in_hand {
        let lost = Lost { rank: 3, why: "its process has ended".into(), chunks: vec![1, 300], in_hand };
        messages.value(&format!("a member is lost {what}"), Tag::Lost, &lost);
    }
    messages.value("a worker is parked", Tag::Park, &true);
    messages.value("a worker is woken", Tag::Park, &false);
    messages.bytes("a worker is asked for an echo", &frame_header(RUN, Tag::Probe));
    messages.value("an echo", Tag::Echo, &());
    messages.value("the farm is over", Tag::Finish, &());
    let report = RankReport { tasks: 300, chunks: 7, busy: 2 * warm_up, warm_up };
    messages.value("what a worker did", Tag::Report, &report);
    messages.check("farm");
}

const FINGERPRINT: &[u8] = b"seed 7";

fn open(path: &Path, kind: JournalKind) -> Store {
    Store::open(path, "golden", kind, FINGERPRINT, Clock::wall()).unwrap()
}

/// A journal of the same content as the kept one is written by `write`; then a copy of the kept one, since opening locks it, is
/// opened.
fn rewritten(name: &str, kind: JournalKind, write: impl FnOnce(&mut Store)) -> Store {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    let mut store = open(&new, kind);
    write(&mut store);
    store.close().unwrap();
    check_file(name, &new);
    std::fs::copy(place(&format!("files/{name}")), &old).unwrap();
    open(&old, kind)
}

#[test]
fn a_stream_s_journal_is_read_and_written_as_it_was() {
    let texts = ["".to_string(), "wörter".to_string(), "x".repeat(40_000)];
    let death = Suspicion { certain: 1, shared: 2, death: 3, most: 4 };
    let codec = Codec::<String>::of_type();

    let mut store = rewritten("farm-stream.journal", JournalKind::Stream, |store| {
        for (task, text) in (0..).zip(&texts) {
            store.keep(task * 300, text.clone(), &codec).unwrap();
        }
        store.note(5..70_000, 2, death).unwrap();
    });
    for (task, text) in (0..).zip(&texts) {
        assert_eq!(store.next_known(task * 300), Some(task * 300));
        assert_eq!(store.take(task * 300, &codec).unwrap(), Some(Ok(text.clone())));
    }
    assert_eq!((store.next_known(0), store.deaths()), (None, 1));
    assert_eq!(store.noted(0), Some((5, None)));
    assert_eq!(store.noted(5), Some((70_000, Some((2, death)))));
}

#[test]
fn an_iteration_s_journal_is_read_and_written_as_it_was() {
    let codec = Codec::<(u32, String)>::of_type();
    let tasks = |iteration: usize| vec![(iteration as u32, "a".to_string()), (300, "b".to_string())];
    let failed = FailedTask { task: 1, rank: 2, attempts: 3, panicked: true, message: "no".to_string() };

    let mut store = rewritten("farm-iterations.journal", JournalKind::Iterations, |store| {
        for iteration in 0..2 {
            store.begin_set(iteration, tasks(iteration), &codec).unwrap();
            store.keep(0, (iteration as u32, "A".to_string()), &codec).unwrap();
            store.keep_failure(&failed).unwrap();
        }
    });
    for iteration in 0..2 {
        store.begin_set(iteration, tasks(iteration), &codec).unwrap();
        assert_eq!(store.take(0, &codec).unwrap(), Some(Ok((iteration as u32, "A".to_string()))));
        assert_eq!(store.take(1, &codec).unwrap(), Some(Err(failed.clone())));
    }
}
