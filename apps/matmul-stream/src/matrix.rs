//! Single-precision matrices in files, or generated on demand.

use armature::BoxError;
use armature_apps::names;
use armature_apps::random::Random;
use armature_files::regular;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Maximum number of rows and of columns. The size of a product in bytes then fits into 64 bits.
pub const MAX_SIDE: u64 = 1 << 24;

/// Shape of a product C = A · B. A has `rows` rows of `inner` elements, and B has `inner` rows of `columns` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of rows of A and C.
    pub rows: u64,
    /// Number of columns of A and rows of B.
    pub inner: u64,
    /// Number of columns of B and C.
    pub columns: u64,
}

impl Shape {
    /// Returns the number of floating-point operations of a product of this shape.
    pub fn flops(&self) -> f64 {
        2.0 * self.rows as f64 * self.inner as f64 * self.columns as f64
    }
}

/// Matrix whose elements can be read in any order.
#[derive(Debug)]
pub struct Matrix {
    columns: u64,
    elements: Elements,
    #[cfg(test)]
    reads: std::sync::atomic::AtomicU64,
}

#[derive(Debug)]
enum Elements {
    /// Random numbers from this seed. Each element depends only on the seed and its position.
    Generated(u64),
    /// File that contains the elements row by row, and the file name for error messages.
    File(File, String),
}

pub(crate) const ELEMENT: u64 = size_of::<f32>() as u64;

impl Matrix {
    /// Returns a matrix with `columns` columns of numbers that are uniformly distributed between 0 and 1.
    pub fn generated(columns: u64, seed: u64) -> Self {
        Matrix::of(columns, Elements::Generated(seed))
    }

    /// Opens the matrix in a file, which contains only the elements, row by row, as little-endian 32-bit IEEE numbers.
    ///
    /// # Errors
    /// The file cannot be opened, or its size is not that of a matrix of this shape.
    pub fn open(path: &Path, rows: u64, columns: u64) -> Result<Self, BoxError> {
        let name = names::path(path);
        let refuse = |e: io::Error| format!("cannot read {name}: {e}");
        let file = regular::open(path).map_err(refuse)?;
        let (found, expected) = (file.metadata().map_err(refuse)?.len(), rows * columns * ELEMENT);
        if found != expected {
            return Err(format!(
                "{name} has {found} bytes, expected {expected}: {rows} rows of {columns} numbers of 4 bytes"
            )
            .into());
        }
        Ok(Matrix::of(columns, Elements::File(file, name)))
    }

    /// Returns a text that identifies the matrix in snapshots: the seed, or the file and its time of modification.
    pub(crate) fn identity(&self) -> String {
        let found = match &self.elements {
            Elements::Generated(seed) => return format!("random numbers {seed}"),
            Elements::File(file, name) => {
                file.metadata().map(|found| (name, found.mtime(), found.mtime_nsec()))
            }
        };
        found.map_or_else(|error| error.to_string(), |(name, s, ns)| format!("{name} of {s}.{ns:09}"))
    }

    fn of(columns: u64, elements: Elements) -> Self {
        Matrix {
            columns,
            elements,
            #[cfg(test)]
            reads: Default::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns the elements in a range of rows and a range of columns, row by row.
    ///
    /// # Errors
    /// The elements cannot be read.
    pub fn block(&self, rows: Range<u64>, columns: Range<u64>) -> Result<Vec<f32>, BoxError> {
        let width = (columns.end - columns.start) as usize;
        let mut values = vec![0.0_f32; (rows.end - rows.start) as usize * width];
        // Complete rows are contiguous in the file, so one read suffices.
        let (run, runs) = match columns == (0..self.columns) {
            true => (values.len(), rows.start..rows.start + 1),
            false => (width, rows),
        };
        for (row, values) in runs.zip(values.chunks_exact_mut(run.max(1))) {
            self.fill(row * self.columns + columns.start, values)?;
        }
        Ok(values)
    }

    fn fill(&self, first: u64, values: &mut [f32]) -> Result<(), BoxError> {
        match &self.elements {
            Elements::Generated(seed) => {
                (first..).zip(values).for_each(|(number, value)| *value = generated(*seed, number));
            }
            Elements::File(file, name) => {
                #[cfg(test)]
                self.reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(values);
                file.read_exact_at(bytes, first * ELEMENT).map_err(|e| format!("cannot read {name}: {e}"))?;
                values.iter_mut().for_each(|value| *value = f32::from_bits(u32::from_le(value.to_bits())));
            }
        }
        Ok(())
    }
}

fn generated(seed: u64, number: u64) -> f32 {
    Random::new(seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(number << 1)).unit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(values: &[f32]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    proptest! {
        #[test]
        fn blocks_from_files_equal_generated_blocks(
            (rows, columns) in (1_u64..9, 1_u64..9),
            corners in proptest::array::uniform4(0_u64..9),
        ) {
            let matrix = Matrix::generated(columns, 7);
            let all = matrix.block(0..rows, 0..columns).unwrap();
            let file = file(&all);
            let read = Matrix::open(file.path(), rows, columns).unwrap();
            let range = |a: u64, b: u64, end: u64| a.min(b).min(end)..a.max(b).min(end);
            let (r, c) = (range(corners[0], corners[1], rows), range(corners[2], corners[3], columns));
            let expected: Vec<f32> =
                r.clone().flat_map(|row| c.clone().map(move |column| row * columns + column))
                    .map(|number| all[number as usize]).collect();
            prop_assert_eq!(&read.block(r.clone(), c.clone()).unwrap(), &expected);
            prop_assert_eq!(&matrix.block(r, c).unwrap(), &expected);
        }
    }

    #[test]
    fn generated_elements_are_uniform_and_differ_between_matrices() {
        let (a, b) =
            (Matrix::generated(50, 1).block(0..50, 0..50), Matrix::generated(50, 2).block(0..50, 0..50));
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!(a != b && a.iter().chain(&b).all(|x| (0.0..1.0).contains(x)));
        for values in [a, b] {
            let mean = values.iter().sum::<f32>() / values.len() as f32;
            assert!((0.47..0.53).contains(&mean), "{mean}");
        }
    }

    #[test]
    fn file_of_another_size_is_refused() {
        let file = file(&[1.0; 6]);
        assert!(Matrix::open(file.path(), 2, 3).is_ok());
        let error = Matrix::open(file.path(), 3, 3).unwrap_err().to_string();
        assert!(error.contains("has 24 bytes, expected 36: 3 rows of 3"), "{error}");
        assert!(Matrix::open(Path::new("/no/such"), 1, 1).unwrap_err().to_string().contains("/no/such"));
    }
}
