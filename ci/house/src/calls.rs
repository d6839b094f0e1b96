//! Counts calls of functions that should be called in few places only, such as `catch_unwind`.

use syn::visit::{self, Visit};
use syn::{Expr, Path};

use crate::macros::arguments;

/// Pattern of calls that are counted, as written in `house.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// `call A::B`: calls of functions whose path ends with `A::B`.
    Call(Vec<String>),
    /// `method A.B`: calls of method `B` on a receiver whose last name is `A`.
    Method(String, String),
    /// `argument A::B`: calls with an argument that is a path ending with `A::B`.
    Argument(Vec<String>),
}

impl Pattern {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let path = |names: &str| names.split("::").map(str::to_string).collect();
        match text.split_once(' ') {
            Some(("call", names)) => Ok(Pattern::Call(path(names))),
            Some(("argument", names)) => Ok(Pattern::Argument(path(names))),
            Some(("method", names)) if names.contains('.') => {
                let (on, name) = names.split_once('.').unwrap_or_default();
                Ok(Pattern::Method(on.to_string(), name.to_string()))
            }
            _ => Err(format!("`{text}`: expected `call A::B`, `method A.B` or `argument A::B`")),
        }
    }
}

pub(crate) fn calls(code: &syn::File, patterns: &[Pattern]) -> Vec<usize> {
    let mut found = Found { patterns, lines: Vec::new() };
    found.visit_file(code);
    found.lines
}

struct Found<'a> {
    patterns: &'a [Pattern],
    lines: Vec<usize>,
}

impl Found<'_> {
    fn call(&mut self, line: usize, name: Option<&Path>, arguments: impl Iterator<Item = Vec<String>>) {
        let arguments: Vec<Vec<String>> = arguments.collect();
        let is_it = |pattern: &Pattern| match pattern {
            Pattern::Call(wanted) => name.is_some_and(|name| names(name).ends_with(wanted)),
            Pattern::Argument(wanted) => arguments.iter().any(|argument| argument.ends_with(wanted)),
            Pattern::Method(..) => false,
        };
        self.lines.extend(self.patterns.iter().any(is_it).then_some(line));
    }
}

impl<'ast> Visit<'ast> for Found<'_> {
    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        let name = path(&call.func);
        let line = call.paren_token.span.open().start().line;
        self.call(line, name, call.args.iter().filter_map(path).map(names));
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let line = call.method.span().start().line;
        let on = last_name(&call.receiver);
        let is_method =
            |p: &Pattern| matches!(p, Pattern::Method(a, b) if Some(a) == on.as_ref() && call.method == b);
        if self.patterns.iter().any(is_method) {
            self.lines.push(line);
        } else {
            self.call(line, None, call.args.iter().filter_map(path).map(names));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        arguments(invocation).iter().for_each(|argument| Found::visit_expr(self, argument));
    }
}

fn path(expr: &Expr) -> Option<&Path> {
    match expr {
        Expr::Path(expr) => Some(&expr.path),
        _ => None,
    }
}

fn names(path: &Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// Returns the last name of an expression: `a` for `a`, `self.a`, `a()` and `b.a()`.
fn last_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Path(expr) => names(&expr.path).pop(),
        Expr::Field(field) => match &field.member {
            syn::Member::Named(name) => Some(name.to_string()),
            syn::Member::Unnamed(_) => None,
        },
        Expr::MethodCall(call) => Some(call.method.to_string()),
        Expr::Call(call) => last_name(&call.func),
        Expr::Reference(inner) => last_name(&inner.expr),
        Expr::Paren(inner) => last_name(&inner.expr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::code;

    #[test]
    fn calls_are_found_with_their_positions() {
        let code = code(
            "fn a() {
                catch_unwind(|| x);
                std::panic::catch_unwind(|| y);
                let other = catch_unwind;
                self.backoff.wait(1);
                backoff().wait(2);
                child.wait();
                post.send(to, Kind::Status, &());
                envelope(run, session::Kind::Status);
                if kind == Kind::Status {}
                assert!(catch_unwind(z).is_err());
            }
            #[cfg(test)] mod tests { fn b() { catch_unwind(c); } }",
        );
        let found = |text: &str| calls(&code, &[Pattern::read(text).unwrap()]);
        assert_eq!(found("call catch_unwind"), [2, 3, 11]);
        assert_eq!(found("call panic::catch_unwind"), [3]);
        assert_eq!(found("method backoff.wait"), [5, 6]);
        assert_eq!(found("argument Kind::Status"), [8, 9]);
        for wrong in ["catch_unwind", "method wait", "calls a", ""] {
            assert!(Pattern::read(wrong).is_err(), "{wrong}");
        }
    }
}
