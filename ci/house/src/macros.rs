//! Arguments of macro calls, which the parser `syn` does not parse.

use syn::parse::{Parse, ParseStream};
use syn::{Expr, Macro, Token};

/// Returns the arguments of a macro call before the first one that is not an expression.
pub(crate) fn arguments(invocation: &Macro) -> Vec<Expr> {
    invocation.parse_body::<Arguments>().map(|arguments| arguments.0).unwrap_or_default()
}

struct Arguments(Vec<Expr>);

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut found = Vec::new();
        while !input.is_empty() {
            // `name = value` in a format string's arguments is parsed as an assignment. The first argument that is
            // not an expression ends the list.
            found.push(input.parse()?);
            // The arguments of a macro call may also be separated by `;`, as in `vec![0; 8]`.
            if !input.is_empty() && input.parse::<Token![,]>().is_err() {
                input.parse::<Token![;]>()?;
            }
        }
        Ok(Arguments(found))
    }
}
