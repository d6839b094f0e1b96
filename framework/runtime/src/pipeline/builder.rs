//! Construction of a pipeline from a source and stages.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use armature_planner::pipeline::Dispatch;

use super::choice::MappingChoice;
use super::erased::{Function, Update};
use super::flat_map::{Fallible, FlatMap, Kind, Plain};
use super::pipeline_def::{Options, PipelineDef};
use super::source_sink::{ErasedSource, SourceOf, TrySourceOf, skipped, try_skipped};
use super::stage::{Closure, Stage, StageResult};
use super::stage_def::{Factory, StageDef};
use crate::error::{BoxError, Result};
use crate::wire::{self, Item, Movable};

/// A pipeline; `T` is the type of the items behind its last stage.
///
/// Every rank builds the same pipeline, sets its options, and runs it with a method that takes the session, such as [`for_each`](Pipeline::for_each)
/// or [`collect`](Pipeline::collect). Rank 0 reads the source and runs the sink; the [mapping](super::MappingChoice) assigns the stages to ranks. See
/// the [module documentation](super) for a complete program.
#[must_use = "a pipeline does nothing until it is run"]
pub struct Pipeline<'p, T> {
    pub(super) def: PipelineDef<'p>,
    item: PhantomData<fn() -> T>,
}

impl<'p, T: Item> Pipeline<'p, T> {
    /// Starts a pipeline with an iterator. `make` creates it on rank 0 only.
    pub fn source<I>(name: &str, make: impl FnOnce() -> I + Movable + 'p) -> Self
    where
        I: IntoIterator<Item = T>,
        I::IntoIter: Movable + 'p,
    {
        Pipeline::from_erased(name, SourceOf::new(move |first| skipped(make().into_iter(), first)))
    }

    /// Starts a pipeline with an iterator that can begin at any item. `make` receives the number of items to leave out and creates the
    /// iterator on rank 0 only.
    ///
    /// A job that continues from a [snapshot](Pipeline::snapshots) begins after the items that were processed before it. With
    /// [`source`](Pipeline::source), `Iterator::nth` skips them, which is immediate for ranges and slices but draws every item of most other
    /// iterators.
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// // Records of 16 bytes in a file would be skipped by `seek` instead.
    /// let squares = armature::run(&armature::Config::new(), |session| {
    ///     let numbers = Pipeline::source_at("numbers", |first| first..5u64);
    ///     Ok(numbers.map("square", |x| x * x).collect(session)?.on_root())
    /// })?;
    /// assert_eq!(squares.unwrap(), [0, 1, 4, 9, 16]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn source_at<I>(name: &str, make: impl FnOnce(u64) -> I + Movable + 'p) -> Self
    where
        I: IntoIterator<Item = T>,
        I::IntoIter: Movable + 'p,
    {
        Pipeline::from_erased(name, SourceOf::new(move |first| Ok(make(first).into_iter())))
    }

    /// Starts a pipeline with an iterator of results. The first error ends the job.
    pub fn try_source<I>(name: &str, make: impl FnOnce() -> I + Movable + 'p) -> Self
    where
        I: IntoIterator<Item = Result<T, BoxError>>,
        I::IntoIter: Movable + 'p,
    {
        Pipeline::from_erased(name, TrySourceOf::new(move |first| try_skipped(make().into_iter(), first)))
    }

    /// Like [`source_at`](Pipeline::source_at), with an iterator of results. The first error ends the job.
    pub fn try_source_at<I>(name: &str, make: impl FnOnce(u64) -> I + Movable + 'p) -> Self
    where
        I: IntoIterator<Item = Result<T, BoxError>>,
        I::IntoIter: Movable + 'p,
    {
        Pipeline::from_erased(name, TrySourceOf::new(move |first| Ok(make(first).into_iter())))
    }

    fn from_erased(name: &str, source: impl ErasedSource + 'p) -> Self {
        let def = PipelineDef {
            source_name: name.to_string(),
            source: Box::new(source),
            stages: Vec::new(),
            codecs: vec![Arc::new(wire::Codec::<T>::of_type())],
            ordered: true,
            mapping: MappingChoice::Auto,
            remaps: Vec::new(),
            dispatch: Dispatch::OnDemand,
            options: Options::default(),
            snapshots: None,
            misuse: None,
        };
        Pipeline { def, item: PhantomData }
    }

    /// Adds a stage that may be replicated. `make` creates one instance on every rank that runs the stage.
    ///
    /// An error of `make` ends the job, like an error of the stage.
    pub fn stage<S, F>(self, name: &str, mut make: F) -> Pipeline<'p, S::Out>
    where
        S: Stage<In = T> + 'p,
        F: FnMut() -> Result<S, BoxError> + Movable + 'p,
    {
        let mut pipeline = self.push(name, Box::new(move || Ok(Box::new(make()?))));
        pipeline.def.stages.iter_mut().next_back().into_iter().for_each(|stage| stage.may_finish = true);
        pipeline
    }

    fn push<U: Item>(mut self, name: &str, factory: Factory<'p>) -> Pipeline<'p, U> {
        let name = name.to_string();
        let (serial, at_root, stateless, expands, may_finish) = (false, false, false, false, false);
        self.def.stages.push(StageDef { name, serial, at_root, stateless, expands, may_finish, factory });
        self.def.codecs.push(Arc::new(wire::Codec::<U>::of_type()));
        Pipeline { def: self.def, item: PhantomData }
    }

    /// Adds a stage that applies the function `f` to each item.
    pub fn map<U: Item>(self, name: &str, f: impl FnMut(T) -> U + Movable + Clone + 'p) -> Pipeline<'p, U> {
        self.push(name, Box::new(move || Ok(Box::new(Function::new(f.clone())))))
    }

    /// Adds a stage that modifies items in place. Large items that are not behind a pointer should be modified rather than mapped, because a
    /// modified item is not moved in memory. The encoding of the items in messages stays the same, also if it is [plain](Pipeline::plain).
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// let squares = armature::run(&armature::Config::new(), |session| {
    ///     Ok(Pipeline::source("numbers", || 0..5u64).update("square", |x| *x *= *x).collect(session)?.on_root())
    /// })?;
    /// assert_eq!(squares.unwrap(), [0, 1, 4, 9, 16]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn update(mut self, name: &str, f: impl FnMut(&mut T) + Movable + Clone + 'p) -> Self {
        let as_before = self.def.codecs.last().cloned();
        self = self.push(name, Box::new(move || Ok(Box::new(Update::new(f.clone())))));
        if let (Some(codec), Some(before)) = (self.def.codecs.last_mut(), as_before) {
            *codec = before;
        }
        self
    }

    /// Adds a stage that applies the function `f`, which can fail, to each item. An error ends the job.
    pub fn try_map<U: Item>(
        self,
        name: &str,
        mut f: impl FnMut(T) -> Result<U, BoxError> + Movable + Clone + 'p,
    ) -> Pipeline<'p, U> {
        self.closure(name, move |item| f(item).map(Some))
    }

    /// Adds a stage that drops the items for which `f` returns `None`.
    pub fn filter_map<U: Item>(
        self,
        name: &str,
        mut f: impl FnMut(T) -> Option<U> + Movable + Clone + 'p,
    ) -> Pipeline<'p, U> {
        self.closure(name, move |item| Ok(f(item)))
    }

    /// Adds a stage that drops the items for which `f` returns false.
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// let odd = armature::run(&armature::Config::new().ranks(2), |session| {
    ///     Ok(Pipeline::source("numbers", || 0..7u64).filter("odd", |x| x % 2 == 1).collect(session)?.on_root())
    /// })?;
    /// assert_eq!(odd.unwrap(), [1, 3, 5]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn filter(mut self, name: &str, mut f: impl FnMut(&T) -> bool + Movable + Clone + 'p) -> Self {
        let as_before = self.def.codecs.last().cloned();
        self = self.closure(name, move |item| Ok(f(&item).then_some(item)));
        if let (Some(codec), Some(before)) = (self.def.codecs.last_mut(), as_before) {
            *codec = before;
        }
        self
    }

    /// Adds a stage that produces any number of items from one item: those of the iterator that `f` returns.
    ///
    /// The output has the order of the source, and the items of one iterator keep their order. A stage sends its output in pieces and advances the
    /// iterator only while the batches in flight are below their [limit](Pipeline::window_bytes): an item from which a million items are produced
    /// needs no more memory than others. The iterator stays on its rank, so `f` should do little work; long work belongs to later stages, which may
    /// run on other ranks.
    ///
    /// [`Context::number`](super::Context::number) and errors of later stages refer to the item of the source.
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// let words = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let lines = Pipeline::source("lines", || ["to be or", "", "not to be"].map(String::from));
    ///     let words = lines.flat_map("words", |line| {
    ///         line.split_whitespace().map(String::from).collect::<Vec<_>>()
    ///     });
    ///     Ok(words.map("length", |word| word.len()).collect(session)?.into_parts())
    /// })?;
    /// let (lengths, summary) = words.unwrap();
    /// assert_eq!(lengths, [2, 2, 2, 3, 2, 2]);
    /// assert_eq!((summary.items, summary.delivered), (3, 6));
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn flat_map<U, I>(
        self,
        name: &str,
        mut f: impl FnMut(T) -> I + Movable + Clone + 'p,
    ) -> Pipeline<'p, U>
    where
        U: Item,
        I: IntoIterator<Item = U> + 'p,
        I::IntoIter: Movable + 'p,
    {
        self.expanding::<Plain, _, _>(name, move |item| Ok(f(item)))
    }

    /// Adds a stage like [`flat_map`](Pipeline::flat_map) with a function and an iterator that can fail. The first error ends the job.
    ///
    /// ```
    /// use armature::BoxError;
    /// use armature::pipeline::Pipeline;
    ///
    /// let result = armature::run(&armature::Config::new(), |session| {
    ///     let lines = Pipeline::source("lines", || ["1 2", "3 x 4"].map(String::from));
    ///     let numbers = lines.try_flat_map("numbers", |line| {
    ///         let numbers = line.split_whitespace().map(|word| Ok(word.parse::<u64>()?));
    ///         Ok(numbers.collect::<Vec<Result<u64, BoxError>>>())
    ///     });
    ///     Ok(numbers.collect(session)?.on_root())
    /// });
    /// let error = result.unwrap_err();
    /// assert_eq!((error.stage(), error.item()), (Some("numbers"), Some(1)));
    /// assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
    /// ```
    pub fn try_flat_map<U, I>(
        self,
        name: &str,
        f: impl FnMut(T) -> Result<I, BoxError> + Movable + Clone + 'p,
    ) -> Pipeline<'p, U>
    where
        U: Item,
        I: IntoIterator<Item = Result<U, BoxError>> + 'p,
        I::IntoIter: Movable + 'p,
    {
        self.expanding::<Fallible, _, _>(name, f)
    }

    fn expanding<K, F, I>(self, name: &str, f: F) -> Pipeline<'p, K::Item>
    where
        K: Kind<I::Item> + 'p,
        F: FnMut(T) -> Result<I, BoxError> + Send + Clone + 'p,
        I: IntoIterator + 'p,
        I::IntoIter: Send + 'p,
    {
        let factory = move || Ok(Box::new(FlatMap::<F, T, I, K>::new(f.clone())) as _);
        let mut pipeline = self.push(name, Box::new(factory));
        pipeline.def.stages.iter_mut().next_back().into_iter().for_each(|stage| stage.expands = true);
        pipeline
    }

    fn closure<U: Item>(
        self,
        name: &str,
        f: impl FnMut(T) -> StageResult<U> + Movable + Clone + 'p,
    ) -> Pipeline<'p, U> {
        self.push(name, Box::new(move || Ok(Box::new(Closure::new(f.clone())))))
    }

