//! Tests of the job scripts that `armature submit` writes: the requested resources and the started command.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

type Variables = &'static [(&'static str, &'static str)];

const SYSTEMS: [(&str, &str, Variables); 3] = [
    ("slurm", "#SBATCH ", &[("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n[1-4]")]),
    ("pbs", "#PBS ", &[("PBS_JOBID", "7"), ("PBS_NODEFILE", "/dev/null")]),
    ("sge", "#$ ", &[("JOB_ID", "7"), ("NSLOTS", "8")]),
];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn template(system: &str) -> PathBuf {
    here(&format!("templates/{system}.sh"))
}

#[test]
fn batch_directives_match_the_golden_files() {
    for (system, start, _) in SYSTEMS {
        let script = fs::read_to_string(template(system)).unwrap();
        let directives: Vec<&str> = script.lines().filter(|line| line.starts_with(start)).collect();
        let golden = fs::read_to_string(here(&format!("tests/golden/{system}.directives"))).unwrap();
        assert_eq!(directives, golden.lines().collect::<Vec<_>>(), "{system}");
        // A batch system reads directives only before the first command of a script.
        let command = script.lines().position(|line| !line.is_empty() && !line.starts_with('#')).unwrap();
        let last = script
            .lines()
            .enumerate()
            .filter(|(_, line)| line.starts_with(start))
            .map(|(i, _)| i)
            .last()
            .unwrap();
        assert!(last < command, "{system}: a directive comes after line {}", command + 1);
    }
}

#[test]
fn templates_are_valid_bash() {
    for (system, ..) in SYSTEMS {
        let output = Command::new("bash").arg("-n").arg(template(system)).output().unwrap();
        assert!(output.status.success(), "{system}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn templates_run_ferret_in_the_shared_directory_and_keep_its_exit_code() {
    for (system, _, variables) in SYSTEMS {
        let shared = tempfile::tempdir().unwrap();
        fs::create_dir(shared.path().join("bin")).unwrap();
        let armature = shared.path().join("bin/armature");
        fs::write(&armature, "#!/bin/sh\npwd >where\necho \"$@\" >what\nexit 9\n").unwrap();
        fs::set_permissions(&armature, fs::Permissions::from_mode(0o755)).unwrap();
        let output = Command::new("bash")
            .arg(template(system))
            .env("SHARED", shared.path())
            .env("MAPPING", "serial")
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(9), "{system}: {}", String::from_utf8_lossy(&output.stderr));
        let read = |name: &str| fs::read_to_string(shared.path().join(name)).unwrap();
        assert_eq!(Path::new(read("where").trim()), shared.path().canonicalize().unwrap());
        let out = shared.path().join("out.tsv");
        let golden = format!(
            "run --verbose bin/ferret query queries --db pictures.db -k 10 -o {} --mapping serial\n",
            out.display()
        );
        assert_eq!(read("what"), golden, "{system}");
    }
}
