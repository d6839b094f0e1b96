//! Runs the program `armature-cases` (or another one) under the launcher of the MPI library that the program is
//! linked to.
//!
//! Every job has a time limit, after which all its processes are killed. The output of a job is checked: a test
//! that requests three ranks of MPICH fails if the job ran on another library or another number of ranks.

mod outcome;
mod processes;
mod restarts;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use armature_launch::{Mpi, detect};
use rustix::process::{Pid, Signal, kill_process};

pub use outcome::JobResult;
use processes::{JOB_VARIABLE, kill_all, processes};
pub use restarts::{completed_passes, kill_and_restart};

/// Default time limit of a job, after which its processes are killed.
pub const LIMIT: Duration = Duration::from_secs(150);

/// Returns the MPI library that `program` is linked to.
///
/// # Panics
/// If `program` is not linked to a known MPI library, or if `ARMATURE_TEST_MPI` (`openmpi`, `mpich`) names another
/// library: the tests would otherwise run on the wrong library.
#[track_caller]
pub fn linked(program: &Path) -> Mpi {
    let found = detect::linked_mpi(program)
        .unwrap_or_else(|| panic!("{} is not linked to an MPI library that is known", program.display()));
    let name = match found {
        Mpi::OpenMpi => "openmpi",
        Mpi::Mpich => "mpich",
    };
    if let Some(wanted) = std::env::var("ARMATURE_TEST_MPI").ok().filter(|w| !w.is_empty()) {
        assert_eq!(wanted, name, "ARMATURE_TEST_MPI is not what {} is linked to", program.display());
    }
    found
}

/// Settings of a job that a test starts: program, ranks, launcher and environment.
#[derive(Clone, Debug)]
pub struct Job {
    program: PathBuf,
    mpi: Mpi,
    launcher: Mpi,
    ranks: usize,
    args: Vec<OsString>,
    env: Vec<(String, String)>,
    limit: Duration,
    through: Option<Vec<OsString>>,
    shell: Option<String>,
    flags: Vec<&'static str>,
}

/// Job that a test has started. Its processes are killed when it is dropped.
#[derive(Debug)]
pub struct Running {
    job: Job,
    job_id: String,
    child: std::process::Child,
    start: Instant,
    out: PathBuf,
    err: PathBuf,
    // Directory of the output files, which is removed with this value.
    _dir: tempfile::TempDir,
}

impl Job {
    /// Returns a job of `ranks` ranks of `program`.
    #[track_caller]
    pub fn new(program: impl Into<PathBuf>, ranks: usize) -> Self {
        let program = program.into();
        let mpi = linked(&program);
        let env = vec![
            ("OMPI_ALLOW_RUN_AS_ROOT".to_string(), "1".to_string()),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM".to_string(), "1".to_string()),
            ("ARMATURE_PEER_SECONDS".to_string(), "60".to_string()),
        ];
        Job {
            program,
            mpi,
            launcher: mpi,
            ranks,
            args: Vec::new(),
            env,
            limit: LIMIT,
            through: None,
            shell: None,
            flags: Vec::new(),
        }
    }

