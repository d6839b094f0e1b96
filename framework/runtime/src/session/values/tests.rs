//! Tests of collective operations with ranks that agree, disagree, are late or are dead.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::comm::local::{LocalTransport, World};
use crate::farm::Farm;
use crate::session::{Config, run};

fn on_each<R: Send>(ranks: usize, body: impl Fn(&mut Session) -> Result<R> + Sync) -> Vec<R> {
    let got = std::sync::Mutex::new(Vec::new());
    run(&Config::new().ranks(ranks), |session| {
        let result = body(session)?;
        got.lock().unwrap().push((session.rank(), result));
        Ok(())
    })
    .unwrap();
    let mut got = got.into_inner().unwrap();
    got.sort_by_key(|(rank, _)| *rank);
    got.into_iter().map(|(_, result)| result).collect()
}

fn named(rank: usize) -> (String, Vec<Option<u16>>) {
    ("x".repeat(rank), (0..rank).map(|n| (n % 2 == 0).then_some(n as u16)).collect())
}

#[test]
fn collectives_give_correct_values_on_any_rank_count() {
    for ranks in [1, 2, 3, 4, 5, 8] {
        let got = on_each(ranks, |session| {
            let rank = session.rank();
            session.barrier()?;
            let sent = session.broadcast(session.is_root().then(|| named(7)))?;
            let gathered = session.gather(named(rank))?;
            let all = session.all_gather(vec![rank as f64; rank * 10_000])?;
            // Rank numbers are concatenated, so that the result shows the order in which ranks were combined.
            let text = session.all_reduce(rank.to_string(), |before, after| before + &after)?;
            let first = session.all_reduce((rank == ranks / 2).then_some(rank), Option::or)?;
            Ok((sent, gathered, all, (text, first)))
        });
        for (rank, (sent, gathered, all, reduced)) in got.into_iter().enumerate() {
            assert_eq!(sent, named(7));
            assert_eq!(gathered, (rank == 0).then(|| (0..ranks).map(named).collect::<Vec<_>>()));
            assert!(all.iter().enumerate().all(|(of, values)| *values == vec![of as f64; of * 10_000]));
            assert_eq!(all.len(), ranks);
            let text: String = (0..ranks).map(|rank| rank.to_string()).collect();
            assert_eq!(reduced, (text, Some(ranks / 2)));
        }
    }
}

#[test]
fn error_of_one_rank_reaches_all_ranks() {
    #[derive(Debug, PartialEq)]
    struct NotThere(usize);
    impl std::fmt::Display for NotThere {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "file {} is not there", self.0)
        }
    }
    impl std::error::Error for NotThere {}
    for ranks in 1..=5 {
        for failing in 0..=ranks {
            let got = on_each(ranks, |session| {
                let rank = session.rank();
                let result = if rank >= failing && rank != 4 { Err(NotThere(rank)) } else { Ok(rank) };
                let agreed = session.consensus(result);
                // The barrier succeeds if the failed consensus has left all ranks at the same place in the program.
                session.barrier()?;
                Ok(agreed.map_err(|error| {
                    let own = error.downcast_ref::<NotThere>().map(|error| error.0);
                    (error.kind(), error.rank(), error.message().to_string(), own)
                }))
            });
            for (rank, agreed) in got.into_iter().enumerate() {
                let is_failing = |rank: usize| rank >= failing && rank != 4;
                let first = (0..ranks).find(|&rank| is_failing(rank));
                let expected = match first {
                    None => Ok(rank),
                    Some(_) if is_failing(rank) => {
                        Err((ErrorKind::User, Some(rank), format!("file {rank} is not there"), Some(rank)))
                    }
                    Some(first) => {
                        Err((ErrorKind::Peer, Some(first), format!("file {first} is not there"), None))
                    }
                };
                assert_eq!(agreed, expected, "rank {rank} of {ranks}, from {failing} on");
            }
        }
    }
}

/// The job fails with the error that rank 1 passes to the consensus. If rank 1 handles the error, the job fails with the copy of the error
/// on another rank, which contains no cause ([`std::error::Error::source`]).
#[test]
fn consensus_error_of_one_rank_fails_the_job() {
    for handled in [false, true] {
        let error = run(&Config::new().ranks(3), |session| {
            let missing = std::fs::read("/there is no such file");
            let result = session.consensus(if session.rank() == 1 { missing } else { Ok(Vec::new()) });
            if !(handled && session.rank() == 1) {
                result?;
            }
            Ok(())
        })
        .unwrap_err();
        assert_eq!((error.rank(), error.downcast_ref::<std::io::Error>().is_some()), (Some(1), !handled));
        assert!(error.message().contains("No such file"), "{error}");
    }
}

#[test]
fn barrier_waits_for_the_last_rank() {
    let late = AtomicBool::new(false);
    on_each(5, |session| {
        if session.rank() == 3 {
            std::thread::sleep(Duration::from_millis(30));
            late.store(true, Ordering::Release);
        }
        session.barrier()?;
        assert!(late.load(Ordering::Acquire));
        Ok(())
    });
}

fn disagreement(
    most: impl Fn(&mut Session) -> Result<()> + Sync,
    other: impl Fn(&mut Session) -> Result<()> + Sync,
) -> String {
    let error = run(&Config::new().ranks(4), |session| {
        if session.rank() == 3 {
            other(session)?
        } else {
            most(session)?
        }
        Ok(())
    });
    let error = error.unwrap_err();
    assert_eq!((error.kind(), error.rank()), (ErrorKind::Config, Some(3)), "{error}");
    error.to_string()
}

