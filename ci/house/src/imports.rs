//! Graph of the imports between the files of a crate.
//!
//! An edge leads from a file that names an item to the file that defines the item. Modules that only re-export the
//! item are skipped. Declaring a module, or naming only a module, makes no edge.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use syn::visit::{self, Visit};
use syn::{Item, UseTree, Visibility};

use crate::macros::arguments;
use crate::source::Source;

/// Names that source files import from each other. The key has the indices of two files: the file that imports, and
/// the file that defines the names.
pub(crate) type Arrows = BTreeMap<(usize, usize), BTreeSet<String>>;

pub(crate) fn arrows(sources: &[Source]) -> Arrows {
    let mut house = House::default();
    for (number, source) in sources.iter().enumerate() {
        house.add(number, &source.krate, &source.module, &source.code.items);
    }
    let mut arrows = Arrows::new();
    for (index, module) in house.modules.iter().enumerate() {
        for path in &module.paths {
            if let Some(file) = house.find(index, path, 0).filter(|&file| file != module.file) {
                arrows.entry((module.file, file)).or_default().extend(path.last().cloned());
            }
        }
    }
    arrows
}

#[derive(Default)]
struct House {
    modules: Vec<Module>,
    by_name: HashMap<(PathBuf, Vec<String>), usize>,
}

struct Module {
    krate: PathBuf,
    name: Vec<String>,
    file: usize,
    defined: HashSet<String>,
    /// Full path of each name that the module imports, by the name.
    used: HashMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    /// Paths, in the code of the module, that name an item.
    paths: BTreeSet<Vec<String>>,
}

impl House {
    fn add(&mut self, file: usize, krate: &std::path::Path, name: &[String], items: &[Item]) {
        let mut module = Module {
            krate: krate.to_path_buf(),
            name: name.to_vec(),
            file,
            defined: items.iter().filter_map(defined).collect(),
            used: HashMap::new(),
            globs: Vec::new(),
            paths: BTreeSet::new(),
        };
        let mut inner = Vec::new();
        for item in items {
            match item {
                Item::Mod(item) => {
                    if let Some((_, items)) = &item.content {
                        inner.push(([name, &[item.ident.to_string()]].concat(), items));
                    }
                }
                item => Names(&mut module).visit_item(item),
            }
        }
        self.by_name.insert((krate.to_path_buf(), name.to_vec()), self.modules.len());
        self.modules.push(module);
        inner.into_iter().for_each(|(name, items)| self.add(file, krate, &name, items));
    }

    fn module(&self, krate: &std::path::Path, name: &[String]) -> Option<usize> {
        self.by_name.get(&(krate.to_path_buf(), name.to_vec())).copied()
    }

    fn find(&self, at: usize, path: &[String], depth: u32) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let module = &self.modules[at];
        match first.as_str() {
            "crate" => self.find_in(self.module(&module.krate, &[])?, rest, depth),
            "self" => self.find_in(at, rest, depth),
            "super" => {
                let (_, above) = module.name.split_last()?;
                let above = self.module(&module.krate, above)?;
                match rest.first().map(String::as_str) {
                    Some("super") => self.find(above, rest, depth),
                    _ => self.find_in(above, rest, depth),
                }
            }
            _ => self.find_in(at, path, depth),
        }
    }

    /// Returns the index of the file that defines `path`. The first name of `path` is known in module `at`.
    fn find_in(&self, at: usize, path: &[String], depth: u32) -> Option<usize> {
        // Maximum number of re-exports that are followed, because modules can re-export each other in a circle.
        const DEEPEST: u32 = 20;
        let (name, rest) = path.split_first()?;
        let module = &self.modules[at];
        if name == "*" {
            return Some(module.file);
        }
        if let Some(child) =
            self.module(&module.krate, &[module.name.as_slice(), std::slice::from_ref(name)].concat())
            && !rest.is_empty()
        {
            return self.find_in(child, rest, depth);
        }
        if module.defined.contains(name) {
            return Some(module.file);
        }
        if depth == DEEPEST {
            return None;
        }
        if let Some(target) = module.used.get(name).filter(|target| target[..] != path[..]) {
            return self.find(at, &[target, rest].concat(), depth + 1);
        }
        module.globs.iter().find_map(|glob| {
            let target = [glob.as_slice(), path].concat();
            (target != path).then(|| self.find(at, &target, depth + 1)).flatten()
        })
    }
}

fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
}

struct Names<'a>(&'a mut Module);

