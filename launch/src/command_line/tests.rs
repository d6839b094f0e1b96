//! Tests of the command that is chosen for an environment (such as a Slurm job) and a job.

use super::*;
use crate::error::Variable;

fn here() -> Environment {
    Environment {
        cores: 4,
        openmpi: Some("mpirun.openmpi".into()),
        mpich: Some("mpirun.mpich".into()),
        srun: Some("srun".into()),
        ..Environment::default()
    }
}

fn in_slurm(tasks: usize) -> Environment {
    Environment { batch: Some(Batch::Slurm { tasks: Ok(tasks), cores_per_task: None }), ..here() }
}

fn ferret() -> Job {
    Job::new("./ferret", ["query", "my pictures"])
}

fn hosts() -> Hostfile {
    Hostfile::parse("hosts", "node01 slots=4 speed=2\nnode02 slots=2 memory=8GiB\n").unwrap()
}

#[track_caller]
fn check(job: &Job, mpi: Mpi, environment: &Environment, golden: &str) -> CommandLine {
    let line = command_line(job, mpi, environment).unwrap();
    let shown = line.display("HOSTS").replace(r#"/bin/sh -c 'exec "$0" "$@" </dev/null'"#, "SH");
    assert_eq!(shown, golden);
    line
}

#[test]
fn rank_count_defaults_to_the_number_of_cores() {
    check(&ferret(), Mpi::OpenMpi, &here(), "mpirun.openmpi -n 4 ./ferret query 'my pictures'");
    check(&ferret(), Mpi::Mpich, &here(), "mpirun.mpich -n 4 SH ./ferret query 'my pictures'");
}

#[test]
fn more_ranks_than_cores_are_not_bound() {
    let job = Job { ranks: Some(6), ..ferret() };
    let golden = "mpirun.openmpi -n 6 --oversubscribe --bind-to none ./ferret query 'my pictures'";
    check(&job, Mpi::OpenMpi, &here(), golden);
    check(&job, Mpi::Mpich, &here(), "mpirun.mpich -n 6 -bind-to none SH ./ferret query 'my pictures'");
}

#[test]
fn bind_option_is_passed_to_each_launcher() {
    let job = Job { ranks: Some(2), bind: Bind::Core, ..Job::new("app", [""; 0]) };
    check(&job, Mpi::OpenMpi, &here(), "mpirun.openmpi -n 2 --bind-to core app");
    check(&job, Mpi::Mpich, &here(), "mpirun.mpich -n 2 -bind-to core SH app");
    let golden = "SLURM_PMIX_FENCE=ring srun --mpi=pmix --kill-on-bad-exit=1 -n 2 --cpu-bind=cores app";
    check(&job, Mpi::OpenMpi, &in_slurm(8), golden);
}

#[test]
fn lines_are_labelled_by_each_launcher() {
    let job = Job { ranks: Some(2), label: true, ..Job::new("app", [""; 0]) };
    check(&job, Mpi::OpenMpi, &here(), "mpirun.openmpi -n 2 --tag-output app");
    check(&job, Mpi::Mpich, &here(), "mpirun.mpich -n 2 -prepend-rank SH app");
    let golden = "srun --mpi=pmi2 --kill-on-bad-exit=1 -n 2 --label app";
    assert!(check(&job, Mpi::Mpich, &in_slurm(8), golden).is_labelled);
}

#[test]
fn open_mpi_gets_allow_run_as_root_only_for_root() {
    let environment = Environment { root: true, ..here() };
    let job = Job { ranks: Some(2), ..Job::new("app", [""; 0]) };
    check(&job, Mpi::OpenMpi, &environment, "mpirun.openmpi --allow-run-as-root -n 2 app");
    check(&job, Mpi::Mpich, &environment, "mpirun.mpich -n 2 SH app");
}

#[test]
fn hostfile_is_written_in_the_format_of_the_launcher() {
    let job = Job { hosts: Some(hosts()), ..Job::new("app", [""; 0]) };
    let line = check(&job, Mpi::OpenMpi, &here(), "mpirun.openmpi -n 6 --hostfile HOSTS app");
    assert_eq!(line.hostfile.as_deref(), Some("node01 slots=4\nnode02 slots=2\n"));
    let line = check(&job, Mpi::Mpich, &here(), "mpirun.mpich -n 6 -f HOSTS SH app");
    assert_eq!(line.hostfile.as_deref(), Some("node01:4\nnode02:2\n"));
}

#[test]
fn open_mpi_gets_the_names_of_exported_variables() {
    let environment = Environment { variables: vec!["ARMATURE_BIND".into(), "RUST_LOG".into()], ..here() };
    let job = Job { hosts: Some(hosts()), ranks: Some(7), ..Job::new("app", [""; 0]) };
    let golden = "mpirun.openmpi -n 7 --hostfile HOSTS --oversubscribe --bind-to none -x ARMATURE_BIND -x RUST_LOG app";
    check(&job, Mpi::OpenMpi, &environment, golden);
}

#[test]
fn slurm_jobs_use_srun_with_the_pmi_version_of_the_mpi() {
    let job = Job::new("app", [""; 0]);
    let line = check(
        &job,
        Mpi::OpenMpi,
        &in_slurm(8),
        "SLURM_PMIX_FENCE=ring srun --mpi=pmix --kill-on-bad-exit=1 -n 8 app",
    );
    assert_eq!(line.hostfile, None);
    check(&job, Mpi::Mpich, &in_slurm(8), "srun --mpi=pmi2 --kill-on-bad-exit=1 -n 8 app");
    let more = Job { ranks: Some(9), ..job.clone() };
    let golden =
        "SLURM_PMIX_FENCE=ring srun --mpi=pmix --kill-on-bad-exit=1 -n 9 --overcommit --cpu-bind=none app";
    check(&more, Mpi::OpenMpi, &in_slurm(8), golden);
    let chosen = Environment { fence: true, ..in_slurm(8) };
    check(&job, Mpi::OpenMpi, &chosen, "srun --mpi=pmix --kill-on-bad-exit=1 -n 8 app");
}

#[test]
fn launch_inside_a_slurm_job_step_is_refused() {
    let step = Environment { step: Some("0".into()), ..in_slurm(8) };
    for launcher in [Launcher::Auto, Launcher::Mpirun] {
        let job = Job { launcher, ..Job::new("app", [""; 0]) };
        let error = command_line(&job, Mpi::OpenMpi, &step).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let text = error.to_string();
        assert!(
            text.contains("SLURM_STEP_ID=0") && text.ends_with("from a shell of salloc, without srun"),
            "{text}"
        );
    }
    // A variable of a Slurm step is ignored if this process runs outside of a Slurm job.
    check(
        &Job::new("app", [""; 0]),
        Mpi::OpenMpi,
        &Environment { batch: None, ..step },
        "mpirun.openmpi -n 4 app",
    );
}

#[test]
fn mpirun_can_be_used_inside_slurm() {
    let job = Job { launcher: Launcher::Mpirun, ..Job::new("app", [""; 0]) };
    check(&job, Mpi::OpenMpi, &in_slurm(8), "mpirun.openmpi -n 8 app");
    let without = Environment { srun: None, ..in_slurm(8) };
    check(&Job::new("app", [""; 0]), Mpi::OpenMpi, &without, "mpirun.openmpi -n 8 app");
    let named = Job { hosts: Some(hosts()), ..Job::new("app", [""; 0]) };
    check(&named, Mpi::OpenMpi, &in_slurm(8), "mpirun.openmpi -n 6 --hostfile HOSTS app");
}

#[test]
fn pbs_node_file_becomes_the_hostfile() {
    let nodes = Hostfile::parse("nodes", "a\na\nb\nb\n").unwrap();
    let environment = Environment { batch: Some(Batch::Pbs(Ok(nodes))), ..here() };
    let line = check(
        &Job::new("app", [""; 0]),
        Mpi::OpenMpi,
        &environment,
        "mpirun.openmpi -n 4 --hostfile HOSTS app",
    );
    assert_eq!(line.hostfile.as_deref(), Some("a slots=2\nb slots=2\n"));
    let line =
        check(&Job::new("app", [""; 0]), Mpi::Mpich, &environment, "mpirun.mpich -n 4 -f HOSTS SH app");
    assert_eq!(line.hostfile.as_deref(), Some("a:2\nb:2\n"));
}

#[test]
fn grid_engine_job_passes_only_the_rank_count() {
    let environment = Environment { batch: Some(Batch::Sge { slots: Ok(12) }), ..here() };
    check(&Job::new("app", [""; 0]), Mpi::OpenMpi, &environment, "mpirun.openmpi -n 12 app");
    check(&Job::new("app", [""; 0]), Mpi::Mpich, &environment, "mpirun.mpich -n 12 SH app");
}

#[test]
fn missing_launcher_is_reported() {
    let none = Environment { openmpi: None, mpich: None, ..here() };
    let error = command_line(&Job::new("app", [""; 0]), Mpi::OpenMpi, &none).unwrap_err();
    assert!(matches!(error, LaunchError::NoLauncher(Some(Mpi::OpenMpi))));
    assert!(error.to_string().contains("openmpi-bin"), "{error}");
    let outside = Job { launcher: Launcher::Srun, ..Job::new("app", [""; 0]) };
    assert!(matches!(command_line(&outside, Mpi::OpenMpi, &here()), Err(LaunchError::NoSrun)));
}

#[test]
fn words_are_quoted_for_the_shell() {
    assert_eq!(quoted("a-b_c.d/e=f:g"), "a-b_c.d/e=f:g");
    assert_eq!(quoted("it's"), r"'it'\''s'");
    assert_eq!(quoted(""), "''");
}

#[test]
fn recovery_is_refused_with_mpich() {
    let job = Job { ranks: Some(2), recover: true, job_status: true, ..Job::new("app", [""; 0]) };
    let environment =
        Environment { variables: vec!["ARMATURE_EVENTS".into(), "ARMATURE_JOB_STATUS".into()], ..here() };
    let golden = "mpirun.openmpi -n 2 --enable-recovery -x ARMATURE_EVENTS -x ARMATURE_JOB_STATUS app";
    check(&job, Mpi::OpenMpi, &environment, golden);
    check(
        &job,
        Mpi::OpenMpi,
        &in_slurm(4),
        "SLURM_PMIX_FENCE=ring srun --mpi=pmix --kill-on-bad-exit=0 --no-kill -n 2 app",
    );
    let error = command_line(&job, Mpi::Mpich, &here()).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    let text = "--recover needs Open MPI: the launchers of MPICH end all ranks when one dies. Use --restarts N to restart the job";
    assert_eq!(error.to_string(), text);
}

#[test]
fn second_program_after_a_colon_is_refused_at_any_position() {
    for args in [&[":", "/bin/true"][..], &["-x", ":"], &["--", ":", "b"]] {
        let job = Job { ranks: Some(2), ..Job::new("sor", args.iter().copied()) };
        for (mpi, environment) in [(Mpi::OpenMpi, here()), (Mpi::Mpich, here()), (Mpi::OpenMpi, in_slurm(4))]
        {
            let error = command_line(&job, mpi, &environment).unwrap_err();
            assert!(matches!(error, LaunchError::Colon) && error.exit_code() == 2, "{error}");
        }
    }
    let within = Job { ranks: Some(2), ..Job::new("sor", ["a:b", "::", " : "]) };
    check(&within, Mpi::OpenMpi, &here(), "mpirun.openmpi -n 2 sor a:b :: ' : '");
}

#[test]
fn open_mpi_keeps_host_names_that_differ_only_after_a_dot() {
    let with =
        |text: &str| Job { hosts: Some(Hostfile::parse("hosts", text).unwrap()), ..Job::new("app", [""; 0]) };
    let workers = with("mpi-worker.1.foo.net slots=2\nmpi-worker.2.foo.net slots=2\n");
    let golden = "OMPI_MCA_orte_keep_fqdn_hostnames=1 PRTE_MCA_prte_keep_fqdn_hostnames=1 mpirun.openmpi -n 4 \
                  --hostfile HOSTS app";
    let line = check(&workers, Mpi::OpenMpi, &here(), golden);
    assert_eq!(
        line.hostfile.as_deref(),
        Some("mpi-worker.1.foo.net slots=2\nmpi-worker.2.foo.net slots=2\n")
    );
    check(&workers, Mpi::Mpich, &here(), "mpirun.mpich -n 4 -f HOSTS SH app");
    for text in ["a.foo.net\nb.foo.net\n", "10.0.0.1\n10.0.0.2\n", "a\nb\n", "a.foo.net\na.foo.net\n"] {
        check(&with(text), Mpi::OpenMpi, &here(), "mpirun.openmpi -n 2 --hostfile HOSTS app");
    }
    let nodes = Hostfile::parse("nodes", "w.1\nw.2\n").unwrap();
    let environment = Environment { batch: Some(Batch::Pbs(Ok(nodes))), ..here() };
    let golden = golden.replace("-n 4", "-n 2");
    check(&Job::new("app", [""; 0]), Mpi::OpenMpi, &environment, &golden);
}

#[test]
fn cores_per_task_of_slurm_are_passed_to_srun() {
    let environment = |tasks| {
        let batch = Batch::Slurm { tasks: Ok(tasks), cores_per_task: Some(4) };
        Environment { batch: Some(batch), fence: true, ..here() }
    };
    let job = Job { ranks: Some(2), ..Job::new("app", [""; 0]) };
    let golden = "srun --mpi=pmix --kill-on-bad-exit=1 -n 2 --cpus-per-task=4 app";
    check(&job, Mpi::OpenMpi, &environment(2), golden);
    check(&job, Mpi::Mpich, &environment(2), &golden.replace("pmix", "pmi2"));
    let more = Job { ranks: Some(3), ..job };
    let golden = "srun --mpi=pmix --kill-on-bad-exit=1 -n 3 --overcommit --cpu-bind=none app";
    check(&more, Mpi::OpenMpi, &environment(2), golden);
}

#[test]
fn unusable_batch_variables_fail_only_when_they_are_needed() {
    let wrong = |name| Variable { name, wrong: "`x`: expected something else".into() };
    let pbs = Environment { batch: Some(Batch::Pbs(Err(wrong("PBS_NODEFILE")))), ..here() };
    let sge = Environment { batch: Some(Batch::Sge { slots: Err(wrong("NSLOTS")) }), ..here() };
    let slurm = Batch::Slurm { tasks: Err(wrong("SLURM_NTASKS")), cores_per_task: None };
    let slurm = Environment { batch: Some(slurm), fence: true, ..here() };
    let some = Job { ranks: Some(3), ..Job::new("app", [""; 0]) };
    for (name, environment, start) in [
        ("PBS_NODEFILE", pbs, "mpirun.openmpi"),
        ("NSLOTS", sge, "mpirun.openmpi"),
        ("SLURM_NTASKS", slurm, "srun --mpi=pmix --kill-on-bad-exit=1"),
    ] {
        let error = command_line(&Job::new("app", [""; 0]), Mpi::OpenMpi, &environment).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().starts_with(&format!("{name} of the batch job: `x`: ")), "{error}");
        let line = check(&some, Mpi::OpenMpi, &environment, &format!("{start} -n 3 app"));
        let warning = line.warning.unwrap();
        assert!(warning.starts_with(name), "{warning}");
        assert_eq!(
            (warning.contains("on this machine"), line.all_here),
            (name == "PBS_NODEFILE", name == "PBS_NODEFILE")
        );
        let named = Job { hosts: Some(hosts()), launcher: Launcher::Mpirun, ..some.clone() };
        let line = check(&named, Mpi::OpenMpi, &environment, "mpirun.openmpi -n 3 --hostfile HOSTS app");
        assert_eq!((line.warning, line.all_here), (None, false));
    }
}

