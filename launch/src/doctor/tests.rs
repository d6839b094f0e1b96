//! Tests each check of `armature doctor` on a simulated machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use armature_host::Source;

use super::check::{Facts, Finding, Version};
use super::probe::{self, Probe};
use super::site::{Here, Site, output_within};
use super::{all, find};
use crate::Mpi;

struct MadeUp {
    variables: BTreeMap<String, String>,
    files: BTreeMap<String, String>,
    programs: BTreeMap<String, String>,
    free: u64,
    root: bool,
    reads_memory: bool,
    locked: BTreeSet<String>,
    ranks: Option<usize>,
    program: Option<PathBuf>,
    hosts: Vec<String>,
    probes: Option<Vec<Probe>>,
}

fn machine() -> MadeUp {
    MadeUp {
        variables: BTreeMap::new(),
        files: BTreeMap::from([("/proc/thread-self/status".into(), "Cpus_allowed_list:\t0-1\n".into())]),
        programs: BTreeMap::new(),
        free: 1 << 30,
        root: false,
        reads_memory: true,
        locked: BTreeSet::new(),
        ranks: None,
        program: None,
        hosts: Vec::new(),
        probes: None,
    }
}

impl MadeUp {
    fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    fn file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.into(), text.into());
        self
    }

    /// Installs a program that prints `text` if it is called by `call` (its name and arguments, separated by spaces).
    fn prints(mut self, call: &str, text: &str) -> Self {
        self.programs.insert(call.into(), text.into());
        self
    }

    fn ranks(self, ranks: usize) -> Self {
        MadeUp { ranks: Some(ranks), ..self }
    }

    fn hosts(self, names: &[&str]) -> Self {
        MadeUp { hosts: names.iter().map(|name| (*name).into()).collect(), ..self }
    }

    fn probes(self, probes: Vec<Probe>) -> Self {
        MadeUp { ranks: Some(probes.len()), probes: Some(probes), ..self }
    }

    fn examine(&self, id: &str) -> Finding {
        let facts = Facts {
            site: self,
            ranks: self.ranks,
            program: self.program.as_deref(),
            hosts: &self.hosts,
            probes: self.probes.as_deref(),
        };
        (find(id).unwrap().examine)(&facts)
    }

    #[track_caller]
    fn ok(&self, id: &str) {
        let finding = self.examine(id);
        assert!(matches!(finding, Finding::Ok(_)), "{finding:?}");
    }

    #[track_caller]
    fn skipped(&self, id: &str) {
        let finding = self.examine(id);
        assert!(matches!(finding, Finding::Skipped(_)), "{finding:?}");
    }

    #[track_caller]
    fn warns(&self, id: &str, remedy: &str) {
        let finding = self.examine(id);
        assert!(matches!(&finding, Finding::Warn(problem) if problem.remedy.contains(remedy)), "{finding:?}");
    }

    #[track_caller]
    fn fails(&self, id: &str, remedy: &str) {
        let finding = self.examine(id);
        assert!(matches!(&finding, Finding::Fail(problem) if problem.remedy.contains(remedy)), "{finding:?}");
    }
}

impl Source for MadeUp {
    fn read(&self, path: &str) -> Option<String> {
        self.files.get(path).cloned()
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }
}

impl Site for MadeUp {
    fn variables(&self, prefix: &str) -> Vec<String> {
        self.variables.keys().filter(|name| name.starts_with(prefix)).cloned().collect()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let start = format!("{path}/");
        let names = self.files.keys().filter_map(|file| file.strip_prefix(&start)?.split('/').next());
        let names: BTreeSet<&str> = names.collect();
        names.into_iter().map(String::from).collect()
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let call = [&[program], arguments].concat().join(" ");
        self.programs.get(call.trim_end()).cloned()
    }

    fn linked_mpi(&self, program: &Path) -> Option<Mpi> {
        (program == Path::new("/apps/pi")).then_some(Mpi::OpenMpi)
    }

    fn free_bytes(&self, _: &str) -> Option<u64> {
        Some(self.free)
    }

    fn is_root(&self) -> bool {
        self.root
    }

    fn reads_memory_of_children(&self) -> bool {
        self.reads_memory
    }

    fn is_locked(&self, path: &str) -> bool {
        self.locked.contains(path)
    }
}

const OPEN_MPI_4: &str =
    "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n";
