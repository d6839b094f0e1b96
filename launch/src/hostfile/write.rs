//! Writes hostfiles for the launchers, without the speeds and amounts of memory, which launchers do not know.

use super::Hostfile;

impl Hostfile {
    /// Returns the hostfile in the format of Open MPI's `--hostfile`: `node01 slots=4`.
    pub fn for_openmpi(&self) -> String {
        self.hosts.iter().map(|host| format!("{} slots={}\n", host.name, host.slots)).collect()
    }

    /// Returns the hostfile in the format of MPICH's `-f`: `node01:4`.
    pub fn for_mpich(&self) -> String {
        self.hosts.iter().map(|host| format!("{}:{}\n", host.name, host.slots)).collect()
    }
}
