//! Synthetic networks: random places in a square, with strong connections between near places.

use crate::matrix::Symmetric;
use armature_apps::random::Random;

/// Returns the coordinates of `count` random places in the unit square. Equal seeds give equal places.
pub fn scatter(count: usize, seed: u64) -> Vec<(f64, f64)> {
    let mut random = Random::new(seed);
    (0..count).map(|_| (f64::from(random.unit()), f64::from(random.unit()))).collect()
}

/// Returns the matrix of connection weights between places: 1 / (1 + (d / reach)²) at distance d. All eigenvalues of this matrix are positive.
pub fn weights(places: &[(f64, f64)], reach: f64) -> Symmetric {
    Symmetric::from_fn(places.len(), |i, j| {
        let (x, y) = (places[i].0 - places[j].0, places[i].1 - places[j].1);
        1.0 / (1.0 + (x * x + y * y) / (reach * reach))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearby_places_have_larger_weights() {
        let matrix = weights(&[(0.0, 0.0), (0.1, 0.0), (0.3, 0.4)], 0.1);
        assert_eq!(matrix.row(0)[0], 1.0);
        assert!((matrix.row(0)[1] - 0.5).abs() < 1e-12);
        assert!((matrix.row(0)[2] - 1.0 / 26.0).abs() < 1e-12);
    }

    #[test]
    fn seed_determines_the_network() {
        assert_eq!(scatter(5, 3), scatter(5, 3));
        assert_ne!(scatter(5, 3), scatter(5, 4));
        assert!(scatter(100, 1).iter().all(|p| (0.0..1.0).contains(&p.0) && (0.0..1.0).contains(&p.1)));
    }
}
