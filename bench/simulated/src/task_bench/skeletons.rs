//! Grids of tasks with the framework's skeletons, as a user would write them.

use armature::Session;
use armature::farm::Farm;
use armature::loops::{OldGrid, Shape, Stencil, StencilLoop};
use armature::workflow::{Handle, Workflow};

use super::{Grid, Kernel, Trial, add};
use crate::RunResult;

/// Runs the tasks of a trivial grid as a farm. Rank 0 runs tasks too, unless there are sub-masters or more than 16 ranks.
///
/// # Errors
/// Errors of the framework.
pub fn farm(session: &mut Session, grid: Grid, sub_masters: usize, kernel: impl Kernel) -> RunResult<Trial> {
    let mut farm = Farm::new("tasks", move |number: u64| grid.task([number], kernel));
    if sub_masters > 0 {
        farm = farm.sub_masters(sub_masters);
    }
    if session.size() > 16 {
        farm = farm.dedicated_master();
    }
    session.barrier()?;
    let (start, mut sum) = (session.elapsed(), 0);
    farm.for_each(session, 0..grid.tasks(), |number, value| sum = add(sum, number, value))?;
    let seconds = (session.elapsed() - start).as_secs_f64();
    Ok(Trial { seconds, checksum: session.is_root().then_some(sum) })
}

/// Runs a grid as a stencil loop. A row of the loop has as many columns of the grid as a task depends on at each side, so that a task depends only on
/// neighbouring rows.
///
/// # Errors
/// If the width is not a multiple of that number; errors of the framework.
pub fn stencil(session: &mut Session, grid: Grid, kernel: impl Kernel) -> RunResult<Trial> {
    let columns = grid.pattern.reach();
    if columns == 0 || !grid.width.is_multiple_of(columns) {
        return Err(format!("{grid:?} cannot be divided into rows of {columns} columns").into());
    }
    // A step computes no first and last column.
    let shape = Shape { rows: (grid.width / columns) as u64 + 2, columns: columns + 2 };
    let mut rows = StencilLoop::new("grid", shape, Rows { grid, kernel });
    session.barrier()?;
    let start = session.elapsed();
    rows.run(session, grid.steps as u64)?;
    let seconds = (session.elapsed() - start).as_secs_f64();
    let checksum = rows.collect(session)?.map(|values| {
        let rows = values[shape.columns..].chunks_exact(shape.columns);
        let values = (0..grid.width as u64).zip(rows.flat_map(|row| &row[1..=columns]));
        values.fold(0, |sum, (column, value)| add(sum, column, *value))
    });
    Ok(Trial { seconds, checksum })
}

/// Rows of the stencil loop. The first and the last row are columns outside the grid. The first and the last value of a row are not used.
struct Rows<K> {
    grid: Grid,
    kernel: K,
}

impl<K: Kernel> Stencil for Rows<K> {
    type Value = u64;

    fn row(&mut self, index: u64, values: &mut [u64]) -> RunResult {
        values.fill(0);
        let columns = values.len() - 2;
        if let Some(first) = (index as usize * columns).checked_sub(columns) {
            (first..)
                .zip(&mut values[1..=columns])
                .for_each(|(column, value)| *value = self.grid.initial(column));
        }
        Ok(())
    }

    fn step(&mut self, old: OldGrid<'_, u64>, new: &mut [u64]) -> RunResult {
        let (width, columns) = (old.width, old.width - 2);
        for (new, old) in new.chunks_exact_mut(width).zip(old.values.windows(3 * width).step_by(width)) {
            for (column, value) in new[1..=columns].iter_mut().enumerate() {
                let inputs = old.chunks_exact(width).flat_map(|row| &row[1..=columns]);
                *value = self.grid.task(inputs.skip(column).take(2 * columns + 1).copied(), self.kernel);
            }
        }
        Ok(())
    }
}

