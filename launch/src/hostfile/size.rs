//! Parser for amounts of memory, such as `64GiB`.

/// Parses bytes with a unit (`B`, `kB`, `MB`, `GB`, `TB` are powers of 1000; `KiB`, `MiB`, `GiB`, `TiB` are powers of 1024). Amounts below one byte
/// or above 64 bits are refused.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let unit: u64 = match unit {
        "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    let bytes = number * unit as f64;
    (bytes >= 1.0 && bytes < u64::MAX as f64).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn memory_sizes_are_parsed_with_their_units() {
        assert_eq!(bytes("512B"), Some(512));
        assert_eq!(bytes("1.5KiB"), Some(1536));
        assert_eq!(bytes("64GiB"), Some(64 << 30));
        assert_eq!(bytes("2TB"), Some(2_000_000_000_000));
    }

    #[test]
    fn malformed_memory_sizes_are_refused() {
        for text in ["", "64", "GiB", "64 GiB", "-1GiB", "0GiB", "64gib", "1e30TiB", "nanB", "infGB"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
