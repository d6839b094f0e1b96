//! Waiting for descriptors.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Interest {
    Read,
    ReadAndWrite,
}

/// Waits until one of the descriptors is ready or has been closed by the other side, a signal comes, or the time is over; says of
/// each whether there is something to read.
pub(crate) fn wait(of: &[(BorrowedFd<'_>, Interest)], limit: Option<Duration>) -> io::Result<Vec<bool>> {
    let flags = |interest| match interest {
        Interest::Read => PollFlags::IN,
        Interest::ReadAndWrite => PollFlags::IN | PollFlags::OUT,
    };
    let mut fds: Vec<PollFd<'_>> =
        of.iter().map(|(fd, interest)| PollFd::from_borrowed_fd(*fd, flags(*interest))).collect();
    // A time that the system cannot have is one without end.
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
