//! Connections between ranks: set-up time, bandwidth, and the difference of clocks, measured by messages of MPI.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use armature::mpi::traits::*;
use armature::{BoxError, Communicator as World, Session};
use serde::{Deserialize, Serialize};

/// Number of round trips of a small message. Only the fastest one is used, because a rank may have to wait for a core in the others.
const ROUNDS: usize = 40;

/// Size of a large message in bytes: several times the socket buffers. At 20 Mbit/s, the message takes half a second.
const LARGE: usize = 1 << 20;

/// Factor by which the large message grows on a fast connection. In a shorter message, the slow start of TCP would take a large part of the time.
const FAST: usize = 8;

/// Round-trip time of a large message in seconds below which a connection counts as fast.
const IS_FAST: f64 = 0.05;

/// Number of round trips of a large message, of which only the fastest one is used.
const LARGE_ROUNDS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Link {
    /// Time in seconds that a small message takes from one rank to the other.
    pub(crate) setup: f64,
    /// Bandwidth of the connection in bytes per second.
    pub(crate) bandwidth: f64,
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Returns the seconds by which the clock of this rank is ahead of that of rank 0; 0 on rank 0.
///
/// The rank sends a message, and rank 0 replies with the time of its clock. The reply is assumed to take half of the round trip. The
/// fastest round trip gives the smallest error.
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

/// Returns the seconds of the fastest round trip of a message of `bytes` bytes between this rank and rank `other`. The rank with the lower number
/// measures the time.
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

/// Makes both ranks of a connection take the same decision: the rank with the lower number sends its decision `mine` to `other`, and both return it.
fn agreed(world: &World, rank: usize, other: usize, mine: bool) -> Result<bool, BoxError> {
    let peer = world.process_at_rank(i32::try_from(other)?);
    if rank < other {
        peer.send(&mine);
        return Ok(mine);
    }
    Ok(peer.receive().0)
}

/// Measures the connections between all pairs of the given ranks, one pair at a time. It is a collective operation: all ranks call it with
/// the same list. Each rank returns the pairs in which it has the lower number.
pub(crate) fn measure(session: &mut Session, ranks: &[usize]) -> Result<Vec<(usize, usize, Link)>, BoxError> {
    let rank = session.rank();
    // The first call of `world` creates a communicator of all ranks and must be made by all ranks. The calls below are made by two ranks only.
    session.world()?;
    let mut links = Vec::new();
    for (at, &low) in ranks.iter().enumerate() {
        for &high in &ranks[at + 1..] {
            // During a measurement all other ranks wait in this barrier, so that only one pair of ranks sends messages.
            session.barrier()?;
            if rank != low && rank != high {
                continue;
            }
            let other = if rank == low { high } else { low };
            let world = session.world()?;
            let small = round_trip(world, rank, other, 8, ROUNDS)?;
            let mut large = (LARGE, round_trip(world, rank, other, LARGE, LARGE_ROUNDS)?);
            // The two ranks of the pair have measured different times, but must use the same message size.
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
