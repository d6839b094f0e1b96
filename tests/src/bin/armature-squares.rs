//! Squares numbers and records the results in a journal, like a program that must survive its own crash:
//!
//! ```text
//! mpirun -n 3 armature-squares DIR TASKS MILLISECONDS [WHAT]
//! ```
//!
//! Each square takes `MILLISECONDS`. `DIR/log` receives a line `known N` for each square that the journal contained
//! at a start, and a line `computed N` for each square that was computed. `WHAT` adds a fault: `fail` makes the
//! last task return an error, and `linger` keeps the last rank alive for 600 s after the end of the run.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use armature::journal::{Identity, Journal};
use armature::pipeline::Pipeline;
use armature::{BoxError, Config, Session};

fn main() -> ExitCode {
    armature::exit_code(squares())
}

fn squares() -> Result<(), BoxError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, tasks, milliseconds, rest @ ..] = &args[..] else {
        return Err("expected DIR TASKS MILLISECONDS [WHAT]".into());
    };
    let what = rest.first().map_or("", String::as_str);
    let job = Squares {
        dir: dir.into(),
        tasks: tasks.parse()?,
        time: Duration::from_millis(milliseconds.parse()?),
    };
    let last = armature::run(&Config::from_env()?, |session| {
        job.run(session, what)?;
        Ok(session.rank() == session.size() - 1)
    })?;
    if last && what == "linger" {
        std::thread::sleep(Duration::from_secs(600));
    }
    Ok(())
}

struct Squares {
    dir: PathBuf,
    tasks: u64,
    time: Duration,
}

impl Squares {
    fn run(&self, session: &mut Session, what: &str) -> Result<(), BoxError> {
        let (mut known, mut journal) = (BTreeMap::new(), None);
        if session.is_root() {
            let job = Identity::new("squares", "1", self.tasks.to_le_bytes());
            let (opened, _) = Journal::open(self.dir.join("journal"), &job, |task, square| {
                known.insert(task, square.to_vec());
                Ok(())
            })?;
            journal = Some(opened);
            known.keys().try_for_each(|task| append_to_log(&self.dir, "known", *task))?;
        }
        let missing: Vec<u64> = (0..self.tasks).filter(|task| !known.contains_key(task)).collect();
        let (clock, everyone) = (session.stopwatch(), 0..session.size());
        let hosts: Vec<String> = everyone.map(|rank| rank.to_string()).collect();
        let mapping = armature::pipeline::MappingChoice::Text(format!("square@{}", hosts.join(",")));
        Pipeline::source("missing", move || missing)
            .try_map("square", |task| {
                if what == "fail" && task == self.tasks - 1 {
                    return Err(BoxError::from("no square for the last one"));
                }
                std::thread::sleep(self.time);
                append_to_log(&self.dir, "computed", task)?;
                Ok((task, task * task))
            })
            .mapping(mapping)
            .try_for_each(session, "keep", |(task, square): (u64, u64)| {
                let Some(journal) = &mut journal else { return Err("the sink is not on rank 0".into()) };
                journal.append(clock.elapsed(), task, &square.to_le_bytes())?;
                journal.tick(clock.elapsed())?;
                known.insert(task, square.to_le_bytes().to_vec());
                println!("kept {}", known.len());
                Ok(())
            })?;
        if let Some(journal) = journal {
            journal.close()?;
            for (n, (task, square)) in (0..self.tasks).zip(&known) {
                assert_eq!((n, &(n * n).to_le_bytes()[..]), (*task, &square[..]));
            }
            assert_eq!(known.len() as u64, self.tasks);
            println!("all {} squares are right", self.tasks);
        }
        Ok(())
    }
}

/// Appends a line by one write, because several ranks append to the file at the same time.
fn append_to_log(dir: &Path, what: &str, task: u64) -> Result<(), BoxError> {
    let mut log: File = OpenOptions::new().create(true).append(true).open(dir.join("log"))?;
    log.write_all(format!("{what} {task}\n").as_bytes())?;
    Ok(())
}