/// Runs a grid as a workflow with a closure for each task. With the run time of a task in seconds, rank 0 makes a plan; otherwise tasks go to ranks
/// near their inputs. The time includes the planning, but not the construction of the graph.
///
/// # Errors
/// Errors of the framework.
pub fn workflow(
    session: &mut Session,
    grid: Grid,
    run_time: Option<f64>,
    kernel: impl Kernel,
) -> RunResult<Trial> {
    let mut flow = Workflow::new("grid");
    let mut row: Vec<Handle<u64>> = Vec::new();
    for step in 0..grid.steps {
        let task = |column| add_task(&mut flow, grid, (step, column), &row, kernel);
        row = (0..grid.width).map(task).collect();
        for task in &row {
            if let Some(task) = flow.task_mut(task) {
                task.run_time = run_time;
            }
        }
    }
    session.barrier()?;
    let start = session.elapsed();
    let results = flow.collect(session)?;
    let seconds = (session.elapsed() - start).as_secs_f64();
    let Some(mut results) = results.on_root() else { return Ok(Trial { seconds, checksum: None }) };
    let mut sum = 0;
    for (column, handle) in (0..).zip(&row) {
        sum = add(sum, column, results.take(handle)?);
    }
    Ok(Trial { seconds, checksum: Some(sum) })
}

fn add_task(
    flow: &mut Workflow<'_>,
    grid: Grid,
    (step, column): (usize, usize),
    before: &[Handle<u64>],
    kernel: impl Kernel,
) -> Handle<u64> {
    let (reach, name) = (grid.pattern.reach(), format!("{step}-{column}"));
    let columns = column.saturating_sub(reach)..(column + reach + 1).min(grid.width);
    // Columns outside the grid have the value 0.
    let (left, right) = (reach + columns.start - column, column + reach + 1 - columns.end);
    let task = move |inputs: Vec<u64>| {
        let zeros = |count| std::iter::repeat_n(0, count);
        grid.task(zeros(left).chain(inputs).chain(zeros(right)), kernel)
    };
    if step == 0 {
        return flow.task(&name, move || task(columns.clone().map(|column| grid.initial(column)).collect()));
    }
    flow.after(&name, &before[columns], task)
}

#[cfg(test)]
mod tests {
    use armature::{Config, Progress};

    use super::*;
    use crate::task_bench::Pattern;

    #[test]
    fn checksums_equal_the_serial_one_on_1_to_3_ranks() {
        for ranks in 1..=3 {
            let config = Config::new().ranks(ranks).progress(Progress::Off);
            for pattern in [Pattern::Trivial, Pattern::Stencil, Pattern::Nearest, Pattern::Imbalanced] {
                let grid = Grid { pattern, width: 6, steps: 9, mean: 3 };
                let kernel = |input: u64, length: u64| input.wrapping_add(length);
                armature::run(&config, |session| {
                    let mut trials = vec![
                        workflow(session, grid, None, kernel)?,
                        workflow(session, grid, Some(1e-5), kernel)?,
                    ];
                    trials.push(match pattern {
                        Pattern::Trivial => farm(session, grid, 0, kernel)?,
                        _ => stencil(session, grid, kernel)?,
                    });
                    // The last step of a workflow has the results; independent tasks have results in all steps.
                    if session.is_root() {
                        let checked = if pattern == Pattern::Trivial { &trials[2..] } else { &trials };
                        for trial in checked {
                            grid.efficiency(*trial, ranks, 1.0, kernel)?;
                        }
                    }
                    Ok(())
                })
                .unwrap();
            }
        }
    }

    #[test]
    fn width_that_no_rows_can_hold_is_refused() {
        let grid = Grid { pattern: Pattern::Nearest, width: 5, steps: 1, mean: 1 };
        let run = armature::run(&Config::new(), |session| stencil(session, grid, u64::wrapping_add));
        assert!(run.unwrap_err().to_string().contains("rows of 2 columns"));
    }
}
