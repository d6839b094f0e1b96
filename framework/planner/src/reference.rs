//! Reader for files with values that were computed independently of this crate, for tests.

use std::collections::BTreeMap;

/// One line of a file of independently computed values: `NAME KEY=VALUE… = VALUE…`, where each `VALUE` may be a list.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) inputs: BTreeMap<&'static str, &'static str>,
    pub(crate) expected: &'static str,
}

/// Parses a list of numbers such as `1,2*3 4`, in which 2 occurs three times.
fn numbers(tokens: &str) -> Vec<f64> {
    let mut numbers = Vec::new();
    for word in tokens.split([' ', ',']) {
        let (value, times) = word.split_once('*').map_or((word, 1), |(v, times)| (v, times.parse().unwrap()));
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{word} is no number"));
        numbers.extend(std::iter::repeat_n(value, times));
    }
    numbers
}

impl Case {
    pub(crate) fn all(data: &'static str) -> Vec<Case> {
        let lines = data.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| {
                let (left, expected) = line.split_once(" = ").unwrap();
                let mut tokens = left.split(' ');
                let name = tokens.next().unwrap();
                let inputs = tokens.map(|word| word.split_once('=').unwrap()).collect();
                Case { name, inputs, expected }
            })
            .collect()
    }

    pub(crate) fn list(&self, name: &str) -> Vec<f64> {
        numbers(self.inputs[name])
    }

    pub(crate) fn get(&self, name: &str) -> f64 {
        self.list(name)[0]
    }

    /// Checks that the numbers `found` equal the expected numbers of the line, up to a relative difference of a millionth.
    pub(crate) fn holds(&self, found: &[f64]) {
        let expected = numbers(self.expected);
        let near = |a: f64, b: f64| a == b || (a - b).abs() <= 1e-6 * a.abs().max(b.abs());
        assert!(
            found.len() == expected.len() && found.iter().zip(&expected).all(|(&a, &b)| near(a, b)),
            "{} {:?}\nexpected {expected:?}\nfound    {found:?}",
            self.name,
            self.inputs,
        );
    }
}
