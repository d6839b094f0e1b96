//! Random programs made of a few small skeletons, and programs that differ from them in one place.
//!
//! Ranks that run different programs must detect any difference: [`Program::run`] makes the last rank run another
//! program than the other ranks. The results are compared with the serial ones, so that an undetected difference
//! between the ranks does not count as success.

use std::ops::Range;

use armature::farm::Farm;
use armature::loops::{
    DoAcross, DoAcrossLoop, DoAll, DoAllLoop, Grid, OldGrid, ParallelFor, Ranges, Shape, Stencil,
    StencilLoop, map, reduce,
};
use armature::pipeline::{MappingChoice, Pipeline};
use armature::{BoxError, Session};

use crate::check::{ensure, noise};

/// Skeleton (farm, pipeline or loop) in a random program. Properties that only rank 0 determines, such as the number of a farm's tasks, are left out,
/// because a difference in them is not an error.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum SkeletonCall {
    Farm { name: char, method: u8, retries: u32, wide: bool },
    Pipeline { stages: String, serial: bool, ordered: bool, wide: bool },
    Loop { name: char, function: u8, indices: Range<u64> },
    DoAll { name: char, units: u64, passes: u64, gathered: bool },
    Grid { name: char, sweeps: bool, rows: u64, columns: usize, steps: u64, gathered: bool },
}

/// Skeletons (farms, pipelines and loops) that a rank runs one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Program(pub Vec<SkeletonCall>);

struct Draw {
    seed: u64,
    next: u64,
}

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.next += 1;
        noise(self.seed, self.next) % end
    }

    fn name(&mut self) -> char {
        if self.below(2) == 0 { 'a' } else { 'b' }
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }

    fn call(&mut self) -> SkeletonCall {
        match self.below(5) {
            0 => SkeletonCall::Farm {
                name: self.name(),
                method: self.below(4) as u8,
                retries: self.below(3) as u32,
                wide: self.flip(),
            },
            1 => SkeletonCall::Pipeline {
                stages: (0..1 + self.below(3)).map(|_| self.name()).collect(),
                serial: self.flip(),
                ordered: self.flip(),
                wide: self.flip(),
            },
            2 => {
                let start = self.below(3) * 10;
                let indices = start..start + self.below(4) * 7;
                SkeletonCall::Loop { name: self.name(), function: self.below(5) as u8, indices }
            }
            3 => SkeletonCall::DoAll {
                name: self.name(),
                units: self.below(4) * 5,
                passes: 1 + self.below(3),
                gathered: self.flip(),
            },
            _ => SkeletonCall::Grid {
                name: self.name(),
                sweeps: self.flip(),
                rows: 2 + self.below(9),
                columns: 3 + self.below(5) as usize,
                steps: 1 + self.below(3),
                gathered: self.flip(),
            },
        }
    }
}

impl Program {
    /// Returns a program of one to three skeletons (farms, pipelines or loops) that depend on `seed`.
    pub fn of(seed: u64) -> Self {
        let mut draw = Draw { seed, next: 0 };
        Program((0..1 + draw.below(3)).map(|_| draw.call()).collect())
    }

    /// Returns a program of one skeleton, such as a farm, or `None` if there is none called `kind`.
    pub fn single(kind: &str) -> Option<Self> {
        let name = 'a';
        let call = match kind {
            "farm" => SkeletonCall::Farm { name, method: 1, retries: 0, wide: false },
            "pipeline" => {
                SkeletonCall::Pipeline { stages: "a".into(), serial: false, ordered: true, wide: false }
            }
            "map" => SkeletonCall::Loop { name, function: 0, indices: 0..10 },
            "doall" => SkeletonCall::DoAll { name, units: 10, passes: 1, gathered: true },
            "sweeps" => {
                SkeletonCall::Grid { name, sweeps: true, rows: 10, columns: 5, steps: 2, gathered: true }
            }
            _ => return None,
        };
        Some(Program(vec![call]))
    }

    /// Returns a program that differs from this one in a place that depends on `seed`: a skeleton (such as a farm) is added, removed or changed in
    /// one property, or their order is rotated.
    pub fn variant(&self, seed: u64) -> Self {
        let mut draw = Draw { seed, next: 1 << 32 };
        loop {
            let mut calls = self.0.clone();
            let at = draw.below(calls.len() as u64) as usize;
            match draw.below(6) {
                0 => calls.insert(at, draw.call()),
                1 => {
                    calls.remove(at);
                }
                2 => calls.rotate_left(1),
                // In half of the cases, a skeleton (such as a farm) differs in one property.
                _ => calls[at] = draw.with_change(&calls[at]),
            }
            let other = Program(calls);
            if other != *self {
                return other;
            }
        }
    }