#[test]
fn differing_collectives_are_refused() {
    let give = |session: &mut Session| session.broadcast(Some(1_u8)).map(drop);
    let farm = |session: &mut Session| Farm::new("a", |n: u8| n).collect(session, [1]).map(drop);
    for (most, other, expected) in [
        (
            &give as &(dyn Fn(&mut Session) -> Result<()> + Sync),
            &farm as &(dyn Fn(&mut Session) -> Result<()> + Sync),
            "rank 3: runs the farm \"a\", but rank 0 broadcasts a value: every rank must",
        ),
        (&farm, &give, "rank 3: broadcasts a value, but rank 0 runs the farm \"a\": every rank must"),
        (
            &give,
            &|session| session.broadcast(Some(1_u16)).map(drop),
            "rank 3: broadcasts a value with values of type u16, but rank 0 with values of type u8",
        ),
        (&|session| session.gather(1_u8).map(drop), &|session| session.all_gather(1_u8).map(drop), {
            "rank 3: gathers values for all ranks, but rank 0 gathers values:"
        }),
        (&|session| session.barrier(), &|_| Ok(()), {
            "rank 3: ends the program, but rank 0 enters a barrier:"
        }),
    ] {
        let differs = disagreement(most, other);
        assert!(differs.contains(expected), "{differs}");
    }
    let differs = disagreement(farm, give);
    assert!(differs.contains("tests.rs:"), "where in the program: {differs}");
}

#[test]
fn broadcast_of_none_is_refused() {
    let error = run(&Config::new().ranks(2), |session| Ok(session.broadcast(None::<u8>)?)).unwrap_err();
    assert_eq!((error.kind(), error.rank()), (ErrorKind::Config, Some(0)));
    assert!(error.message().starts_with("rank 0 broadcasts None, expected Some value"), "{error}");
}

#[test]
fn timeout_names_the_directly_awaited_rank() {
    // Rank 0 waits for rank 2, which waits for rank 3. Rank 2 sends heartbeats to rank 0 meanwhile, so the error names rank 3 and not rank 2.
    let config = Config::new().ranks(4).join_limit(Duration::from_millis(2_500));
    let is_over = AtomicBool::new(false);
    let error = run(&config, |session| {
        if session.rank() == 3 {
            while !is_over.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let result = session.all_reduce(1, |a: u32, b| a + b);
        is_over.store(true, Ordering::Release);
        Ok(result?)
    });
    let error = error.unwrap_err();
    assert_eq!((error.kind(), error.rank()), (ErrorKind::Timeout, Some(2)));
    assert!(error.message().contains("for the values of rank 3"), "{error}");
}

/// Runs `body` on ranks 0, 2 and 3 of a job of four ranks. Rank 1 was never started, and counts as dead.
fn without_rank_1<R: Send>(body: impl Fn(&mut Endpoint) -> Result<R> + Sync) -> Vec<Result<R>> {
    let world = World::new(4);
    let on_rank = |rank| {
        let transport = LocalTransport::open(world.clone(), rank);
        let mut endpoint = Endpoint::new(Box::new(transport), Duration::from_millis(1));
        if rank == 0 {
            endpoint.lose(1, "it never was");
        }
        body(&mut endpoint).inspect_err(|error| endpoint.report(error))
    };
    let on_rank = &on_rank;
    std::thread::scope(|scope| {
        let others: Vec<_> = [2, 3].map(|rank| scope.spawn(move || on_rank(rank))).into_iter().collect();
        let mine = on_rank(0);
        std::iter::once(mine).chain(others.into_iter().map(|other| other.join().unwrap())).collect()
    })
}

#[test]
fn lost_ranks_are_not_awaited() {
    let limits = Limits { join: Duration::from_secs(20), peer: Duration::from_secs(20) };
    let sent = without_rank_1(|endpoint| {
        let codec = Codec::of_type();
        let root = (endpoint.rank() == 0).then(|| vec![5_u8]);
        let mut course = Course::begin(endpoint, announced::<u8>("gives").without_the_dead(), limits)?;
        let sent = course.descend_items(endpoint, &codec, 1, root)?;
        let mut course = Course::begin_empty(endpoint, announced::<u8>("meets").without_the_dead(), limits)?;
        let here = course.ascend(endpoint, &codec, vec![endpoint.rank() as u8], append)?;
        course.descend_value(endpoint, Some(()))?;
        Ok((sent, here))
    });
    let sent: Vec<_> = sent.into_iter().map(Result::unwrap).collect();
    assert_eq!(sent[0], (vec![5], Some(vec![0, 2, 3])));
    assert!(sent[1..].iter().all(|sent| *sent == (vec![5], None)));
}

#[test]
fn gather_is_refused_if_ranks_are_lost() {
    let limits = Limits { join: Duration::from_secs(20), peer: Duration::from_secs(20) };
    let refused = without_rank_1(|endpoint| {
        Course::begin_empty(endpoint, announced::<u8>("gathers values"), limits).map(drop)
    });
    for error in refused.into_iter().map(Result::unwrap_err) {
        let text = "rank 0: gathers values, which needs all ranks, but rank(s) [1] have died";
        assert!(error.to_string().contains(text), "{error}");
    }
}
