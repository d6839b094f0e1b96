//! Product of two matrices on several ranks: all the code needed in addition to the serial product.

use crate::blocks::{Blocks, Item};
use crate::kernel::multiply;
use crate::matrix::{Matrix, Shape};
use crate::reduce::{Part, Reducer, Rows};
use armature::pipeline::{Context, Pipeline, Stage, StageResult};

/// Cost of an item in addition to its arithmetic, in operations of one nanosecond. Unpacking an item and adding its block to the product take some
/// hundred nanoseconds.
const OVERHEAD: f64 = 300.0;

/// Factors of a product, which only rank 0 has.
#[derive(Debug)]
pub struct Factors {
    /// Left factor of the product.
    pub a: Matrix,
    /// Right factor of the product.
    pub b: Matrix,
}

/// Stage that multiplies the rows of A and columns of B in an item, which yields a block of the product.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dot;

impl Stage for Dot {
    type In = Item;
    type Out = Part;

    fn process(&mut self, item: Item, cx: &mut Context) -> StageResult<Part> {
        let (inner, width) = (item.size.0 as usize, item.size.1 as usize);
        let height = item.a.len().checked_div(inner).unwrap_or(0);
        let mut values = vec![0.0; height * width];
        let flops = OVERHEAD + 2.0 * (height * width * inner) as f64;
        cx.declare(flops, || multiply(&item.a, &item.b, inner, width, &mut values));
        Ok(Some(Part { at: item.at, width: item.size.1, values }))
    }
}

/// Returns the pipeline that computes the product. All ranks must run it with the same mapping (assignment of stages to ranks). Only rank 0 has
/// `factors`. The sink on rank 0 receives the rows of the product in order, several at a time.
///
/// An item has up to `side` rows and `side` columns. With `side` = 1, an item is a single dot product.
pub fn pipeline<'p>(shape: Shape, side: u64, factors: Option<&'p Factors>) -> Pipeline<'p, Rows> {
    let read = move |skipped| {
        let items = move |Factors { a, b }: &'p Factors| Blocks::new(shape, side, a, b).skip_unread(skipped);
        factors.into_iter().flat_map(items)
    };
    Pipeline::try_source_at("read", read)
        .stage("dot", || Ok(Dot))
        .stage("reduce", move || Ok(Reducer::new(shape.columns)))
        .serial()
        .name("matmul-stream")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::serial;
    use armature::pipeline::MappingChoice;
    use armature::{BatchMode, Config};
    use armature_tests::mappings::every_kind;
    use proptest::prelude::*;
    use std::sync::Mutex;

    fn factors(shape: Shape) -> Factors {
        Factors { a: Matrix::generated(shape.inner, 1), b: Matrix::generated(shape.columns, 2) }
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    fn multiplied(shape: Shape, side: u64, ranks: usize, remap: Option<u64>) -> Vec<f32> {
        let product = Mutex::new(Vec::new());
        armature::run(&Config::new().ranks(ranks), |session| {
            let factors = session.is_root().then(|| factors(shape));
            let mut rows = Vec::new();
            let mut job = pipeline(shape, side, factors.as_ref()).mapping(MappingChoice::Orderly);
            if let Some(every) = remap {
                job = job.batch(BatchMode::Fixed(1));
                for (kind, turn) in every_kind(&[false, true], ranks).iter().zip(1..) {
                    job = job.remap_after(turn * every, kind.mapping.clone());
                }
            }
            job.for_each(session, "write", |Rows { first, values }| {
                assert_eq!(first * shape.columns, rows.len() as u64);
                rows.extend(values);
            })?;
            if session.is_root() {
                *product.lock().unwrap() = rows;
            }
            Ok(())
        })
        .unwrap();
        product.into_inner().unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn product_is_bitwise_equal_to_the_serial_loop_for_any_ranks_and_blocks(
            (rows, inner, columns) in (1_u64..20, 1_u64..30, 1_u64..20),
            side in 1_u64..12,
            ranks in 1_usize..5,
            remap in proptest::option::of(1_u64..6),
        ) {
            let shape = Shape { rows, inner, columns };
            let Factors { a, b } = factors(shape);
            let (a, b) = (a.block(0..rows, 0..inner).unwrap(), b.block(0..inner, 0..columns).unwrap());
            let expected = serial(&a, &b, inner as usize, columns as usize);
            prop_assert_eq!(bits(&multiplied(shape, side, ranks, remap)), bits(&expected));
        }
    }
}
