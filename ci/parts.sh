# shellcheck shell=bash disable=SC2034
# The parts of ci/test.sh, in the order in which they run. Sourced after lib.sh.
#
# A part is a function part_NAME that runs under `set -e` in a process of its own, and an entry in PARTS:
#   NAME | seconds it takes on two cores, dependencies compiled | seconds after which it is ended | what it does
# It fails where it cannot run.

PARTS=(
  "setup    |   5 |  900 | packages and Rust"
  "format   |   5 |   60 | cargo fmt --check"
  "scripts  |  10 |  120 | shellcheck on every script"
  "lint     |  15 |  900 | clippy without warnings, also without MPI and hwloc"
  "house    |   5 |  300 | measures of the structure of the framework, within the limits of ci/house/house.toml"
  "docs     |   5 |  600 | the pages of every crate, without warnings"
  "tests    | 850 | 2400 | unit tests, examples in the pages, whole programs on threads and on Open MPI"
  "report   |  20 |  600 | the page of a run in Chromium, with the network off; traces, read by others"
  "pictures |  20 |  400 | Ferret reads a sample of 300 pictures that people have drawn with many programs"
  "no-eager | 350 | 1500 | whole programs on Open MPI and MPICH where no send is eager"
  "mpich    | 150 | 1200 | whole programs on MPICH"
  "smpi     | 450 | 1800 | simulated clusters: whole programs, a farm, a workflow, two pipelines, and Ferret on 14 unequal hosts"
  "slurm    | 140 |  600 | Ferret as a batch job on a real Slurm of four nodes, and a farm whose ranks are killed"
  "hosts    |  30 |  400 | Ferret, a loop and a workflow on four unequal hosts: network namespaces with their own links and shares of a core"
  "bench    | 310 | 1800 | every experiment in its short form"
  "demo     | 125 |  900 | the demonstration of the README"
  "licences |   5 |   60 | the licences of all dependencies against deny.toml"
)
# What a person runs while working.
QUICK=(setup format scripts lint house tests)

with=$CI_DIR/mpi/with.sh

# The target directory of an MPI.
target_of() {
  # shellcheck disable=SC2016
  "$with" "$1" sh -c 'echo "$CARGO_TARGET_DIR"'
}

part_setup() { "$CI_DIR/setup.sh" test; }

part_format() { cargo fmt --all --check && echo "formatted as it should be"; }

part_scripts() {
  local scripts
  mapfile -t scripts < <(git ls-files '*.sh' '*.env' '.ci/run' 'ci/smpi/smpicc-rs')
  shellcheck --external-sources --source-path="$ROOT" --severity=info "${scripts[@]}"
  echo "${#scripts[@]} scripts are fine"
}

part_lint() {
  "$with" openmpi cargo clippy --locked --workspace --all-targets -- -D warnings
  "$with" openmpi cargo clippy --locked -p armature-mpi --no-default-features --all-targets -- -D warnings
}

part_house() { "$with" openmpi cargo run --quiet --locked -p armature-house; }

part_docs() { RUSTDOCFLAGS="-D warnings" "$with" openmpi cargo doc --locked --workspace --no-deps; }

part_tests() {
  "$with" openmpi cargo test --locked --workspace
  # Needs the pictures that setup has installed.
  "$with" openmpi cargo test --locked -p ferret --test command -- --ignored
}

part_report() {
  python_packages perfetto report/tests/perfetto-requirements.txt
  "$with" openmpi cargo test --locked -p armature-report --test browser --test perfetto --no-run
  # A network of its own, in which there is nothing.
  unshare --net sh -c 'ip link set lo up && exec "$@"' sh \
    "$with" openmpi cargo test --locked --offline -p armature-report --test browser --test perfetto -- --ignored --test-threads 1
}

part_pictures() {
  # shellcheck source=ci/pictures.sh
  . "$CI_DIR/pictures.sh"
  # shellcheck source=ci/checks.sh
  . "$CI_DIR/checks.sh"
  local seed=${PICTURES_SEED:-1}
  "$with" openmpi cargo build --locked -p ferret
  mkdir -p "$ROOT/target/clipart"
  check "ferret reads 300 pictures chosen by seed $seed" \
    clipart_is_read "$(target_of openmpi)/debug/ferret" "$ROOT/target/clipart" 300 "$seed"
  checks_done pictures
}

part_no-eager() {
  local mpi
  for mpi in openmpi mpich; do
    "$CI_DIR/mpi/eager-probe.sh" $mpi
    # The others have nothing to do with how MPI sends, and few ranks with how sends wait for each other.
    "$with" $mpi --no-eager cargo test --locked -p armature-tests --test mpi -- \
      --skip one_rank --skip two_ranks --skip refused
  done
}

part_mpich() {
  "$with" mpich cargo test --locked -p armature-tests -p align --test mpi --test faults --test restarts --test farm_deaths --test phases \
    --test workflows --test workflow_commands --test workflow_files --test beside_mpi --test command
}

part_smpi() {
  local packages=(-p ferret -p synthetic-farm -p rabin-karp -p matmul-stream -p workflow -p armature-tests)
  "$with" openmpi cargo build --locked "${packages[@]}" --bins
  "$with" smpi cargo build --locked "${packages[@]}" --bins
  local built
  built=$(target_of openmpi)/debug
  "$CI_DIR/smpi/test.sh" "$built/ferret" "$built/synthetic-farm" "$built/rabin-karp" "$built/matmul-stream" \
    "$built/armature-burner"
}

part_slurm() {
  "$with" openmpi cargo build --locked -p armature-launch -p ferret -p mandelbrot
  "$with" mpich cargo build --locked -p ferret
  "$with" openmpi "$CI_DIR/slurm/test.sh" "$(target_of openmpi)/debug" "$(target_of mpich)/debug"
}

part_hosts() {
  "$with" openmpi cargo build --locked -p ferret -p sor -p workflow
  local built
  built=$(target_of openmpi)/debug
  "$CI_DIR/hosts/test.sh" "$built/ferret" "$built/sor" "$built/armature-workflow"
}

part_bench() { "$CI_DIR/bench.sh" --smoke; }

part_demo() { "$CI_DIR/demo.sh"; }

part_licences() { "$CI_DIR/licences.sh"; }
