//! Serialization, as strings, of numbers that JSON cannot represent, such as an infinite gain.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number in a line of an event log: a JSON number if it is finite, otherwise a string.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Figure {
    Finite(f64),
    Named(String),
}

impl From<f64> for Figure {
    fn from(x: f64) -> Self {
        if x.is_finite() { Figure::Finite(x) } else { Figure::Named(x.to_string()) }
    }
}

impl Figure {
    fn number<E: serde::de::Error>(self) -> Result<f64, E> {
        match self {
            Figure::Finite(x) => Ok(x),
            // Only the strings `inf`, `-inf` and `NaN` are accepted as numbers, because finite numbers are never written as strings.
            Figure::Named(name) => match name.as_str() {
                "inf" | "-inf" | "NaN" => name.parse().map_err(E::custom),
                _ => Err(E::custom(format!("`{name}` is not a number"))),
            },
        }
    }
}

pub(super) fn serialize<S: Serializer>(x: &f64, to: S) -> Result<S::Ok, S::Error> {
    Figure::from(*x).serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Figure::deserialize(from)?.number()
}

pub(super) mod optional {
    use super::{Deserialize, Deserializer, Figure, Serialize, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(x: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        x.map(Figure::from).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        Option::<Figure>::deserialize(from)?.map(Figure::number).transpose()
    }
}

pub(super) mod list {
    use super::{Deserialize, Deserializer, Figure, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(x: &[f64], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(x.iter().map(|&x| Figure::from(x)))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        Vec::<Figure>::deserialize(from)?.into_iter().map(Figure::number).collect()
    }
}
