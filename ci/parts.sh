# shellcheck shell=bash disable=SC2034
# The parts of ci/test.sh, in the order in which they run. Sourced after lib.sh.
#
# A part is a function part_NAME that runs under `set -e` in a process of its own, and an entry in PARTS:
#   NAME | set | listed seconds: two cores, from a fresh clone | seconds after which it is ended | description
# The set is `test` for the parts of `ci/test.sh`, `all` for those that only `ci/test.sh --all` runs. A part that cannot run fails.

PARTS=(
  "setup    | test |   5 |  900 | packages and Rust"
  "format   | test |   5 |   60 | cargo fmt --check"
  "scripts  | test |  20 |  300 | shellcheck on every script, spelling of code and pages"
  "licences | test |   5 |   60 | the licences of all dependencies against deny.toml"
  "lint     | test | 150 |  900 | clippy without warnings, also without MPI and hwloc, with each skeleton alone"
  "house    | test |  30 |  300 | measures of the structure of the framework, within the limits of ci/house/house.toml"
  "docs     | test |  40 |  600 | the pages of every crate, without warnings"
  "unit     | test | 520 | 1500 | unit tests, examples in the pages, the book"
  "programs | test | 480 | 1500 | whole programs on threads and on Open MPI"
  "report   | all  |  30 |  600 | the page of a run in Chromium, with the network off; traces, read by others"
  "pictures | all  |  20 |  400 | Ferret reads a sample of 300 pictures that people have drawn with many programs"
  "no-eager | all  | 250 |  900 | whole programs on Open MPI and MPICH where no send is eager"
  "mpich    | all  | 110 | 1200 | whole programs on MPICH"
  "smpi     | all  | 280 | 1200 | simulated clusters: whole programs, a farm, a workflow, two pipelines, and Ferret on 14 unequal hosts"
  "slurm    | all  | 300 |  900 | on a real Slurm of four nodes: Ferret as a batch job, a farm whose ranks are killed, runs that end early and continue"
  "hosts    | all  |  40 |  400 | Ferret, a loop and a workflow on four unequal hosts: network namespaces with their own links and shares of a core"
  "bench    | all  | 250 | 1200 | a quarter of the experiments in their short form, another one with each commit, and those that changed last"
  "demo     | all  | 400 |  900 | the demonstration of the README"
)
# For work in progress.
QUICK=(setup format scripts lint house unit programs)

# Test targets that start programs or measure time. Each group is one command of part `programs`, and groups run side by side.
PROGRAMS=(
  "local"
  "mpi -- --skip without_eager_sends"
  "faults phases"
  "farm_deaths restarts stops"
  "progress memory porting properties compile_errors"
  "workflow_commands workflow_files workflows"
  "beside_mpi disagreement examples starter"
  "command surroundings run loops -- --include-ignored"
  "burner perturbed"
)
# Test targets of part `report`. All that are named nowhere run in part `unit`.
REPORT=(browser perfetto)

with=$CI_DIR/mpi/with.sh

# The target directory of an MPI.
target_of() {
  # shellcheck disable=SC2016
  "$with" "$1" sh -c 'echo "$CARGO_TARGET_DIR"'
}

# Every command that compiles selects the whole workspace, and the dev-dependencies with it: another selection has other features, and everything
# that depends on them would be compiled once more.

# binaries MPI NAME...: builds programs. The small test target brings the features of the dev-dependencies.
binaries() {
  local mpi=$1
  shift
  "$with" "$mpi" cargo build --locked --workspace --test broken "${@/#/--bin=}"
}

# cargo_tests MPI TARGETS ARGUMENTS...: runs test targets, given as one word; without any, those that the arguments select.
cargo_tests() {
  local mpi=$1 targets
  read -ra targets <<<"$2"
  shift 2
  "$with" "$mpi" cargo test --locked --workspace --no-fail-fast "${targets[@]/#/--test=}" "$@"
}
export -f cargo_tests
export with

part_setup() { "$CI_DIR/setup.sh" test; }

part_format() { cargo fmt --all --check && echo "formatted as it should be"; }

part_scripts() {
  local scripts written
  mapfile -t scripts < <(git ls-files '*.sh' '*.env' '.ci/run' 'ci/smpi/smpicc-rs' ':!launch/tests/golden')
  shellcheck --external-sources --source-path="$ROOT" --severity=info "${scripts[@]}"
  # Job scripts that armature submit has written. Their arguments have a `$` that the shell must not expand.
  mapfile -t written < <(git ls-files 'launch/tests/golden/*.sh')
  shellcheck --severity=info --exclude=SC2016 "${written[@]}"
  echo "$((${#scripts[@]} + ${#written[@]})) scripts are fine"
  python_packages typos ci/typos-requirements.txt
  "$ROOT/target/typos/bin/typos"
  echo "the spelling is fine"
}

part_lint() {
  "$with" openmpi cargo clippy --locked --workspace --all-targets -- -D warnings
  # Without its tests, which are three quarters of what this takes and are the same. Clippy and not `cargo check`, because its warnings can be
  # denied without other compiler flags, for which all dependencies would be compiled once more.
  local features
  for features in farm,pipeline,loops,workflow farm pipeline loops workflow ""; do
    "$with" openmpi cargo clippy --locked -p armature-mpi --no-default-features --features "$features" -- -D warnings
  done
}

