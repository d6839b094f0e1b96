//! What is in macros.

use syn::parse::{Parse, ParseStream};
use syn::{Expr, Macro, Token};

/// The arguments of a macro that is called like a function, as far as they are expressions.
pub(crate) fn arguments(makro: &Macro) -> Vec<Expr> {
    makro.parse_body::<Arguments>().map(|arguments| arguments.0).unwrap_or_default()
}

struct Arguments(Vec<Expr>);

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut found = Vec::new();
        while !input.is_empty() {
            // `name = value` of a format is an assignment; what is none at all ends the list.
            found.push(input.parse()?);
            // `;` stands in `vec![0; 8]`.
            if !input.is_empty() && input.parse::<Token![,]>().is_err() {
                input.parse::<Token![;]>()?;
            }
        }
        Ok(Arguments(found))
    }
}
