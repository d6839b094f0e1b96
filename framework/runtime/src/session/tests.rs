//! Tests of sessions from start to end: errors, job status and ranks that die.

use super::*;
use crate::comm::local::{LocalTransport, World};
use crate::error::ErrorKind;

#[test]
fn run_returns_the_value_of_rank_0() {
    for ranks in [1, 2, 5] {
        let config = Config::new().ranks(ranks);
        let got = run(&config, |s| Ok((s.rank(), s.size()))).unwrap();
        assert_eq!(got, (0, ranks));
    }
}

#[test]
fn error_or_panic_ends_the_job_and_names_its_rank() {
    for bad in 0..3 {
        let config = Config::new().ranks(3);
        let error =
            run(&config, |s| if s.rank() == bad { Err("no fuel".into()) } else { Ok(()) }).unwrap_err();
        assert_eq!(error.to_string(), format!("rank {bad}: no fuel"));
        assert_eq!(error.kind(), ErrorKind::User);
        let error = run(&config, |s| {
            assert!(s.rank() != bad, "on purpose");
            Ok(())
        })
        .unwrap_err();
        assert_eq!(error.to_string(), format!("rank {bad}: panicked: on purpose"));
        assert_eq!(error.kind(), ErrorKind::Panic);
    }
}

#[test]
fn job_status_contains_the_outcome() {
    use crate::job_status::{JobStatus, State};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("job_status");
    let config = Config::new().ranks(3).job_status(Some(path.clone()));
    let read = || JobStatus::read(&path).unwrap().unwrap();
    assert_eq!(run(&config, |_| Ok(read().state)).unwrap(), State::Running);
    assert_eq!((read().state, read().code, read().ranks), (State::Finished, 0, 3));
    for bad in 0..3 {
        run(&config, |s| if s.rank() == bad { Err("no fuel".into()) } else { Ok(()) }).unwrap_err();
        let job_status = read();
        assert_eq!((job_status.state, job_status.code, job_status.restart), (State::Failed, 1, false));
        assert_eq!(job_status.message, format!("rank {bad}: no fuel"));
    }
    let late = |s: &mut Session| match s.rank() {
        0 => Err(Error::new(ErrorKind::Timeout, "rank 1 is silent").into()),
        _ => Ok(()),
    };
    run(&config, late).unwrap_err();
    assert!(read().restart, "the program is not at fault");
}

#[test]
fn job_status_counts_items_of_all_skeletons() {
    use crate::farm::Farm;
    use crate::job_status::JobStatus;
    use crate::loops::map;
    use crate::pipeline::Pipeline;
    use crate::workflow::{Action, Description, Task, Workflow};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("job_status");
    let mut tasks = Description::builder("three");
    for name in ["a", "b", "c"] {
        tasks.task(Task::new(name, Action::Closure("toil".into())));
    }
    let tasks = tasks.build().unwrap();
    for ranks in [1, 3] {
        let config = Config::new().ranks(ranks).job_status(Some(path.clone()));
        run(&config, |session| {
            let done = || JobStatus::read(&path).unwrap().unwrap().done;
            session.barrier()?;
            assert_eq!(done(), 0, "a job counts anew");
            session.barrier()?;
            Workflow::from_description(tasks.clone()).closure("toil", |_, _| Ok(())).run(session)?;
            Pipeline::source("numbers", || 0..5_u8).for_each(session, "end", |_| ())?;
            map(session, "squares", 0..7, |n| n * n)?;
            Farm::new("halves", |n: u32| n / 2).collect(session, 0..11)?;
            Ok(())
        })
        .unwrap();
        assert_eq!(JobStatus::read(&path).unwrap().unwrap().done, 3 + 5 + 7 + 11, "{ranks} ranks");
    }
}

#[test]
fn program_can_conclude_failure() {
    use crate::job_status::{JobStatus, State};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("job_status");
    let config = Config::new().ranks(2).job_status(Some(path.clone()));
    run(&config, |session| {
        session.conclude_failed(format_args!("rank {} has found nothing", session.rank()));
        Ok(())
    })
    .unwrap();
    let JobStatus { state, code, message, restart, .. } = JobStatus::read(&path).unwrap().unwrap();
    assert_eq!((state, code, restart), (State::Failed, 1, false));
    assert_eq!(message, "rank 0 has found nothing");
}

