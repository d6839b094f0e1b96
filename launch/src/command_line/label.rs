//! Labels by which launchers mark each line of a program's output with the rank that printed it.

/// Returns the rank of a labelled line, and the line without its label: `[1,3]<stdout>:text` of Open MPI 4, `[3]<stdout>: text` of Open MPI 5,
/// `03: text` of `srun`, `[3] text` of MPICH.
pub(crate) fn rank_of(line: &str) -> Option<(usize, &str)> {
    if let Some(rest) = line.strip_prefix('[') {
        let (number, rest) = rest.split_once(']')?;
        let of_stream = rest.strip_prefix("<stdout>:").or_else(|| rest.strip_prefix("<stderr>:"));
        return match number.split_once(',') {
            Some((_, rank)) => Some((rank.parse().ok()?, of_stream?)),
            None => Some((number.parse().ok()?, of_stream.unwrap_or(rest).strip_prefix(' ')?)),
        };
    }
    let (rank, rest) = line.trim_start().split_once(": ")?;
    let is_number = !rank.is_empty() && rank.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| rank.parse().ok()).flatten().map(|rank| (rank, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_all_launchers_are_read() {
        assert_eq!(rank_of("[1,3]<stdout>:a: b"), Some((3, "a: b")));
        assert_eq!(rank_of("[1,12]<stderr>:"), Some((12, "")));
        assert_eq!(rank_of("[3]<stdout>:  a"), Some((3, " a")));
        assert_eq!(rank_of("[12]<stderr>: "), Some((12, "")));
        assert_eq!(rank_of("03: [INFO  rank 0] x"), Some((3, "[INFO  rank 0] x")));
        assert_eq!(rank_of(" 3: x"), Some((3, "x")));
        assert_eq!(rank_of("[7] x"), Some((7, "x")));
        for line in
            ["", "x", "[INFO  rank 0] x", "[1,3] x", "a3: x", "99999999999999999999: x", "[n1:123] x", ": x"]
        {
            assert_eq!(rank_of(line), None, "{line}");
        }
    }
}
