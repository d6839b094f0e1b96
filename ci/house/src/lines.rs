//! Counts the lines of code of a source file.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;

/// Returns the number of lines with at least one token. Comments and test code do not count; a string literal counts
/// for all of its lines.
pub(crate) fn lines(code: &syn::File) -> usize {
    let mut lines = BTreeSet::new();
    collect(code.to_token_stream(), &mut lines);
    lines.len()
}

fn collect(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                lines.insert(group.span_open().start().line);
                collect(group.stream(), lines);
                lines.insert(group.span_close().end().line);
            }
            token => lines.extend(token.span().start().line..=token.span().end().line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::code;

    #[test]
    fn comments_blank_lines_and_tests_do_not_count() {
        let text = "//! Module.\n\n/// Doc.\nfn a(\n    b: u8, // why\n) {\n    /* and\n    how */\n\n    c(\"x\n\n    y\");\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn d() {}\n}\n#[inline]\nfn e() {}\n";
        assert_eq!(lines(&code(text)), 9, "fn a, its three other lines, three of a text, and two of e");
        assert_eq!(lines(&code("")), 0);
    }
}
