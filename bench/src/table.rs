//! Tables as aligned text and as CSV.

use std::fmt;

/// Table with column headings. Units are part of the headings: `time [ms]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// Cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text, aligned to the left.
    Text(String),
    /// Whole number.
    Integer(i64),
    /// Number, shown with four significant digits or with the given number of decimals (see [`digits`]); CSV has the
    /// full precision.
    Number(f64, Option<usize>),
    /// Empty cell for a missing measurement.
    Empty,
}

/// Returns a cell with a number that is shown with `digits` decimals.
pub fn digits(value: f64, digits: usize) -> Cell {
    Cell::Number(value, Some(digits))
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_string())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Cell::Number(value, None)
    }
}

impl From<i32> for Cell {
    fn from(value: i32) -> Self {
        Cell::Integer(value.into())
    }
}

impl From<usize> for Cell {
    fn from(value: usize) -> Self {
        i64::try_from(value).map_or(Cell::Number(value as f64, Some(0)), Cell::Integer)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Empty, Into::into)
    }
}

impl Table {
    /// Creates a table without rows.
    pub fn new(columns: &[&str]) -> Self {
        Table { columns: columns.iter().map(|name| name.to_string()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If the number of cells differs from the number of columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "a row needs one cell for each of {:?}", self.columns);
        self.rows.push(cells);
    }

    /// Returns the table as comma-separated values with a heading line, quoted where needed.
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = String>| {
            text.push_str(&cells.collect::<Vec<_>>().join(","));
            text.push('\n');
        };
        line(&mut self.columns.iter().map(|name| quoted(name)));
        for row in &self.rows {
            line(&mut row.iter().map(Cell::csv));
        }
        text
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

impl Cell {
    fn csv(&self) -> String {
        match self {
            Cell::Text(text) => quoted(text),
            Cell::Integer(value) => value.to_string(),
            Cell::Number(value, _) => value.to_string(),
            Cell::Empty => String::new(),
        }
    }

    fn shown(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Integer(value) => value.to_string(),
            Cell::Number(value, Some(digits)) => format!("{value:.digits$}"),
            Cell::Number(value, None) => significant(*value),
            Cell::Empty => String::from("-"),
        }
    }
}

/// Formats a number with four significant digits, and with a power of ten only if it would be long otherwise.
pub fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    match magnitude {
        -4..=5 => format!("{value:.*}", (3 - magnitude).max(0) as usize),
        _ => format!("{value:.3e}"),
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::shown).collect()).collect();
        let columns: Vec<(usize, bool)> = (0..self.columns.len())
            .map(|at| {
                let cells = shown.iter().map(|row| row[at].chars().count());
                let width = cells.max().unwrap_or(0).max(self.columns[at].chars().count());
                (width, self.rows.iter().any(|row| matches!(row[at], Cell::Text(_))))
            })
            .collect();
        let mut line = |cells: &[String]| -> fmt::Result {
            let mut text = String::from("  ");
            for (cell, &(width, left)) in cells.iter().zip(&columns) {
                text += &if left { format!(" {cell:<width$} ") } else { format!(" {cell:>width$} ") };
            }
            writeln!(f, "{}", text.trim_end())
        };
        line(&self.columns)?;
        line(&columns.iter().map(|&(width, _)| "-".repeat(width)).collect::<Vec<_>>())?;
        shown.iter().try_for_each(|row| line(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["who", "rate [1/s]", "note"]);
        table.row(["we".into(), 1234567.0.into(), "fast, \"really\"".into()]);
        table.row(["other one".into(), digits(12.3456, 1), None::<f64>.into()]);
        table
    }

    #[test]
    fn text_is_aligned() {
        let text = table().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "   who        rate [1/s]  note");
        assert_eq!(lines[2], "   we            1.235e6  fast, \"really\"");
        assert_eq!(lines[3], "   other one        12.3  -");
    }

    #[test]
    fn csv_is_quoted_and_has_all_digits() {
        assert_eq!(
            table().to_csv(),
            "who,rate [1/s],note\nwe,1234567,\"fast, \"\"really\"\"\"\nother one,12.3456,\n"
        );
    }

    #[test]
    fn numbers_have_four_significant_digits() {
        for (value, text) in
            [(0.0, "0"), (0.123456, "0.1235"), (9.87654, "9.877"), (98765.4, "98765"), (1e9, "1.000e9")]
        {
            assert_eq!(significant(value), text);
        }
    }

    #[test]
    #[should_panic(expected = "one cell for each")]
    fn row_of_another_length_is_refused() {
        table().row(["alone".into()]);
    }
}
