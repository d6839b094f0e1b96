//! Shortest tour through towns by branch and bound. The ranks share the length of the best tour
//! found so far, or each rank knows only the best tour that it has found itself.

use armature::farm::{Farm, Incumbent};
use armature::{Config, Progress};

use crate::{RunResult, ranks::Launch};

/// Number of ranks of the search.
pub const RANKS: usize = 4;

/// Towns between which a tour is searched.
#[derive(Clone, Debug, PartialEq)]
pub struct Towns {
    distances: Vec<Vec<u32>>,
    nearest: Vec<u32>,
}

/// Towns in the order in which an incomplete tour visits them, and the length of the tour so far.
type Path = (Vec<u8>, u32);

fn start() -> Path {
    (vec![0], 0)
}

impl Towns {
    /// Places `count` towns at random in a square.
    pub fn random(count: usize, seed: u32) -> Self {
        let mut state = seed.wrapping_mul(77_777);
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from((state >> 16) % 1_000)
        };
        let places: Vec<(f64, f64)> = (0..count).map(|_| (draw(), draw())).collect();
        let distance = |a: &(f64, f64), b: &(f64, f64)| (a.0 - b.0).hypot(a.1 - b.1).round() as u32;
        let distances: Vec<Vec<u32>> =
            places.iter().map(|a| places.iter().map(|b| distance(a, b)).collect()).collect();
        let others = |town: usize| distances[town].iter().enumerate().filter(move |other| other.0 != town);
        let nearest = (0..count).map(|town| others(town).map(|other| *other.1).min().unwrap_or(0)).collect();
        Towns { distances, nearest }
    }

    /// Returns the paths with one more town that can still become a tour shorter than `best`, the nearest town first.
    /// A path with all towns becomes a tour, which improves `best`.
    fn branch(&self, (path, length): &Path, best: &Incumbent<u32>) -> Vec<Path> {
        let (first, last) = (0, path.last().map_or(0, |&town| usize::from(town)));
        let mut left: Vec<usize> =
            (0..self.nearest.len()).filter(|&town| !path.contains(&(town as u8))).collect();
        if left.is_empty() {
            best.improve(length + self.distances[last][first]);
            return Vec::new();
        }
        let at_least = self.nearest[last] + left.iter().map(|&town| self.nearest[town]).sum::<u32>();
        if length + at_least >= best.get() {
            return Vec::new();
        }
        left.sort_by_key(|&town| self.distances[last][town]);
        let longer = |town: usize| ([&path[..], &[town as u8]].concat(), length + self.distances[last][town]);
        left.into_iter().map(longer).collect()
    }

    /// Searches for the shortest tour on one rank. Returns its length and the number of searched nodes (partial and
    /// complete tours).
    pub fn serial(&self) -> (u32, u64) {
        let best = Incumbent::minimum(u32::MAX);
        let (mut open, mut nodes) = (vec![start()], 0);
        while let Some(path) = open.pop() {
            nodes += 1;
            open.extend(self.branch(&path, &best).into_iter().rev());
        }
        (best.get(), nodes)
    }

    fn with_farm(&self, config: &Config, shares: bool) -> RunResult<Option<(u32, u64)>> {
        Ok(armature::run(config, |session| {
            let best = Incumbent::minimum(u32::MAX);
            let mut farm = Farm::exploring("tour", |path: &Path, more| {
                more.extend(self.branch(path, &best));
                best.get()
            });
            if shares {
                farm = farm.incumbent(&best);
            }
            let (mut shortest, mut nodes) = (u32::MAX, 0);
            farm.explore(session, [start()], |best| {
                shortest = shortest.min(best);
                nodes += 1;
            })?;
            Ok(session.is_root().then_some((shortest, nodes)))
        })?)
    }
}

/// Searches for the shortest tour on [`RANKS`] processes. Returns the number of searched nodes (partial and complete
/// tours).
///
/// # Errors
/// If the ranks cannot be started; also errors of [`main`].
pub fn nodes(towns: usize, seed: u32, shares: bool) -> RunResult<f64> {
    let arguments = [towns.to_string(), seed.to_string(), shares.to_string()];
    let values = Launch::ranks(RANKS).run("tour", &arguments)?;
    values.get("nodes").copied().ok_or_else(|| "the search printed no number of nodes".into())
}

/// Runs the rank program; prints `result nodes N` on rank 0.
///
/// # Errors
/// If the arguments are wrong or the tour is not the shortest one.
pub fn main(arguments: &[String]) -> RunResult {
    let [towns, seed, shares] = arguments else {
        return Err(format!("expected TOWNS SEED true|false, got {arguments:?}").into());
    };
    let towns = Towns::random(towns.parse()?, seed.parse()?);
    let config = Config::from_env()?.progress(Progress::Off);
    let Some((length, nodes)) = towns.with_farm(&config, shares.parse()?)? else { return Ok(()) };
    let (shortest, _) = towns.serial();
    if length != shortest {
        return Err(format!("the tour has a length of {length}, but the shortest one of {shortest}").into());
    }
    println!("result nodes {nodes}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_search_finds_the_shortest_tour() {
        let towns = Towns::random(8, 3);
        let (length, nodes) = towns.serial();
        assert!(nodes > 100, "{nodes} nodes");
        for shares in [true, false] {
            let config = Config::new().ranks(RANKS).progress(Progress::Off);
            let (found, searched) = towns.with_farm(&config, shares).unwrap().unwrap();
            assert!(found == length && searched > 8, "{found} with {searched} nodes");
        }
    }
}
