//! Groups of a session's ranks, and the MPI communicator for MPI calls of the program.

use std::collections::BTreeSet;
use std::panic::Location;

use super::config::Config;
use super::values::from_all;
use super::{Announcement, Left, Prepared, Session, on_rank};
use crate::comm::Group;
use crate::error::{BoxError, Error, ErrorKind, Result};

impl Session {
    /// Splits the ranks into groups and calls `body` with a session of this rank's group, in which skeletons run concurrently with those of
    /// the other groups. Ranks with the same `color` form a group. A rank with `None` is in no group, and its `body` is not called. In a
    /// group, ranks are ordered by `key`, and ranks with the same key by their rank in this session.
    ///
    /// Returns the value of `body` when all ranks of the group have reached its end. A group does not wait for other groups.
    ///
    /// A group has no [commands](crate::Commands) and no [job status](crate::Config::job_status). Its events go to the directory
    /// `group-COLOR` in the directory of the job. A failure in a group ends the whole job, as does the death of a rank. A
    /// [request to stop](Config::handle_signals) takes effect in this session, when the group has reached its end.
    ///
    /// # Errors
    /// The errors of [`broadcast`](Session::broadcast), of `body` and of the skeletons that it runs.
    ///
    /// ```
    /// use armature::loops::map;
    ///
    /// armature::run(&armature::Config::new().ranks(5), |session| {
    ///     // Ranks 0, 2 and 4 compute squares while 1 and 3 compute cubes.
    ///     let exponent = 2 + session.rank() as u32 % 2;
    ///     let powers = session.split(Some(exponent), 0, |group| {
    ///         assert_eq!(group.size(), if exponent == 2 { 3 } else { 2 });
    ///         Ok(map(group, "powers", 0..4, |n| n.pow(exponent))?)
    ///     })?;
    ///     assert_eq!(powers, Some(if exponent == 2 { vec![0, 1, 4, 9] } else { vec![0, 1, 8, 27] }));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), armature::Error>(())
    /// ```
    #[track_caller]
    pub fn split<R>(
        &mut self,
        color: Option<u32>,
        key: i64,
        body: impl FnOnce(&mut Session) -> Result<R, BoxError>,
    ) -> Result<Option<R>> {
        let transport = self.together(Location::caller(), |endpoint, limits| {
            let what = Announcement::new("splits the ranks into groups");
            let all = from_all(endpoint, what, limits, (color, key))?;
            let group = group_of(endpoint.run(), color, &all);
            Ok((endpoint.transport().group(&group)?, group))
        })?;
        let ((Some(transport), group), Some(color)) = (transport, color) else { return Ok(None) };
        let mut config = self.config().of_group(color, self.endpoint.cores());
        config.platform = config.platform.map(|platform| platform.part(&group.members));
        let (mut body, mut value) = (Some(body), None);
        let mut once = |session: &mut Session| {
            if let Some(body) = body.take() {
                value = Some(body(session)?);
            }
            Ok(())
        };
        let left = on_rank(transport, &config, Ok(Prepared::default()), &mut once);
        let Left { lost, stopped } = left.map_err(|(_, error)| {
            // The ranks of the group have already printed the error; the ranks of the other groups still have to be informed.
            let error = if self.endpoint.is_process() { error.printed() } else { error };
            self.endpoint.report(&error);
            error
        })?;
        if let Some(stopped) = stopped {
            self.endpoint.stop_with(&stopped);
            return Err(stopped);
        }
        if lost.is_empty() {
            return Ok(value);
        }
        let text = format!(
            "rank(s) {lost:?} of group {color} have died; only farms and workflows of a whole session continue \
             without dead ranks"
        );
        let error = Error::new(ErrorKind::Timeout, text).at_rank(self.rank());
        self.endpoint.report(&error);
        Err(error)
    }

