//! Slurm's short form for a number a node, as in `SLURM_TASKS_PER_NODE`: `2(x3),1` is 2, 2, 2, 1.

/// The sum over all nodes; `None` if the text is not of that form.
pub(super) fn sum(list: &str) -> Option<usize> {
    list.split(',')
        .map(|part| match part.split_once("(x") {
            None => part.parse().ok(),
            Some((number, nodes)) => {
                let (number, nodes): (usize, usize) =
                    (number.parse().ok()?, nodes.strip_suffix(')')?.parse().ok()?);
                number.checked_mul(nodes)
            }
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn short_forms() {
        assert_eq!(sum("4"), Some(4));
        assert_eq!(sum("2(x3),1"), Some(7));
        assert_eq!(sum(""), None);
        assert_eq!(sum("2(x3"), None);
    }
}
