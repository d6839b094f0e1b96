//! What a process holds.

use armature::BoxError;

/// Bytes of this process: a line of `/proc/self/status`, such as `VmHWM` for the most that it has held.
///
/// # Errors
/// If there is no such line.
pub fn status(name: &str) -> Result<u64, BoxError> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib: u64 =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok()).ok_or("no such line")?;
    Ok(kib << 10)
}