    /// Returns an MPI communicator of the session's ranks, for MPI calls of the program: collective operations, files, windows. Ranks have the same
    /// numbers in it as in this session.
    ///
    /// The first call is collective: all ranks make it together. Further calls on the communicator follow the rules of MPI. While a rank is
    /// blocked in a call of MPI, it sends no heartbeats, and nothing limits the wait. Therefore call MPI between skeletons, where
    /// [`Config::join_limit`] applies. If ranks have died, MPI cannot be used, and this function returns an error.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if ranks are threads; otherwise the errors of [`gather`](Session::gather).
    ///
    /// ```no_run
    /// use armature::mpi::{collective::SystemOperation, traits::*};
    ///
    /// armature::run(&armature::Config::new(), |session| {
    ///     let mut sum = 0.0_f64;
    ///     session.world()?.all_reduce_into(&1.0, &mut sum, SystemOperation::sum());
    ///     assert_eq!(sum, session.size() as f64);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), armature::Error>(())
    /// ```
    #[cfg(feature = "mpi")]
    #[track_caller]
    pub fn world(&mut self) -> Result<&crate::comm::mpi::Communicator> {
        // If ranks have died since the first call, the communicator cannot be used. Another collective operation then returns the error about the
        // dead ranks.
        if self.communicator.is_none() || !self.endpoint.lost().is_empty() {
            let communicator = self.together(Location::caller(), |endpoint, limits| {
                // MPI waits for all ranks without a time limit, so this operation first ensures that all have arrived.
                from_all(endpoint, Announcement::new("requests MPI's communicator"), limits, ())?;
                let none = "the ranks of this session are threads, which have no communicator: start the program by mpirun";
                endpoint.transport().communicator()?.ok_or_else(|| Error::new(ErrorKind::Config, none))
            })?;
            return Ok(self.communicator.insert(communicator));
        }
        let none = || Error::new(ErrorKind::Config, "the session has no communicator");
        self.communicator.as_ref().ok_or_else(none)
    }
}

impl Config {
    fn of_group(&self, color: u32, cores: usize) -> Config {
        let events = self.events.as_ref().map(|directory| directory.join(format!("group-{color}")));
        let cores = Some(cores);
        let config = Config { job_status: None, commands: None, events, cores, ..self.clone() };
        config.handle_signals(false).run_directory(None)
    }
}

fn group_of(run: u32, color: Option<u32>, all: &[(Option<u32>, i64)]) -> Group {
    let colors: BTreeSet<u32> = all.iter().filter_map(|(color, _)| *color).collect();
    let number = colors.iter().position(|&one| Some(one) == color).unwrap_or(0);
    let mut members: Vec<usize> = Vec::new();
    if color.is_some() {
        members = (0..all.len()).filter(|&rank| all[rank].0 == color).collect();
        members.sort_by_key(|&rank| all[rank].1);
    }
    Group { run, number, members }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::run;

    #[test]
    fn groups_are_formed_by_colour_and_ordered_by_key() {
        let all = [(Some(9), 0), (None, 0), (Some(2), 5), (Some(9), -1), (Some(2), 5)];
        let group = |color| group_of(4, color, &all);
        assert_eq!(group(Some(9)), Group { run: 4, number: 1, members: vec![3, 0] });
        assert_eq!(group(Some(2)), Group { run: 4, number: 0, members: vec![2, 4] });
        assert!(group(None).members.is_empty());
    }

    #[test]
    fn failure_in_a_group_fails_the_session() {
        for bad in [0, 3] {
            let error = run(&Config::new().ranks(5), |session| {
                let rank = session.rank();
                let done = session.split(Some(rank as u32 / 2), 0, |group| {
                    if rank == bad { Err("no fuel".into()) } else { Ok(group.barrier()?) }
                })?;
                session.barrier()?;
                Ok(done)
            });
            let error = error.unwrap_err();
            assert!(error.message().contains("no fuel"), "{error}");
        }
    }

    #[cfg(feature = "mpi")]
    #[test]
    fn thread_ranks_have_no_communicator() {
        let error = run(&Config::new().ranks(2), |session| Ok(session.world().map(drop)?)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains("are threads"), "{error}");
    }
}
