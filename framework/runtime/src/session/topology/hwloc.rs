//! Cores and caches from hwloc.
//!
//! Only sound functions of the Rust binding of hwloc are used. `Display` of an object writes past the end of a buffer, `name` dereferences a
//! null pointer, `object_type` and `type_at_depth` create invalid enum values (newer libraries have more types), and NUMA nodes cannot be
//! listed. `clippy.toml` forbids these functions as far as possible.

use std::collections::BTreeMap;

use hwloc2::{ObjectType, Topology, TopologyObject};

use super::hardware::{Core, Hardware, Source};

pub(super) fn hardware() -> Option<Hardware> {
    let topology = Topology::new()?;
    let of_type = |kind| topology.objects_with_type(&kind).unwrap_or_default();

    let mut package_of = BTreeMap::new();
    for package in of_type(ObjectType::Package) {
        package_of.extend(units(package).map(|unit| (unit, package.os_index() as usize)));
    }
    let mut cores = of_type(ObjectType::Core);
    if cores.is_empty() {
        // Some virtual machines do not report which processing units share a core. Each processing unit then counts as a core.
        cores = of_type(ObjectType::PU);
    }
    let cores: Vec<Core> = cores
        .into_iter()
        .map(|core| units(core).collect::<Vec<_>>())
        .filter(|units| !units.is_empty())
        .map(|units| Core {
            package: package_of.get(&units[0]).copied().unwrap_or(0),
            processing_units: units,
        })
        .collect();
    if cores.is_empty() {
        return None;
    }
    let size = |kind| Some(of_type(kind).first()?.cache_attributes()?.size()).filter(|&size| size > 0);
    let caches = [size(ObjectType::L1Cache), size(ObjectType::L2Cache), size(ObjectType::L3Cache)];
    Some(Hardware { cores, caches, source: Source::Hwloc })
}

/// Returns the processing units of a hardware object, ascending. The result is a list, because an iterator would borrow hwloc's set of
/// units.
fn units(object: &TopologyObject) -> impl Iterator<Item = usize> + use<> {
    let units: Vec<usize> = object.cpuset().into_iter().flatten().map(|unit| unit as usize).collect();
    units.into_iter()
}
