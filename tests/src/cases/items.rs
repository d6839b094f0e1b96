//! Pipeline items of many types: empty, bytes, text, structs, numbers, and several megabytes.

use armature::pipeline::{Dispatch, Pipeline};
use armature::{BoxError, Item, Session};
use bytes::BytesMut;
use serde::{Deserialize, Serialize};

use crate::Case;
use crate::check::{check_equal, noise, setting};
use crate::mappings::every_kind;

pub(super) const CASES: &[Case] = &[
    Case { name: "items-empty", run: empty },
    Case { name: "items-bytes", run: bytes },
    Case { name: "items-text", run: text },
    Case { name: "items-structs", run: structs },
    Case { name: "items-numbers", run: numbers },
    Case { name: "items-plain", run: plain },
    Case { name: "items-big", run: big },
];

/// Sends items through every kind of mapping of stages to ranks, and expects them back unchanged.
fn there_and_back<T>(session: &mut Session, items: u64, make: fn(u64) -> T) -> Result<(), BoxError>
where
    T: Item + Clone + PartialEq + std::fmt::Debug,
{
    let expected: Vec<T> = (0..items).map(make).collect();
    for kind in every_kind(&[false, false, true], session.size()) {
        for dispatch in [Dispatch::OnDemand, Dispatch::RoundRobin] {
            let mut out = Vec::new();
            Pipeline::source("make", move || (0..items).map(make))
                .map("first", |item: T| item)
                .map("second", |item| item)
                .map("third", |item| item)
                .serial()
                .mapping(kind.mapping.clone())
                .dispatch(dispatch)
                .for_each(session, "collect", |item| out.push(item))?;
            let what = format!("{}, {}, {dispatch:?}", std::any::type_name::<T>(), kind.name);
            check_equal(session, &what, &out, &expected)?;
        }
    }
    Ok(())
}

fn some_bytes(n: u64) -> Vec<u8> {
    let length = noise(21, n) % 300;
    (0..length).map(|i| noise(n, i) as u8).collect()
}

fn empty(session: &mut Session) -> Result<(), BoxError> {
    there_and_back(session, 100, |_| ())?;
    there_and_back(session, 60, |_| Vec::<u8>::new())?;
    there_and_back(session, 60, |_| String::new())
}

fn bytes(session: &mut Session) -> Result<(), BoxError> {
    there_and_back(session, 60, some_bytes)?;
    there_and_back(session, 60, |n| (0..n % 5).map(|i| some_bytes(n * 5 + i)).collect::<Vec<Vec<u8>>>())?;
    there_and_back(session, 60, |n| BytesMut::from(&some_bytes(n)[..]))?;
    there_and_back(session, 60, |n| bytes::Bytes::from(some_bytes(n)))
}

fn text(session: &mut Session) -> Result<(), BoxError> {
    there_and_back(session, 80, |n| "größer ".repeat((n % 9) as usize))
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Picture {
    name: String,
    size: (u32, u32),
    pixels: Vec<f32>,
    shape: Shape,
    parent: Option<Box<Picture>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Nothing,
    Circle(f64),
    Box { wide: i16, high: i16 },
}

fn picture(n: u64) -> Picture {
    Picture {
        name: format!("picture {n}"),
        size: (n as u32, 7),
        pixels: (0..n % 11).map(|i| i as f32 / 3.0).collect(),
        shape: match n % 3 {
            0 => Shape::Nothing,
            1 => Shape::Circle(n as f64 / 7.0),
            _ => Shape::Box { wide: -(n as i16), high: 3 },
        },
        parent: (n % 4 == 3).then(|| Box::new(picture(n / 4))),
    }
}

fn structs(session: &mut Session) -> Result<(), BoxError> {
    there_and_back(session, 60, picture)
}

fn numbers(session: &mut Session) -> Result<(), BoxError> {
    there_and_back(session, 100, |n| noise(1, n) as i16)?;
    there_and_back(session, 60, |n| (0..n % 50).map(|i| (i as f64).sqrt()).collect::<Vec<f64>>())?;
    there_and_back(session, 60, |n| (n % 3 == 0, char::from_u32(n as u32 + 200), f32::MAX / (n + 1) as f32))
}

/// Arrays are sent as plain memory, without serialisation.
fn plain(session: &mut Session) -> Result<(), BoxError> {
    let expected: Vec<[f64; 2]> = (0..90).map(|n| [f64::from(n) * 2.0, 1.0 / f64::from(n + 1)]).collect();
    for kind in every_kind(&[false, false], session.size()) {
        let mut out = Vec::new();
        Pipeline::source("points", || (0..90).map(|n| [f64::from(n), f64::from(n), 1.0 / f64::from(n + 1)]))
            .plain()
            .map("add", |[a, b, c]: [f64; 3]| [a + b, c])
            .plain()
            .map("pass", |pair| pair)
            .plain()
            .mapping(kind.mapping)
            .for_each(session, "collect", |item| out.push(item))?;
        check_equal(session, kind.name, &out, &expected)?;
    }
    Ok(())
}

/// Items of several megabytes (`ARMATURE_CASES_BIG_BYTES`), whose messages are split into pieces of `ARMATURE_SPLIT_BYTES`.
fn big(session: &mut Session) -> Result<(), BoxError> {
    let size = setting("ARMATURE_CASES_BIG_BYTES", 3_000_001)?;
    let make = move |n: u64| -> Vec<u8> {
        let mut bytes = vec![n as u8; size];
        for (at, byte) in bytes.iter_mut().enumerate().step_by(997) {
            *byte = noise(n, at as u64) as u8;
        }
        bytes
    };
    let expected: Vec<Vec<u8>> = (0..5).map(make).collect();
    let kinds = every_kind(&[false, false], session.size());
    for kind in kinds.into_iter().filter(|k| !k.name.starts_with("serial")) {
        let mut out = Vec::new();
        Pipeline::source("make", move || (0..5).map(make))
            .map("flip", |mut bytes: Vec<u8>| {
                bytes.reverse();
                bytes
            })
            .map("back", |mut bytes| {
                bytes.reverse();
                bytes
            })
            .mapping(kind.mapping)
            .for_each(session, "collect", |item| out.push(item))?;
        check_equal(session, kind.name, &out, &expected)?;
    }
    Ok(())
}
