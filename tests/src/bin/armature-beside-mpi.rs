//! Embeds armature in programs that make their own MPI calls: `mpirun -n 4 armature-beside-mpi CASE`. Each rank
//! prints `CASE rank R: ok`.
//!
//! - `mpi-first`: the program initialises MPI, uses MPI, runs skeletons, and uses MPI again;
//! - `ours-first`: armature initialises MPI, and the program calls MPI between skeletons;
//! - `twice`: several runs after one initialisation of MPI, on the world and on duplicates of the world;
//! - `half`: runs on half of the ranks, while the other ranks use MPI;
//! - `half-fails`: runs on half of the ranks, and one of them fails while the other ranks wait in MPI;
//! - `late`: one rank calls `run` 30 s after the others;
//! - `returned`, `handled`: a rank fails, and the program prints on every rank what `run` has returned;
//! - `inside`: a task calls `run`;
//! - `group-fails`: a rank fails in a group of a session;
//! - `groups`: skeletons run concurrently on groups of one session;
//! - `low-level`, `finalised`: armature rejects an MPI that it cannot use.

use armature::farm::Farm;
use armature::mpi::collective::SystemOperation;
use armature::mpi::environment::Universe;
use armature::mpi::topology::Color;
use armature::mpi::traits::*;
use armature::mpi::{Threading, initialize, initialize_with_threading};
use armature::{BoxError, Config, Error, Session};
use std::process::ExitCode;

fn main() -> ExitCode {
    armature::exit_code(one())
}

fn one() -> Result<(), BoxError> {
    let case = std::env::args().nth(1).unwrap_or_default();
    let rank = match case.as_str() {
        "mpi-first" => mpi_first()?,
        "ours-first" => ours_first()?,
        "twice" => twice()?,
        "half" => half()?,
        "half-fails" => half_fails()?,
        "late" => late()?,
        "returned" => returned()?,
        "handled" => handled()?,
        "inside" => inside()?,
        "group-fails" => group_fails()?,
        "groups" => groups()?,
        "low-level" => low_level()?,
        "finalised" => finalised()?,
        other => return Err(format!("there is no case {other:?}").into()),
    };
    armature_tests::print_line(&format!("{case} rank {rank}: ok"));
    Ok(())
}

fn config() -> Result<Config, Error> {
    Ok(Config::from_env()?.progress(armature::Progress::Off))
}

/// Funneled is the thread level that skeletons (such as farms and pipelines) need.
fn start() -> Result<Universe, BoxError> {
    let (universe, level) = initialize_with_threading(Threading::Funneled).ok_or("MPI is in use already")?;
    assert!(level >= Threading::Funneled);
    Ok(universe)
}

fn skeleton(session: &mut Session, factor: u64) -> Result<(), BoxError> {
    let results = Farm::new("multiply", move |n: u64| n * factor).collect_on_all(session, 0..200)?;
    assert!(results.into_iter().eq((0..200).map(|n| n * factor)));
    let ranks = session.all_gather(session.rank())?;
    assert!(ranks.into_iter().eq(0..session.size()));
    Ok(())
}

/// Sums a value over all ranks by a direct MPI call, as a program beside armature does.
fn sum(communicator: &impl Communicator, own_value: u64) -> u64 {
    let mut sum = 0;
    communicator.all_reduce_into(&own_value, &mut sum, SystemOperation::sum());
    sum
}

fn triangle(size: u64) -> u64 {
    size * (size + 1) / 2
}

fn mpi_first() -> Result<usize, BoxError> {
    let universe = start()?;
    let world = universe.world();
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    assert_eq!(sum(&world, rank + 1), triangle(size));
    let (at, of) = armature::run(&config()?, |session| {
        skeleton(session, 3)?;
        Ok((session.rank() as u64, session.size() as u64))
    })?;
    assert_eq!((at, of), (rank, size));
    assert_eq!(sum(&world, rank + 1), triangle(size), "MPI can be used afterwards");
    Ok(rank as usize)
}

fn ours_first() -> Result<usize, BoxError> {
    let rank = armature::run(&config()?, |session| {
        let (rank, size) = (session.rank(), session.size() as u64);
        for round in 1..4 {
            skeleton(session, round)?;
            let world = session.world()?;
            assert_eq!((world.rank() as usize, world.size() as u64), (rank, size));
            assert_eq!(sum(world, round * (rank as u64 + 1)), round * triangle(size));
            world.barrier();
        }
        Ok(rank)
    })?;
    Ok(rank)
}

fn twice() -> Result<usize, BoxError> {
    let universe = start()?;
    let world = universe.world();
    let own = config()?.communicator(world.duplicate());
    for round in 0..5 {
        armature::run(&config()?, |session| skeleton(session, round))?;
        armature::run(&own, |session| {
            skeleton(session, round + 1)?;
            let size = session.size() as u64;
            assert_eq!(sum(session.world()?, 1), size);
            Ok(())
        })?;
        assert_eq!(sum(&world, 1), world.size() as u64);
    }
    Ok(world.rank() as usize)
}

fn half() -> Result<usize, BoxError> {
    let universe = start()?;
    let world = universe.world();
    let rank = world.rank();
    let part = world.split_by_color(Color::with_value(rank % 2)).ok_or("every rank has a colour")?;
    if rank % 2 == 0 {
        let size = part.size() as usize;
        let (at, of) = armature::run(&config()?.communicator(part), |session| {
            skeleton(session, 7)?;
            Ok((session.rank(), session.size()))
        })?;
        assert_eq!((at, of), (rank as usize / 2, size));
    } else {
        assert_eq!(sum(&part, 2), 2 * part.size() as u64);
    }
    assert_eq!(sum(&world, 1), world.size() as u64, "all meet again");
    Ok(rank as usize)
}

