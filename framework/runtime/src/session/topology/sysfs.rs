//! Cores and caches of the node from the kernel's files in `/sys`.

use armature_host::{Source as Files, parse_list, threads_of_core};

use super::hardware::{Core, Hardware, Source};

const CPUS: &str = "/sys/devices/system/cpu";

/// Returns the hardware of the whole node. Values that the kernel does not report are missing. A processing unit without topology
/// information counts as a core.
pub(super) fn hardware(files: &dyn Files) -> Hardware {
    let list = |name: &str| parse_list(&files.read(&format!("{CPUS}/{name}"))?);
    let online = list("online").or_else(|| list("present")).unwrap_or_default();
    let mut cores: Vec<Core> = Vec::new();
    for &unit in &online {
        if cores.iter().any(|core| core.processing_units.contains(&unit)) {
            continue;
        }
        let package = number(files, &format!("{CPUS}/cpu{unit}/topology/physical_package_id")).unwrap_or(0);
        let units = threads_of_core(files, unit).into_iter().filter(|sibling| online.contains(sibling));
        cores.push(Core { package, processing_units: units.collect() });
    }
    let caches = online.first().map_or([None; 3], |first| caches(files, &format!("{CPUS}/cpu{first}/cache")));
    Hardware { cores, caches, source: Source::Sysfs }
}

fn caches(files: &dyn Files, folder: &str) -> [Option<u64>; 3] {
    let mut sizes = [None; 3];
    for index in 0.. {
        let Some(level) = number(files, &format!("{folder}/index{index}/level")) else { break };
        let line = |name: &str| files.read(&format!("{folder}/index{index}/{name}"));
        if line("type").is_some_and(|kind| kind.trim() == "Instruction") {
            continue;
        }
        if let Some(slot) = level.checked_sub(1).and_then(|level| sizes.get_mut(level)) {
            *slot = line("size").and_then(|size| parse_size(size.trim()));
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

fn number(files: &dyn Files, file: &str) -> Option<usize> {
    files.read(file)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    struct Tree(BTreeMap<String, String>);

    impl Files for Tree {
        fn read(&self, path: &str) -> Option<String> {
            self.0.get(path.strip_prefix(CPUS)?.strip_prefix('/')?).map(|text| format!("{text}\n"))
        }

        fn variable(&self, _: &str) -> Option<String> {
            None
        }
    }

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree(files.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect())
    }

    #[test]
    fn single_core_without_caches_is_read() {
        let found = hardware(&tree(&[("online", "0"), ("cpu0/topology/core_cpus_list", "0")]));
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
        let found = hardware(&tree(&files));
        assert_eq!(found.cores.len(), 4);
        assert_eq!(found.cores[3], Core { package: 1, processing_units: vec![3, 7] });
        assert_eq!(found.caches, [Some(48 << 10), Some(1 << 20), Some(32 << 20)]);
    }

    #[test]
    fn offline_units_are_excluded() {
        let root = tree(&[("online", "0,2"), ("cpu0/topology/core_cpus_list", "0-1")]);
        let units: Vec<_> = hardware(&root).cores.into_iter().map(|core| core.processing_units).collect();
        assert_eq!(units, [[0], [2]]);
    }

    #[test]
    fn missing_sysfs_gives_no_cores() {
        assert_eq!(hardware(&tree(&[])).cores, []);
    }

    #[test]
    fn malformed_sizes_are_refused() {
        assert_eq!(parse_size("512"), Some(512));
        for bad in ["", "K", "0K", "-1K", "99999999999999999999K", "18446744073709551615G"] {
            assert_eq!(parse_size(bad), None, "{bad:?}");
        }
    }
}