fn with_open_mpi_5() -> Environment {
    Environment { has_prrte: true, openmpi: Some("mpirun".into()), root: true, ..here() }
}

#[test]
fn open_mpi_5_gets_its_own_options() {
    let job = Job { ranks: Some(6), label: true, ..Job::new("app", [""; 0]) };
    let golden = "mpirun --allow-run-as-root -n 6 --map-by :OVERSUBSCRIBE --bind-to none --stdin none --output rank \
                  app";
    check(&job, Mpi::OpenMpi, &with_open_mpi_5(), golden);
    let few = Job { ranks: Some(2), bind: Bind::Core, ..Job::new("app", [""; 0]) };
    let golden = "mpirun --allow-run-as-root -n 2 --bind-to core --stdin none app";
    check(&few, Mpi::OpenMpi, &with_open_mpi_5(), golden);
    let reader = Job { reads_stdin: true, ..few };
    check(&reader, Mpi::OpenMpi, &with_open_mpi_5(), "mpirun --allow-run-as-root -n 2 --bind-to core app");
}

#[test]
fn ranks_of_open_mpi_5_are_told_about_recovery() {
    let job = Job { ranks: Some(2), recover: true, job_status: true, ..Job::new("app", [""; 0]) };
    let golden = "ARMATURE_RECOVERY=1 mpirun --allow-run-as-root -n 2 --enable-recovery --stdin none \
                  -x ARMATURE_JOB_STATUS -x ARMATURE_RECOVERY app";
    check(&job, Mpi::OpenMpi, &with_open_mpi_5(), golden);
}

