//! Groups of MPI ranks, each with separate communicators.
#![allow(unsafe_code)]

use std::ffi::c_int;

use ::mpi::ffi;

use super::MpiTransport;
use super::call::{check, transport};
use super::start::World;
use crate::comm::Group;
use crate::error::Result;

impl MpiTransport {
    /// Returns the transport of `group`; `None` if this rank is in no group. Collective: all ranks must call it.
    pub(super) fn split(&mut self, group: &Group) -> Result<Option<MpiTransport>> {
        let many = |_| transport("the group has more ranks than an MPI count can hold".into());
        let number = |n: usize| c_int::try_from(n).map_err(many);
        let Group { members, number: color, .. } = group;
        let key = number(members.iter().position(|&rank| rank == self.world.rank).unwrap_or(0))?;
        // SAFETY: both values are read-only constants of the MPI library.
        let (undefined, mut communicator) = unsafe { (ffi::RSMPI_UNDEFINED, ffi::RSMPI_COMM_NULL) };
        let color = if members.is_empty() { undefined } else { number(*color)? };
        // SAFETY: the communicator is owned by this transport, and all of its ranks make this call; the pointer is valid for the call.
        let code = unsafe { ffi::MPI_Comm_split(self.world.control, color, key, &mut communicator) };
        check(code, "MPI_Comm_split")?;
        if members.is_empty() {
            return Ok(None);
        }
        let start_limit = self.options.start_limit;
        let world = World::on(communicator, None, (self.world.all, self.world.library.clone()), start_limit)?;
        // SAFETY: the communicator was created above, has no request, and is not used after this call.
        check(unsafe { ffi::MPI_Comm_free(&mut communicator) }, "MPI_Comm_free")?;
        // A rank of a group must not end before the others, even if the launcher permits it: the death of a rank in a group can only end the whole
        // job.
        MpiTransport::on(world, self.options.clone(), false).map(Some)
    }
}
