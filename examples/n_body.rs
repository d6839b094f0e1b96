//! Motion of bodies that attract each other. A parallel loop over the bodies computes the accelerations and returns
//! all of them on all ranks. Every rank has all bodies, and computes the accelerations of some of them.
//!
//! ```sh
//! mpirun -n 4 target/release/n-body
//! ```

use armature::loops::map;
use armature::{BoxError, Session};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Body {
    mass: f64,
    place: [f64; 3],
    speed: [f64; 3],
}

const STEP: f64 = 1e-3;
/// Softening length, which limits the attraction of two bodies that are very close.
const SOFTENING: f64 = 1e-2;

fn main() -> std::process::ExitCode {
    armature::main(|session| {
        let bodies = simulate(session, 2_000, 100)?;
        if session.is_root() {
            let energy: f64 =
                bodies.iter().map(|b| 0.5 * b.mass * b.speed.iter().map(|v| v * v).sum::<f64>()).sum();
            println!("kinetic energy {energy:.9}");
        }
        Ok(())
    })
}

/// Returns the bodies after `steps` time steps, on every rank.
pub(crate) fn simulate(session: &mut Session, count: u64, steps: u32) -> Result<Vec<Body>, BoxError> {
    let mut bodies: Vec<Body> = (0..count).map(body).collect();
    for _ in 0..steps {
        let accelerations =
            map(session, "accelerations", 0..count, |number| acceleration(number as usize, &bodies))?;
        advance(&mut bodies, &accelerations);
    }
    Ok(bodies)
}

fn acceleration(number: usize, bodies: &[Body]) -> [f64; 3] {
    let here = bodies[number].place;
    let mut sum = [0.0; 3];
    for other in bodies {
        let way: [f64; 3] = std::array::from_fn(|axis| other.place[axis] - here[axis]);
        let square = way.iter().map(|d| d * d).sum::<f64>() + SOFTENING * SOFTENING;
        let pull = other.mass / (square * square.sqrt());
        sum.iter_mut().zip(way).for_each(|(sum, d)| *sum += pull * d);
    }
    sum
}

fn advance(bodies: &mut [Body], accelerations: &[[f64; 3]]) {
    for (body, acceleration) in bodies.iter_mut().zip(accelerations) {
        for ((place, speed), change) in body.place.iter_mut().zip(&mut body.speed).zip(acceleration) {
            *speed += STEP * change;
            *place += STEP * *speed;
        }
    }
}

fn body(number: u64) -> Body {
    let n = number as f64;
    Body { mass: 1.0 + n % 3.0, place: [n.sqrt() * n.cos(), n.sqrt() * n.sin(), n % 7.0], speed: [0.0; 3] }
}

#[cfg(test)]
mod tests {
    use armature::Config;

    use super::*;

    #[test]
    fn bodies_equal_serial_bodies_on_1_to_3_ranks() {
        let (count, steps) = (40, 10);
        let mut serial: Vec<Body> = (0..count).map(body).collect();
        for _ in 0..steps {
            let accelerations: Vec<_> = (0..count as usize).map(|n| acceleration(n, &serial)).collect();
            advance(&mut serial, &accelerations);
        }
        assert_ne!(serial[1].place, body(1).place);
        for ranks in 1..=3 {
            let bodies =
                armature::run(&Config::new().ranks(ranks), |session| simulate(session, count, steps));
            assert_eq!(bodies.unwrap(), serial);
        }
    }
}
