//! Cores and caches of the node from the kernel's files in `/sys`, below a root directory that tests can replace.

use std::{fs, path::Path};

use super::hardware::{Core, Hardware, Source};

/// Returns the hardware of the whole node. Values that the kernel does not report are missing. A processing unit without topology
/// information counts as a core.
pub(super) fn hardware(root: &Path) -> Hardware {
    let cpus = root.join("sys/devices/system/cpu");
    let online = list(&cpus.join("online")).or_else(|| list(&cpus.join("present"))).unwrap_or_default();
    let mut cores: Vec<Core> = Vec::new();
    for &unit in &online {
        if cores.iter().any(|core| core.processing_units.contains(&unit)) {
            continue;
        }
        let topology = cpus.join(format!("cpu{unit}/topology"));
        // Kernels before 5.3 have the list of a core's processing units only under the name `thread_siblings_list`.
        let siblings = list(&topology.join("core_cpus_list"))
            .or_else(|| list(&topology.join("thread_siblings_list")))
            .filter(|siblings| siblings.contains(&unit))
            .unwrap_or_else(|| vec![unit]);
        let package = number(&topology.join("physical_package_id")).unwrap_or(0);
        let processing_units = siblings.into_iter().filter(|sibling| online.contains(sibling)).collect();
        cores.push(Core { package, processing_units });
    }
    let caches = online.first().map_or([None; 3], |first| caches(&cpus.join(format!("cpu{first}/cache"))));
    Hardware { cores, caches, source: Source::Sysfs }
}

/// Returns the sizes in bytes of the data or unified caches of level 1 to 3; `None` for an unknown size.
fn caches(folder: &Path) -> [Option<u64>; 3] {
    let mut sizes = [None; 3];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let index = entry.path();
        let level: Option<usize> = number(&index.join("level"));
        if line(&index.join("type")).is_some_and(|kind| kind == "Instruction") {
            continue;
        }
        if let Some(slot) = level.and_then(|level| sizes.get_mut(level.checked_sub(1)?)) {
            *slot = line(&index.join("size")).and_then(|size| parse_size(&size));
        }
    }
    sizes
}

/// Parses a size in the format of the kernel: `48K`, `32M` or a number of bytes.
fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|&size| size > 0)
}

/// Reads a list of numbers in the format of the kernel: `0-3,8,10-11`. `None` if the file is missing or malformed.
fn list(file: &Path) -> Option<Vec<usize>> {
    parse_list(&line(file)?)
}

fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for range in text.split(',').map(str::trim) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        // No machine has more processing units. A larger number comes from a damaged file, and a list of that length would exhaust
        // memory.
        if last > 1 << 16 {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

fn number(file: &Path) -> Option<usize> {
    line(file)?.parse().ok()
}

fn line(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a root directory with the given files, in place of `/sys`.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join("sys/devices/system/cpu").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        root
    }

    #[test]
    fn single_core_without_caches_is_read() {
        let root = tree(&[("online", "0"), ("cpu0/topology/core_cpus_list", "0")]);
        let found = hardware(root.path());
        assert_eq!(found.cores, [Core { package: 0, processing_units: vec![0] }]);
        assert_eq!(found.caches, [None; 3]);
    }

    #[test]
    fn packages_cores_and_hardware_threads_are_read() {
        let mut files = vec![(String::from("online"), String::from("0-7"))];
        for unit in 0..8 {
            let (core, package) = (unit % 4, unit % 4 / 2);
            // Processing units 0 and 1 have the new name of the file that lists the threads of a core, the others the old name.
            let name = if unit < 2 { "core_cpus_list" } else { "thread_siblings_list" };
            files.push((format!("cpu{unit}/topology/{name}"), format!("{core},{}", core + 4)));
            files.push((format!("cpu{unit}/topology/physical_package_id"), package.to_string()));
        }
        for (index, level, kind, size) in [
            (0, 1, "Data", "48K"),
            (1, 1, "Instruction", "32K"),
            (2, 2, "Unified", "1M"),
            (3, 3, "Unified", "32768K"),
        ] {
            files.push((format!("cpu0/cache/index{index}/level"), level.to_string()));
            files.push((format!("cpu0/cache/index{index}/type"), kind.to_string()));
            files.push((format!("cpu0/cache/index{index}/size"), size.to_string()));
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&name[..], &text[..])).collect();
        let found = hardware(tree(&files).path());
        assert_eq!(found.cores.len(), 4);
        assert_eq!(found.cores[3], Core { package: 1, processing_units: vec![3, 7] });
        assert_eq!(found.caches, [Some(48 << 10), Some(1 << 20), Some(32 << 20)]);
    }

    #[test]
    fn offline_units_are_excluded() {
        let root = tree(&[("online", "0,2"), ("cpu0/topology/core_cpus_list", "0-1")]);
        let units: Vec<_> =
            hardware(root.path()).cores.into_iter().map(|core| core.processing_units).collect();
        assert_eq!(units, [[0], [2]]);
    }

    #[test]
    fn missing_sysfs_gives_no_cores() {
        assert_eq!(hardware(Path::new("/nonexistent")).cores, []);
    }

    #[test]
    fn malformed_lists_and_sizes_are_refused() {
        assert_eq!(parse_list("0-3,8,10-11"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        for bad in ["", "a", "1-", "0-99999999999", "0-4000000000"] {
            assert_eq!(parse_list(bad), None, "{bad:?}");
        }
        assert_eq!(parse_size("512"), Some(512));
        for bad in ["", "K", "0K", "-1K", "99999999999999999999K", "18446744073709551615G"] {
            assert_eq!(parse_size(bad), None, "{bad:?}");
        }
    }
}
