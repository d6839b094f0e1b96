//! Benchmark experiments, and the reports with their results.

use std::{
    cell::{Cell, RefCell},
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use armature_files::output;

use crate::{Bars, Histogram, Lines, Table, TargetedValue, machine, machine::Stolen, verdict::Verdict};

/// Result of an experiment: success, or the reason why the experiment could not be run.
pub type RunResult<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Experiment: one question, and the function that measures the answer.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Name for `ci/bench.sh NAME`; also the beginning of the output files' names.
    pub name: &'static str,
    /// One-line description of the experiment for `--list`.
    pub about: &'static str,
    /// Software and hardware that the experiment needs, as a text for users, such as `nothing` or `mpirun of Open MPI`.
    pub needs: &'static str,
    /// Function that runs the experiment. If `smoke` is true, the function does the minimum that exercises all of its code, within seconds.
    pub run: fn(report: &mut Report, smoke: bool) -> RunResult,
}

/// Selection of the parts of an experiment to run; the default is the whole experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// True if only the shortest form of the experiment is run, which tests its code but measures nothing.
    pub smoke: bool,
    /// Number of measurement rounds, in each of which every compared program runs once; `None` for the experiment's default.
    pub rounds: Option<usize>,
    /// Names of the parts of the experiment to run; if empty, all of its parts run.
    pub only: Vec<String>,
}

impl Experiment {
    /// Runs the experiment and prints its progress; output files go to `folder`.
    ///
    /// # Errors
    /// If the experiment could not be run, or if `extent` requests rounds or parts that the experiment does not have. A measured value that
    /// misses its target is a result, not an error.
    pub fn run(&self, folder: &Path, extent: &Extent) -> RunResult<Vec<Verdict>> {
        println!("== {}: {}", self.name, self.about);
        println!("   {}", machine::describe());
        if extent.smoke {
            println!("   smoke run: too few rounds and samples to say anything about the marks");
        }
        let mut report = Report::new(self.name, folder)?;
        report.extent = extent.clone();
        let stolen = Stolen::begin();
        (self.run)(&mut report, extent.smoke)?;
        report.check_extent()?;
        if let Some(part) = stolen.stolen_fraction() {
            report.note(format!("meanwhile others had {:.1} % of this machine's processor time", 1e2 * part));
        }
        Ok(report.close())
    }
}

/// Report of one experiment: prints its results and writes their files.
#[derive(Debug)]
pub struct Report {
    name: String,
    folder: PathBuf,
    marks: Vec<TargetedValue>,
    extent: Extent,
    /// Check of the user's selection: `has_rounds` is true if the experiment has called [`rounds`](Report::rounds), and `parts` has the names with
    /// which the experiment has called [`selects`](Report::selects).
    has_rounds: Cell<bool>,
    parts: RefCell<Vec<String>>,
}

impl Report {
    /// Creates the report of the experiment `name`, and the folder `folder` for its files.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn new(name: &str, folder: &Path) -> RunResult<Self> {
        fs::create_dir_all(folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
        Ok(Report {
            name: name.into(),
            folder: folder.into(),
            marks: Vec::new(),
            extent: Extent::default(),
            has_rounds: Cell::new(false),
            parts: RefCell::default(),
        })
    }

    /// Returns the number of measurement rounds to run: 1 in a smoke run, otherwise the number that the user requested, or `full`.
    pub fn rounds(&self, full: usize) -> usize {
        self.has_rounds.set(true);
        if self.extent.smoke { 1 } else { self.extent.rounds.unwrap_or(full) }
    }

    /// Returns true if the user selected the part `part` of the experiment, or no part.
    pub fn selects(&self, part: &str) -> bool {
        let mut parts = self.parts.borrow_mut();
        // Several tables can belong to one part.
        if !parts.iter().any(|known| known == part) {
            parts.push(part.into());
        }
        self.extent.only.is_empty() || self.extent.only.iter().any(|name| name == part)
    }

    fn check_extent(&self) -> RunResult {
        let parts = self.parts.borrow();
        for name in &self.extent.only {
            if parts.is_empty() {
                return Err(format!("there is no part `{name}`: {} has no parts", self.name).into());
            }
            if !parts.contains(name) {
                return Err(format!("there is no part `{name}`, only `{}`", parts.join("`, `")).into());
            }
        }
        if self.extent.rounds.is_some() && !self.has_rounds.get() {
            return Err(format!("{} has no rounds whose number could be chosen", self.name).into());
        }
        Ok(())
    }

