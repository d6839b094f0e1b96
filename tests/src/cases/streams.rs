//! Example programs that are pipelines with large items: a text search and a matrix product.

use armature::pipeline::{MappingChoice, Pipeline};
use armature::{BatchMode, BoxError, Session};
use armature_apps::terminal::Reader;
use matmul_stream::kernel::serial;
use matmul_stream::matrix::{Matrix, Shape};
use matmul_stream::pipeline::Factors;
use rabin_karp::patterns::Patterns;
use rabin_karp::pipeline::Search;
use rabin_karp::text::{Part, Repeated};
use rabin_karp::verify::naive;

use crate::Case;
use crate::check::{check_equal, noise};
use crate::mappings::every_kind;

pub(super) const CASES: &[Case] = &[
    Case { name: "rabin-karp", run: rabin_karp_search },
    Case { name: "matmul-stream", run: streamed_product },
];

/// Changes to another kind of mapping after every three items or, if `plan` is true, lets the framework choose the mapping. `serial` marks the serial
/// stages.
fn mapped<'p, T>(job: Pipeline<'p, T>, session: &Session, serial: &[bool], plan: bool) -> Pipeline<'p, T> {
    if plan {
        return job;
    }
    let job = job.mapping(MappingChoice::Orderly).batch(BatchMode::Fixed(1));
    let kinds = every_kind(serial, session.size());
    kinds
        .iter()
        .zip((2..).step_by(3))
        .fold(job, |job, (kind, after)| job.remap_after(after, kind.mapping.clone()))
}

/// Searches a text of two letters, so that most matches overlap. Hashes of 2 or 3 bits collide often, hashes of 64 bits hardly ever. The pieces of
/// the text in which the ranks search are shorter than a pattern, or long.
fn rabin_karp_search(session: &mut Session) -> Result<(), BoxError> {
    let text: Vec<u8> =
        (0..3_000).map(|n| if noise(11, n).is_multiple_of(3) { b'a' } else { b'b' }).collect();
    let parts = [Part::Generated(vec![Repeated { text: text.clone(), size: text.len() as u64 }])];
    let patterns = ["ab", "bbab", "a", "babbabb"].map(|pattern| pattern.as_bytes().to_vec());
    for (bits, segment, plan) in [(64, 70, false), (2, 70, false), (64, 5, true), (3, 1_000, true)] {
        let patterns = Patterns::new(patterns.clone(), bits)?.into();
        let search = Search { patterns, segment, count: false, shared: false };
        let mut found = Vec::new();
        let job = rabin_karp::pipeline::pipeline(&search, &parts, Reader::default());
        let job = mapped(job, session, &[false, false], plan);
        job.for_each(session, "reduce", |part| found.extend(part.matches()))?;
        let what = format!("{bits} bits, segments of {segment}");
        check_equal(session, &what, &found, &naive(&search.patterns, &text))?;
    }
    Ok(())
}

/// Multiplies matrices by single dot products, and by blocks whose size does not divide that of the product.
fn streamed_product(session: &mut Session) -> Result<(), BoxError> {
    let shape = Shape { rows: 19, inner: 33, columns: 23 };
    let factors = Factors { a: Matrix::generated(shape.inner, 1), b: Matrix::generated(shape.columns, 2) };
    let a = factors.a.block(0..shape.rows, 0..shape.inner)?;
    let b = factors.b.block(0..shape.inner, 0..shape.columns)?;
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
    let expected = bits(&serial(&a, &b, shape.inner as usize, shape.columns as usize));
    for (side, plan) in [(1, true), (1, false), (4, false), (7, true)] {
        let mut product = Vec::new();
        let factors = session.is_root().then_some(&factors);
        let job = matmul_stream::pipeline::pipeline(shape, side, factors);
        let job = mapped(job, session, &[false, true], plan);
        job.for_each(session, "write", |rows| product.extend(bits(&rows.values)))?;
        check_equal(session, &format!("items of {side} rows"), &product, &expected)?;
    }
    Ok(())
}
