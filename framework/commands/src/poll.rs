//! Waiting until file descriptors are ready.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Interest {
    Read,
    ReadAndWrite,
}

/// Waits until a file descriptor is ready or closed by the other side, a signal arrives, or the time limit has
/// passed. Returns for each descriptor whether it can be read.
pub(crate) fn wait(of: &[(BorrowedFd<'_>, Interest)], limit: Option<Duration>) -> io::Result<Vec<bool>> {
    let flags = |interest| match interest {
        Interest::Read => PollFlags::IN,
        Interest::ReadAndWrite => PollFlags::IN | PollFlags::OUT,
    };
    let mut fds: Vec<PollFd<'_>> =
        of.iter().map(|(fd, interest)| PollFd::from_borrowed_fd(*fd, flags(*interest))).collect();
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    match poll(&mut fds, limit.as_ref()) {
        Ok(_) => Ok(fds
            .iter()
            .map(|fd| fd.revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR))
            .collect()),
        Err(Errno::INTR) => Ok(vec![false; of.len()]),
        Err(error) => Err(error.into()),
    }
}
