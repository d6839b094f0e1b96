//! Connections between ranks: set-up time, bandwidth, and the difference of clocks, measured by messages of MPI.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use armature::mpi::traits::*;
use armature::{BoxError, Communicator as World, Session};
use serde::{Deserialize, Serialize};

/// Round trips of a small message. The fastest counts: others waited for a core.
const ROUNDS: usize = 40;

/// Bytes of a large message: several times the buffers of a socket, and half a second on a connection of 20 Mbit/s.
const LARGE: usize = 1 << 20;

/// Factor by which the large message grows on a fast connection, where its first packets take a large part of the time.
const FAST: usize = 8;

/// Seconds of a round trip of a large message below which a connection is fast.
const IS_FAST: f64 = 0.05;

/// Round trips of a large message. The fastest counts.
const LARGE_ROUNDS: usize = 3;

/// Measured connection between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Link {
    /// Seconds until a small message arrives.
    pub(crate) setup: f64,
    /// Bytes per second.
    pub(crate) bandwidth: f64,
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Returns the seconds by which the clock of this rank is ahead of that of rank 0; 0 on rank 0.
///
/// Rank 0 answers with its time. In the fastest round trip, the answer was sent half a round trip ago.
pub(crate) fn clock_offset(session: &mut Session) -> Result<f64, BoxError> {
    let (rank, size) = (session.rank(), session.size());
    let world = session.world()?;
    if rank == 0 {
        for other in 1..size {
            let peer = world.process_at_rank(i32::try_from(other)?);
            for _ in 0..ROUNDS {
                let _: (f64, _) = peer.receive();
                peer.send(&now());
            }
        }
        return Ok(0.0);
    }
    let root = world.process_at_rank(0);
    let mut best = (f64::INFINITY, 0.0);
    for _ in 0..ROUNDS {
        let (begin, clock) = (Instant::now(), now());
        root.send(&clock);
        let (of_root, _): (f64, _) = root.receive();
        let trip = begin.elapsed().as_secs_f64();
        if trip < best.0 {
            best = (trip, clock + 0.5 * trip - of_root);
        }
    }
    Ok(best.1)
}

/// Returns the seconds of the fastest round trip of `bytes` bytes to `other`; the rank with the lower number measures.
fn round_trip(
    world: &World,
    rank: usize,
    other: usize,
    bytes: usize,
    rounds: usize,
) -> Result<f64, BoxError> {
    let peer = world.process_at_rank(i32::try_from(other)?);
    let mut buffer = vec![0_u8; bytes];
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let begin = Instant::now();
        if rank < other {
            peer.send(&buffer[..]);
            peer.receive_into(&mut buffer[..]);
        } else {
            peer.receive_into(&mut buffer[..]);
            peer.send(&buffer[..]);
        }
        best = best.min(begin.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Returns the value of the rank with the lower number on both ranks.
fn agreed(world: &World, rank: usize, other: usize, mine: bool) -> Result<bool, BoxError> {
    let peer = world.process_at_rank(i32::try_from(other)?);
    if rank < other {
        peer.send(&mine);
        return Ok(mine);
    }
    Ok(peer.receive().0)
}

/// Measures the connections between all pairs of the given ranks, one pair after another. All ranks call it with the same list. Each rank returns the
/// pairs that it has measured: those in which it has the lower number.
pub(crate) fn measure(session: &mut Session, ranks: &[usize]) -> Result<Vec<(usize, usize, Link)>, BoxError> {
    let rank = session.rank();
    // The first call creates the communicator and is collective, so all ranks make it here.
    session.world()?;
    let mut links = Vec::new();
    for (at, &low) in ranks.iter().enumerate() {
        for &high in &ranks[at + 1..] {
            // Other pairs do not send meanwhile, and ranks do not wait inside MPI for longer than one pair takes.
            session.barrier()?;
            if rank != low && rank != high {
                continue;
            }
            let other = if rank == low { high } else { low };
            let world = session.world()?;
            let small = round_trip(world, rank, other, 8, ROUNDS)?;
            let mut large = (LARGE, round_trip(world, rank, other, LARGE, LARGE_ROUNDS)?);
            // Both ranks of a pair must choose the same size of the large message.
            let is_fast = agreed(world, rank, other, large.1 < IS_FAST)?;
            if is_fast {
                large = (FAST * LARGE, round_trip(world, rank, other, FAST * LARGE, LARGE_ROUNDS)?);
            }
            if rank == low {
                let seconds = (0.5 * (large.1 - small)).max(1e-9);
                links.push((low, high, Link { setup: 0.5 * small, bandwidth: large.0 as f64 / seconds }));
            }
        }
    }
    session.barrier()?;
    Ok(links)
}
