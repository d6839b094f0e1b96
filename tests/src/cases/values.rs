//! Collective operations (such as broadcasts) before, between and after farms, pipelines and loops.

use armature::farm::Farm;
use armature::loops::{OldGrid, ParallelFor, Settings, Shape, Stencil, StencilLoop, Until};
use armature::pipeline::Pipeline;
use armature::{BoxError, Session};
use serde::{Deserialize, Serialize};

use crate::Case;
use crate::check::{check_equal, noise};

pub(super) const CASES: &[Case] = &[
    Case { name: "values", run: values },
    Case { name: "values-between-skeletons", run: between_skeletons },
    Case { name: "values-large", run: large },
    Case { name: "until-convergence", run: until_convergence },
];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Part {
    rank: usize,
    name: String,
    numbers: Vec<f64>,
}

impl Part {
    fn of(rank: usize) -> Self {
        let numbers = (0..rank as u64 * 5).map(|n| noise(rank as u64, n) as f64 / 7.0).collect();
        Part { rank, name: format!("rank {rank}"), numbers }
    }
}

/// Compares values on any rank; `check_equal` compares them on rank 0 only.
#[track_caller]
fn equal<T: PartialEq + std::fmt::Debug>(rank: usize, found: &T, expected: &T) -> Result<(), BoxError> {
    let place = std::panic::Location::caller();
    match found == expected {
        true => Ok(()),
        false => Err(format!("rank {rank}: {found:?} is not {expected:?} ({place})").into()),
    }
}

fn values(session: &mut Session) -> Result<(), BoxError> {
    let (rank, size) = (session.rank(), session.size());
    let parts: Vec<Part> = (0..size).map(Part::of).collect();
    for round in 0..20 {
        let received = session.broadcast(session.is_root().then(|| Part::of(round)))?;
        equal(rank, &received, &Part::of(round))?;
        equal(rank, &session.gather(Part::of(rank))?, &session.is_root().then(|| parts.clone()))?;
        equal(rank, &session.all_gather(Part::of(rank))?, &parts)?;
        let text = session.all_reduce(rank.to_string(), |before, after| format!("{before},{after}"))?;
        equal(rank, &text, &(0..size).map(|rank| rank.to_string()).collect::<Vec<_>>().join(","))?;
        let most = session.all_reduce(noise(round as u64, rank as u64), u64::max)?;
        equal(rank, &Some(most), &(0..size as u64).map(|rank| noise(round as u64, rank)).max())?;
        session.barrier()?;
    }
    Ok(())
}

/// The results of each farm, pipeline or loop determine how many tasks, items or indices the next one has.
fn between_skeletons(session: &mut Session) -> Result<(), BoxError> {
    let (rank, mut tasks) = (session.rank(), 5_u64);
    for run in 0..6_u64 {
        let squares = Farm::new("square", |n: u64| n * n).collect(session, 0..tasks)?.on_root();
        let sum = session.broadcast(squares.map(|squares| squares.into_iter().sum::<u64>()))?;
        equal(rank, &sum, &(0..tasks).map(|n| n * n).sum())?;
        let mut out = Vec::new();
        Pipeline::source("numbers", move || 0..sum % 11).map("twice", |n| 2 * n).for_each(
            session,
            "collect",
            |n| out.push(n),
        )?;
        check_equal(
            session,
            "as many as the farm reported",
            &out,
            &(0..sum % 11).map(|n| 2 * n).collect::<Vec<_>>(),
        )?;
        let mut own_count = 0;
        ParallelFor::new("count", 0..sum % 50).run(session, |range| {
            own_count += range.end - range.start;
            Ok(())
        })?;
        equal(rank, &session.all_reduce(own_count, |a, b| a + b)?, &(sum % 50))?;
        tasks = 3 + noise(run, sum) % 20;
    }
    Ok(())
}

/// Values whose messages are split into pieces: one sent as plain memory, and one serialised.
fn large(session: &mut Session) -> Result<(), BoxError> {
    let rank = session.rank();
    let numbers = |seed: usize| (0..300_000).map(|n| noise(seed as u64, n)).collect::<Vec<u64>>();
    let received = session.broadcast(session.is_root().then(|| numbers(1)))?;
    equal(rank, &(received == numbers(1)), &true)?;
    let all = session.all_gather((numbers(rank), rank))?;
    let whole = all.iter().enumerate().all(|(rank, (of, at))| *at == rank && *of == numbers(rank));
    equal(rank, &(whole && all.len() == session.size()), &true)
}

const PLATE: Shape = Shape { rows: 23, columns: 14 };

/// Loop over the rows of the heat equation. `change` is the largest change of a value since the last test of convergence.
struct Plate {
    change: f64,
}

fn step(old: &[f64], new: &mut [f64], width: usize) -> f64 {
    let mut change = 0.0_f64;
    for (row, new) in (1..).zip(new.chunks_exact_mut(width)) {
        for (column, value) in new.iter_mut().enumerate().take(width - 1).skip(1) {
            let i = row * width + column;
            *value = 0.25 * (old[i - width] + old[i - 1] + old[i + 1] + old[i + width]);
            change = change.max((*value - old[i]).abs());
        }
    }
    change
}

fn fill(row: u64, values: &mut [f64]) {
    values.fill((row * 37 % 11) as f64);
}

impl Stencil for Plate {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        fill(index, values);
        Ok(())
    }

    fn step(&mut self, old: OldGrid<'_, f64>, new: &mut [f64]) -> Result<(), BoxError> {
        self.change = self.change.max(step(old.values, new, old.width));
        Ok(())
    }
}

/// Loops until convergence whose rows move between ranks must end after the same step as the serial loop, with the same values.
fn until_convergence(session: &mut Session) -> Result<(), BoxError> {
    let (rank, width) = (session.rank(), PLATE.columns);
    for (seed, every) in [(1, 1), (2, 3), (3, 10)] {
        let mut serial = vec![0.0; PLATE.rows as usize * width];
        (0..).zip(serial.chunks_exact_mut(width)).for_each(|(row, values)| fill(row, values));
        let (mut steps, mut change) = (0, 0.0_f64);
        while steps % every != 0 || steps == 0 || std::mem::take(&mut change) >= 1e-2 {
            let old = serial.clone();
            change = change.max(step(&old, &mut serial[width..old.len() - width], width));
            steps += 1;
        }
        let mut heat =
            StencilLoop::new("plate", PLATE, Plate { change: 0.0 }).settings(Settings::new().forced(seed));
        let take = |plate: &mut Plate| std::mem::take(&mut plate.change);
        let end =
            heat.run_until(session, Until::at_most(10_000).every(every), take, |change| change < 1e-2)?;
        equal(rank, &(end.passes, end.is_converged), &(steps, true))?;
        equal(rank, &heat.collect_on_all(session)?, &serial)?;
    }
    Ok(())
}
