//! Writes a job script. Directives contain only words that need no quotes; everything else is quoted for the shell.

use std::fmt::Write;

use super::request::Request;
use super::{System, pbs, sge, slurm};
use crate::command_line::quoted;

pub(super) type Directive = (Option<String>, String);

pub(super) fn text(request: &Request, system: System) -> String {
    let (prefix, directives, element) = match system {
        System::Slurm | System::Auto => ("#SBATCH", slurm::directives(request), "SLURM_ARRAY_TASK_ID-1"),
        System::Pbs => ("#PBS", pbs::directives(request), "PBS_ARRAY_INDEX"),
        System::Sge => ("#$", sge::directives(request), "SGE_TASK_ID"),
    };
    let run = &request.run;
    let mut text = String::from("#!/bin/bash\n");
    let _ = writeln!(text, "# Job script of the run {run}, written by armature submit.");
    if matches!(system, System::Pbs | System::Sge) {
        text.push_str("# It has not been tried on the batch system itself. To submit it: qsub FILE\n");
    } else {
        let _ =
            writeln!(text, "# To submit it again, in the same directory: sbatch armature-runs/{run}/job.sh");
    }
    for (comment, directive) in directives {
        if let Some(comment) = comment {
            let _ = writeln!(text, "# {comment}");
        }
        let _ = writeln!(text, "{prefix} {directive}");
    }
    text.push('\n');
    if system == System::Pbs {
        text.push_str("cd \"$PBS_O_WORKDIR\" || exit 1\n");
    }
    for module in &request.modules {
        let _ = writeln!(text, "module load {} || exit 1", quoted(module));
    }
    for (name, value) in &request.environment {
        let _ = writeln!(text, "export {name}={}", quoted(value));
    }
    let _ = writeln!(text, "{}", command(request, system, element));
    text
}

fn command(request: &Request, system: System, element: &str) -> String {
    let mut words =
        vec!["exec".to_string(), quoted(&request.armature).into_owned(), "run".into(), "--run".into()];
    words.push(match &request.array {
        // Names of runs have no characters that need quotes in a shell.
        Some(_) => format!("\"{}.${element}\"", request.run),
        None => request.run.clone(),
    });
    let mut option = |name: &str, value: u32| words.extend((value > 0).then(|| format!("{name} {value}")));
    option("-n", request.ranks.unwrap_or(0));
    option("--requeue", if system == System::Slurm { request.requeue } else { 0 });
    option("--restarts", request.restarts);
    if let Some(mpi) = &request.mpi {
        words.push(format!("--mpi {mpi}"));
    }
    if request.recover {
        words.push("--recover".into());
    }
    if request.label {
        words.push("--label".into());
    }
    words.push("--".into());
    words.extend(request.command.iter().map(|word| quoted(word).into_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    fn request(words: Vec<String>, value: String) -> Request {
        Request {
            run: "day-1".into(),
            nodes: Some(4),
            ranks: Some(8),
            ranks_per_node: Some(2),
            cores_per_rank: 3,
            memory: Some(400),
            time: Some(7200),
            partition: Some("long".into()),
            account: Some("p12".into()),
            after: Some("48211".into()),
            requeue: 3,
            warn: Some(120),
            mpi: Some("openmpi".into()),
            recover: true,
            restarts: 1,
            label: true,
            modules: vec!["openmpi/4.1".into()],
            environment: vec![("A".into(), value)],
            options: vec!["--qos=long".into()],
            armature: "/opt/my tools/armature".into(),
            command: words,
            array: None,
            elements: Vec::new(),
        }
    }

    #[test]
    fn scripts_match_the_golden_files() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        for (system, name) in [(System::Slurm, "slurm"), (System::Pbs, "pbs"), (System::Sge, "sge")] {
            let request = request(["sor", "it's", "$(id)"].map(String::from).to_vec(), "two\nlines".into());
            let file = directory.join(format!("submit-{name}.sh"));
            let text = text(&request, system);
            assert_eq!(text, std::fs::read_to_string(&file).unwrap(), "{name}");
        }
    }

    /// Runs a job script in bash with `exec`, `cd` and `module` replaced by functions. Returns the value of the variable `A` and the arguments of
    /// `exec`.
    fn run(script: &str) -> Vec<String> {
        let functions = "module() { :; }\nexec() { printf '%s\\0' \"$A\" \"$@\"; }\ncd() { :; }\n";
        let mut shell = Command::new("bash").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        shell.stdin.take().unwrap().write_all((functions.to_string() + script).as_bytes()).unwrap();
        let output = shell.wait_with_output().unwrap();
        assert!(output.status.success(), "{script}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_terminator('\0').map(String::from).collect()
    }

    fn is_valid(script: &str) -> bool {
        let mut shell = Command::new("sh").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
        shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        shell.wait().unwrap().success()
    }

    /// Generates texts of users with characters that are special in a shell.
    fn hostile() -> impl Strategy<Value = String> {
        proptest::string::string_regex("[a-z '\"\\\\$()`;&|<>#!*?~\n\t=%{}\\[\\]é-]{0,12}").unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn arguments_are_quoted_and_never_executed(
            words in proptest::collection::vec(hostile(), 1..4),
            value in hostile(),
            system in 0usize..3,
        ) {
            let system = [System::Slurm, System::Pbs, System::Sge][system];
            let request = request(words.clone(), value.clone());
            let script = text(&request, system);
            prop_assert!(is_valid(&script), "{}", script);
            let seen = run(&script);
            prop_assert_eq!(&seen[0], &value);
            prop_assert_eq!(&seen[1], "/opt/my tools/armature");
            prop_assert_eq!(&seen[seen.len() - words.len()..], &words[..]);
            // Texts of the user must not get into the directives. The directives are therefore the same for any command and any variables.
            let directives: Vec<&str> = script.lines().take_while(|line| line.starts_with('#')).collect();
            let plain = text(&self::request(vec!["x".into()], "x".into()), system);
            let plain: Vec<&str> = plain.lines().take_while(|line| line.starts_with('#')).collect();
            prop_assert_eq!(directives, plain);
        }
    }
}
