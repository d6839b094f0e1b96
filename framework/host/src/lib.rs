//! Cores and memory that the processes of a job may use on their host.
//!
//! | | smallest of |
//! |---|---|
//! | [`Cores`] | the cores in the affinity mask, which the kernel keeps inside the cpuset; the CPU quotas of the cgroups; the allotment of the batch system |
//! | [`Memory`] | the memory of the host; the limits of the cgroups; the allotment of the batch system |
//!
//! Cgroups of version 1 and 2 are read, and each enclosing group counts. The allotments are those of Slurm (`SLURM_CPUS_ON_NODE`,
//! `SLURM_MEM_PER_NODE`, `SLURM_MEM_PER_CPU`) and of Grid Engine for jobs on one host (`NSLOTS`).
//!
//! All functions take a [`Source`] of files and environment variables: [`Here`], or a made-up host in tests.
//!
//! ```
//! use armature_host::{Cores, Here, Memory};
//!
//! let (cores, memory) = (Cores::read(&Here), Memory::read(&Here));
//! println!("{} of {} cores, {} MiB of memory", cores.usable(), cores.count, memory.available >> 20);
//! ```

pub mod cgroup;
mod cores;
mod memory;

pub use cores::{CoreLimit, Cores, allowed_threads, parse_list, threads_of_core};
pub use memory::Memory;

/// Source of a host's files and environment variables, which may be made up in tests.
pub trait Source {
    /// Returns the text of a file, or `None` if it cannot be read.
    fn read(&self, path: &str) -> Option<String>;
    /// Returns the value of an environment variable; an empty one counts as not set.
    fn variable(&self, name: &str) -> Option<String>;
}

/// This host and the environment of this process.
#[derive(Clone, Copy, Debug)]
pub struct Here;

impl Source for Here {
    fn read(&self, path: &str) -> Option<String> {
        std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.trim().is_empty())
    }
}

fn amount(source: &dyn Source, name: &str) -> Option<u64> {
    source.variable(name)?.trim().parse().ok().filter(|&number| number > 0)
}

#[cfg(test)]
mod made_up {
    use std::collections::BTreeMap;

    use super::Source;

    /// Host in a test: names that begin with `/` are files, others are environment variables.
    pub(crate) struct MadeUp(BTreeMap<String, String>);

    impl Source for MadeUp {
        fn read(&self, path: &str) -> Option<String> {
            self.0.get(path).cloned()
        }

        fn variable(&self, name: &str) -> Option<String> {
            self.0.get(name).cloned()
        }
    }

    pub(crate) fn host(texts: &[(&str, &str)]) -> MadeUp {
        MadeUp(texts.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect())
    }
}
