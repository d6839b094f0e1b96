//! Runs of the image search Ferret on synthetic images, for several experiments.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::{
    RunResult,
    ranks::{Launch, finish},
};

pub(super) const SERIAL: &str = "serial.tsv";
const LIMIT: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct Files {
    ferret: PathBuf,
    folder: PathBuf,
    pub(super) queries: usize,
}

impl Files {
    /// Creates `scenes` synthetic images with four query images each, and their database, for the experiment `experiment`.
    pub(super) fn make(experiment: &str, scenes: usize) -> RunResult<Self> {
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

    pub(super) fn ferret(&self) -> String {
        self.ferret.display().to_string()
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn run<const N: usize>(&self, arguments: [String; N]) -> RunResult {
        let mut command = Command::new(&self.ferret);
        command.args(arguments);
        finish(command, LIMIT).map(drop)
    }

    /// Divides the query images between two folders of hard links. Two concurrent runs can then process half of the images each.
    fn split(&self, queries: &Path) -> RunResult {
        let mut scenes = Vec::new();
        for entry in fs::read_dir(queries)? {
            scenes.push(entry?.path());
        }
        scenes.sort();
        for (number, scene) in scenes.iter().enumerate() {
            let name = scene.file_name().ok_or("a scene without a name")?;
            let half = self.folder.join(format!("half-{}", number % 2)).join(name);
            fs::create_dir_all(&half).map_err(|e| format!("cannot create {}: {e}", half.display()))?;
            for entry in fs::read_dir(scene)? {
                let entry = entry?;
                fs::hard_link(entry.path(), half.join(entry.file_name()))
                    .map_err(|e| format!("cannot link {}: {e}", entry.path().display()))?;
            }
        }
        Ok(())
    }

    pub(super) fn arguments(&self, queries: &str, out: &str, mapping: &str) -> Vec<String> {
        let (queries, db, out) = (self.path(queries), self.path("db"), self.path(out));
        ["query", &queries, "--db", &db, "-o", &out, "--mapping", mapping].map(String::from).to_vec()
    }

    /// Runs all queries on `ranks` ranks and returns the seconds of the whole process, start-up included. The output must be identical to that of an
    /// earlier run on one rank, if there was one.
    pub(super) fn query(&self, out: &str, ranks: usize, mapping: &str) -> RunResult<f64> {
        self.query_with(out, ranks, mapping, &[])
    }

    pub(super) fn query_with(
        &self,
        out: &str,
        ranks: usize,
        mapping: &str,
        more: &[String],
    ) -> RunResult<f64> {
        let arguments = [&self.arguments("images/queries", out, mapping)[..], more].concat();
        let start = Instant::now();
        Launch { limit: LIMIT, ..Launch::ranks(ranks) }.run_other(&self.ferret, &arguments)?;
        let took = start.elapsed().as_secs_f64();
        self.check(out)?;
        Ok(took)
    }

    pub(super) fn halves(&self) -> RunResult<f64> {
        let start = Instant::now();
        let half = |number: usize| {
            let arguments =
                self.arguments(&format!("half-{number}"), &format!("half-{number}.tsv"), "serial");
            Launch { limit: LIMIT, ..Launch::ranks(1) }.run_other(&self.ferret, &arguments).map(drop)
        };
        thread::scope(|scope| {
            let other = scope.spawn(|| half(1));
            half(0).and(other.join().map_err(|_| "the thread of the other half failed")?)
        })?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Checks that the output is not empty, and is identical to that of an earlier run on one rank, if there was one.
    pub(super) fn check(&self, out: &str) -> RunResult {
        let written = fs::read(self.path(out))?;
        if written.is_empty() {
            return Err(format!("{} is empty: the queries have no answers", self.path(out)).into());
        }
        match fs::read(self.path(SERIAL)) {
            Ok(expected) if expected != written => {
                Err(format!("{} differs from {SERIAL}", self.path(out)).into())
            }
            _ => Ok(()),
        }
    }
}
