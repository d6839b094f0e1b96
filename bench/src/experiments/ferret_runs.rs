//! Ferret on synthetic scenes: what several experiments run.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Outcome,
    ranks::{Launch, finish},
};

/// How long a run may take before it counts as hung.
const LIMIT: Duration = Duration::from_secs(300);

/// The program and the images that it works on.
#[derive(Debug)]
pub(super) struct Files {
    ferret: PathBuf,
    folder: PathBuf,
    /// Number of queries.
    pub(super) queries: usize,
}

impl Files {
    /// Makes so many scenes with four queries each, and their database, for the experiment of that name.
    pub(super) fn make(experiment: &str, scenes: usize) -> Outcome<Self> {
        let this = std::env::current_exe().map_err(|e| format!("cannot find this binary: {e}"))?;
        let ferret = this.with_file_name("ferret");
        if !ferret.is_file() {
            return Err(format!("expected {}; ci/bench.sh builds it", ferret.display()).into());
        }
        let folder = Path::new("target/bench").join(experiment);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
        let files = Files { ferret, folder, queries: 4 * scenes };
        let images = files.path("images");
        files.run([
            "synth".into(),
            images.clone(),
            "--all-variants".into(),
            "--scenes".into(),
            scenes.to_string(),
        ])?;
        files.run(["index".into(), format!("{images}/database"), "-o".into(), files.path("db")])?;
        files.split(Path::new(&format!("{images}/queries")))?;
        Ok(files)
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn run<const N: usize>(&self, arguments: [String; N]) -> Outcome {
        let mut command = Command::new(&self.ferret);
        command.args(arguments);
        finish(command, LIMIT).map(drop)
    }

    /// Links every other query into each of two folders.
    fn split(&self, queries: &Path) -> Outcome {
        let mut names = Vec::new();
        for entry in fs::read_dir(queries)? {
            names.push(entry?.path());
        }
        names.sort();
        for (number, path) in names.iter().enumerate() {
            let half = self.folder.join(format!("half-{}", number % 2));
            fs::create_dir_all(&half)?;
            let name = path.file_name().ok_or("a query without a name")?;
            fs::hard_link(path, half.join(name))?;
        }
        Ok(())
    }

    fn arguments(&self, queries: &str, out: &str, mapping: &str) -> Vec<String> {
        let (queries, db, out) = (self.path(queries), self.path("db"), self.path(out));
        ["query", &queries, "--db", &db, "-o", &out, "--mapping", mapping].map(String::from).to_vec()
    }

    /// All queries on so many ranks.
    pub(super) fn query(&self, out: &str, ranks: usize, mapping: &str) -> Outcome {
        let arguments = self.arguments("images/queries", out, mapping);
        Launch { ranks, limit: LIMIT, bind: false }.run_other(&self.ferret, &arguments).map(drop)
    }

    /// Both halves of the queries at the same time; returns the seconds until both are done.
    pub(super) fn halves(&self) -> Outcome<f64> {
        let start = Instant::now();
        let half = |number: usize| {
            let arguments =
                self.arguments(&format!("half-{number}"), &format!("half-{number}.tsv"), "serial");
            Launch { ranks: 1, limit: LIMIT, bind: false }.run_other(&self.ferret, &arguments).map(drop)
        };
        thread::scope(|scope| {
            let other = scope.spawn(|| half(1));
            half(0).and(other.join().map_err(|_| "the thread of the other half failed")?)
        })?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Everybody must have written what one rank has written.
    pub(super) fn same_bytes(&self, others: &[&str]) -> Outcome {
        let expected = fs::read(self.path("serial.tsv"))?;
        match others.iter().find(|name| fs::read(self.path(name)).ok().as_ref() != Some(&expected)) {
            Some(name) => Err(format!("{} differs from serial.tsv", self.path(name)).into()),
            None if expected.is_empty() => Err("the queries have no answers".into()),
            None => Ok(()),
        }
    }
}
