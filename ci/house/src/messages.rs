//! Messages to users in source code: string literals with at least three words, outside of tests.

use proc_macro2::Span;
use syn::visit::{self, Visit};

use crate::macros::arguments;

/// Minimum number of words of a message to users; a shorter string literal is a name, a unit or a format.
const FEWEST_WORDS: usize = 3;

/// Returns the messages (string literals with at least three words) and the numbers of their lines. Each placeholder
/// is shown as `{}`.
pub(crate) fn messages(code: &syn::File) -> Vec<(usize, String)> {
    let mut literals = Literals(Vec::new());
    literals.visit_file(code);
    let texts = literals.0.into_iter().map(|(span, text)| (span.start().line, shown(&text)));
    texts.filter(|(_, text)| words(text) >= FEWEST_WORDS).collect()
}

struct Literals(Vec<(Span, String)>);

impl<'ast> Visit<'ast> for Literals {
    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.0.push((literal.span(), literal.value()));
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        arguments(invocation).iter().for_each(|argument| Literals::visit_expr(self, argument));
        visit::visit_macro(self, invocation);
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

/// Returns the text on one line, with `{}` for each placeholder of the format string.
fn shown(text: &str) -> String {
    let mut plain = String::new();
    let mut is_value = false;
    for c in text.chars() {
        match c {
            '{' => plain.push(c),
            '}' => plain.push(c),
            _ if is_value => {}
            '\n' => plain += "\\n",
            _ => plain.push(c),
        }
        is_value = c == '{' || is_value && c != '}';
    }
    plain
}

fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.chars().filter(|c| c.is_alphabetic()).count() > 1).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::code;

    #[test]
    fn messages_are_string_literals_with_several_words() {
        let code = code(
            "fn f() -> Result<(), String> {\n\
             log(\"rank\");\n\
             warn!(\"rank {rank} does {:?}\\nnot answer\", what);\n\
             #[cfg(test)] let x = \"text of a test\";\n\
             #[must_use = \"an attribute is no message\"]\n\
             let y = Err(\"file `{}`: no such file\".into());\n\
             y\n}\n",
        );
        let expected = [(3, "rank {} does {}\\nnot answer"), (6, "file `{}`: no such file")];
        assert_eq!(messages(&code), expected.map(|(line, text)| (line, text.to_string())));
    }
}
