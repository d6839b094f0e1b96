//! Environment variable that gives a process its role: guard or starter.

/// Environment variable that makes a process a starter or a guard. A starter runs commands. A guard is the parent of
/// a starter and kills processes that the starter leaves running.
pub(crate) const VARIABLE: &str = "ARMATURE_COMMANDS";
/// Value of the variable [`VARIABLE`] in the guard, the process between the caller and the starter. In the starter,
/// the value is the process id of the guard.
pub(crate) const GUARD: &str = "guard";
/// File of the running program, even if the file has been moved or replaced.
pub(crate) const THIS_PROGRAM: &str = "/proc/self/exe";
