//! Hostfiles in the launchers' own forms, without the columns that they do not know.

use super::Hostfile;

impl Hostfile {
    /// As Open MPI's `--hostfile` reads it: `node01 slots=4`.
    pub fn for_openmpi(&self) -> String {
        self.hosts.iter().map(|host| format!("{} slots={}\n", host.name, host.slots)).collect()
    }

    /// As MPICH's `-f` reads it: `node01:4`.
    pub fn for_mpich(&self) -> String {
        self.hosts.iter().map(|host| format!("{}:{}\n", host.name, host.slots)).collect()
    }
}