    /// Makes the last added stage serial: it runs on one rank and gets the items in order.
    ///
    /// Stages with state between items are serial, and so are stages that write in order. If no stage has been added to the source yet, this option
    /// makes the run fail.
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// let sums = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let mut sum = 0;
    ///     let sums = Pipeline::source("numbers", || 1..5u64).map("sum", move |x| { sum += x; sum }).serial();
    ///     Ok(sums.collect(session)?.on_root())
    /// })?.unwrap();
    /// assert_eq!(sums, [1, 3, 6, 10]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn serial(self) -> Self {
        self.declare("serial", |stage| stage.serial = true)
    }

    /// Makes the last added stage serial and runs it on rank 0, because it uses files or a terminal of rank 0. If no stage has been added to the
    /// source yet, this option makes the run fail.
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// let ranks = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let rank = session.rank();
    ///     let where_it_ran = Pipeline::source("numbers", || 0..4u64).map("rank", move |_| rank).at_root();
    ///     Ok(where_it_ran.collect(session)?.on_root())
    /// })?.unwrap();
    /// assert_eq!(ranks, [0, 0, 0, 0]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn at_root(self) -> Self {
        self.declare("at_root", |stage| (stage.serial, stage.at_root) = (true, true))
    }

    /// Declares that the last added serial stage has no state between items. The stage can then migrate to another rank, and take part in
    /// [snapshots](Pipeline::snapshots). A stage that implements [`Stage::save`] needs no declaration. If no stage has been added to the source yet,
    /// this option makes the run fail.
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// let lines = armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let numbers = Pipeline::source("numbers", || 1..4u64);
    ///     let lines = numbers.map("line", |x| format!("{x}\n")).serial().stateless();
    ///     Ok(lines.collect(session)?.on_root())
    /// })?;
    /// assert_eq!(lines.unwrap().concat(), "1\n2\n3\n");
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn stateless(self) -> Self {
        self.declare("stateless", |stage| stage.stateless = true)
    }

    fn declare(mut self, option: &'static str, set: impl FnOnce(&mut StageDef<'p>)) -> Self {
        match self.def.stages.last_mut() {
            Some(stage) => set(stage),
            None => self.def.misuse = Some(option),
        }
        self
    }

    /// Lets items overtake each other: serial stages and the sink process them in the order of their arrival.
    ///
    /// By default the sink gets the items in the order of the source, whatever the mapping is.
    pub fn unordered(mut self) -> Self {
        self.def.ordered = false;
        self
    }
}

impl<T: Item + bytemuck::Pod> Pipeline<'_, T> {
    /// Sends the items behind the last added stage, or behind the source, as a copy of their memory.
    ///
    /// Numbers and vectors of numbers are always sent as their memory. This option is for plain structs and arrays, on ranks with the same
    /// byte order. serde is not used, although the type must implement its traits like every [`Item`].
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// let ends = armature::run(&armature::Config::new(), |session| {
    ///     let points = Pipeline::source("points", || (0..10).map(|x| [f64::from(x), 1.0])).plain();
    ///     Ok(points.map("end", |[x, y]| x + y).collect(session)?.on_root())
    /// })?;
    /// assert_eq!(ends.unwrap()[..3], [1.0, 2.0, 3.0]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn plain(mut self) -> Self {
        if let Some(last) = self.def.codecs.last_mut() {
            *last = Arc::new(wire::Codec::<T>::plain());
        }
        self
    }
}

impl<T> fmt::Debug for Pipeline<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("name", &self.def.name())
            .field("source", &self.def.source_name)
            .field("stages", &self.def.stage_names())
            .field("mapping", &self.def.mapping)
            .finish_non_exhaustive()
    }
}