    /// Adds an argument of the program.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets an environment variable of all ranks.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_string(), value.to_string()));
        self
    }

    /// Adds an argument of the launcher.
    pub fn flag(mut self, flag: &'static str) -> Self {
        self.flags.push(flag);
        self
    }

    /// Sets the time limit, after which all processes of the job are killed.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Uses the launcher of another MPI library than the program's own.
    pub fn launcher(mut self, launcher: Mpi) -> Self {
        self.launcher = launcher;
        self
    }

    /// Starts the job with `command`, which takes `-n RANKS PROGRAM …` like a launcher.
    pub fn through<W: Into<OsString>>(mut self, command: impl IntoIterator<Item = W>) -> Self {
        self.through = Some(command.into_iter().map(Into::into).collect());
        self
    }

    /// Makes every rank run this bash script. In the script, `"$@"` is the program with its arguments, and `$RANK`
    /// is the rank number.
    pub fn in_shell(mut self, script: impl Into<String>) -> Self {
        self.shell = Some(script.into());
        self
    }

    /// Returns the MPI library that the program is linked to.
    pub fn mpi(&self) -> Mpi {
        self.mpi
    }

    /// Returns the beginning of the version text of the program's MPI library.
    pub fn library(&self) -> &'static str {
        match self.mpi {
            Mpi::OpenMpi => "Open MPI v",
            Mpi::Mpich => "MPICH Version",
        }
    }

    /// Command line of the launcher up to the number of ranks: `ARMATURE_TEST_MPIRUN` for the program's own MPI library, if that variable is set;
    /// otherwise Debian's name for the launcher, or its general name.
    #[track_caller]
    fn line(&self) -> Vec<String> {
        let configured = std::env::var("ARMATURE_TEST_MPIRUN").ok().filter(|l| !l.trim().is_empty());
        if let Some(line) = configured.filter(|_| self.launcher == self.mpi) {
            return line.split_whitespace().map(String::from).collect();
        }
        let (names, args): (&[&str], &[&str]) = match self.launcher {
            Mpi::OpenMpi => (&["mpirun.openmpi", "mpirun"], &["--oversubscribe", "--bind-to", "none"]),
            Mpi::Mpich => (&["mpirun.mpich", "mpiexec.hydra", "mpirun"], &[]),
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = |name: &&&str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
        let name = names.iter().find(found).unwrap_or_else(|| panic!("none of {names:?} is on the PATH"));
        [&[*name], args].concat().into_iter().map(String::from).collect()
    }

    /// Starts the job.
    #[track_caller]
    pub fn start(self) -> Running {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let job_id = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let dir = tempfile::tempdir().expect("a directory for the job's output");
        let (out, err) = (dir.path().join("out"), dir.path().join("err"));
        // Output goes to files, because a process that the job leaves behind would keep a pipe open.
        let file = |path: &Path| std::fs::File::create(path).expect("a file for the job's output");
        let line = match &self.through {
            // Jobs with restarts keep no run directories, which would be in the source tree.
            Some(command) if command.get(1).is_some_and(|verb| verb == "run") => {
                [&command[..2], &["--no-run-directory".into()], &command[2..]].concat()
            }
            Some(command) => command.clone(),
            None => self.line().into_iter().map(OsString::from).collect(),
        };
        let child = Command::new(&line[0])
            .args(&line[1..])
            .args(&self.flags)
            .args(["-n", &self.ranks.to_string()])
            .args(self.shell.as_deref().map(rank_shell).into_iter().flatten())
            .arg(&self.program)
            .args(&self.args)
            .envs(self.env.iter().map(|(n, v)| (n, v)))
            .env(JOB_VARIABLE, &job_id)
            .stdin(Stdio::null())
            .stdout(file(&out))
            .stderr(file(&err))
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {line:?}: {e}"));
        Running { job: self, job_id, child, start: Instant::now(), out, err, _dir: dir }
    }

    /// Runs the job to its end.
    #[track_caller]
    pub fn run(self) -> JobResult {
        self.start().wait()
    }

    /// Runs a program other than `armature-cases` to its end. It must succeed with the requested MPI library and number of ranks (at least two),
    /// which rank 0 logs at the start.
    #[track_caller]
    pub fn succeeds(self) -> JobResult {
        let line = format!("{} ranks, mpi: {}", self.ranks, self.library());
        let outcome = self.env("RUST_LOG", "armature=info").run();
        assert!(outcome.status.success() && !outcome.hung, "{outcome}");
        assert!(outcome.left_behind.is_empty(), "{outcome}");
        assert!(outcome.stderr.contains(&line), "`{line}` is not logged\n{outcome}");
        outcome
    }

    /// Runs the job to its end. It must succeed with MPI as transport and the requested library and number of ranks, and every rank must print a line
    /// for each of `cases`.
    #[track_caller]
    pub fn passes(self, cases: &[&str]) -> JobResult {
        let (ranks, library) = (self.ranks, self.library());
        let outcome = self.run();
        assert!(outcome.status.success() && !outcome.hung, "{outcome}");
        assert!(outcome.left_behind.is_empty(), "{outcome}");
        for rank in 0..ranks {
            for start in std::iter::once(String::new()).chain(cases.iter().map(|c| format!("case {c} "))) {
                let line = format!("{start}rank {rank} of {ranks} on mpi: {library}");
                let found = outcome.stdout.lines().any(|l| l.starts_with(&line));
                assert!(found, "no line begins with `{line}`\n{outcome}");
            }
        }
        outcome
    }
}

