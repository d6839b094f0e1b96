//! Step functions of a processor's memory use over time.

/// Steps of the memory use of a processor: a time in seconds, and the bytes in memory from that time on.
pub(super) type Stairs = Vec<(f64, u64)>;

pub(super) fn add_step(stairs: &mut Stairs, at: f64, held: u64) {
    match stairs.last_mut() {
        Some(last) if last.0 >= at => last.1 = held,
        Some(last) if last.1 == held => {}
        _ => stairs.push((at, held)),
    }
}
