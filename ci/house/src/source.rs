//! Source files of a crate's library, parsed and without test code.

use std::path::{Path, PathBuf};

use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, ImplItem, Item, ItemMod, Meta, Stmt};

pub(crate) struct Source {
    /// Path below the root of the repository.
    pub(crate) path: PathBuf,
    /// Names of the enclosing modules from the crate's root on; empty for `lib.rs`.
    pub(crate) module: Vec<String>,
    /// Directory of the crate below the root of the repository.
    pub(crate) krate: PathBuf,
    /// Code without tests and documentation comments.
    pub(crate) code: syn::File,
}

pub(crate) fn sources(root: &Path, krate: &Path) -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    let place = krate.join("src");
    read(root, krate, &place.join("lib.rs"), &place, Vec::new(), &mut sources)?;
    Ok(sources)
}

/// Reads a source file, and the files of its submodules, which are in the directory `children`.
fn read(
    root: &Path,
    krate: &Path,
    path: &Path,
    children: &Path,
    module: Vec<String>,
    sources: &mut Vec<Source>,
) -> Result<(), String> {
    let text =
        std::fs::read_to_string(root.join(path)).map_err(|error| format!("{}: {error}", path.display()))?;
    let code = without_tests(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let items = code.items.clone();
    let (path, krate) = (path.to_path_buf(), krate.to_path_buf());
    sources.push(Source { path: path.clone(), module: module.clone(), krate: krate.clone(), code });
    for (name, file, below, inner) in modules(&items, &path, children, &module) {
        let file = file
            .into_iter()
            .find(|file| root.join(file).is_file())
            .ok_or_else(|| format!("{}: the file of `mod {name}` is missing", path.display()))?;
        read(root, &krate, &file, &below, inner, sources)?;
    }
    Ok(())
}

/// Module that is declared in one file and defined in another: its name, the possible paths of its file, the
/// directory of its submodules, and the names of its enclosing modules with its own.
type Elsewhere = (String, Vec<PathBuf>, PathBuf, Vec<String>);

/// Returns the modules that are declared among `items`, even inside inline modules, and defined in separate files.
fn modules(items: &[Item], path: &Path, children: &Path, module: &[String]) -> Vec<Elsewhere> {
    let mut found = Vec::new();
    for item in items {
        let Item::Mod(ItemMod { ident, content, attrs, .. }) = item else { continue };
        let name = ident.to_string();
        let below = children.join(&name);
        let inner = [module, std::slice::from_ref(&name)].concat();
        match (content, path_of(attrs)) {
            (Some((_, items)), _) => found.extend(modules(items, path, &below, &inner)),
            (None, Some(named)) => {
                let file = path.parent().unwrap_or(Path::new("")).join(named);
                let below = file.parent().unwrap_or(Path::new("")).to_path_buf();
                found.push((name, vec![file], below, inner));
            }
            (None, None) => {
                let files = vec![children.join(format!("{name}.rs")), below.join("mod.rs")];
                found.push((name, files, below, inner));
            }
        }
    }
    found
}

fn path_of(attrs: &[Attribute]) -> Option<String> {
    attrs.iter().filter(|attr| attr.path().is_ident("path")).find_map(|attr| match &attr.meta {
        Meta::NameValue(pair) => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

pub(crate) fn without_tests(text: &str) -> syn::Result<syn::File> {
    let mut code = syn::parse_file(text)?;
    WithoutTests.visit_file_mut(&mut code);
    Ok(code)
}

#[cfg(test)]
pub(crate) fn code(text: &str) -> syn::File {
    without_tests(text).unwrap()
}

struct WithoutTests;

impl VisitMut for WithoutTests {
    fn visit_file_mut(&mut self, file: &mut syn::File) {
        file.items.retain(|item| !is_for_tests(attributes(item)));
        visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain(|item| !is_for_tests(attributes(item)));
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, block: &mut syn::ItemImpl) {
        block.items.retain(|item| {
            !is_for_tests(match item {
                ImplItem::Const(item) => &item.attrs,
                ImplItem::Fn(item) => &item.attrs,
                ImplItem::Type(item) => &item.attrs,
                _ => &[],
            })
        });
        visit_mut::visit_item_impl_mut(self, block);
    }

    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain(|stmt| {
            !is_for_tests(match stmt {
                Stmt::Local(local) => &local.attrs,
                Stmt::Item(item) => attributes(item),
                _ => &[],
            })
        });
        visit_mut::visit_block_mut(self, block);
    }

    fn visit_attributes_mut(&mut self, attrs: &mut Vec<Attribute>) {
        attrs.retain(|attr| !attr.path().is_ident("doc"));
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_for_tests(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| {
        attr.path().is_ident("test")
            || attr.path().is_ident("cfg") && attr.parse_args::<Meta>().is_ok_and(|meta| needs_tests(&meta))
    })
}

fn needs_tests(condition: &Meta) -> bool {
    let within = |list: &syn::MetaList| -> Vec<bool> {
        let nested =
            list.parse_args_with(syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated);
        nested.into_iter().flatten().map(|meta| needs_tests(&meta)).collect()
    };
    match condition {
        Meta::Path(path) => path.is_ident("test") || path.is_ident("doctest"),
        Meta::List(list) if list.path.is_ident("all") => within(list).contains(&true),
        Meta::List(list) if list.path.is_ident("any") => {
            let each = within(list);
            !each.is_empty() && !each.contains(&false)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_code_is_removed_from_sources() {
        let code = code(
            "
            /// Doc.
            fn a() { #[cfg(test)] let x = 1; let y = 2; }
            #[cfg(test)] mod tests { fn b() {} }
            #[cfg(all(test, unix))] fn c() {}
            #[cfg(any(test, unix))] fn d() {}
            #[cfg(not(test))] fn e() {}
            #[test] fn f() {}
            impl A { #[cfg(test)] fn g() {} fn h() {} }
            mod inner { #[cfg(doctest)] mod i {} fn j() {} }
            ",
        );
        let text = quote::ToTokens::to_token_stream(&code).to_string();
        let left: Vec<&str> = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]
            .into_iter()
            .filter(|n| text.contains(&format!("fn {n} ")))
            .collect();
        assert_eq!(left, ["a", "d", "e", "h", "j"]);
        assert!(!text.contains("let x") && text.contains("let y") && !text.contains("Doc"));
    }

    #[test]
    fn files_of_modules_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join("k/src").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("lib.rs", "mod a; mod b; #[cfg(test)] mod gone; mod inline { mod c; }");
        write("a.rs", "mod below; #[path = \"other.rs\"] mod named;");
        write("a/below.rs", "");
        write("other.rs", "");
        write("b/mod.rs", "mod beside;");
        write("b/beside.rs", "");
        write("inline/c.rs", "");
        let found = sources(dir.path(), Path::new("k")).unwrap();
        let names: Vec<(String, String)> =
            found.iter().map(|s| (s.path.display().to_string(), s.module.join("::"))).collect();
        let names: Vec<(&str, &str)> =
            names.iter().map(|(path, module)| (&path[6..], module.as_str())).collect();
        let expected = [
            ("lib.rs", ""),
            ("a.rs", "a"),
            ("a/below.rs", "a::below"),
            ("other.rs", "a::named"),
            ("b/mod.rs", "b"),
            ("b/beside.rs", "b::beside"),
            ("inline/c.rs", "inline::c"),
        ];
        assert_eq!(names, expected);
        std::fs::remove_file(dir.path().join("k/src/other.rs")).unwrap();
        let error = sources(dir.path(), Path::new("k")).err().unwrap();
        assert_eq!(error, "k/src/a.rs: the file of `mod named` is missing");
    }
}
