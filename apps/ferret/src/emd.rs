//! Earth mover's distance of two weighted sets: the minimum work that transforms one set into the other.
//!
//! The module solves the transportation problem exactly (Rubner, Tomasi and Guibas, "The Earth Mover's Distance as a Metric for Image Retrieval",
//! IJCV 40(2), 2000), by successive shortest paths with potentials on the dense bipartite graph. Supplies and demands are integers, so that the
//! flow is exact and the method always terminates.

/// Solver for the earth mover's distance of two weighted sets, which reuses its memory for each pair of sets.
#[derive(Clone, Debug, Default)]
pub struct Solver {
    flow: Vec<u32>,
    supply: Vec<u32>,
    demand: Vec<u32>,
    row_potential: Vec<f64>,
    column_potential: Vec<f64>,
    row_reach: Vec<f64>,
    column_reach: Vec<f64>,
    row_done: Vec<bool>,
    column_done: Vec<bool>,
    row_from: Vec<usize>,
    column_from: Vec<usize>,
}

const NOWHERE: usize = usize::MAX;

impl Solver {
    /// Creates a solver without allocating memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the earth mover's distance: the minimum cost of moving the weights `supply` to the weights `demand`, divided by the total weight.
    ///
    /// `cost` contains the costs (not negative) of moving one unit of weight, with a row for each supply and a column for each demand.
    ///
    /// # Panics
    /// Panics if the sums of `supply` and `demand` differ or are zero, or if the matrix `cost` has the wrong size.
    ///
    /// ```
    /// let mut solver = ferret::emd::Solver::new();
    /// // Half of the earth stays, half moves by 3.
    /// assert_eq!(solver.distance(&[1, 1], &[1, 1], &[0.0, 5.0, 4.0, 3.0]), 1.5);
    /// ```
    pub fn distance(&mut self, supply: &[u32], demand: &[u32], cost: &[f32]) -> f64 {
        let total: u64 = supply.iter().map(|&w| u64::from(w)).sum();
        assert_eq!(total, demand.iter().map(|&w| u64::from(w)).sum::<u64>(), "both sides weigh the same");
        assert!(total > 0, "there is something to move");
        assert_eq!(cost.len(), supply.len() * demand.len(), "one cost for each pair");
        self.reset(supply, demand, cost);
        while let Some(end) = self.shortest_path(cost) {
            self.augment(end);
        }
        let work: f64 = self.flow.iter().zip(cost).map(|(&f, &c)| f64::from(f) * f64::from(c)).sum();
        work / total as f64
    }

    fn reset(&mut self, supply: &[u32], demand: &[u32], cost: &[f32]) {
        let (rows, columns) = (supply.len(), demand.len());
        refill(&mut self.flow, rows * columns, 0);
        self.supply.clear();
        self.supply.extend_from_slice(supply);
        self.demand.clear();
        self.demand.extend_from_slice(demand);
        refill(&mut self.row_potential, rows, 0.0);
        // The potential of each column begins with the minimum of the column. With these potentials, no reduced cost is negative, and many are zero.
        refill(&mut self.column_potential, columns, f64::INFINITY);
        for row in cost.chunks_exact(columns.max(1)) {
            for (potential, &c) in self.column_potential.iter_mut().zip(row) {
                *potential = potential.min(f64::from(c));
            }
        }
        refill(&mut self.row_reach, rows, 0.0);
        refill(&mut self.column_reach, columns, 0.0);
        refill(&mut self.row_done, rows, false);
        refill(&mut self.column_done, columns, false);
        refill(&mut self.row_from, rows, NOWHERE);
        refill(&mut self.column_from, columns, NOWHERE);
    }