#[test]
fn ranks_of_mpich_read_standard_input_only_on_request() {
    let job = Job { ranks: Some(2), ..Job::new("app", ["x y"]) };
    let line = command_line(&job, Mpi::Mpich, &here()).unwrap();
    assert_eq!(line.display(""), r#"mpirun.mpich -n 2 /bin/sh -c 'exec "$0" "$@" </dev/null' app 'x y'"#);
    let reader = Job { reads_stdin: true, ..job };
    check(&reader, Mpi::Mpich, &here(), "mpirun.mpich -n 2 app 'x y'");
}

#[test]
fn ranks_of_intel_mpi_are_bound_and_unbound_by_variables() {
    let intel = Environment { has_intel_mpi: true, mpich: Some("mpirun".into()), ..here() };
    let job = |ranks| Job { ranks: Some(ranks), ..Job::new("app", [""; 0]) };
    check(&job(6), Mpi::Mpich, &intel, "I_MPI_PIN=off mpirun -n 6 SH app");
    check(&job(4), Mpi::Mpich, &intel, "mpirun -n 4 SH app");
    check(&Job { bind: Bind::None, ..job(2) }, Mpi::Mpich, &intel, "I_MPI_PIN=off mpirun -n 2 SH app");
    check(
        &Job { bind: Bind::Core, ..job(1) },
        Mpi::Mpich,
        &intel,
        "I_MPI_PIN_DOMAIN=core mpirun -n 1 SH app",
    );
}

#[test]
fn proxies_of_mpich_are_ordinary_processes_for_slurm() {
    let job = Job { launcher: Launcher::Mpirun, ..Job::new("app", [""; 0]) };
    check(&job, Mpi::Mpich, &in_slurm(8), "SLURM_MPI_TYPE=none mpirun.mpich -n 8 SH app");
    let chosen = Environment { plugin: true, ..in_slurm(8) };
    check(&job, Mpi::Mpich, &chosen, "mpirun.mpich -n 8 SH app");
}

#[test]
fn srun_overlaps_the_step_of_one_task_in_which_it_is_asked_for() {
    let step = Environment { step: Some("0".into()), is_only_task: true, fence: true, ..in_slurm(2) };
    let job = Job { launcher: Launcher::Srun, ..Job::new("app", [""; 0]) };
    check(&job, Mpi::OpenMpi, &step, "srun --mpi=pmix --kill-on-bad-exit=1 --overlap -n 2 app");
    let golden = "MPIR_CVAR_PMI_VERSION=1 srun --mpi=pmi2 --kill-on-bad-exit=1 --overlap -n 2 app";
    check(&job, Mpi::Mpich, &step, golden);
    // If a step has several tasks, each of them would start all ranks.
    let one_of_several = Environment { is_only_task: false, ..step };
    assert!(matches!(command_line(&job, Mpi::OpenMpi, &one_of_several), Err(LaunchError::InsideStep(_))));
}
