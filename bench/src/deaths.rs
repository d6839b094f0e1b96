//! Experiments that kill ranks: folder in which ranks register their processes, and schedule of kills.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rustix::process::{Pid, Signal, kill_process};

use crate::{RunResult, ranks::Launch};

/// Folder of a run in which ranks are killed. Every rank writes its process id to `pid-RANK`, and rank 0 writes the file `started` when the work
/// begins.
#[derive(Clone, Debug)]
pub struct RunFolder {
    folder: PathBuf,
}

impl RunFolder {
    /// Returns the existing folder of a run. Ranks call this function.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        RunFolder { folder: folder.into() }
    }

    /// Creates an empty folder for a run.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn create(folder: &Path) -> RunResult<Self> {
        let run_folder = RunFolder::at(folder);
        run_folder.clear()?;
        Ok(run_folder)
    }

    /// Returns the path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Removes all contents of the folder.
    ///
    /// # Errors
    /// If the folder cannot be recreated.
    pub fn clear(&self) -> RunResult {
        let folder = &self.folder;
        let _ = fs::remove_dir_all(folder);
        Ok(fs::create_dir_all(folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?)
    }

    /// Removes the files in the folder, except those with the names in `except`.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove_files_except(&self, except: &[&str]) -> RunResult {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if !except.iter().any(|name| entry.file_name() == *name) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Registers this process as the process of rank `rank`, so that it can be killed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn register_process(&self, rank: usize) -> RunResult {
        // Renaming a complete file prevents that readers find an incomplete number.
        let new = self.path(&format!("new-{rank}"));
        fs::write(&new, std::process::id().to_string())?;
        Ok(fs::rename(&new, self.path(&format!("pid-{rank}")))?)
    }

    /// Returns the process id of a rank, if the rank has registered.
    pub fn process(&self, rank: usize) -> Option<i32> {
        fs::read_to_string(self.path(&format!("pid-{rank}"))).ok()?.trim().parse().ok()
    }

    /// Writes the file by which rank 0 shows that the ranks begin their work.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn record_start(&self) -> RunResult {
        Ok(fs::write(self.path("started"), "")?)
    }

    /// Returns true if rank 0 has recorded the start of the work.
    pub fn has_started(&self) -> bool {
        self.path("started").is_file()
    }
}

/// Rank to be killed, with the time of the kill.
#[derive(Clone, Copy, Debug)]
pub struct Victim {
    /// Rank to be killed.
    pub rank: usize,
    /// Seconds from the start of the work to the kill.
    pub after: f64,
}

/// Draws `count` different ranks out of `ranks`, without rank 0, each with a time of its kill before `until` seconds; the result is sorted by time.
pub fn draw(random: &mut StdRng, ranks: usize, count: usize, until: f64) -> Vec<Victim> {
    let mut others: Vec<usize> = (1..ranks).collect();
    others.shuffle(random);
    let victim = |rank| Victim { rank, after: until * random.random::<f64>() };
    let mut victims: Vec<Victim> = others.into_iter().take(count).map(victim).collect();
    victims.sort_by(|a, b| a.after.total_cmp(&b.after));
    victims
}

/// Returns all ranks as victims, which are killed at the same time.
pub fn all_ranks(ranks: usize, after: f64) -> Vec<Victim> {
    (0..ranks).map(|rank| Victim { rank, after }).collect()
}

/// Runs a rank program and kills the `victims` in their order. `before_kill` is called before each kill. If only some of the ranks are victims, the
/// others continue, and a victim is killed only after `has_joined` is true for it (it takes part in the work). Returns the output of the job, or its
/// error, and the number of ranks killed before the job ended.
///
/// # Errors
/// If the killing thread fails. A failure of the ranks is part of the returned value, not an error of this function.
pub fn run(
    launch: &Launch,
    program: (&str, &[String]),
    run_folder: &RunFolder,
    victims: &[Victim],
    has_joined: impl Fn(usize) -> bool + Send,
    before_kill: &mut (dyn FnMut() + Send),
) -> RunResult<(RunResult<String>, usize)> {
    let recovery = victims.len() < launch.ranks;
    let launch = Launch { recovery, ..launch.clone() };
    let (ended, has_ended) = channel::<()>();
    thread::scope(|scope| {
        let killer = scope.spawn(move || {
            let is_running_after =
                |time| matches!(has_ended.recv_timeout(time), Err(RecvTimeoutError::Timeout));
            while !run_folder.has_started() {
                if !is_running_after(Duration::from_millis(1)) {
                    return 0;
                }
            }
            let start = Instant::now();
            let mut kill = |victim: &&Victim| {
                // The death of a rank that has not joined loses no work, so the rank is killed only after it has joined.
                let has_victim_joined = || {
                    while recovery && !has_joined(victim.rank) {
                        if !is_running_after(Duration::from_millis(1)) {
                            return false;
                        }
                    }
                    true
                };
                if !is_running_after(Duration::from_secs_f64(victim.after).saturating_sub(start.elapsed()))
                    || !has_victim_joined()
                {
                    return false;
                }
                before_kill();
                let process = run_folder.process(victim.rank).and_then(Pid::from_raw);
                process.is_some_and(|process| kill_process(process, Signal::KILL).is_ok())
            };
            victims.iter().take_while(&mut kill).count()
        });
        let output = launch.output(program.0, program.1);
        drop(ended);
        let killed = killer.join().map_err(|_| "the thread that kills failed")?;
        Ok((output, killed))
    })
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn victims_are_different_workers_in_the_order_of_their_moments() {
        let mut random = StdRng::seed_from_u64(1);
        for _ in 0..50 {
            let victims = draw(&mut random, 4, 2, 3.0);
            assert!(victims[0].rank != victims[1].rank && victims.iter().all(|victim| victim.rank > 0));
            assert!(victims[0].after <= victims[1].after && victims[1].after < 3.0);
        }
    }

    #[test]
    fn ranks_publish_their_process_ids() {
        let folder = tempfile::tempdir().unwrap();
        let run_folder = RunFolder::create(&folder.path().join("run")).unwrap();
        assert!(run_folder.process(2).is_none() && !run_folder.has_started());
        run_folder.register_process(2).unwrap();
        run_folder.record_start().unwrap();
        assert_eq!(run_folder.process(2), i32::try_from(std::process::id()).ok());
        assert!(run_folder.has_started());
        run_folder.remove_files_except(&["pid-2"]).unwrap();
        assert!(run_folder.process(2).is_some() && !run_folder.has_started());
    }
}
