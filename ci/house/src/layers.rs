//! Checks in which directions the layers of the framework import from each other.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::imports::Arrows;
use crate::source::Source;

/// Layer of the framework: a set of files and directories (rooms). They may import from lower layers, and from each
/// other unless `apart` is set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layer {
    name: String,
    /// Files and directories of the layer. A source file belongs to the room with the longest matching path.
    rooms: Vec<PathBuf>,
    /// True if the files and directories of the layer must not import from each other.
    #[serde(default)]
    apart: bool,
}

/// Returns the forbidden imports: those from a higher layer, and, in layers marked `apart`, those between different
/// files or directories of the layer. Each has the indices of two source files, and the names of both layers. Only
/// files below `root` have layers.
///
/// # Errors
/// A file below `root` belongs to no layer.
pub(crate) fn wrong(
    root: &Path,
    layers: &[Layer],
    sources: &[Source],
    arrows: &Arrows,
) -> Result<Vec<(usize, usize, String)>, String> {
    let mut places = Vec::with_capacity(sources.len());
    for source in sources {
        let place = match source.path.strip_prefix(root) {
            Err(_) => None,
            Ok(file) => Some(place(layers, file).ok_or_else(|| {
                format!("{} belongs to no layer: add it to a layer in house.toml", source.path.display())
            })?),
        };
        places.push(place);
    }
    let mut wrong = Vec::new();
    for &(from, to) in arrows.keys() {
        let (Some((lower, a)), Some((upper, b))) = (places[from], places[to]) else { continue };
        if upper > lower || upper == lower && layers[upper].apart && a != b {
            wrong.push((from, to, format!("{} -> {}", layers[lower].name, layers[upper].name)));
        }
    }
    Ok(wrong)
}

fn place(layers: &[Layer], file: &Path) -> Option<(usize, usize)> {
    let rooms = layers
        .iter()
        .enumerate()
        .flat_map(|(layer, it)| it.rooms.iter().enumerate().map(move |(room, path)| (path, (layer, room))));
    let fitting = rooms.filter(|(path, _)| file.starts_with(path));
    fitting.max_by_key(|(path, _)| path.components().count()).map(|(_, place)| place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::code;

    #[test]
    fn upward_and_lateral_dependencies_are_found() {
        let layer = |name: &str, rooms: &[&str], apart| Layer {
            name: name.into(),
            rooms: rooms.iter().map(PathBuf::from).collect(),
            apart,
        };
        let mut layers = vec![
            layer("ground", &["wire", "farm/ground.rs"], false),
            layer("top", &["farm", "pipeline"], true),
        ];
        let source =
            |path: &str| Source { path: path.into(), module: Vec::new(), krate: "k".into(), code: code("") };
        let paths = [
            "k/wire/a.rs",
            "k/wire/b.rs",
            "k/farm/a.rs",
            "k/farm/b.rs",
            "k/pipeline/a.rs",
            "k/farm/ground.rs",
            "o/a.rs",
        ];
        let sources = paths.map(source);
        let all: Arrows = (0..7)
            .flat_map(|a| (0..7).map(move |b| ((a, b), Default::default())))
            .filter(|((a, b), _)| a != b)
            .collect();
        let found = wrong(Path::new("k"), &layers, &sources, &all).unwrap();
        assert_eq!(found[0].2, "ground -> top");
        let found: Vec<(usize, usize)> = found.into_iter().map(|(from, to, _)| (from, to)).collect();
        let up = [0, 1, 5].iter().flat_map(|&a| [2, 3, 4].map(|b| (a, b)));
        let mut expected: Vec<(usize, usize)> = up.chain([(2, 4), (3, 4), (4, 2), (4, 3)]).collect();
        expected.sort_unstable();
        assert_eq!(found, expected);
        layers.pop();
        assert!(
            wrong(Path::new("k"), &layers, &sources, &all)
                .unwrap_err()
                .contains("k/farm/a.rs belongs to no layer")
        );
    }
}