impl Names<'_> {
    /// Records the names that the `use` declaration `tree` imports; `path` is the path before `tree`. If `handed_on`
    /// is true, the declaration re-exports the names, which does not count as a use by the module.
    fn take(&mut self, tree: &UseTree, path: &[String], handed_on: bool) {
        let with = |name: &syn::Ident| [path, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(tree) => self.take(&tree.tree, &with(&tree.ident), handed_on),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.take(tree, path, handed_on)),
            UseTree::Glob(_) => {
                self.0.globs.push(path.to_vec());
                if !handed_on {
                    self.0.paths.insert([path, &["*".to_string()]].concat());
                }
            }
            UseTree::Name(tree) if tree.ident == "self" => {
                if let Some(name) = path.last() {
                    self.0.used.insert(name.clone(), path.to_vec());
                }
            }
            UseTree::Name(tree) => self.name(tree.ident.to_string(), with(&tree.ident), handed_on),
            UseTree::Rename(tree) => self.name(tree.rename.to_string(), with(&tree.ident), handed_on),
        }
    }

    fn name(&mut self, name: String, path: Vec<String>, handed_on: bool) {
        if !handed_on {
            self.0.paths.insert(path.clone());
        }
        self.0.used.insert(name, path);
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // A re-exported name counts as used by the files that import it. If this module uses the name as well,
        // `visit_path` records that.
        self.take(&item.tree, &[], !matches!(item.vis, Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.0.paths.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        arguments(invocation).iter().for_each(|argument| Names::visit_expr(self, argument));
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

/// Returns the groups of files that import from each other in a circle, the largest group first.
pub(crate) fn circles(count: usize, arrows: &Arrows) -> Vec<Vec<usize>> {
    let mut targets = vec![Vec::new(); count];
    arrows.keys().for_each(|&(from, to)| targets[from].push(to));
    let reached: Vec<HashSet<usize>> = (0..count)
        .map(|from| {
            let (mut seen, mut open) = (HashSet::new(), targets[from].clone());
            while let Some(next) = open.pop() {
                if seen.insert(next) {
                    open.extend(&targets[next]);
                }
            }
            seen
        })
        .collect();
    let mut circles: Vec<Vec<usize>> = Vec::new();
    for file in (0..count).filter(|&file| reached[file].contains(&file)) {
        if !circles.iter().any(|circle| circle.contains(&file)) {
            let with = reached[file].iter().copied().filter(|&other| reached[other].contains(&file));
            let mut circle: Vec<usize> = with.collect();
            circle.sort_unstable();
            circles.push(circle);
        }
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::code;

    /// Returns the imports between the modules of a crate as pairs of module names. The first module in `modules` is
    /// the root of the crate.
    fn pairs(modules: &[(&str, &str)]) -> Vec<(String, String)> {
        let sources: Vec<Source> = modules
            .iter()
            .map(|(name, text)| Source {
                path: name.into(),
                module: name.split("::").filter(|part| !part.is_empty()).map(str::to_string).collect(),
                krate: "k".into(),
                code: code(text),
            })
            .collect();
        let name = |file: usize| modules[file].0.to_string();
        arrows(&sources).keys().map(|&(from, to)| (name(from), name(to))).collect()
    }

    fn pair(from: &str, to: &str) -> (String, String) {
        (from.to_string(), to.to_string())
    }

    #[test]
    fn dependencies_point_to_the_defining_module() {
        let found = pairs(&[
            ("", "mod a; mod b; pub use a::Made;"),
            ("a", "mod inner; pub(crate) use inner::Made; use std::fmt::Made as Other;"),
            ("a::inner", "pub(crate) struct Made; fn new() -> Made { Made }"),
            (
                "b",
                "use crate::Made; use super::a; fn f() -> a::inner::Made { log::info!(\"{}\", crate::c::VALUE) }",
            ),
            ("c", "use crate::b::*; pub(crate) const VALUE: u8 = 0; impl T for super::d::D {}"),
            ("d", "pub(crate) struct D; fn e() { let f = |x: Self| vec![super::super::lost::G]; }"),
        ]);
        assert_eq!(found, [pair("b", "a::inner"), pair("b", "c"), pair("c", "b"), pair("c", "d")]);
    }

    #[test]
    fn reexport_counts_as_dependency_only_if_used() {
        let hands_on = ("a", "mod inner; pub use inner::Made;");
        let inner = ("a::inner", "pub struct Made;");
        assert!(pairs(&[("", "mod a;"), hands_on, inner]).is_empty());
        let uses = ("a", "mod inner; pub use inner::Made; struct B(Made);");
        assert_eq!(pairs(&[("", "mod a;"), uses, inner]), [pair("a", "a::inner")]);
        let glob = ("a", "mod inner; pub use inner::*; struct B(Made);");
        assert_eq!(pairs(&[("", "mod a;"), glob, inner]), [pair("a", "a::inner")]);
        let endless = ("a", "pub use crate::a::Lost; struct B(Lost);");
        assert!(pairs(&[("", "mod a;"), endless]).is_empty());
    }

    #[test]
    fn import_cycles_are_found_with_all_their_files() {
        let arrows: Arrows = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (5, 6), (6, 5)]
            .map(|pair| (pair, BTreeSet::new()))
            .into();
        assert_eq!(circles(7, &arrows), [vec![0, 1, 2], vec![5, 6]]);
        assert!(circles(7, &Arrows::new()).is_empty());
    }
}
