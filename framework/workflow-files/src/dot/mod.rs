//! A subset of Graphviz's dot: directed graphs, with weights as attributes.
//!
//! | attribute | of | means |
//! |---|---|---|
//! | `weight`, `work`, `run_time` | a node | run time in seconds |
//! | `memory` | a node | bytes |
//! | `weight`, `size` | an edge | bytes |
//!
//! Other attributes are ignored. Defaults (`node [memory=5]`) apply to nodes that are created later. The statements of a subgraph are read
//! as statements of the enclosing graph; a subgraph as an end of an edge is refused.

mod tokens;

use std::collections::HashMap;

use tokens::Tokens;

use crate::description::{Action, Description, Task};
use crate::draft::{Draft, End, Link};
use crate::error::{Error, ErrorKind, Result, SourceLocation, shown};

/// Names of the attributes of nodes and edges that have a meaning for a workflow. All others are ignored.
const MEANT: [&str; 5] = ["weight", "work", "run_time", "memory", "size"];

/// Attributes of a node or edge: name, value and line number of each.
type Attributes = Vec<(String, String, usize)>;

struct Reader {
    tokens: Tokens,
    draft: Draft,
    numbers: HashMap<String, usize>,
    /// Default attributes of nodes and of edges, for the graph and for each subgraph that has not ended.
    defaults: Vec<(Attributes, Attributes)>,
}

pub(crate) fn read(text: &str) -> Result<Description> {
    let mut reader = Reader {
        tokens: Tokens::of(text)?,
        draft: Draft::default(),
        numbers: HashMap::new(),
        defaults: Vec::new(),
    };
    reader.head()?;
    reader.body()?;
    if reader.tokens.peek().is_some() {
        return Err(reader.tokens.unexpected("the end of the file"));
    }
    reader.draft.finish()
}

impl Reader {
    fn head(&mut self) -> Result<()> {
        self.tokens.take_keyword("strict");
        if !self.tokens.take_keyword("digraph") {
            let message = "is not a directed graph: expected \"digraph\"";
            return Err(Error::new(ErrorKind::Syntax, SourceLocation::Line(self.tokens.line()), message));
        }
        self.draft.name = self.tokens.take_id().unwrap_or_default();
        self.tokens.expect('{')
    }

    /// Reads all statements of the graph. Subgraphs are read without recursion, so that the call stack does not limit their depth.
    fn body(&mut self) -> Result<()> {
        self.defaults.push(Default::default());
        while !self.defaults.is_empty() {
            if self.tokens.take(';') {
                continue;
            }
            if self.tokens.take('}') {
                self.defaults.pop();
            } else if self.opens_subgraph()? {
                self.defaults.push(self.defaults.last().cloned().unwrap_or_default());
            } else {
                self.statement()?;
            }
        }
        Ok(())
    }

    fn opens_subgraph(&mut self) -> Result<bool> {
        if self.tokens.take_keyword("subgraph") {
            self.tokens.take_id();
            self.tokens.expect('{')?;
            return Ok(true);
        }
        Ok(self.tokens.take('{'))
    }

    fn statement(&mut self) -> Result<()> {
        let keyword = ["graph", "node", "edge"].into_iter().find(|word| self.tokens.take_keyword(word));
        if let Some(word) = keyword {
            let attributes = self.attributes()?;
            if let Some((nodes, edges)) = self.defaults.last_mut() {
                match word {
                    "node" => replace(nodes, attributes),
                    "edge" => replace(edges, attributes),
                    _ => {}
                }
            }
            return Ok(());
        }
        let line = self.tokens.line();
        let first = self.tokens.id("the name of a node")?;
        if self.tokens.take('=') {
            self.tokens.id("a value")?;
            return Ok(());
        }
        let mut path = vec![self.node(first, line)?];
        while self.tokens.take_arrow() {
            let line = self.tokens.line();
            let next = self.tokens.id("the name of a node")?;
            path.push(self.node(next, line)?);
        }
        let attributes = self.attributes()?;
        if let [node] = path[..] {
            return set(&mut self.draft.tasks[node].0, &attributes);
        }
        let defaults = self.defaults.last().map(|(_, edges)| edges.as_slice()).unwrap_or_default();
        let mut size = 0;
        for (key, value, line) in defaults.iter().chain(&attributes) {
            if key == "weight" || key == "size" {
                size = whole(key, value, *line)?;
            }
        }
        for pair in path.windows(2) {
            let (from, to) = (End::Number(pair[0]), End::Number(pair[1]));
            self.draft.links.push(Link { from, to, size, place: SourceLocation::Line(line) });
        }
        Ok(())
    }

