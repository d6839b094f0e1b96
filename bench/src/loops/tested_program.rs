//! Rank program that runs the experiments' parallel loops with the framework, as a user would write them.

use std::{ops::Range, time::Instant};

use armature::loops::{
    DoAcross, DoAcrossLoop, DoAll, DoAllLoop, Grid, OldGrid, Rows, Settings, Shape, Stencil, StencilLoop,
    Summary,
};
use armature::{Balance, BoxError, Config, Progress, Session};

use super::{
    job::{Job, Kernel},
    kernels,
};
use crate::{
    RunResult,
    baseline::loops::{second, serial},
    burner::pin_rank,
};

/// Runs the rank program; prints `result seconds S block B …` on rank 0, see [`Run`](super::job::Run).
///
/// # Errors
/// If the arguments are wrong, the ranks cannot be pinned, or the result is wrong.
pub fn main(arguments: &[String]) -> RunResult {
    let job = Job::parse(arguments)?;
    pin_rank(&job.cores)?;
    let config = Config::from_env()?.progress(Progress::Off);
    Ok(armature::run(&config, |session| rank(session, &job))?)
}

fn rank(session: &mut Session, job: &Job) -> Result<(), BoxError> {
    let (settings, width) = (settings(job, session.size()), job.size);
    let shape = Shape { rows: width as u64, columns: width };
    match job.kernel {
        Kernel::Matmul => {
            let product = Product { b: second(width) };
            let mut product = DoAllLoop::new("matmul", width as u64, product).settings(settings);
            timed(session, job, |session, passes| product.run(session, passes))?;
            check(session, job, |session| Ok(product.collect(session)?.map(|(_, c)| c.into_values())))
        }
        Kernel::Sor => {
            let mut sor = DoAcrossLoop::new("sor", shape, Relaxation).settings(settings);
            timed(session, job, |session, sweeps| sor.run(session, sweeps))?;
            check(session, job, |session| Ok(sor.collect(session)?.map(|grid| inner(&grid, width))))
        }
        Kernel::Heat => {
            let mut heat = StencilLoop::new("heat", shape, Conduction).settings(settings);
            timed(session, job, |session, steps| heat.run(session, steps))?;
            check(session, job, |session| Ok(heat.collect(session)?.map(|grid| inner(&grid, width))))
        }
    }
}

fn settings(job: &Job, ranks: usize) -> Settings {
    let mut settings = Settings::new().balance(if job.live { Balance::Live } else { Balance::Off });
    if ranks == 2 {
        settings = settings.shares([job.split, 1.0 - job.split]);
    }
    match job.kernel {
        Kernel::Sor if job.columns > 0 => settings.strip_width(job.columns as u64),
        Kernel::Matmul if job.columns > 0 => settings.block_size(job.columns as u64),
        _ => settings,
    }
}

fn timed(
    session: &mut Session,
    job: &Job,
    mut run: impl FnMut(&mut Session, u64) -> armature::Result<armature::Outcome<(), Summary>>,
) -> Result<(), BoxError> {
    let before = if job.settle > 0 { run(session, job.settle as u64)?.into_summary() } else { None };
    let start = Instant::now();
    let run = run(session, job.passes as u64)?;
    let seconds = start.elapsed().as_secs_f64();
    let Some(summary) = run.into_summary() else { return Ok(()) };
    let sum = |part: fn(&armature::loops::RankReport) -> f64| summary.ranks.iter().map(part).sum::<f64>();
    println!(
        "result seconds {seconds} block {} blocks {} computing {} interacting {} interactions {} movements {} held {}",
        summary.block,
        sum(|rank| rank.blocks as f64),
        sum(|rank| rank.busy.as_secs_f64()),
        sum(|rank| rank.interacting.as_secs_f64()),
        summary.interactions,
        summary.movements + before.map_or(0, |before| before.movements),
        summary.ranks.first().map_or(0, |rank| rank.held)
    );
    Ok(())
}

fn check(
    session: &mut Session,
    job: &Job,
    collect: impl FnOnce(&mut Session) -> Result<Option<Vec<f64>>, BoxError>,
) -> Result<(), BoxError> {
    if !job.verify {
        return Ok(());
    }
    match collect(session)? {
        Some(all) if all != serial(job) => Err(format!("the result of {job:?} is wrong").into()),
        None if session.is_root() => Err("rank 0 got no result".into()),
        _ => Ok(()),
    }
}

fn inner(grid: &[f64], width: usize) -> Vec<f64> {
    grid[width..grid.len() - width].to_vec()
}

/// Matrix product C = A · B. When a row of the loop moves to another rank, its rows of A and C move with it; every
/// rank holds the whole of B.
struct Product {
    b: kernels::Factor,
}

impl DoAll for Product {
    type Units = (Rows<f64>, Rows<f64>);

    const NOWAIT: bool = true;

    fn create(&mut self, range: Range<u64>) -> Result<Self::Units, BoxError> {
        let a = kernels::rows(range.start as usize..range.end as usize, self.b.width());
        Ok((Rows::new(self.b.width(), a), Rows::zeroed(range, self.b.width())))
    }

    fn compute(&mut self, _: Range<u64>, (a, c): (&mut [f64], &mut [f64])) -> Result<(), BoxError> {
        kernels::multiply(a, &self.b, c);
        Ok(())
    }
}

struct Relaxation;

impl DoAcross for Relaxation {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        kernels::fill(index, values);
        Ok(())
    }

    fn sweep(&mut self, grid: Grid<'_, f64>, columns: Range<usize>) -> Result<(), BoxError> {
        kernels::relax(grid.values, grid.width, columns);
        Ok(())
    }
}

struct Conduction;

impl Stencil for Conduction {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        kernels::fill(index, values);
        Ok(())
    }

    fn step(&mut self, old: OldGrid<'_, f64>, new: &mut [f64]) -> Result<(), BoxError> {
        kernels::step(old.values, new, old.width);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_bitwise_equal_to_the_serial_loop() {
        for ranks in [1, 2, 3] {
            for (kernel, live) in [(Kernel::Matmul, true), (Kernel::Sor, true), (Kernel::Heat, true)] {
                let job = Job { settle: 2, live, split: 0.3, verify: true, ..Job::new(kernel, 45, 3) };
                let config = Config::new().ranks(ranks).progress(Progress::Off);
                armature::run(&config, |session| rank(session, &job)).unwrap();
            }
        }
    }
}
