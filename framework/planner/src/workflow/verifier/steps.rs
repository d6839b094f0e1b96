//! Steps of what is held over time.

/// Since when, in seconds, how many bytes are held.
pub(super) type Stairs = Vec<(f64, u64)>;

/// From this time on so much is held.
pub(super) fn add_step(stairs: &mut Stairs, at: f64, held: u64) {
    match stairs.last_mut() {
        Some(last) if last.0 >= at => last.1 = held,
        Some(last) if last.1 == held => {}
        _ => stairs.push((at, held)),
    }
}
