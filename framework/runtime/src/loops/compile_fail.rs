//! Wrong programs that the compiler must reject: the first example of each item here fails to compile.

/// A stencil step is computed as a whole, so a stencil has no block size.
///
/// ```compile_fail,E0599
/// # use armature::{BoxError, loops::{OldGrid, Shape, Stencil, StencilLoop}};
/// # struct Heat;
/// # impl Stencil for Heat {
/// #     type Value = f64;
/// #     fn row(&mut self, _: u64, _: &mut [f64]) -> Result<(), BoxError> { Ok(()) }
/// #     fn step(&mut self, _: OldGrid<'_, f64>, _: &mut [f64]) -> Result<(), BoxError> { Ok(()) }
/// # }
/// let _ = StencilLoop::new("heat", Shape { rows: 9, columns: 9 }, Heat).block_size(4);
/// ```
///
/// With an option that every loop has, the program compiles:
///
/// ```
/// # use armature::{BoxError, loops::{OldGrid, Shape, Stencil, StencilLoop}};
/// # struct Heat;
/// # impl Stencil for Heat {
/// #     type Value = f64;
/// #     fn row(&mut self, _: u64, _: &mut [f64]) -> Result<(), BoxError> { Ok(()) }
/// #     fn step(&mut self, _: OldGrid<'_, f64>, _: &mut [f64]) -> Result<(), BoxError> { Ok(()) }
/// # }
/// let _ = StencilLoop::new("heat", Shape { rows: 9, columns: 9 }, Heat).shares([2.0, 1.0]);
/// ```
struct BlocksOfAStencil;

/// A loop over indices stores no data of its own, so it has no checkpoints.
///
/// ```compile_fail,E0599
/// use armature::loops::{Checkpoint, ParallelFor};
///
/// let _ = ParallelFor::new("sum", 0..9).checkpoint(Checkpoint::new("kept", ""));
/// ```
///
/// Without a checkpoint, the program compiles:
///
/// ```
/// use armature::loops::ParallelFor;
///
/// let _ = ParallelFor::new("sum", 0..9).block_size(4);
/// ```
struct CheckpointOfIndices;