    /// Runs this program on all ranks except for the last one, which runs `other` if there are several ranks.
    ///
    /// # Errors
    /// Returns the errors of the skeletons, and an error if a result differs from the serial one.
    pub fn run(&self, session: &mut Session, other: &Program) -> Result<(), BoxError> {
        let is_other = session.size() > 1 && session.rank() == session.size() - 1;
        let program = if is_other { other } else { self };
        program.0.iter().try_for_each(|call| call.run(session))
    }
}

impl Draw {
    fn with_change(&mut self, call: &SkeletonCall) -> SkeletonCall {
        let mut call = call.clone();
        let which = self.below(5);
        match &mut call {
            SkeletonCall::Farm { name, method, retries, wide } => match which {
                0 => *name = 'c',
                1 => *method = (*method + 1) % 4,
                2 => *retries += 1,
                _ => *wide = !*wide,
            },
            SkeletonCall::Pipeline { stages, serial, ordered, wide } => match which {
                0 => stages.push('c'),
                1 => *serial = !*serial,
                2 => *ordered = !*ordered,
                _ => *wide = !*wide,
            },
            SkeletonCall::Loop { name, function, indices } => match which {
                0 => *name = 'c',
                1 => *function = (*function + 1) % 5,
                2 => *indices = indices.start + 1000..indices.end + 1000,
                _ => indices.end += 1,
            },
            SkeletonCall::DoAll { name, units, passes, gathered } => match which {
                0 => *name = 'c',
                1 => *units += 1,
                2 => *passes += 1,
                _ => *gathered = !*gathered,
            },
            SkeletonCall::Grid { name, sweeps, rows, columns, steps, gathered } => match which {
                0 => *name = 'c',
                1 => *sweeps = !*sweeps,
                2 => *rows += 1,
                3 => *columns += 1,
                4 => *steps += 1,
                _ => *gathered = !*gathered,
            },
        }
        call
    }
}

struct Double;

impl DoAll for Double {
    type Units = Vec<u64>;

    fn create(&mut self, range: Range<u64>) -> Result<Vec<u64>, BoxError> {
        Ok(range.collect())
    }

    fn compute(&mut self, _: Range<u64>, units: &mut [u64]) -> Result<(), BoxError> {
        units.iter_mut().for_each(|unit| *unit *= 2);
        Ok(())
    }
}

struct Grow;

fn row(values: &mut [u64], index: u64) {
    values.fill(index);
}

impl DoAcross for Grow {
    type Value = u64;

    fn row(&mut self, index: u64, values: &mut [u64]) -> Result<(), BoxError> {
        row(values, index);
        Ok(())
    }

    fn sweep(&mut self, grid: Grid<'_, u64>, columns: Range<usize>) -> Result<(), BoxError> {
        let rows = grid.values.len() / grid.width;
        for row in 1..rows - 1 {
            grid.values[row * grid.width..][columns.clone()].iter_mut().for_each(|value| *value += 1);
        }
        Ok(())
    }
}

impl Stencil for Grow {
    type Value = u64;

    fn row(&mut self, index: u64, values: &mut [u64]) -> Result<(), BoxError> {
        row(values, index);
        Ok(())
    }

    fn step(&mut self, old: OldGrid<'_, u64>, new: &mut [u64]) -> Result<(), BoxError> {
        for (row, new) in (1..).zip(new.chunks_exact_mut(old.width)) {
            let inner = 1..old.width - 1;
            for (new, old) in new[inner.clone()].iter_mut().zip(&old.values[row * old.width..][inner]) {
                *new = old + 1;
            }
        }
        Ok(())
    }
}

const ITEMS: u64 = 20;

