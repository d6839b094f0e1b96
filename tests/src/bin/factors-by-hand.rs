//! A farm written directly in MPI, as shown in the chapter "Farms", which ports this program to armature.
//!
//! ```text
//! mpirun -n 3 factors-by-hand
//! ```

use mpi::traits::*;

/// Numbers per message.
const CHUNK: usize = 32;
/// Outstanding messages per worker: one that the worker computes, and one that waits.
const AHEAD: usize = 2;

fn main() {
    let universe = mpi::initialize().expect("MPI starts");
    let world = universe.world();
    assert!(world.size() > 1, "one rank hands out, at least one more is needed");
    if world.rank() > 0 {
        return work(&world);
    }
    let numbers: Vec<u64> = numbers().collect();
    let found = distribute(&world, &numbers);
    let primes = found.iter().filter(|factors| factors.len() == 1).count();
    println!("{primes} of {} numbers are prime", found.len());
}

fn distribute(world: &impl Communicator, numbers: &[u64]) -> Vec<Vec<u64>> {
    let mut found = vec![Vec::new(); numbers.len()];
    let mut chunks = numbers.chunks(CHUNK).enumerate();
    let mut give = |rank| {
        let Some((number, chunk)) = chunks.next() else { return 0 };
        // The index of the chunk's first number precedes the chunk. The worker returns this index with the results.
        world.process_at_rank(rank).send(&[&[(number * CHUNK) as u64], chunk].concat()[..]);
        1
    };
    let mut open = 0;
    for _ in 0..AHEAD {
        open += (1..world.size()).map(&mut give).sum::<i32>();
    }
    while open > 0 {
        let (answer, status) = world.any_process().receive_vec::<u64>();
        open += give(status.source_rank()) - 1;
        let mut place = answer[0] as usize;
        let mut rest = &answer[1..];
        while let [count, more @ ..] = rest {
            let (factors, more) = more.split_at(*count as usize);
            found[place] = factors.to_vec();
            (place, rest) = (place + 1, more);
        }
    }
    for rank in 1..world.size() {
        world.process_at_rank(rank).send(&[0u64; 0][..]);
    }
    found
}

fn work(world: &impl Communicator) {
    let master = world.process_at_rank(0);
    loop {
        let (chunk, _) = master.receive_vec::<u64>();
        // An empty message means that there are no more chunks.
        let Some((place, numbers)) = chunk.split_first() else { return };
        let mut answer = vec![*place];
        for &number in numbers {
            let factors = factors(number);
            answer.push(factors.len() as u64);
            answer.extend(factors);
        }
        master.send(&answer[..]);
    }
}

fn numbers() -> impl Iterator<Item = u64> {
    10_000_000_000..10_000_003_000
}

fn factors(mut n: u64) -> Vec<u64> {
    let (mut found, mut d) = (Vec::new(), 2);
    while d * d <= n {
        while n.is_multiple_of(d) {
            found.push(d);
            n /= d;
        }
        d += 1;
    }
    if n > 1 {
        found.push(n);
    }
    found
}