part_house() {
  binaries openmpi armature-house
  "$(target_of openmpi)/debug/armature-house"
}

part_docs() { RUSTDOCFLAGS="-D warnings" "$with" openmpi cargo doc --locked --workspace --no-deps; }

# unit_targets: the test targets that no other part runs.
unit_targets() {
  local files group
  files=$(git ls-files '*/tests/*.rs' '*/tests/*/main.rs')
  comm -23 <(sed -n 's,.*/tests/\([a-z_]*\)\(/main\)\?\.rs$,\1,p' <<<"$files" | sort -u) \
    <(for group in "${PROGRAMS[@]}" "${REPORT[@]}"; do printf '%s\n' "${group%% -- *}"; done | tr ' ' '\n' | sort -u)
}

part_unit() {
  local failed=0
  cargo_tests openmpi "$(unit_targets | tr '\n' ' ')" --lib --bins || failed=1
  cargo_tests openmpi "" --doc || failed=1
  return $failed
}

part_programs() {
  local group commands=()
  # No test waits for a compiler.
  cargo_tests openmpi "" --no-run
  for group in "${PROGRAMS[@]}"; do
    commands+=("cargo_tests openmpi '${group%% -- *}'$([[ $group != *" -- "* ]] || echo " -- ${group#* -- }")")
  done
  side_by_side 3 "${commands[@]}"
}

part_report() {
  python_packages perfetto report/tests/perfetto-requirements.txt
  cargo_tests openmpi "${REPORT[*]}" --no-run
  # In a network namespace without any other interface.
  # shellcheck disable=SC2016  # for that shell
  unshare --net bash -c 'ip link set lo up && cargo_tests openmpi "$1" --offline -- --ignored --test-threads 1' bash "${REPORT[*]}"
}

part_pictures() {
  # shellcheck source=ci/pictures.sh
  . "$CI_DIR/pictures.sh"
  # shellcheck source=ci/checks.sh
  . "$CI_DIR/checks.sh"
  local seed=${PICTURES_SEED:-1}
  binaries openmpi ferret
  mkdir -p "$ROOT/target/clipart"
  check "ferret reads 300 pictures chosen by seed $seed" \
    clipart_is_read "$(target_of openmpi)/debug/ferret" "$ROOT/target/clipart" 300 "$seed"
  checks_done pictures
}

part_no-eager() {
  local mpi
  for mpi in openmpi mpich; do
    "$CI_DIR/mpi/eager-probe.sh" $mpi
    cargo_tests $mpi mpi -- --ignored without_eager_sends
  done
}

# Settings above the transport are not varied here, and the commands of workflows know nothing of MPI.
part_mpich() {
  local cases="one_rank three_ranks more_ranks live_balancing refused"
  cargo_tests mpich "mpi faults phases farm_deaths restarts workflows beside_mpi" --no-run
  side_by_side 3 "cargo_tests mpich mpi -- $cases" "cargo_tests mpich 'faults phases'" \
    "cargo_tests mpich 'farm_deaths restarts'" "cargo_tests mpich 'workflows beside_mpi'"
}

part_smpi() {
  local programs=(ferret synthetic-farm rabin-karp matmul-stream) built
  binaries openmpi "${programs[@]}" armature-burner
  binaries smpi "${programs[@]}" armature-workflow armature-cases
  built=$(target_of openmpi)/debug
  "$CI_DIR/smpi/test.sh" "${programs[@]/#/$built/}" "$built/armature-burner"
}

part_slurm() {
  binaries openmpi armature armature-probe armature-workflow ferret mandelbrot sor
  binaries mpich armature-probe ferret
  "$with" openmpi "$CI_DIR/slurm/test.sh" "$(target_of openmpi)/debug" "$(target_of mpich)/debug"
}

part_hosts() {
  binaries openmpi ferret sor armature-workflow armature-probe
  local built
  built=$(target_of openmpi)/debug
  "$CI_DIR/hosts/test.sh" "$built/ferret" "$built/sor" "$built/armature-workflow" "$built/armature-probe"
}

# is_changed EXPERIMENT: true if the last 30 commits changed the file, or the directory, that defines it.
is_changed() {
  local file base
  file=$(grep -rlF "name: \"$1\"" bench/src/experiments | head -n 1)
  [ "${file##*/}" != mod.rs ] || file=${file%/*}
  base=$(git rev-list -n 1 --skip=30 HEAD)
  ! git diff --quiet "${base:-HEAD}" HEAD -- "$file"
}

# A quarter of the experiments, which changes with each commit, and those whose source has changed. Before a release all of them run:
# ci/bench.sh --smoke.
part_bench() {
  local names chosen=() i quarter
  quarter=$(($(git rev-list --count HEAD) % 4))
  mapfile -t names < <("$CI_DIR/bench.sh" --smoke --list | sed -n 's/^\([a-z0-9-]*\)  .*(needs .*/\1/p')
  [ "${#names[@]}" -gt 0 ] || die "ci/bench.sh --list names no experiment"
  for i in "${!names[@]}"; do
    if [ $((i % 4)) = "$quarter" ] || is_changed "${names[$i]}"; then chosen+=("${names[$i]}"); fi
  done
  "$CI_DIR/bench.sh" --smoke "${chosen[@]}"
}

part_demo() { "$CI_DIR/demo.sh"; }

part_licences() { "$CI_DIR/licences.sh"; }