    fn node(&mut self, name: String, line: usize) -> Result<usize> {
        // A port, the point at which an edge touches its node, is skipped.
        while self.tokens.take(':') {
            self.tokens.id("a port")?;
        }
        if let Some(&number) = self.numbers.get(&name) {
            return Ok(number);
        }
        let mut task = Task::new(name.clone(), Action::Nothing);
        set(&mut task, self.defaults.last().map(|(nodes, _)| nodes.as_slice()).unwrap_or_default())?;
        let number = self.draft.tasks.len();
        self.numbers.insert(name, number);
        self.draft.tasks.push((task, SourceLocation::Line(line)));
        Ok(number)
    }

    fn attributes(&mut self) -> Result<Attributes> {
        let mut attributes = Vec::new();
        while self.tokens.take('[') {
            while !self.tokens.take(']') {
                let line = self.tokens.line();
                let key = self.tokens.id("the name of an attribute, or \"]\"")?;
                self.tokens.expect('=')?;
                attributes.push((key, self.tokens.id("a value")?, line));
                let _ = self.tokens.take(',') || self.tokens.take(';');
            }
        }
        Ok(attributes)
    }
}

/// Sets default attributes of nodes or edges. Every subgraph copies the defaults. To keep them small, attributes without a meaning are dropped, and a
/// new value replaces the old one.
fn replace(defaults: &mut Attributes, attributes: Attributes) {
    for new in attributes.into_iter().filter(|new| MEANT.contains(&new.0.as_str())) {
        defaults.retain(|old| old.0 != new.0);
        defaults.push(new);
    }
}

fn set(task: &mut Task, attributes: &[(String, String, usize)]) -> Result<()> {
    for (key, value, line) in attributes {
        match key.as_str() {
            "weight" | "work" | "run_time" => {
                let time = value.parse().ok().filter(|time: &f64| time.is_finite() && *time >= 0.0);
                task.run_time = Some(time.ok_or_else(|| wrong(key, value, *line, "a number of 0 or more"))?);
            }
            "memory" => task.memory = Some(whole(key, value, *line)?),
            _ => {}
        }
    }
    Ok(())
}

fn whole(key: &str, value: &str, line: usize) -> Result<u64> {
    value.parse().map_err(|_| wrong(key, value, line, "a whole number of 0 or more"))
}

fn wrong(key: &str, value: &str, line: usize, expected: &str) -> Error {
    let message = format!("attribute {key} is {}: expected {expected}", shown(value));
    Error::new(ErrorKind::Value, SourceLocation::Line(line), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supported_subset_of_dot_is_read() {
        let text = r#"
# from a preprocessor
strict digraph "two words" { // a comment
    rankdir = LR; node [memory=5, shape=box]
    a [weight=1.5 label=<<b>A</b>>]; "b\"c" [memory=7];
    subgraph cluster_1 { edge [size=3]; a -> "b\"c":n -> -4 ; }
    a -> d [label="x", weight=9] /* another */
}"#;
        let description = read(text).unwrap();
        assert_eq!(description.name(), "two words");
        let tasks: Vec<_> =
            description.tasks().iter().map(|task| (task.name.as_str(), task.run_time, task.memory)).collect();
        let expected =
            [("a", Some(1.5), Some(5)), ("b\"c", None, Some(7)), ("-4", None, Some(5)), ("d", None, Some(5))];
        assert_eq!(tasks, expected);
        let edges: Vec<_> = description.edges().iter().map(|edge| (edge.from, edge.to, edge.size)).collect();
        assert_eq!(edges, [(0, 1, 3), (0, 3, 9), (1, 2, 3)]);
    }

    #[test]
    fn deeply_nested_dot_graphs_do_not_overflow_the_stack() {
        let depth = 100_000;
        let text = format!("digraph {{ {} a -> b {} }}", "{".repeat(depth), "}".repeat(depth));
        assert_eq!(read(&text).unwrap().edges().len(), 1);
    }
}