impl SkeletonCall {
    fn run(&self, session: &mut Session) -> Result<(), BoxError> {
        let right =
            |result: bool| ensure(result, || format!("{self:?} has another result than the serial program"));
        match self {
            SkeletonCall::Farm { name, method, retries, wide: true } => {
                right(farm(session, *name, *method, *retries, |x: u64| u128::from(x) * 3)?)
            }
            SkeletonCall::Farm { name, method, retries, wide: false } => {
                right(farm(session, *name, *method, *retries, |x: u64| x * 3)?)
            }
            SkeletonCall::Pipeline { stages, serial, ordered, wide } => {
                right(pipeline(session, stages, (*serial, *ordered, *wide))?)
            }
            SkeletonCall::Loop { name, function, indices } => {
                right(run_loop(session, *name, *function, indices.clone())?)
            }
            SkeletonCall::DoAll { name, units, passes, gathered } => {
                let mut double = DoAllLoop::new(&name.to_string(), *units, Double);
                double.run(session, *passes)?;
                let found = if *gathered { double.collect(session)? } else { None };
                right(
                    found.is_none_or(|found| {
                        found == (0..*units).map(|unit| unit << passes).collect::<Vec<_>>()
                    }),
                )
            }
            SkeletonCall::Grid { name, sweeps, rows, columns, steps, gathered } => {
                let (name, shape) = (name.to_string(), Shape { rows: *rows, columns: *columns });
                let found = if *sweeps {
                    let mut grow = DoAcrossLoop::new(&name, shape, Grow);
                    grow.run(session, *steps)?;
                    if *gathered { grow.collect(session)? } else { None }
                } else {
                    let mut grow = StencilLoop::new(&name, shape, Grow);
                    grow.run(session, *steps)?;
                    if *gathered { grow.collect(session)? } else { None }
                };
                right(found.is_none_or(|found| found == expected_grid(shape, *steps)))
            }
        }
    }
}

fn expected_grid(shape: Shape, steps: u64) -> Vec<u64> {
    let value = |row: u64, column: usize| {
        let inner = (1..shape.rows - 1).contains(&row) && (1..shape.columns - 1).contains(&column);
        row + if inner { steps } else { 0 }
    };
    (0..shape.rows).flat_map(|row| (0..shape.columns).map(move |column| value(row, column))).collect()
}

fn farm<O: armature::Item + PartialEq + Clone>(
    session: &mut Session,
    name: char,
    method: u8,
    retries: u32,
    f: impl Fn(u64) -> O + Send + Copy,
) -> Result<bool, BoxError> {
    let mut farm = Farm::new(&name.to_string(), f).retries(retries);
    let mut results = Vec::new();
    match method {
        0 => drop(farm.for_each(session, 0..ITEMS, |_, result| results.push(result))?),
        1 => results.extend(farm.collect(session, 0..ITEMS)?.on_root().into_iter().flatten()),
        2 => drop(farm.iterate(session, 0..ITEMS, |set, _| {
            results = set;
            Ok(None)
        })?),
        _ => drop(farm.iterate_results(session, 0..ITEMS, |set, _| {
            results = set.into_iter().flatten().collect();
            Ok(None)
        })?),
    }
    Ok(!session.is_root() || results == (0..ITEMS).map(f).collect::<Vec<_>>())
}

fn pipeline(
    session: &mut Session,
    stages: &str,
    (serial, ordered, wide): (bool, bool, bool),
) -> Result<bool, BoxError> {
    let mut results = Vec::new();
    let mut pipeline = Pipeline::source("numbers", || 0..ITEMS);
    for stage in stages.chars() {
        pipeline = pipeline.map(&stage.to_string(), |x| x + 1);
    }
    if serial {
        pipeline = pipeline.serial();
    }
    if !ordered {
        pipeline = pipeline.unordered();
    }
    pipeline = pipeline.mapping(MappingChoice::Orderly);
    if wide {
        pipeline.map("end", u128::from).for_each(session, "collect", |x| results.push(x))?;
    } else {
        pipeline.map("end", |x| x as u32).for_each(session, "collect", |x| results.push(x.into()))?;
    }
    results.sort_unstable();
    let added = stages.len() as u128;
    Ok(!session.is_root() || results == (0..u128::from(ITEMS)).map(|x| x + added).collect::<Vec<_>>())
}

fn run_loop(session: &mut Session, name: char, function: u8, indices: Range<u64>) -> Result<bool, BoxError> {
    let name = name.to_string();
    let sum = indices.clone().sum::<u64>();
    Ok(match function {
        0 => map(session, &name, indices.clone(), |x| x)? == indices.collect::<Vec<_>>(),
        1 => ParallelFor::new(&name, indices).fold_in_order(session, |x| x, 0, |sum, x| sum + x)? == sum,
        2 => reduce(session, &name, indices, |x| x, 0, |sum, x| sum + x)? == sum,
        3 => {
            ParallelFor::new(&name, indices).run(session, |_| Ok(()))?;
            true
        }
        _ => {
            let mut ranges = Ranges::new(session, &name, indices)?;
            while ranges.next()?.is_some() {}
            true
        }
    })
}