#[test]
fn each_start_has_separate_events_and_needs_a_writable_directory() {
    let dir = tempfile::tempdir().unwrap();
    let events = dir.path().join("events");
    let config = |directory: &std::path::Path| Config::new().ranks(3).events(Some(directory.into()));
    for number in [1, 2] {
        run(&config(&events), |session| {
            let own = session.config().events.clone().expect("a directory");
            assert_eq!(own, events.join(format!("attempts/{number}")));
            session.split(Some(session.rank() as u32 % 2), 0, |group| {
                assert!(group.config().events.as_ref().expect("a directory").starts_with(&own));
                Ok(())
            })?;
            Ok(())
        })
        .unwrap();
    }
    for directory in ["/proc/none", "/dev/null"] {
        let error = run(&config(directory.as_ref()), |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(
            error.message().starts_with(&format!("no events can be written to {directory}: ")),
            "{error}"
        );
    }
}

#[test]
fn lost_ranks_are_not_awaited_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("job_status");
    // Ranks 0 and 2 of a job of three ranks leave it; rank 1 was never started.
    let world = World::new(3);
    let config = Config::new().join_limit(Duration::from_secs(20));
    let leave = |rank: usize| {
        let mut endpoint =
            Endpoint::new(Box::new(LocalTransport::open(world.clone(), rank)), Duration::from_millis(1));
        endpoint.keep(StatusWriter::start(Some(&path), None, rank, 3).unwrap());
        if rank == 0 {
            endpoint.lose(1, "it never was");
        }
        finalize::leave(&mut endpoint, &config).map(|()| endpoint.lost().to_vec())
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| leave(2));
        assert_eq!(leave(0).unwrap(), [1]);
        assert_eq!(other.join().unwrap().unwrap(), [1]);
    });
    let job_status = crate::job_status::JobStatus::read(&path).unwrap().unwrap();
    assert_eq!((job_status.state, job_status.lost), (crate::job_status::State::Finished, vec![1]));
}

#[test]
fn pipeline_is_refused_if_ranks_are_lost() {
    let error = run(&Config::new().ranks(3), |session| {
        if session.is_root() {
            session.endpoint.lose(2, "it never was");
        }
        crate::pipeline::Pipeline::source("numbers", || 0..3u8).for_each(session, "end", |_| ())?;
        Ok(())
    })
    .unwrap_err();
    assert_eq!((error.kind(), error.rank()), (ErrorKind::Timeout, Some(0)));
    assert!(error.message().contains("rank(s) [2] have died"), "{error}");
}

#[test]
fn leaving_ranks_time_out_if_rank_0_is_silent() {
    let world = World::new(2);
    let endpoint =
        |rank| Endpoint::new(Box::new(LocalTransport::open(world.clone(), rank)), Duration::from_millis(1));
    let config = Config::new().peer_limit(Duration::from_millis(500));
    let mut root = endpoint(0);
    root.begin_run(&finalize::end(), config.join_limit).unwrap();
    root.send(1, crate::comm::message::Control::Heartbeat, &()).unwrap();
    let error = finalize::leave(&mut endpoint(1), &config).unwrap_err();
    assert_eq!((error.kind(), error.rank()), (ErrorKind::Timeout, Some(1)));
    assert!(error.message().ends_with("for rank 0 to allow it to leave"), "{error}");
}

/// A job without a farm fails at its end if a rank is silent for too long, because only a farm can continue without a silent rank.
#[test]
fn silent_rank_fails_the_job_at_the_end() {
    let world = World::new(3);
    let endpoint =
        |rank| Endpoint::new(Box::new(LocalTransport::open(world.clone(), rank)), Duration::from_millis(1));
    let config = Config::new().peer_limit(Duration::from_millis(1_500));
    let mut silent = endpoint(1);
    silent.next_run();
    silent.send(0, crate::comm::message::Control::Leave, &()).unwrap();
    // Rank 1 has reported that it leaves and then sends no heartbeats, while rank 0 waits for rank 2, which does not leave.
    let error = finalize::leave(&mut endpoint(0), &config).unwrap_err();
    assert_eq!((error.kind(), error.rank()), (ErrorKind::Timeout, Some(0)));
    assert!(error.message().ends_with("for a heartbeat from rank 1, which waits to leave"), "{error}");
}
