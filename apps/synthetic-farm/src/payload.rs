//! Payloads (bytes of a given number) of synthetic tasks and results, generated from a key.

use armature_apps::random::Random;

/// Returns a payload of `bytes` bytes that depend only on `key`.
pub fn make(key: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(key);
    let mut payload = Vec::with_capacity(bytes.next_multiple_of(8));
    while payload.len() < bytes {
        payload.extend(random.next_u64().to_le_bytes());
    }
    payload.truncate(bytes);
    payload
}

/// Returns a checksum of a payload that depends on every byte, on the order and on the length.
pub fn checksum(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let sum = words.iter().fold(FACTOR, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    mix(mix(sum, u64::from_le_bytes(last)), bytes.len() as u64)
}

/// Returns the key for the payload of task `number` of an iteration, whose key `iteration_key` depends on the results of all earlier iterations.
pub fn task_key(iteration_key: u64, number: u64) -> u64 {
    Random::stream(iteration_key, number).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_determines_the_payload_bytes() {
        for bytes in [0, 1, 7, 8, 9, 1000] {
            assert_eq!(make(5, bytes).len(), bytes);
            assert_eq!(make(5, bytes), make(5, 1000)[..bytes]);
        }
        assert_ne!(make(5, 100), make(6, 100));
    }

    #[test]
    fn wrong_byte_changes_the_checksum() {
        let bytes = make(3, 83);
        let sum = checksum(&bytes);
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 0x10;
            assert_ne!(checksum(&wrong), sum, "byte {at}");
        }
        assert_ne!(checksum(&bytes[..82]), sum);
        assert_ne!(checksum(&[0; 8]), checksum(&[0; 9]));
        let mut swapped = bytes.clone();
        swapped.swap(3, 40);
        assert_ne!(checksum(&swapped), sum);
    }
}