fn rank_shell(script: &str) -> [String; 4] {
    let script = format!("RANK=${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}; {script}");
    ["bash".into(), "-c".into(), script, "bash".into()]
}

impl Running {
    /// Returns the standard output of the job so far.
    pub fn printed(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap_or_default()
    }

    /// Waits until the job has printed `text`.
    ///
    /// # Panics
    /// If `text` has not been printed after 60 s.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        let start = Instant::now();
        while !self.printed().contains(text) {
            let err = std::fs::read_to_string(&self.err).unwrap_or_default();
            let waited = start.elapsed();
            assert!(waited < Duration::from_secs(60), "`{text}` was not printed\n{}\n{err}", self.printed());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the standard error of the job so far.
    pub fn stderr_text(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap_or_default()
    }

    /// Returns the process that started the job, which is usually a launcher.
    pub fn launcher(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Returns the process of rank `rank`.
    #[track_caller]
    pub fn process(&self, rank: usize) -> Pid {
        let names = ["OMPI_COMM_WORLD_RANK", "PMI_RANK"];
        let is = |environ: &[u8]| {
            let line = |name: &str| format!("{name}={rank}").into_bytes();
            environ.split(|b| *b == 0).any(|entry| names.iter().any(|name| entry == line(name)))
        };
        processes(&self.job_id)
            .into_iter()
            .find(|p| is(&p.environ))
            .and_then(|p| Pid::from_raw(p.id))
            .unwrap_or_else(|| panic!("no process of the job is rank {rank}"))
    }

    /// Kills the process of rank `rank`.
    #[track_caller]
    pub fn kill_rank(&self, rank: usize) {
        kill_process(self.process(rank), Signal::KILL).expect("the rank is there");
    }

    /// Suspends all processes of the job, including the launcher, for `time`.
    #[track_caller]
    pub fn suspend(&self, time: Duration) {
        for signal in [Signal::STOP, Signal::CONT] {
            for process in processes(&self.job_id).iter().filter_map(|p| Pid::from_raw(p.id)) {
                let _ = kill_process(process, signal);
            }
            if signal == Signal::STOP {
                std::thread::sleep(time);
            }
        }
    }

    /// Kills all processes of the job, including the launcher.
    pub fn kill(self) {
        drop(self);
    }

    /// Waits for the end of the job. At the time limit, all processes of the job are killed.
    pub fn wait(mut self) -> JobResult {
        let mut hung = false;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("the launcher can be waited for") {
                break status;
            }
            if self.start.elapsed() > self.job.limit && !hung {
                hung = true;
                kill_all(&self.job_id);
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let took = self.start.elapsed();
        let grace_start = Instant::now();
        while !processes(&self.job_id).is_empty() && grace_start.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let left_behind =
            processes(&self.job_id).into_iter().map(|p| format!("{} {}", p.id, p.command)).collect();
        kill_all(&self.job_id);
        let read =
            |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
        JobResult { status, stdout: read(&self.out), stderr: read(&self.err), took, left_behind, hung }
    }
}

impl Drop for Running {
    /// Kills the processes of the job, so that none stays behind if a test panics.
    fn drop(&mut self) {
        kill_all(&self.job_id);
        let _ = self.child.wait();
    }
}
