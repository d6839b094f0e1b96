//! Numeric constants in source code: named constants, and literals.

use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Lit};

use crate::macros::arguments;

#[derive(Debug)]
pub(crate) struct Number {
    pub(crate) line: usize,
    /// Name of the constant, or its value if it has no name.
    pub(crate) what: String,
    pub(crate) has_name: bool,
}

/// Returns the numeric constants of a file.
///
/// A named constant counts once if its value contains a number, unless it is computed from other constants with 0, 1,
/// 2 or ½ only. In other code, every literal except 0, 1, 2 and ½ counts. Numbers of enum variants, shifts,
/// exponents, array indices, array lengths, and numbers in types do not count.
pub(crate) fn numbers(code: &syn::File) -> Vec<Number> {
    let mut found = Found::default();
    found.visit_file(code);
    found.numbers
}

#[derive(Default)]
struct Found {
    numbers: Vec<Number>,
}

impl Found {
    fn named(&mut self, name: &syn::Ident, value: &Expr) {
        let mut inside = Inside::default();
        inside.visit_expr(value);
        if inside.telling || inside.any && !inside.names {
            let (line, what) = (name.span().start().line, name.to_string());
            self.numbers.push(Number { line, what, has_name: true });
        }
    }
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.named(&item.ident, &item.expr);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.named(&item.ident, &item.expr);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.named(&item.ident, &item.expr);
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        if let Some((_, value)) = &item.default {
            self.named(&item.ident, value);
        }
    }

    fn visit_lit(&mut self, literal: &'ast Lit) {
        if let Some(value) = value(literal)
            && is_telling(value)
        {
            let (line, what) = (literal.span().start().line, value.to_string());
            self.numbers.push(Number { line, what, has_name: false });
        }
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        for part in parts(expr) {
            match part {
                Part::Whole(expr) => visit::visit_expr(self, expr),
                Part::Inner(expr) => self.visit_expr(expr),
            }
        }
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        arguments(invocation).iter().for_each(|argument| Found::visit_expr(self, argument));
    }

    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_path_arguments(&mut self, _: &'ast syn::PathArguments) {}
    fn visit_angle_bracketed_generic_arguments(&mut self, _: &'ast syn::AngleBracketedGenericArguments) {}
    fn visit_variant(&mut self, _: &'ast syn::Variant) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

/// Part of an expression that is searched for numbers.
enum Part<'a> {
    /// The expression itself, all of whose operands are searched.
    Whole(&'a Expr),
    /// The only searched operand of an expression, whose other operands are shifts, exponents, indices or lengths.
    Inner(&'a Expr),
}

fn parts(expr: &Expr) -> Vec<Part<'_>> {
    match expr {
        Expr::Index(index) => vec![Part::Inner(&index.expr)],
        Expr::MethodCall(call) if is_power(&call.method) => vec![Part::Inner(&call.receiver)],
        Expr::Repeat(repeat) => vec![Part::Inner(&repeat.expr)],
        Expr::Binary(binary) => match binary.op {
            BinOp::Shl(_) | BinOp::Shr(_) | BinOp::ShlAssign(_) | BinOp::ShrAssign(_) => {
                vec![Part::Inner(&binary.left)]
            }
            _ => vec![Part::Whole(expr)],
        },
        _ => vec![Part::Whole(expr)],
    }
}

fn is_power(method: &syn::Ident) -> bool {
    ["pow", "powi", "powf"].iter().any(|name| method == name)
}

/// Numbers and names in the value of a named constant.
#[derive(Default)]
struct Inside {
    any: bool,
    /// True if the value contains a number other than 0, 1, 2 and ½.
    telling: bool,
    names: bool,
}

impl<'ast> Visit<'ast> for Inside {
    fn visit_lit(&mut self, literal: &'ast Lit) {
        if let Some(value) = value(literal) {
            self.any = true;
            self.telling |= is_telling(value);
        }
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        // Only the arguments of a call are searched: the name of the called function does not count as the name of a
        // constant.
        call.args.iter().for_each(|argument| self.visit_expr(argument));
    }

    fn visit_expr_path(&mut self, _: &'ast syn::ExprPath) {
        self.names = true;
    }

    fn visit_expr_index(&mut self, index: &'ast syn::ExprIndex) {
        self.visit_expr(&index.expr);
    }

    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_path_arguments(&mut self, _: &'ast syn::PathArguments) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

fn value(literal: &Lit) -> Option<f64> {
    match literal {
        Lit::Int(number) => number.base10_parse::<u128>().ok().map(|number| number as f64),
        Lit::Float(number) => number.base10_parse().ok(),
        _ => None,
    }
}

fn is_telling(value: f64) -> bool {
    ![0.0, 0.5, 1.0, 2.0].contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::code;

    fn found(text: &str) -> Vec<String> {
        numbers(&code(text)).into_iter().map(|number| number.what).collect()
    }

    #[test]
    fn named_constants_count_once() {
        let text = "
            const WAIT: Duration = Duration::from_millis(1);
            const MASK: u64 = (1 << 61) - 1;
            const MANY: [u8; 3] = [3, 4, 5];
            static ONE: u32 = 1;
            impl A { const SHARE: f64 = 0.0625; }
            trait B { const C: u8 = 7; const D: u8; }
        ";
        assert_eq!(found(text), ["WAIT", "MASK", "MANY", "ONE", "SHARE", "C"]);
    }

    #[test]
    fn constants_derived_from_others_do_not_count() {
        let text = "
            const HALF: usize = WHOLE / 2;
            const LAST: u64 = u64::MAX;
            const NAME: &str = \"9\";
            const EMPTY: Vec<u8> = Vec::new();
        ";
        assert!(found(text).is_empty());
        assert_eq!(found("const FAR: usize = NEAR + 20;"), ["FAR"]);
    }

    #[test]
    fn literal_numbers_count_each() {
        let text = "fn a(x: f64) -> f64 { if x > 0.75 { vec.resize(16, 0); } 3.0 * x + f(vec![64; 2], 1e9) }";
        assert_eq!(found(text), ["0.75", "16", "3", "64", "1000000000"]);
        assert_eq!(found("fn a() { assert!(x < 5, \"{y}\"); log::info!(\"{}\", z / 1000); }"), ["5", "1000"]);
        assert_eq!(found("fn a() { match x { 3 => 4, _ => 0 }; }"), ["3", "4"]);
    }

    #[test]
    fn numbers_of_arithmetic_and_byte_layout_do_not_count() {
        let text = "
            enum Kind { Hello = 16 }
            fn a(b: [u8; 8]) -> [u8; 4] {
                let x = (1 << 24) >> 8;
                let cube = x.powi(3) + y.powf(1.0 / 3.0);
                let half = 0.5 * 2.0 - 1.0 + 0.0;
                let part = &bytes[4..8];
                let chunk = bytes.first_chunk::<8>();
                let buffer = [0; 16];
                pair.3
            }
            #[cfg(test)] mod tests { const A: u8 = 9; }
        ";
        assert!(found(text).is_empty(), "{:?}", found(text));
    }
}
