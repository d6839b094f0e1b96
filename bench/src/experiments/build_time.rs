//! Experiment on the processor time of builds with cargo's default release profile: the library, and a small farm, stencil, pipeline and workflow
//! after a change of one line in the program.
//!
//! The programs are examples of the repository, in a separate package as a user would have it. All dependencies have been built before.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use wait4::Wait4;

use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue, stats::median_interval, verdict::Interval,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "build-time",
    about: "processor time of a release build of the library, and of a program of each skeleton after a change of one line",
    needs: "cargo, and the sources of the dependencies",
    run,
};

/// Numbers of measured builds of the library and of each program. Processor time differs by a few per cent between builds.
const ROUNDS: [usize; 2] = [2, 5];
/// Targets: maximum processor times in seconds for building the library and a changed program.
const MARKS: [f64; 2] = [60.0, 4.0];
const PROGRAMS: [(&str, &str); 4] =
    [("farm", "word_count"), ("stencil", "plate"), ("pipeline", "stations"), ("workflow", "parameter_sweep")];

fn run(report: &mut Report, smoke: bool) -> RunResult {
    // A smoke run (short test of the experiment) builds a crate without dependencies instead of the runtime, and no program.
    let library = if smoke { "armature-text" } else { "armature-mpi" };
    let programs = if smoke { &[][..] } else { &PROGRAMS[..] };
    let package = Package::new(library, programs)?;
    package.build(&[])?;

    let mut table = Table::new(&["build", "processor time [s]", "low", "high"]);
    let mut row = |name: &str, time: Interval| {
        table.row([name.into(), time.value.into(), time.low.into(), time.high.into()]);
    };
    let mut times = Vec::new();
    for _ in 0..report.rounds(ROUNDS[0]) {
        package.cargo(&["clean", "--release", "--package", library])?;
        times.push(package.build(&["--package", library])?);
    }
    let time = median_interval(&times);
    row("library", time);
    report.mark(TargetedValue::new("library", time, "s of processor time", Target::AtMost(MARKS[0])));
    package.build(&[])?;
    for &(skeleton, example) in programs {
        let mut times = Vec::new();
        for round in 0..report.rounds(ROUNDS[1]) {
            package.change(example, round)?;
            times.push(package.build(&["--bin", example])?);
        }
        let time = median_interval(&times);
        row(skeleton, time);
        let what = format!("one line of a {skeleton}");
        report.mark(TargetedValue::new(&what, time, "s of processor time", Target::AtMost(MARKS[1])));
    }
    report.table("", &table)
}

struct Package(PathBuf);

impl Package {
    fn new(library: &str, programs: &[(&str, &str)]) -> RunResult<Self> {
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("the crate has no parent directory")?;
        let package = Package(root.join("target/build-time"));
        let bin = package.0.join("src/bin");
        fs::create_dir_all(&bin)?;
        fs::copy(root.join("Cargo.lock"), package.0.join("Cargo.lock"))?;
        let directory = if library == "armature-mpi" { "runtime" } else { "text" };
        let path = root.join("framework").join(directory);
        // The empty table `[workspace]` separates the package from the repository's workspace.
        let manifest = format!(
            "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [dependencies]\narmature = {{ package = \"{library}\", path = {path:?} }}\n\n[workspace]\n"
        );
        fs::write(package.0.join("Cargo.toml"), manifest)?;
        fs::write(package.0.join("src/lib.rs"), "")?;
        for (_, example) in programs {
            let name = format!("{example}.rs");
            fs::copy(root.join("examples").join(&name), bin.join(&name))?;
        }
        Ok(package)
    }

    /// Appends a different line to the program in each round, so that cargo builds the program again.
    fn change(&self, example: &str, round: usize) -> RunResult {
        let path = self.0.join("src/bin").join(example).with_extension("rs");
        let source = fs::read_to_string(&path)?;
        Ok(fs::write(&path, format!("{source}\npub static CHANGE_{round}: usize = {round};\n"))?)
    }

    fn build(&self, arguments: &[&str]) -> RunResult<f64> {
        self.cargo(&[&["build", "--release"], arguments].concat())
    }

    fn cargo(&self, arguments: &[&str]) -> RunResult<f64> {
        let mut command = Command::new("cargo");
        command.args(arguments).args(["--offline", "--quiet"]).current_dir(&self.0);
        command.env("CARGO_TARGET_DIR", self.0.join("target")).env_remove("RUSTFLAGS").stdin(Stdio::null());
        let mut child: Child = command.spawn()?;
        let used = child.wait4()?;
        if !used.status.success() {
            return Err(format!("cargo {} failed in {}", arguments.join(" "), self.0.display()).into());
        }
        Ok((used.rusage.utime + used.rusage.stime).as_secs_f64())
    }
}