    /// Executes Dijkstra's algorithm with reduced costs, from all rows with remaining supply to the nearest column with remaining demand. Updates the
    /// potentials and returns this column, or `None` if all weight has been moved.
    fn shortest_path(&mut self, cost: &[f32]) -> Option<usize> {
        let (rows, columns) = (self.supply.len(), self.demand.len());
        for i in 0..rows {
            self.row_reach[i] = if self.supply[i] > 0 { 0.0 } else { f64::INFINITY };
            self.row_done[i] = false;
            self.row_from[i] = NOWHERE;
        }
        for j in 0..columns {
            self.column_reach[j] = f64::INFINITY;
            self.column_done[j] = false;
        }
        loop {
            let row = nearest(&self.row_reach, &self.row_done);
            let column = nearest(&self.column_reach, &self.column_done);
            let to_column = |j: usize| self.column_reach[j];
            match (row, column) {
                (None, None) => return None,
                (row, Some(j)) if row.is_none_or(|i| to_column(j) <= self.row_reach[i]) => {
                    self.column_done[j] = true;
                    if self.demand[j] > 0 {
                        self.raise_potentials(self.column_reach[j]);
                        return Some(j);
                    }
                    self.relax_rows(j, cost);
                }
                (Some(i), _) => {
                    self.row_done[i] = true;
                    self.relax_columns(i, cost);
                }
                (None, Some(_)) => unreachable!("a column without a row to compare with is taken above"),
            }
        }
    }

    fn relax_columns(&mut self, i: usize, cost: &[f32]) {
        let columns = self.demand.len();
        let start = self.row_reach[i] + self.row_potential[i];
        for (j, &c) in cost[i * columns..(i + 1) * columns].iter().enumerate() {
            // Rounding may make a reduced cost slightly negative. It is raised to zero, because distances in Dijkstra's algorithm must not decrease.
            let reach = (start + f64::from(c) - self.column_potential[j]).max(self.row_reach[i]);
            if reach < self.column_reach[j] && !self.column_done[j] {
                self.column_reach[j] = reach;
                self.column_from[j] = i;
            }
        }
    }

    fn relax_rows(&mut self, j: usize, cost: &[f32]) {
        let columns = self.demand.len();
        let start = self.column_reach[j] + self.column_potential[j];
        for i in 0..self.supply.len() {
            if self.row_done[i] || self.flow[i * columns + j] == 0 {
                continue;
            }
            let back = f64::from(cost[i * columns + j]);
            let reach = (start - back - self.row_potential[i]).max(self.column_reach[j]);
            if reach < self.row_reach[i] {
                self.row_reach[i] = reach;
                self.row_from[i] = j;
            }
        }
    }

    fn raise_potentials(&mut self, limit: f64) {
        for (potential, reach) in self.row_potential.iter_mut().zip(&self.row_reach) {
            *potential += reach.min(limit);
        }
        for (potential, reach) in self.column_potential.iter_mut().zip(&self.column_reach) {
            *potential += reach.min(limit);
        }
    }

    fn augment(&mut self, end: usize) {
        let columns = self.demand.len();
        let mut amount = self.demand[end];
        let mut column = end;
        let first_row = loop {
            let row = self.column_from[column];
            let before = self.row_from[row];
            if before == NOWHERE {
                break row;
            }
            amount = amount.min(self.flow[row * columns + before]);
            column = before;
        };
        amount = amount.min(self.supply[first_row]);
        column = end;
        loop {
            let row = self.column_from[column];
            self.flow[row * columns + column] += amount;
            let before = self.row_from[row];
            if before == NOWHERE {
                break;
            }
            self.flow[row * columns + before] -= amount;
            column = before;
        }
        self.supply[first_row] -= amount;
        self.demand[end] -= amount;
    }
}

fn refill<T: Clone>(memory: &mut Vec<T>, len: usize, value: T) {
    memory.clear();
    memory.resize(len, value);
}

fn nearest(reach: &[f64], done: &[bool]) -> Option<usize> {
    let mut best = None;
    let mut least = f64::INFINITY;
    for (i, (&r, &d)) in reach.iter().zip(done).enumerate() {
        if !d && r < least {
            least = r;
            best = Some(i);
        }
    }
    best
}