fn half_fails() -> Result<usize, BoxError> {
    let universe = start()?;
    let world = universe.world();
    let rank = world.rank();
    let part = world.split_by_color(Color::with_value(rank % 2)).ok_or("every rank has a colour")?;
    if rank % 2 == 0 {
        armature::run(&config()?.communicator(part), |session| {
            if session.rank() == 1 { Err("no fuel".into()) } else { skeleton(session, 7) }
        })?;
    }
    world.barrier();
    Ok(rank as usize)
}

/// The last rank calls `run` too late.
fn late() -> Result<usize, BoxError> {
    // MPI is not finalised, because that would wait for the last rank after the error of the others.
    let universe = std::mem::ManuallyDrop::new(start()?);
    let world = universe.world();
    if world.rank() + 1 == world.size() {
        std::thread::sleep(std::time::Duration::from_secs(30));
    }
    armature::run(&config()?, |session| skeleton(session, 7))?;
    Ok(world.rank() as usize)
}

struct Guard(usize);

impl Drop for Guard {
    fn drop(&mut self) {
        armature_tests::print_line(&format!("dropped on rank {}", self.0));
    }
}

/// Rank 1 fails while the other ranks are in a farm. `run` returns an error on every rank, and before that drops the variables of the closure.
fn returned() -> Result<usize, BoxError> {
    let place = std::sync::OnceLock::new();
    let result = armature::run(&config()?, |session| {
        let rank = *place.get_or_init(|| session.rank());
        let _guard = Guard(rank);
        session.barrier()?;
        if rank == 1 { Err("no fuel".into()) } else { skeleton(session, 7) }
    });
    let error = result.err().ok_or("the failure is lost")?;
    armature_tests::print_line(&format!("returned {:?}: {error}", error.kind()));
    place.get().copied().ok_or_else(|| "the body has not run".into())
}

/// Rank 1 fails, and the closure ignores the error of the farm and returns `Ok`. `run` must still return an error on every rank.
fn handled() -> Result<usize, BoxError> {
    let place = std::sync::OnceLock::new();
    let result = armature::run(&config()?, |session| {
        place.get_or_init(|| session.rank());
        let mut farm = Farm::try_new("tear", |n: u64| if n == 5 { Err("torn".into()) } else { Ok(n) });
        let failed = farm.collect(session, 0..20).is_err() && session.barrier().is_err();
        if failed { Ok(()) } else { Err("the failure is not seen by this rank".into()) }
    });
    let error = result.err().ok_or("the failure is lost")?;
    armature_tests::print_line(&format!("returned {:?}: {error}", error.kind()));
    place.get().copied().ok_or_else(|| "the body has not run".into())
}

fn inside() -> Result<usize, BoxError> {
    let config = config()?;
    Ok(armature::run(&config, |session| {
        let again = |_: u64| {
            let inner = armature::run(&config, |session| Ok(session.size()));
            inner.map_or_else(|error| error.to_string(), |size| format!("a run of {size} ranks"))
        };
        let answers = Farm::new("again", again).collect_on_all(session, 0..20)?;
        let is_refused = answers.iter().all(|answer| answer.contains("was called within a run"));
        if is_refused { Ok(session.rank()) } else { Err(format!("{answers:?}").into()) }
    })?)
}

fn group_fails() -> Result<usize, BoxError> {
    armature::run(&config()?, |session| {
        let rank = session.rank();
        session.split(Some(rank as u32 % 2), 0, |group| {
            if rank == 1 { Err("no fuel".into()) } else { Ok(group.barrier()?) }
        })?;
        session.barrier()?;
        Ok(rank)
    })
    .map_err(BoxError::from)
}

fn groups() -> Result<usize, BoxError> {
    let rank = armature::run(&config()?, |session| {
        armature_tests::cases::groups(session)?;
        let (rank, size) = (session.rank(), session.size() as u64);
        session.split(Some(rank as u32 % 2), 0, |group| {
            let size = group.size() as u64;
            assert_eq!(sum(group.world()?, 1), size);
            Ok(())
        })?;
        assert_eq!(sum(session.world()?, 1), size);
        Ok(rank)
    })?;
    Ok(rank)
}

/// After armature has refused the thread level of MPI, the program must still be able to use MPI.
fn low_level() -> Result<usize, BoxError> {
    let universe = initialize().ok_or("MPI is in use already")?;
    let world = universe.world();
    let refused = armature::run(&config()?, |_| Ok(())).expect_err("the level is too low");
    assert_eq!(refused.kind(), armature::ErrorKind::Transport);
    for part in
        ["thread level SINGLE", "expected FUNNELED", "initialize_with_threading", "MPI_THREAD_FUNNELED"]
    {
        assert!(refused.message().contains(part), "{refused}");
    }
    assert_eq!(sum(&world, 1), world.size() as u64);
    Ok(world.rank() as usize)
}

/// armature has initialised MPI and finalises it at the end of the run. A second run fails; its error message says that the program must initialise
/// MPI itself.
fn finalised() -> Result<usize, BoxError> {
    let rank = armature::run(&config()?, |session| {
        skeleton(session, 2)?;
        Ok(session.rank())
    })?;
    let refused = armature::run(&config()?, |_| Ok(())).expect_err("MPI starts once");
    assert!(refused.message().contains("initialise MPI yourself before the first run"), "{refused}");
    Ok(rank)
}
