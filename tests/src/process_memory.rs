//! Reads the memory use of this process.

use armature::BoxError;

/// Returns the value of a line of `/proc/self/status` in bytes, for example `VmHWM`, the peak resident memory.
///
/// # Errors
/// Returns an error if there is no such line.
pub fn status(name: &str) -> Result<u64, BoxError> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib: u64 =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok()).ok_or("no such line")?;
    Ok(kib << 10)
}