/// Returns a lower bound of the earth mover's distance that needs no flow. Each unit of weight moves to its cheapest partner, regardless of the
/// partner's capacity; the larger of the costs of both directions is the bound (relaxed earth mover's distance; Kusner, Sun, Kolkin and Weinberger,
/// "From Word Embeddings To Document Distances", ICML 2015, Sect. 4).
pub fn lower_bound(supply: &[u32], demand: &[u32], cost: &[f32]) -> f64 {
    let columns = demand.len();
    let total: f64 = supply.iter().map(|&w| f64::from(w)).sum();
    let least = |costs: &mut dyn Iterator<Item = f32>| costs.fold(f32::INFINITY, f32::min);
    let by_row: f64 = supply
        .iter()
        .zip(cost.chunks_exact(columns))
        .map(|(&w, row)| f64::from(w) * f64::from(least(&mut row.iter().copied())))
        .sum();
    let by_column: f64 = demand
        .iter()
        .enumerate()
        .map(|(j, &w)| f64::from(w) * f64::from(least(&mut cost.iter().skip(j).step_by(columns).copied())))
        .sum();
    by_row.max(by_column) / total
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn brute_force(supply: &mut [u32], demand: &mut [u32], cost: &[f32]) -> f64 {
        let Some(i) = supply.iter().position(|&s| s > 0) else { return 0.0 };
        supply[i] -= 1;
        let mut best = f64::INFINITY;
        for j in 0..demand.len() {
            if demand[j] > 0 {
                demand[j] -= 1;
                let rest = brute_force(supply, demand, cost);
                best = best.min(rest + f64::from(cost[i * demand.len() + j]));
                demand[j] += 1;
            }
        }
        supply[i] += 1;
        best
    }

    fn weights(n: usize, total: u32) -> impl Strategy<Value = Vec<u32>> {
        proptest::collection::vec(0..=total, n - 1).prop_map(move |mut cuts| {
            cuts.push(total);
            cuts.sort_unstable();
            let mut before = 0;
            cuts.into_iter().map(|cut| cut - std::mem::replace(&mut before, cut)).collect()
        })
    }

    fn points(n: usize) -> impl Strategy<Value = Vec<(f32, f32)>> {
        proptest::collection::vec((0f32..10.0, 0f32..10.0), n)
    }

    fn planar(a: &[(f32, f32)], b: &[(f32, f32)]) -> Vec<f32> {
        let far = |p: &(f32, f32), q: &(f32, f32)| ((p.0 - q.0).powi(2) + (p.1 - q.1).powi(2)).sqrt();
        a.iter().flat_map(|p| b.iter().map(move |q| far(p, q))).collect()
    }

    fn set(total: u32) -> impl Strategy<Value = (Vec<u32>, Vec<(f32, f32)>)> {
        (1usize..17).prop_flat_map(move |n| (weights(n, total), points(n)))
    }

    proptest! {
        #[test]
        fn earth_movers_distance_agrees_with_brute_force(
            (supply, demand, cost) in (1usize..5, 1usize..5).prop_flat_map(|(n, m)| {
                (weights(n, 6), weights(m, 6), proptest::collection::vec(0f32..10.0, n * m))
            }),
        ) {
            let exact = brute_force(&mut supply.clone(), &mut demand.clone(), &cost) / 6.0;
            let solved = Solver::new().distance(&supply, &demand, &cost);
            prop_assert!((exact - solved).abs() < 1e-6, "{} is not {}", solved, exact);
            prop_assert!(lower_bound(&supply, &demand, &cost) <= solved + 1e-9);
        }

        #[test]
        fn earth_movers_distance_is_a_metric(a in set(1000), b in set(1000), c in set(1000)) {
            let mut solver = Solver::new();
            let mut between = |x: &(Vec<u32>, Vec<(f32, f32)>), y: &(Vec<u32>, Vec<(f32, f32)>)| {
                solver.distance(&x.0, &y.0, &planar(&x.1, &y.1))
            };
            prop_assert!(between(&a, &a).abs() < 1e-9);
            prop_assert!((between(&a, &b) - between(&b, &a)).abs() < 1e-6);
            prop_assert!(between(&a, &c) <= between(&a, &b) + between(&b, &c) + 1e-6);
            prop_assert!(between(&a, &b) >= 0.0);
        }

        #[test]
        fn moving_everything_by_one_step_costs_one((w, p) in set(65_536), step in 0f32..5.0) {
            let moved: Vec<_> = p.iter().map(|&(x, y)| (x + step, y)).collect();
            let solved = Solver::new().distance(&w, &w, &planar(&p, &moved));
            prop_assert!((solved - f64::from(step)).abs() < 1e-4, "{} is not {}", solved, step);
        }
    }

    #[test]
    #[should_panic(expected = "both sides weigh the same")]
    fn unequal_totals_are_refused() {
        Solver::new().distance(&[1], &[2], &[0.0]);
    }
}
