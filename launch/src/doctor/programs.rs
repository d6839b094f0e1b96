//! Checks of `armature doctor` for the user's program, its libraries, and the tools that build it.

use super::check::{Check, Facts, Finding, Version};
use super::launchers::{is_open_mpi, mpirun_version};
use super::site::Site;
use crate::Mpi;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "libraries",
        symptom: "error while loading shared libraries: libmpi.so",
        about: "The program must find its libraries on every node, also in the shells without a terminal in which launchers start ranks there. \
                Modules that are loaded after the test for an interactive shell in .bashrc are missing there.",
        examine: libraries,
    },
    Check {
        id: "mixed-mpi",
        symptom: "a crash in MPI_Init, or every rank is 0 of 1",
        about: "The library that the program loads and the launcher must belong to the same MPI.",
        examine: mixed_mpi,
    },
    Check {
        id: "container-mpi",
        symptom: "ranks in a container do not find each other",
        about: "If the launcher of the host starts ranks in containers, the MPI in the container must be of the same kind and major version, \
                because both talk PMIx.",
        examine: container_mpi,
    },
    Check {
        id: "hwloc",
        symptom: "a crash in MPI_Init or slurmd, in hwloc",
        about: "hwloc 2.5.0 to 2.7.0 crashes on some machines, such as those with disabled cores.",
        examine: hwloc,
    },
    Check {
        id: "build-tools",
        symptom: "cargo build fails in mpi-sys, hwlocality-sys or bindgen",
        about: "A build needs the compiler of the MPI library (mpicc), pkg-config, and libclang, from which the bindings are made.",
        examine: build_tools,
    },
];

fn libraries(facts: &Facts<'_>) -> Finding {
    let Some(program) = facts.program else {
        return Finding::skipped("name the program: armature doctor APP");
    };
    let Some(text) = facts.site.run("ldd", &[&program.to_string_lossy()]) else {
        return Finding::skipped(format!("ldd cannot read {}", program.display()));
    };
    let missing: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once(" => not found"))
        .map(|(name, _)| name.trim())
        .collect();
    if missing.is_empty() {
        return Finding::ok("all shared libraries are found on this host");
    }
    let remedy = "load the module of the MPI in the job script; in .bashrc, load it before the test for an interactive shell";
    Finding::fail(format!("not found: {}", missing.join(", ")), remedy)
}

fn mixed_mpi(facts: &Facts<'_>) -> Finding {
    let Some(program) = facts.program else {
        return Finding::skipped("name the program: armature doctor APP");
    };
    let Some(linked) = facts.site.linked_mpi(program) else {
        return Finding::skipped(format!("{} is not linked to an MPI library", program.display()));
    };
    let Some(version) = mpirun_version(facts.site) else {
        return Finding::skipped("mpirun is not installed");
    };
    let launcher = if is_open_mpi(&version) { Mpi::OpenMpi } else { Mpi::Mpich };
    let first = version.lines().next().unwrap_or_default().trim().to_string();
    if linked == launcher {
        return Finding::ok(format!("the program and mpirun belong to {linked}"));
    }
    let found = format!("the program is linked to {linked}, and mpirun is that of {launcher} ({first})");
    Finding::warn(
        found,
        "armature run, which starts the launcher of the program's MPI; or load that MPI's module",
    )
}

fn container_mpi(facts: &Facts<'_>) -> Finding {
    let site = facts.site;
    if site.variable("APPTAINER_CONTAINER").or_else(|| site.variable("SINGULARITY_CONTAINER")).is_none() {
        return Finding::skipped("this is not inside an Apptainer container");
    }
    let outside = site.variable("PMIX_VERSION").and_then(|text| Version::find(&text));
    let inside = site.run("pmix_info", &["--version"]).and_then(|text| Version::find(&text));
    match (outside, inside) {
        (Some(outside), Some(inside)) if outside.0 != inside.0 => Finding::fail(
            format!("the launcher outside has PMIx {outside}, the container has PMIx {inside}"),
            "build the container with the MPI of the host, of the same major version",
        ),
        (Some(outside), Some(inside)) => Finding::ok(format!("PMIx {outside} outside and {inside} inside")),
        _ => Finding::skipped("the versions of PMIx outside and inside are not known"),
    }
}

fn hwloc(facts: &Facts<'_>) -> Finding {
    let version = |site: &dyn Site| {
        let text = site
            .run("hwloc-info", &["--version"])
            .or_else(|| site.run("pkg-config", &["--modversion", "hwloc"]));
        Version::find(&text?)
    };
    match version(facts.site) {
        None => Finding::skipped("hwloc-info and pkg-config do not name a version of hwloc"),
        Some(version) if (Version(2, 5, 0)..=Version(2, 7, 0)).contains(&version) => {
            Finding::warn(format!("hwloc {version} crashes on some machines"), "use hwloc 2.7.1 or newer")
        }
        Some(version) => Finding::ok(format!("hwloc {version}")),
    }
}

fn build_tools(facts: &Facts<'_>) -> Finding {
    let site = facts.site;
    let mut missing = Vec::new();
    if site.run("mpicc", &["-show"]).is_none() {
        missing.push(("mpicc", "libopenmpi-dev", "openmpi-devel"));
    }
    if site.run("pkg-config", &["--version"]).is_none() {
        missing.push(("pkg-config", "pkg-config", "pkgconf"));
    }
    if !has_libclang(site) {
        missing.push(("libclang", "libclang-dev", "clang-devel"));
    }
    if missing.is_empty() {
        return Finding::ok("mpicc, pkg-config and libclang are installed");
    }
    let join = |pick: fn(&(&'static str, &'static str, &'static str)) -> &'static str, with: &str| {
        missing.iter().map(pick).collect::<Vec<_>>().join(with)
    };
    let found = format!("missing: {}; programs can run, but not be built", join(|(name, ..)| name, ", "));
    let (apt, dnf) = (join(|(_, apt, _)| apt, " "), join(|(.., dnf)| dnf, " "));
    Finding::warn(
        found,
        format!("apt-get install {apt}, or dnf install {dnf}, or load the modules of the site"),
    )
}

fn has_libclang(site: &dyn Site) -> bool {
    let is_libclang = |name: &String| name.starts_with("libclang.so") || name.starts_with("libclang-");
    let mut places: Vec<String> = site.variable("LIBCLANG_PATH").into_iter().collect();
    places
        .extend(["/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"].map(String::from));
    places.extend(
        site.list("/usr/lib")
            .into_iter()
            .filter(|name| name.starts_with("llvm-"))
            .map(|name| format!("/usr/lib/{name}/lib")),
    );
    places.iter().any(|place| site.list(place).iter().any(is_libclang))
}
