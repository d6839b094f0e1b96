//! k-means: points on a plane are divided into groups, each around its mean. A farm of iterations: the tasks of each are made from
//! the results of the one before.
//!
//! ```sh
//! mpirun -n 4 target/release/k-means
//! ```

use std::ops::Range;

use armature::farm::{Context, Farm, Worker};
use armature::{BoxError, Session};

type Point = [f64; 2];
/// Of each group: the sum of its points, and how many there are.
type Sums = Vec<(Point, u64)>;

/// Points of a task.
const BLOCK: usize = 10_000;

/// What each rank has: all points, which it reads once.
struct Assign {
    points: Vec<Point>,
}

impl Worker for Assign {
    type In = (Range<usize>, Vec<Point>);
    type Out = Sums;

    /// Adds these points up, each in the group whose mean is next to it.
    fn work(&mut self, (block, means): Self::In, _: &mut Context) -> Result<Sums, BoxError> {
        let mut sums = vec![([0.0; 2], 0); means.len()];
        for &[x, y] in &self.points[block] {
            let distance = |mean: &Point| (mean[0] - x).powi(2) + (mean[1] - y).powi(2);
            let next = |a: &usize, b: &usize| distance(&means[*a]).total_cmp(&distance(&means[*b]));
            let group = (0..means.len()).min_by(next).ok_or("there is no group")?;
            let (sum, count) = &mut sums[group];
            *sum = [sum[0] + x, sum[1] + y];
            *count += 1;
        }
        Ok(sums)
    }
}

fn main() -> std::process::ExitCode {
    armature::main(|session| {
        if let Some(means) = k_means(session, 1_000_000, 8)? {
            means.iter().for_each(|[x, y]| println!("{x:.6} {y:.6}"));
        }
        Ok(())
    })
}

/// The means of `groups` groups of points, on rank 0.
pub(crate) fn k_means(
    session: &Session,
    count: usize,
    groups: usize,
) -> Result<Option<Vec<Point>>, BoxError> {
    let mut means: Vec<Point> = points(groups).collect();
    let tasks = |means: &[Point]| -> Vec<_> {
        let blocks = (0..count).step_by(BLOCK).map(|start| start..(start + BLOCK).min(count));
        blocks.map(|block| (block, means.to_vec())).collect()
    };
    // The factory is called on each rank that does tasks, before its first one. A real program reads a file in it.
    let mut farm = Farm::worker("assign", || Ok(Assign { points: points(count).collect() }));
    let summary = farm.iterate(session, tasks(&means), |sums, _| {
        let before = means.clone();
        for (group, mean) in means.iter_mut().enumerate() {
            // In the order of the blocks, so that the means are the same to the bit on any number of ranks.
            let sum = sums.iter().map(|block| block[group]);
            let ([x, y], count) =
                sum.fold(([0.0; 2], 0), |([x, y], n), (p, m)| ([x + p[0], y + p[1]], n + m));
            if count > 0 {
                *mean = [x / count as f64, y / count as f64];
            }
        }
        // It ends when no mean has moved.
        Ok((means != before).then(|| tasks(&means)))
    })?;
    Ok(summary.map(|_| means))
}

/// Points in a few clouds, the same on all ranks.
fn points(count: usize) -> impl Iterator<Item = Point> {
    (0..count as u64).map(|number| {
        let random = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1_u64 << 24) as f64;
        [(number % 4) as f64 + random(2 * number), (number % 3) as f64 + random(2 * number + 1)]
    })
}

#[cfg(test)]
mod tests {
    use armature::Config;

    use super::*;

    /// One task after the other, without a farm.
    fn serial(count: usize, groups: usize) -> Vec<Point> {
        let mut means: Vec<Point> = points(groups).collect();
        let mut assign = Assign { points: points(count).collect() };
        loop {
            let before = means.clone();
            let mut total = vec![([0.0; 2], 0); groups];
            for start in (0..count).step_by(BLOCK) {
                let task = (start..(start + BLOCK).min(count), before.clone());
                let sums = assign.work(task, &mut Context::for_test()).unwrap();
                for (([x, y], n), (more, m)) in total.iter_mut().zip(sums) {
                    (*x, *y, *n) = (*x + more[0], *y + more[1], *n + m);
                }
            }
            for (mean, ([x, y], n)) in means.iter_mut().zip(total).filter(|(_, (_, n))| *n > 0) {
                *mean = [x / n as f64, y / n as f64];
            }
            if means == before {
                return means;
            }
        }
    }

    #[test]
    fn are_the_means_of_the_serial_program() {
        let (count, groups) = (15_000, 4);
        let serial = serial(count, groups);
        assert_ne!(serial, points(groups).collect::<Vec<_>>());
        for ranks in 1..=3 {
            let means = armature::run(&Config::new().ranks(ranks), |session| k_means(session, count, groups));
            assert_eq!(means.unwrap(), Some(serial.clone()));
        }
    }
}
