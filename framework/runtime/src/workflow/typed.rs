//! Workflows whose tasks are closures with typed values.

use armature_workflow_files::{Action, Description, Task};

use super::builder::Workflow;
use super::closure::Inputs;
use super::handle::{Draft, Handle, Parents};
use crate::error::{BoxError, Result};
use crate::wire::Item;

impl<'w> Workflow<'w> {
    /// Creates a workflow without tasks; [`task`](Workflow::task) and [`after`](Workflow::after) add them.
    ///
    /// ```
    /// use armature::workflow::Workflow;
    ///
    /// let total = armature::run(&armature::Config::new().ranks(2), |session| {
    ///     let mut flow = Workflow::new("total");
    ///     let left = flow.task("left", || (1..=50).sum::<u64>());
    ///     let right = flow.task("right", || (51..=100).sum::<u64>());
    ///     let total = flow.after("total", (&left, &right), |(left, right)| left + right);
    ///     let Some(mut results) = flow.collect(session)?.on_root() else { return Ok(None) };
    ///     Ok(Some(results.take(&total)?))
    /// })?;
    /// assert_eq!(total, Some(5_050));
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn new(name: &str) -> Self {
        let mut workflow = Workflow::from_description(Description::empty(name));
        workflow.draft = Some(Draft::default());
        workflow
    }

    /// Adds a task that reads no values. Every rank adds the same tasks; one rank runs `f`.
    pub fn task<T: Item>(&mut self, name: &str, mut f: impl FnMut() -> T + Send + 'w) -> Handle<T> {
        self.try_task(name, move || Ok(f()))
    }

    /// Adds a task that reads no values, with a function that can fail.
    pub fn try_task<T: Item>(
        &mut self,
        name: &str,
        mut f: impl FnMut() -> Result<T, BoxError> + Send + 'w,
    ) -> Handle<T> {
        self.draw_up(name, Vec::new(), move |_| f())
    }

    /// Adds a task that reads the values of `parents`: of a handle, a tuple of handles, or a slice of handles of the same type.
    ///
    /// ```
    /// use armature::workflow::Workflow;
    ///
    /// let sum = armature::run(&armature::Config::new().ranks(3), |session| {
    ///     let mut flow = Workflow::new("sum");
    ///     let parts: Vec<_> = (0..10_u64).map(|n| flow.task(&format!("square {n}"), move || n * n)).collect();
    ///     let sum = flow.after("sum", &parts, |squares| squares.into_iter().sum::<u64>());
    ///     Ok(flow.collect_on_all(session)?.take(&sum)?)
    /// })?;
    /// assert_eq!(sum, 285);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn after<P: Parents, T: Item>(
        &mut self,
        name: &str,
        parents: P,
        mut f: impl FnMut(P::Values) -> T + Send + 'w,
    ) -> Handle<T> {
        self.try_after(name, parents, move |values| Ok(f(values)))
    }

    /// Adds a task like [`after`](Workflow::after), with a function that can fail.
    pub fn try_after<P: Parents, T: Item>(
        &mut self,
        name: &str,
        parents: P,
        mut f: impl FnMut(P::Values) -> Result<T, BoxError> + Send + 'w,
    ) -> Handle<T> {
        let names = parents.names();
        self.draw_up(name, names.clone(), move |inputs| f(P::values(&names, inputs)?))
    }

    fn draw_up<T: Item>(
        &mut self,
        name: &str,
        parents: Vec<String>,
        mut f: impl FnMut(&mut Inputs<'_>) -> Result<T, BoxError> + Send + 'w,
    ) -> Handle<T> {
        self.add_closure(name, move |inputs, _| f(inputs));
        self.add_task(Task::new(name, Action::Closure(name.to_string())), parents);
        Handle::new(name)
    }

    /// Adds any task, such as a command, which runs after the tasks `parents`. The value of a command is `()`.
    ///
    /// ```no_run
    /// use armature::workflow::{Action, Task, Workflow};
    ///
    /// armature::run(&armature::Config::new().commands(armature::Commands::new()), |session| {
    ///     let mut flow = Workflow::new("count");
    ///     let text = flow.try_task("write", || Ok(std::fs::write("text", "two words")?));
    ///     let count = flow.add(Task::new("count", Action::Shell("wc -w <text >count".into())), &text);
    ///     flow.try_after("show", &count, |()| Ok(println!("{}", std::fs::read_to_string("count")?)));
    ///     flow.run(session)?;
    ///     Ok(())
    /// })?;
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn add<P: Parents>(&mut self, task: Task, parents: P) -> Handle<()> {
        let handle = Handle::new(&task.name);
        self.add_task(task, parents.names());
        handle
    }

    /// Returns the tasks that the program has added. If the workflow was created from a description, it cannot be run with added tasks.
    fn draft_mut(&mut self) -> &mut Draft {
        self.draft.get_or_insert_with(|| Draft { is_described: true, ..Draft::default() })
    }

    fn add_task(&mut self, task: Task, parents: Vec<String>) {
        let draft = self.draft_mut();
        draft.edges.extend(parents.into_iter().map(|parent| (parent, task.name.clone())));
        draft.tasks.push(task);
    }

    /// Returns the description of a task for changes: the memory that it needs, its run time, its priority and others. `None` if the workflow
    /// has no such task.
    ///
    /// ```
    /// use armature::workflow::Workflow;
    ///
    /// let mut flow = Workflow::new("large");
    /// let large = flow.task("large", || vec![0_u8; 1 << 20]);
    /// let task = flow.task_mut(&large).unwrap();
    /// (task.memory, task.priority) = (Some(1 << 20), 1);
    /// ```
    pub fn task_mut<T>(&mut self, task: &Handle<T>) -> Option<&mut Task> {
        self.draft.as_mut()?.tasks.iter_mut().find(|known| known.name == task.name())
    }

    /// Sets the size of a task's value in bytes, which the planner uses.
    pub fn value_size<T>(&mut self, task: &Handle<T>, bytes: u64) -> &mut Self {
        self.draft_mut().sizes.insert(task.name().to_string(), bytes);
        self
    }
}