    /// Prints a line of text.
    pub fn note(&mut self, text: impl AsRef<str>) {
        println!("   {}", text.as_ref());
    }

    /// Prints a table and writes it to `NAME.csv`, or to `NAME-PART.csv` if `part` is not empty.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn table(&mut self, part: &str, table: &Table) -> RunResult {
        println!("\n{table}");
        self.write(part, "csv", &table.to_csv())
    }

    /// Writes a line plot to `NAME.svg`, or to `NAME-PART.svg` if `part` is not empty.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn lines(&mut self, part: &str, plot: &Lines) -> RunResult {
        self.write(part, "svg", &plot.to_svg()?)
    }

    /// Writes a histogram to `NAME.svg`, or to `NAME-PART.svg` if `part` is not empty.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn histogram(&mut self, part: &str, plot: &Histogram) -> RunResult {
        self.write(part, "svg", &plot.to_svg()?)
    }

    /// Writes a bar chart to `NAME.svg`, or to `NAME-PART.svg` if `part` is not empty.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn bars(&mut self, part: &str, plot: &Bars) -> RunResult {
        self.write(part, "svg", &plot.to_svg()?)
    }

    /// Records a measured value together with the target that it must meet. The end of the report states whether the target was met.
    pub fn mark(&mut self, mark: TargetedValue) {
        self.marks.push(mark);
    }

    fn write(&mut self, part: &str, extension: &str, text: &str) -> RunResult {
        let dash = if part.is_empty() { "" } else { "-" };
        let path = self.folder.join(format!("{}{dash}{part}.{extension}", self.name));
        output::replace(&path, text.as_bytes())
            .map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        println!("   -> {}", path.display());
        Ok(())
    }

    fn close(self) -> Vec<Verdict> {
        println!();
        for mark in &self.marks {
            println!("{}", mark.line(&self.name));
        }
        println!();
        self.marks.iter().map(TargetedValue::verdict).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Target, verdict::Interval};

    fn tiny(report: &mut Report, _: bool) -> RunResult {
        let mut table = Table::new(&["n", "time [ms]"]);
        table.row([1.into(), 2.5.into()]);
        report.table("", &table)?;
        report.mark(TargetedValue::new("", Interval::exact(2.5), "ms", Target::AtMost(3.0)));
        Ok(())
    }

    #[test]
    fn run_writes_its_files_and_returns_its_verdicts() {
        let folder = tempfile::tempdir().unwrap();
        let experiment = Experiment { name: "tiny", about: "a test", needs: "nothing", run: tiny };
        assert_eq!(
            experiment.run(folder.path(), &Extent { smoke: true, ..Extent::default() }).unwrap(),
            [Verdict::Reached]
        );
        assert_eq!(fs::read_to_string(folder.path().join("tiny.csv")).unwrap(), "n,time [ms]\n1,2.5\n");
    }

    #[test]
    fn unknown_parts_and_rounds_are_refused() {
        fn parts(report: &mut Report, _: bool) -> RunResult {
            let all = ["small", "large", "small"];
            let run: Vec<&str> = all.into_iter().filter(|part| report.selects(part)).collect();
            assert_eq!((run, report.rounds(20)), (vec!["large"], 5));
            Ok(())
        }
        let folder = tempfile::tempdir().unwrap();
        let of = |run| Experiment { name: "tiny", about: "a test", needs: "nothing", run };
        let extent = |only: &[&str]| Extent {
            smoke: false,
            rounds: Some(5),
            only: only.iter().copied().map(String::from).collect(),
        };
        let error = |run, only| of(run).run(folder.path(), &extent(only)).unwrap_err().to_string();
        assert_eq!(of(parts).run(folder.path(), &extent(&["large"])).unwrap(), []);
        assert_eq!(error(parts, &["large", "huge"]), "there is no part `huge`, only `small`, `large`");
        assert_eq!(error(tiny, &["large"]), "there is no part `large`: tiny has no parts");
        assert_eq!(error(tiny, &[]), "tiny has no rounds whose number could be chosen");
    }
}
