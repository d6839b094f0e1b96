//! Programs that the compiler must reject: each `compile_fail` example fails to compile.

/// An item must implement the traits of serde.
///
/// ```compile_fail,E0277
/// use armature::pipeline::Pipeline;
///
/// struct Picture(Vec<u8>);
///
/// let _ = Pipeline::source("pictures", || [vec![1u8]]).map("wrap", |bytes| Picture(bytes));
/// ```
///
/// With an item that implements them, the program compiles:
///
/// ```
/// use armature::pipeline::Pipeline;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Picture(Vec<u8>);
///
/// let _ = Pipeline::source("pictures", || [vec![1u8]]).map("wrap", |bytes| Picture(bytes));
/// ```
struct ItemWithoutSerialize;

/// An item must own its data, because it may leave the memory of its rank.
///
/// ```compile_fail,E0597
/// use armature::pipeline::Pipeline;
///
/// let text = String::from("here");
/// let _ = Pipeline::source("words", || [1u8]).map("borrow", |_| text.as_str());
/// ```
struct ItemThatBorrows;

/// A closure must be `Send`, because user code has its own thread.
///
/// ```compile_fail,E0277
/// use armature::pipeline::Pipeline;
///
/// let count = std::rc::Rc::new(std::cell::Cell::new(0));
/// let _ = Pipeline::source("numbers", || 0..9u64).map("count", move |x| {
///     count.set(count.get() + 1);
///     x
/// });
/// ```
///
/// With an atomic counter, the program compiles:
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
///
/// use armature::pipeline::Pipeline;
///
/// let count = Arc::new(AtomicU64::new(0));
/// let _ = Pipeline::source("numbers", || 0..9u64).map("count", move |x| {
///     count.fetch_add(1, Ordering::Relaxed);
///     x
/// });
/// ```
struct ClosureNotSend;

/// A stage must be `Send`, because user code has its own thread.
///
/// ```compile_fail,E0277
/// use armature::pipeline::{Context, Stage, StageResult};
///
/// struct Count(std::rc::Rc<u64>);
///
/// impl Stage for Count {
///     type In = u64;
///     type Out = u64;
///
///     fn process(&mut self, x: u64, _: &mut Context) -> StageResult<u64> {
///         Ok(Some(x + *self.0))
///     }
/// }
/// ```
struct StageNotSend;

/// The closure of a stage that may be replicated must be `Clone`, because every rank that runs the stage has its own instance.
///
/// ```compile_fail,E0277
/// use armature::pipeline::Pipeline;
///
/// let file = std::fs::File::open("/dev/null").unwrap();
/// let _ = Pipeline::source("numbers", || 0..9u64).map("keep", move |x| {
///     let _ = &file;
///     x
/// });
/// ```
struct ClosureNotClone;

/// Consecutive stages must agree on the type of the items.
///
/// ```compile_fail,E0271
/// use armature::pipeline::{Context, Pipeline, Stage, StageResult};
///
/// struct Length;
///
/// impl Stage for Length {
///     type In = String;
///     type Out = usize;
///
///     fn process(&mut self, text: String, _: &mut Context) -> StageResult<usize> {
///         Ok(Some(text.len()))
///     }
/// }
///
/// let _ = Pipeline::source("numbers", || 0..9u64).stage("length", || Ok(Length));
/// ```
struct StagesThatDisagree;

/// Only types without padding and without pointers can be sent as their memory.
///
/// ```compile_fail,E0599
/// use armature::pipeline::Pipeline;
///
/// let _ = Pipeline::source("words", || ["here".to_string()]).plain();
/// ```
struct PlainText;

/// A session stays on the thread of its rank.
///
/// ```compile_fail,E0277
/// armature::run(&armature::Config::new(), |session| {
///     std::thread::scope(|scope| {
///         scope.spawn(|| session.rank());
///     });
///     Ok(())
/// });
/// ```
struct SessionOnAnotherThread;

/// The function of a sink cannot start another parallel operation, such as a loop, because the pipeline uses the session until it has ended.
///
/// ```compile_fail,E0277
/// use armature::loops::map;
/// use armature::pipeline::Pipeline;
///
/// armature::run(&armature::Config::new(), |session| {
///     let numbers = Pipeline::source("numbers", || 0..9u64);
///     numbers.for_each(session, "squares", |n| drop(map(session, "square", 0..n, |i| i * i)))?;
///     Ok(())
/// });
/// ```
///
/// A function that a loop calls on the thread of the rank cannot start another loop either:
///
/// ```compile_fail
/// use armature::loops::{ParallelFor, map};
///
/// armature::run(&armature::Config::new(), |session| {
///     let numbers = ParallelFor::new("numbers", 0..9);
///     numbers.fold_in_order(session, |n| n, (), |_, n| drop(map(session, "square", 0..n, |i| i * i)))?;
///     Ok(())
/// });
/// ```
///
/// If the pipeline and the loop run one after the other, the program compiles:
///
/// ```
/// use armature::loops::map;
/// use armature::pipeline::Pipeline;
///
/// armature::run(&armature::Config::new(), |session| {
///     for n in Pipeline::source("numbers", || 0..9u64).collect_on_all(session)? {
///         map(session, "square", 0..n, |i| i * i)?;
///     }
///     Ok(())
/// })?;
/// # Ok::<(), armature::Error>(())
/// ```
struct SkeletonInSkeleton;
