//! k-means: points on a plane are divided into groups, each around its mean. An iterated farm: the results of an
//! iteration determine the tasks of the next iteration.
//!
//! ```sh
//! mpirun -n 4 target/release/k-means
//! ```

use std::ops::Range;

use armature::farm::{Context, Farm};
use armature::{BoxError, Session};

type Point = [f64; 2];
/// For each group, the sum and the number of its points.
type Sums = Vec<(Point, u64)>;

const BLOCK: usize = 10_000;

fn main() -> std::process::ExitCode {
    armature::main(|session| {
        if let Some(means) = k_means(session, 1_000_000, 8)? {
            means.iter().for_each(|[x, y]| println!("{x:.6} {y:.6}"));
        }
        Ok(())
    })
}

pub(crate) fn k_means(
    session: &mut Session,
    count: usize,
    groups: usize,
) -> Result<Option<Vec<Point>>, BoxError> {
    let mut means: Vec<Point> = points(groups).collect();
    let tasks = |means: &[Point]| -> Vec<_> {
        let blocks = (0..count).step_by(BLOCK).map(|start| start..(start + BLOCK).min(count));
        blocks.map(|block| (block, means.to_vec())).collect()
    };
    // Each rank makes all points once, before its first task. A real program reads a file here.
    let mut farm = Farm::with_setup("assign", || {
        let points: Vec<Point> = points(count).collect();
        Ok(move |(block, means): (Range<usize>, Vec<Point>), _: &mut Context| assign(&points[block], &means))
    });
    farm.iterate(session, tasks(&means), |sums, _| {
        let before = means.clone();
        for (group, mean) in means.iter_mut().enumerate() {
            // The sums of the tasks are added in the order of the tasks, so that the means are bit-identical on any
            // number of ranks.
            let sum = sums.iter().map(|block| block[group]);
            let ([x, y], count) =
                sum.fold(([0.0; 2], 0), |([x, y], n), (p, m)| ([x + p[0], y + p[1]], n + m));
            if count > 0 {
                *mean = [x / count as f64, y / count as f64];
            }
        }
        // The farm ends when no mean has moved.
        Ok((means != before).then(|| tasks(&means)))
    })?;
    Ok(session.is_root().then_some(means))
}

/// Adds up the points of each group. A point belongs to the group with the nearest mean.
fn assign(points: &[Point], means: &[Point]) -> Result<Sums, BoxError> {
    let mut sums = vec![([0.0; 2], 0); means.len()];
    for &[x, y] in points {
        let distances = means.iter().map(|mean| (mean[0] - x).powi(2) + (mean[1] - y).powi(2));
        let nearest = distances.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
        let (group, _) = nearest.ok_or("there is no group")?;
        let (sum, count) = &mut sums[group];
        *sum = [sum[0] + x, sum[1] + y];
        *count += 1;
    }
    Ok(sums)
}

/// Returns points in a few clouds, identical on all ranks.
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

    fn serial(count: usize, groups: usize) -> Vec<Point> {
        let (points, mut means): (Vec<_>, Vec<_>) = (points(count).collect(), points(groups).collect());
        loop {
            let before = means.clone();
            let mut total = vec![([0.0; 2], 0); groups];
            for block in points.chunks(BLOCK) {
                for (([x, y], n), (more, m)) in total.iter_mut().zip(assign(block, &before).unwrap()) {
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
    fn means_equal_serial_means_on_1_to_3_ranks() {
        let (count, groups) = (15_000, 4);
        let serial = serial(count, groups);
        assert_ne!(serial, points(groups).collect::<Vec<_>>());
        for ranks in 1..=3 {
            let means = armature::run(&Config::new().ranks(ranks), |session| k_means(session, count, groups));
            assert_eq!(means.unwrap(), Some(serial.clone()));
        }
    }
}
