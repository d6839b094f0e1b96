//! Values of a JSON or TOML file, each with its path in the file for error messages.

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result, shown};

/// Largest number up to which every whole number can be represented exactly in floating point: 2⁵³.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A value of a JSON or TOML file, and its path in the file. The path is converted to text only for an error message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    value: &'a Value,
    way: Option<(&'a At<'a>, PathSegment<'a>)>,
}

#[derive(Clone, Copy, Debug)]
enum PathSegment<'a> {
    Key(&'a str),
    Element(usize),
}

impl<'a> At<'a> {
    pub(crate) fn root(value: &'a Value) -> Self {
        At { value, way: None }
    }

    /// Returns a field of an object; `None` if it is missing or `null`.
    pub(crate) fn find<'b>(&'b self, key: &'b str) -> Option<At<'b>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(At { value, way: Some((self, PathSegment::Key(key))) })
    }

    pub(crate) fn get<'b>(&'b self, key: &'b str, expected: &str) -> Result<At<'b>> {
        self.find(key).ok_or_else(|| self.missing(key, expected))
    }

    pub(crate) fn missing(&self, key: &str, expected: &str) -> Error {
        let path = self.path();
        let place = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
        Error::new(ErrorKind::Value, place, format!("is missing: expected {expected}"))
    }

    pub(crate) fn elements<'b>(&'b self) -> Result<impl ExactSizeIterator<Item = At<'b>>> {
        let list = self.value.as_array().ok_or_else(|| self.wrong("a list"))?;
        let element = |(number, value)| At { value, way: Some((self, PathSegment::Element(number))) };
        Ok(list.iter().enumerate().map(element))
    }

    /// Returns the elements of a list of text; an empty list if the field is missing.
    pub(crate) fn texts(&self, key: &str) -> Result<Vec<String>> {
        let Some(list) = self.find(key) else { return Ok(Vec::new()) };
        list.elements()?.map(|element| element.text().map(str::to_string)).collect()
    }

    pub(crate) fn fields<'b>(&'b self) -> Result<impl Iterator<Item = (&'b str, At<'b>)>> {
        let object = self.value.as_object().ok_or_else(|| self.wrong("an object"))?;
        Ok(object
            .iter()
            .map(|(key, value)| (key.as_str(), At { value, way: Some((self, PathSegment::Key(key))) })))
    }

    pub(crate) fn text(&self) -> Result<&'a str> {
        self.value.as_str().ok_or_else(|| self.wrong("text"))
    }

    pub(crate) fn as_text(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    pub(crate) fn is_list(&self) -> bool {
        self.value.is_array()
    }

    /// Returns the value as a whole number of 0 or more. Numbers such as `5.0` are accepted, because some programs write whole numbers that way.
    pub(crate) fn whole(&self) -> Result<u64> {
        let exact = |number: f64| (0.0..=EXACT).contains(&number) && number.fract() == 0.0;
        self.value
            .as_u64()
            .or_else(|| self.value.as_f64().filter(|&number| exact(number)).map(|number| number as u64))
            .ok_or_else(|| self.wrong("a whole number of 0 or more"))
    }

    pub(crate) fn small(&self) -> Result<u32> {
        u32::try_from(self.whole()?).map_err(|_| self.wrong("a whole number below 2³²"))
    }

    pub(crate) fn signed(&self) -> Result<i64> {
        let exact = |number: &f64| number.abs() <= EXACT && number.fract() == 0.0;
        let number =
            self.value.as_i64().or_else(|| self.value.as_f64().filter(exact).map(|number| number as i64));
        number.ok_or_else(|| self.wrong("a whole number"))
    }

    pub(crate) fn flag(&self) -> Result<bool> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    /// Returns the value, a number of 0 or more and below 2⁶⁴, rounded up. Measured values may be averages and need not be whole.
    pub(crate) fn rounded_up(&self) -> Result<u64> {
        /// 2⁶⁴, the smallest number that does not fit 64 bits.
        const END: f64 = 18_446_744_073_709_551_616.0;
        match self.value.as_u64() {
            Some(number) => Ok(number),
            None => {
                let number = self.amount()?.ceil();
                if number < END { Ok(number as u64) } else { Err(self.wrong("a number below 2⁶⁴")) }
            }
        }
    }

    pub(crate) fn amount(&self) -> Result<f64> {
        self.value.as_f64().filter(|number| *number >= 0.0).ok_or_else(|| self.wrong("a number of 0 or more"))
    }

    pub(crate) fn wrong(&self, expected: &str) -> Error {
        let there = match self.value {
            Value::Null => "null".into(),
            Value::Bool(value) => value.to_string(),
            Value::Number(number) => number.to_string(),
            Value::String(text) => shown(text),
            Value::Array(list) => format!("a list of {}", list.len()),
            Value::Object(object) => format!("an object with {} fields", object.len()),
        };
        self.error(ErrorKind::Value, format!("is {there}: expected {expected}"))
    }

    pub(crate) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, self.path(), message)
    }

    fn path(&self) -> String {
        let mut segments = Vec::new();
        let mut at = self;
        while let Some((up, segment)) = &at.way {
            segments.push(*segment);
            at = up;
        }
        let mut path = String::new();
        for segment in segments.iter().rev() {
            match segment {
                PathSegment::Key(key) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    // A key of letters, digits, `_` and `-` is written without quotation marks. If [`shown`] has cut the key, its result ends with
                    // the length instead of a quotation mark.
                    let plain = !key.is_empty()
                        && shown(key).ends_with('"')
                        && key.chars().all(|c| c.is_alphanumeric() || "_-".contains(c));
                    path.push_str(&if plain { key.to_string() } else { shown(key) });
                }
                PathSegment::Element(number) => path.push_str(&format!("[{number}]")),
            }
        }
        path
    }
}