const OPEN_MPI_5: &str = "mpirun (Open MPI) 5.0.3\n";
const MPICH: &str = "HYDRA build details:\n    Version:                                 4.0.2\n";
const INTEL: &str = "Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307\n";

fn with_mpi(version: &str) -> MadeUp {
    machine().prints("mpirun --version", version)
}

fn with_slurm(list: &str, config: &str) -> MadeUp {
    with_mpi(OPEN_MPI_4)
        .prints("srun --mpi=list", list)
        .prints("srun --version", "slurm 22.05.8\n")
        .prints("scontrol show config", config)
}

#[test]
fn names_of_checks_are_unique_and_all_checks_run_on_an_empty_machine() {
    let mut ids: Vec<&str> = all().map(|check| check.id).collect();
    let checks = ids.len();
    assert!(checks >= 28, "{checks}");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), checks);
    for id in ids {
        assert!(!matches!(machine().examine(id), Finding::Fail(_)), "{id}: {:?}", machine().examine(id));
    }
    assert_eq!(find("gravity").unwrap_err().exit_code(), 2);
}

#[test]
fn page_of_the_book_lists_all_checks_with_their_symptoms() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/doctor.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<String> =
        all().map(|check| format!("| `{}` | {} |", check.id, check.symptom)).collect();
    assert_eq!(rows, expected);
}

#[test]
fn srun_needs_the_plugin_of_the_mpi() {
    let list =
        "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\nspecific pmix plugin versions available: pmix_v4\n";
    machine().skipped("pmi-plugin");
    with_slurm(list, "MpiDefault              = pmix\n").ok("pmi-plugin");
    with_slurm(list, "MpiDefault              = none\n").warns("pmi-plugin", "--mpi=pmix");
    with_slurm("MPI plugin types are...\n\tnone\n\tpmi2\n", "").fails("pmi-plugin", "--launcher mpirun");
    let mpich = with_mpi(MPICH).prints("srun --mpi=list", list);
    mpich.warns("pmi-plugin", "--mpi=pmi2");
}

#[test]
fn more_ranks_than_slots_need_an_option_of_the_version() {
    with_mpi(OPEN_MPI_4).skipped("slots");
    with_mpi(OPEN_MPI_4).ranks(2).ok("slots");
    with_mpi(OPEN_MPI_4).ranks(3).warns("slots", "mpirun --oversubscribe");
    with_mpi(OPEN_MPI_5).ranks(3).warns("slots", "--map-by :OVERSUBSCRIBE");
    with_mpi(OPEN_MPI_4).ranks(3).variable("SLURM_NTASKS", "8").ok("slots");
    with_mpi(MPICH).ranks(3).skipped("slots");
}

