//! By what a process knows that it is to be a starter.

/// Makes a starter of a process.
pub(crate) const VARIABLE: &str = "ARMATURE_COMMANDS";
/// Its value in the process between the caller and the starter; in the starter it is the number of that process.
pub(crate) const GUARD: &str = "guard";
/// The file of the program that runs, also if it has been moved or replaced meanwhile.
pub(crate) const THIS_PROGRAM: &str = "/proc/self/exe";
