//! What an experiment is, and the report that it fills.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use crate::{Bars, Histogram, Lines, Mark, Table, machine, verdict::Verdict};

/// How an experiment ends: well, or with the reason why it could not be made.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// One question with its measurement.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// What `ci/bench.sh NAME` calls it; also the name of its files.
    pub name: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    /// What must be there to run it, for people: `nothing`, `mpirun of Open MPI`.
    pub needs: &'static str,
    /// Runs it. With `smoke` it does the least that still goes through all of its code, within seconds.
    pub run: fn(report: &mut Report, smoke: bool) -> Outcome,
}

impl Experiment {
    /// Runs the experiment, printing as it goes; files go to `folder`.
    ///
    /// # Errors
    /// If it could not be made. A mark that was missed is a result, not an error.
    pub fn run(&self, folder: &Path, smoke: bool) -> Outcome<Vec<Verdict>> {
        println!("== {}: {}", self.name, self.about);
        println!("   {}", machine::describe());
        if smoke {
            println!("   smoke run: too few rounds and samples to say anything about the marks");
        }
        let mut report = Report::new(self.name, folder)?;
        (self.run)(&mut report, smoke)?;
        Ok(report.close())
    }
}

/// Takes the results of one experiment: prints them and writes their files.
#[derive(Debug)]
pub struct Report {
    name: String,
    folder: PathBuf,
    marks: Vec<Mark>,
}

impl Report {
    /// A report of the experiment `name`, with its files in `folder`, which is created.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn new(name: &str, folder: &Path) -> Outcome<Self> {
        fs::create_dir_all(folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
        Ok(Report { name: name.into(), folder: folder.into(), marks: Vec::new() })
    }

    /// Prints a line of text.
    pub fn note(&mut self, text: impl AsRef<str>) {
        println!("   {}", text.as_ref());
    }

    /// Prints a table and writes it to `NAME.csv`, or `NAME-PART.csv` if `part` is not empty.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn table(&mut self, part: &str, table: &Table) -> Outcome {
        println!("\n{table}");
        self.write(part, "csv", &table.to_csv())
    }

    /// Draws lines to `NAME.svg`, or `NAME-PART.svg` if `part` is not empty.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn lines(&mut self, part: &str, plot: &Lines) -> Outcome {
        self.write(part, "svg", &plot.to_svg()?)
    }

    /// Draws a histogram, to the same file name as [`lines`](Report::lines).
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn histogram(&mut self, part: &str, plot: &Histogram) -> Outcome {
        self.write(part, "svg", &plot.to_svg()?)
    }

    /// Draws bars, to the same file name as [`lines`](Report::lines).
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn bars(&mut self, part: &str, plot: &Bars) -> Outcome {
        self.write(part, "svg", &plot.to_svg()?)
    }

    /// Notes what came of a mark; it is printed when the experiment closes.
    pub fn mark(&mut self, mark: Mark) {
        self.marks.push(mark);
    }

    /// Writes a file that belongs to the report.
    fn write(&mut self, part: &str, extension: &str, text: &str) -> Outcome {
        let dash = if part.is_empty() { "" } else { "-" };
        let path = self.folder.join(format!("{}{dash}{part}.{extension}", self.name));
        fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        println!("   -> {}", path.display());
        Ok(())
    }

    /// Prints one line for each mark.
    fn close(self) -> Vec<Verdict> {
        println!();
        for mark in &self.marks {
            println!("{}", mark.line(&self.name));
        }
        println!();
        self.marks.iter().map(Mark::verdict).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Target, verdict::Interval};

    fn tiny(report: &mut Report, _: bool) -> Outcome {
        let mut table = Table::new(&["n", "time [ms]"]);
        table.row([1.into(), 2.5.into()]);
        report.table("", &table)?;
        report.mark(Mark::new("", Interval::exact(2.5), "ms", Target::AtMost(3.0)));
        Ok(())
    }

    #[test]
    fn a_run_writes_its_files_and_judges_its_marks() {
        let folder = tempfile::tempdir().unwrap();
        let experiment = Experiment { name: "tiny", about: "a test", needs: "nothing", run: tiny };
        assert_eq!(experiment.run(folder.path(), true).unwrap(), [Verdict::Reached]);
        assert_eq!(fs::read_to_string(folder.path().join("tiny.csv")).unwrap(), "n,time [ms]\n1,2.5\n");
    }
}