#[test]
fn root_needs_the_variables_of_the_version() {
    let root = |version: &str| MadeUp { root: true, ..with_mpi(version) };
    with_mpi(OPEN_MPI_4).ok("root");
    root(OPEN_MPI_4).warns("root", "OMPI_ALLOW_RUN_AS_ROOT=1");
    root(OPEN_MPI_5).warns("root", "PRTE_ALLOW_RUN_AS_ROOT=1");
    root(OPEN_MPI_5).warns("root", "OMPI_ALLOW_RUN_AS_ROOT=1");
    root(MPICH).ok("root");
    let allowed = root(OPEN_MPI_4).variable("OMPI_ALLOW_RUN_AS_ROOT", "1");
    allowed.warns("root", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
    allowed.variable("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1").ok("root");
}

#[test]
fn launchers_inside_a_step_hang() {
    machine().ok("step");
    machine().variable("SLURM_STEP_ID", "4294967291").ok("step");
    machine().variable("SLURM_STEP_ID", "0").fails("step", "without srun");
    let tasks = machine().variable("SLURM_STEP_ID", "0").variable("SLURM_STEP_NUM_TASKS", "4");
    assert!(tasks.examine("step").found().contains("one of 4 tasks"));
    tasks
        .variable("SLURM_STEP_NUM_TASKS", "1")
        .fails("step", "without srun; or armature run --launcher srun");
}

#[test]
fn pmix_with_munge_needs_its_daemon() {
    machine().skipped("pmix-security");
    let server = machine().variable("PMIX_SECURITY_MODE", "munge,native");
    server.fails("pmix-security", "PMIX_MCA_psec=native");
    machine().variable("PMIX_SECURITY_MODE", "native").ok("pmix-security");
    let with_munge = machine().variable("PMIX_SECURITY_MODE", "munge").variable("PMIX_MCA_psec", "native");
    with_munge.ok("pmix-security");
    let daemon = machine().variable("PMIX_SECURITY_MODE", "munge").file("/run/munge/munge.socket.2", "");
    daemon.ok("pmix-security");
}

#[test]
fn one_version_of_slurm_and_open_mpi_crashes() {
    machine().skipped("pmix-fence");
    with_slurm("", "").warns("pmix-fence", "SLURM_PMIX_FENCE=ring");
    with_slurm("", "").variable("SLURM_PMIX_FENCE", "ring").ok("pmix-fence");
    with_mpi(OPEN_MPI_5).prints("srun --version", "slurm 22.05.8\n").ok("pmix-fence");
    with_mpi(OPEN_MPI_4).prints("srun --version", "slurm 23.11.4\n").ok("pmix-fence");
}

#[test]
fn mpich_and_intel_mpi_need_variables() {
    with_mpi(OPEN_MPI_4).skipped("foreign-launcher");
    let in_job = with_mpi(MPICH)
        .prints("scontrol show config", "MpiDefault              = pmix_v4\n")
        .variable("SLURM_JOB_ID", "7");
    in_job.warns("foreign-launcher", "SLURM_MPI_TYPE=none (armature run sets it)");
    in_job.variable("SLURM_MPI_TYPE", "none").ok("foreign-launcher");
    with_mpi(MPICH).ok("foreign-launcher");
    with_mpi(INTEL).ranks(2).ok("foreign-launcher");
    with_mpi(INTEL).ranks(3).warns("foreign-launcher", "I_MPI_PIN=off");
    with_mpi(INTEL).ranks(3).variable("I_MPI_PIN", "off").ok("foreign-launcher");
    with_mpi(INTEL).ranks(4).hosts(&["a", "b"]).ok("foreign-launcher");
}

#[test]
fn containers_that_forbid_reading_memory_need_a_setting() {
    machine().ok("single-copy");
    let container = || MadeUp { reads_memory: false, ..machine().file("/.dockerenv", "") };
    container().fails("single-copy", "single_copy_mechanism=none");
    container().variable("OMPI_MCA_btl_vader_single_copy_mechanism", "none").ok("single-copy");
    container().prints("mpirun --version", MPICH).warns("single-copy", "SYS_PTRACE");
}

#[test]
fn shared_memory_suffices_for_the_ranks() {
    machine().ranks(2).ok("shared-memory");
    let small = || MadeUp { free: 64 << 20, ..machine() };
    small().ranks(4).ok("shared-memory");
    small().ranks(5).fails("shared-memory", "--shm-size");
}

#[test]
fn quotas_and_cpusets_are_detected() {
    machine().ok("cores");
    machine().ranks(3).warns("cores", "-n 2");
    let quota = |stat: &str| {
        machine()
            .file("/proc/self/cgroup", "0::/job_7/step_0\n")
            .file("/sys/fs/cgroup/job_7/cpu.max", "100000 100000\n")
            .file("/sys/fs/cgroup/job_7/step_0/cpu.max", "max 100000\n")
            .file("/sys/fs/cgroup/job_7/cpu.stat", stat)
    };
    quota("").ok("cores");
    assert!(quota("").examine("cores").found().contains("quota of 1.0 cores"));
    quota("").ranks(2).warns("cores", "-n 1");
    quota("nr_periods 9\nnr_throttled 4\n").warns("cores", "fewer ranks");
    let v1 = machine()
        .file("/proc/self/cgroup", "3:cpu,cpuacct:/job\n")
        .file("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "150000\n")
        .file("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    v1.ranks(2).warns("cores", "-n 1");
    let slurm = machine().variable("SLURM_JOB_ID", "7").variable("SLURM_CPUS_ON_NODE", "1");
    assert!(slurm.examine("cores").found().contains("1.0 cores allotted (SLURM_CPUS_ON_NODE)"));
    slurm.ranks(2).warns("cores", "-n 1");
    let siblings = "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list";
    let one = machine().file(siblings, "0-1\n").file(&siblings.replace("cpu0", "cpu1"), "0-1\n");
    assert!(one.examine("cores").found().contains("1 core with 2 hardware threads"));
    one.ranks(2).warns("cores", "-n 1");
    // Ranks are divided evenly among the hosts, so that each host needs cores for its own ranks only.
    machine().ranks(4).hosts(&["a", "b"]).ok("cores");
    machine().ranks(5).hosts(&["a", "b"]).warns("cores", "-n 4");
    machine().ranks(8).variable("SLURM_JOB_NUM_NODES", "4").ok("cores");
}

#[test]
fn cpusets_that_split_a_core_are_detected() {
    let siblings = "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list";
    machine().file(siblings, "0-1\n").ok("hardware-threads");
    machine().file(siblings, "0,4\n").warns("hardware-threads", "--bind none");
}

#[test]
fn smallest_memory_limit_counts() {
    machine().skipped("memory");
    let host = || machine().file("/proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   8388608 kB\n");
    assert!(host().examine("memory").found().contains("8192 MiB (free on this host)"));
    let group =
        || host().file("/proc/self/cgroup", "0::/job\n").file("/sys/fs/cgroup/job/memory.max", "125829120\n");
    assert!(
        group()
            .ranks(2)
            .examine("memory")
            .found()
            .contains("120 MiB (the limit of the cgroup), 60 MiB per rank")
    );
    group().file("/sys/fs/cgroup/job/memory.events", "oom 1\noom_kill 2\n").warns("memory", "more memory");
    let slurm = group().variable("SLURM_MEM_PER_CPU", "50").variable("SLURM_CPUS_ON_NODE", "2");
    assert!(slurm.examine("memory").found().contains("100 MiB (SLURM_MEM_PER_CPU)"));
}

#[test]
fn infiniband_needs_locked_memory() {
    machine().skipped("locked-memory");
    let limits = |limit: &str| {
        machine()
            .file("/sys/class/infiniband/mlx5_0/node_type", "")
            .file("/proc/self/limits", &format!("Max locked memory         {limit}      {limit}     bytes\n"))
    };
    limits("unlimited").ok("locked-memory");
    limits("65536").fails("locked-memory", "LimitMEMLOCK=infinity");
}

#[test]
fn temporary_files_are_local_and_have_short_names() {
    let mounts = "/dev/vda / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n";
    machine().ok("temporary-files");
    machine()
        .file("/proc/mounts", mounts)
        .variable("TMPDIR", "/home/a")
        .warns("temporary-files", "TMPDIR=/tmp");
    machine().file("/proc/mounts", mounts).variable("TMPDIR", "/homeless").ok("temporary-files");
    machine().variable("TMPDIR", &format!("/{}", "a".repeat(47))).fails("temporary-files", "TMPDIR=/tmp");
}

#[test]
fn core_dumps_are_described() {
    machine().skipped("core-dumps");
    let to = machine().file("/proc/sys/kernel/core_pattern", "|/usr/lib/systemd/systemd-coredump %P\n");
    assert!(to.examine("core-dumps").found().contains("systemd-coredump of each node"));
    let none = machine().file("/proc/sys/kernel/core_pattern", "core\n").file(
        "/proc/self/limits",
        "Max core file size        0                    unlimited            bytes\n",
    );
    assert!(none.examine("core-dumps").found().contains("ulimit -c unlimited"));
}

#[test]
fn missing_libraries_and_other_mpis_are_detected() {
    let program = || Some(PathBuf::from("/apps/pi"));
    machine().skipped("libraries");
    let complete = MadeUp { program: program(), ..machine() };
    complete.skipped("libraries");
    complete.prints("ldd /apps/pi", "\tlibc.so.6 => /lib/libc.so.6 (0x0)\n").ok("libraries");
    let missing = MadeUp { program: program(), ..machine() };
    missing.prints("ldd /apps/pi", "\tlibmpi.so.40 => not found\n").fails("libraries", "module");
    machine().skipped("mixed-mpi");
    let linked = |version: &str| MadeUp { program: program(), ..with_mpi(version) };
    linked(OPEN_MPI_5).ok("mixed-mpi");
    linked(INTEL).warns("mixed-mpi", "armature run");
    MadeUp { program: Some("/bin/sh".into()), ..with_mpi(MPICH) }.skipped("mixed-mpi");
}

#[test]
fn container_and_host_need_equal_pmix_versions() {
    machine().skipped("container-mpi");
    let inside = |version: &str| {
        machine()
            .variable("APPTAINER_CONTAINER", "/a.sif")
            .variable("PMIX_VERSION", "4.2.2")
            .prints("pmix_info --version", &format!("pmix_info (PMIx) {version}\n"))
    };
    inside("4.1.0").ok("container-mpi");
    inside("5.0.1").fails("container-mpi", "same major version");
    machine().variable("APPTAINER_CONTAINER", "/a.sif").skipped("container-mpi");
}

#[test]
fn some_versions_of_hwloc_crash() {
    machine().skipped("hwloc");
    machine().prints("hwloc-info --version", "hwloc-info 2.9.0\n").ok("hwloc");
    machine().prints("hwloc-info --version", "hwloc-info 2.6.0\n").warns("hwloc", "2.7.1");
    machine().prints("pkg-config --modversion hwloc", "2.7.0\n").warns("hwloc", "2.7.1");
}

#[test]
fn missing_build_tools_are_named_with_their_packages() {
    machine().warns("build-tools", "apt-get install libopenmpi-dev pkg-config libclang-dev");
    let with = machine().prints("mpicc -show", "gcc -lmpi\n").prints("pkg-config --version", "1.8.1\n");
    with.warns("build-tools", "apt-get install libclang-dev, or dnf install clang-devel");
    with.file("/usr/lib/llvm-14/lib/libclang-14.so.1", "").ok("build-tools");
}

#[test]
fn bridges_matter_only_on_several_hosts() {
    let bridges = || machine().file("/sys/class/net/eth0/mtu", "").file("/sys/class/net/docker0/mtu", "");
    bridges().ok("interfaces");
    bridges().hosts(&["a", "b"]).warns("interfaces", "OMPI_MCA_btl_tcp_if_exclude=lo,docker0");
    bridges().variable("SLURM_JOB_NUM_NODES", "2").warns("interfaces", "lo,docker0");
    let of_version = |version: &str| bridges().prints("mpirun --version", version).hosts(&["a", "b"]);
    of_version(OPEN_MPI_4).warns("interfaces", " OMPI_MCA_oob_tcp_if_exclude=lo,docker0");
    of_version(OPEN_MPI_5).warns("interfaces", " PRTE_MCA_oob_tcp_if_exclude=lo,docker0");
    bridges().hosts(&["a", "b"]).variable("OMPI_MCA_btl_tcp_if_include", "10.0.0.0/8").ok("interfaces");
    machine().hosts(&["a", "b"]).ok("interfaces");
}

#[test]
fn ssh_reaches_each_host_without_a_prompt() {
    machine().skipped("ssh");
    let hosts = || machine().hosts(&["a", "b"]).file("/proc/sys/kernel/hostname", "a\n");
    hosts().fails("ssh", "ssh-copy-id b");
    hosts().prints("ssh -o BatchMode=yes -o ConnectTimeout=2 -- b true", "").ok("ssh");
    hosts().variable("SLURM_JOB_ID", "7").skipped("ssh");
}

#[test]
fn slurm_leaves_time_for_a_checkpoint() {
    machine().skipped("time-to-stop");
    let wait = |seconds: u32| with_slurm("", &format!("KillWait                = {seconds} sec\n"));
    wait(30).ok("time-to-stop");
    wait(5).warns("time-to-stop", "--signal=B:USR1@120");
}

#[test]
fn files_of_another_job_are_detected() {
    machine().skipped("files-in-use");
    machine().variable("ARMATURE_EVENTS", "/log").ok("files-in-use");
    let locked = BTreeSet::from(["/log/job-status.json".to_string()]);
    MadeUp { locked, ..machine().variable("ARMATURE_EVENTS", "/log") }
        .fails("files-in-use", "SLURM_ARRAY_TASK_ID");
}

#[test]
fn old_settings_of_mpi_are_listed() {
    machine().ok("settings");
    let set = machine().variable("OMPI_MCA_btl", "tcp,self");
    assert!(set.examine("settings").found().contains("OMPI_MCA_btl"));
    let file =
        |text: &str| machine().variable("HOME", "/home/a").file("/home/a/.openmpi/mca-params.conf", text);
    file("# nothing\n\n").ok("settings");
    file("btl = self\n").warns("settings", "unset");
}

#[test]
fn site_without_exported_variables_is_detected() {
    machine().ok("exported-variables");
    machine().variable("SLURM_EXPORT_ENV", "ALL").ok("exported-variables");
    machine().variable("SLURM_EXPORT_ENV", "NONE").warns("exported-variables", "SLURM_EXPORT_ENV=ALL");
}

fn rank(host: &str) -> Probe {
    Probe {
        launcher: "mpirun".into(),
        size: 2,
        host: host.into(),
        boot: format!("boot of {host}"),
        cores: vec![0, 1],
        memory: 1 << 30,
        threads: "funneled".into(),
        start: 0.3,
        clock: 0.0,
        connects: true,
        shares_directory: true,
    }
}

#[test]
fn rank_reports_are_evaluated() {
    let checks =
        ["world-size", "same-core", "ports", "thread-level", "host-names", "clocks", "shared-directory"];
    for id in checks {
        machine().skipped(id);
        machine().probes(vec![rank("a"), rank("b")]).ok(id);
    }
    let second = |change: fn(&mut Probe)| {
        let mut other = rank("a");
        change(&mut other);
        machine().probes(vec![rank("a"), other])
    };
    second(|rank| rank.size = 1).fails("world-size", "mpirun");
    let under_srun = |rank: Probe| Probe { launcher: "srun".into(), size: 1, ..rank };
    machine().probes(vec![under_srun(rank("a")), under_srun(rank("a"))]).fails("world-size", "--mpi=pmix");
    let on_one_core = |rank: Probe| Probe { cores: vec![0], ..rank };
    machine().probes(vec![on_one_core(rank("a")), on_one_core(rank("a"))]).warns("same-core", "--bind none");
    second(|rank| rank.connects = false).fails("ports", "port");
    second(|rank| rank.threads = "single".into()).fails("thread-level", "threads");
    second(|rank| rank.boot = "another boot".into()).fails("host-names", "set-hostname");
    second(|rank| rank.clock = -0.25).warns("clocks", "chrony");
    second(|rank| rank.shares_directory = false).warns("shared-directory", "--send-files");
}

#[test]
fn probe_output_is_parsed_and_other_lines_ignored() {
    let line = r#"armature-probe [{"rank":0,"size":1,"host":"a","boot":"x","cores":[0,1],"memory":5,"threads":"funneled","start_s":0.5,"clock_s":0.0,"connects":true,"shares_directory":true}]"#;
    let probes =
        probe::parse("srun", &format!("a warning\n{line}\narmature-probe [{{}}]\narmature-probe {{\n"));
    assert_eq!(probes.len(), 1);
    assert_eq!((&*probes[0].launcher, probes[0].size, probes[0].start), ("srun", 1, 0.5));
}

#[test]
fn versions_are_parsed_from_text() {
    assert_eq!(Version::find(OPEN_MPI_4), Some(Version(4, 1, 4)));
    assert_eq!(Version::find("slurm 22.05.8"), Some(Version(22, 5, 8)));
    assert_eq!(Version::find("build 20230307"), None);
    assert!(Version(5, 0, 0) > Version(4, 9, 9));
}

#[test]
fn failing_and_slow_programs_give_no_answer() {
    let shell = |script: &str, milliseconds| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]);
        output_within(command, std::time::Duration::from_millis(milliseconds))
    };
    assert_eq!(shell("echo out; echo err >&2", 10_000).as_deref(), Some("out\nerr\n"));
    // The program prints more than fits into the buffer of a pipe.
    assert_eq!(shell("seq 100000", 10_000).map(|text| text.lines().count()), Some(100_000));
    assert_eq!(shell("exit 1", 10_000), None);
    assert_eq!(shell("exec sleep 60", 50), None);
}

#[test]
fn local_machine_can_be_queried() {
    assert!(Here.read("/proc/self/status").is_some_and(|text| text.contains("Cpus_allowed_list")));
    assert!(Here.list("/proc/self").contains(&"status".to_string()));
    assert!(Here.free_bytes("/").is_some());
    assert_eq!(Here.run("armature-no-such-program", &[]), None);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("job-status.json");
    std::fs::write(&path, "").unwrap();
    let name = path.to_str().unwrap();
    assert!(!Here.is_locked(name) && !Here.is_locked("/no/such/file"));
    let file = std::fs::File::open(Path::new(name)).unwrap();
    armature_files::lock::lock(&file, 1, |_| ()).unwrap();
    assert!(Here.is_locked(name));
}
