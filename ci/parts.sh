# shellcheck shell=bash disable=SC2034
# Parts of ci/test.sh (groups of tests), in the order in which they run. Sourced after lib.sh.
#
# A part is a function part_NAME, which runs under `set -e` in a separate process, and an entry in PARTS:
#   NAME | set | expected seconds on two cores from a fresh clone | time limit in seconds | description
# ci/test.sh runs the parts of the set `test`, and ci/test.sh --all those of the set `all` as well. A part that cannot run fails.

PARTS=(
  "setup     | test |   5 |  900 | packages and Rust"
  "format    | test |   5 |   60 | cargo fmt --check"
  "scripts   | test |  20 |  300 | shellcheck on every script, spelling of code and pages"
  "licences  | test |   5 |   60 | the licences of all dependencies against deny.toml"
  "lint      | test | 150 |  900 | clippy without warnings, also without MPI and hwloc, with each skeleton alone"
  "house     | test |  30 |  300 | measures of the structure of the framework, within the limits of ci/house/house.toml"
  "docs      | test |  40 |  600 | the pages of every crate, without warnings"
  "unit      | test | 520 | 1500 | unit tests, examples in the pages, the book"
  "programs  | test | 480 | 1500 | whole programs on threads and on Open MPI"
  "report    | all  |  30 |  600 | the page of a run in Chromium, with the network off; traces, read by others"
  "pictures  | all  |  20 |  400 | Ferret reads a sample of 300 pictures that people have drawn with many programs"
  "no-eager  | all  | 250 |  900 | whole programs on Open MPI and MPICH where no send is eager"
  "mpich     | all  | 110 | 1200 | whole programs on MPICH"
  "launchers | all | 240 |  900 | armature run and armature doctor with Open MPI 5, MPICH 5 and, by its binary interface, Intel MPI"
  "smpi      | all  | 280 | 1200 | simulated clusters: whole programs, a farm, a workflow, two pipelines, and Ferret on 14 unequal hosts"
  "slurm     | all  | 300 |  900 | on a real Slurm of four nodes: Ferret as a batch job, a farm whose ranks are killed, runs that end early and continue"
  "hosts     | all  |  40 |  400 | Ferret, a loop and a workflow on four unequal hosts: network namespaces with their own links and shares of a core"
  "bench     | all  | 250 | 1200 | a quarter of the experiments in their short form, another one with each commit, and those that changed last"
  "demo      | all  | 400 |  900 | the demonstration of the README"
)
# Parts that ci/test.sh --quick runs, for work in progress.
QUICK=(setup format scripts lint house unit programs)

# Test targets that start programs or measure time. Each entry is one command of the part `programs`, which runs several of them at the same time.
PROGRAMS=(
  "local"
  "mpi -- --skip without_eager_sends"
  "faults phases"
  "farm_deaths restarts stops"
  "progress memory porting properties compile_errors"
  "workflow_commands workflow_files workflows"
  "beside_mpi disagreement examples starter"
  "command environment run loops -- --include-ignored"
  "burner perturbed"
)
# Test targets of the part `report`. Test targets that are in neither list belong to the part `unit`.
REPORT=(browser perfetto)

with=$CI_DIR/mpi/with.sh

# target_of MPI: prints the target directory of an MPI library.
target_of() {
  # shellcheck disable=SC2016
  "$with" "$1" sh -c 'echo "$CARGO_TARGET_DIR"'
}

# All commands that compile select the whole workspace with its dev-dependencies. Another selection would have other features, and most
# crates would be compiled again.

# binaries MPI NAME...: builds programs. The test target `broken`, which is small, is built as well, because cargo uses the features of
# dev-dependencies only if it builds a test target.
binaries() {
  local mpi=$1
  shift
  "$with" "$mpi" cargo build --locked --workspace --test broken "${@/#/--bin=}"
}

# cargo_tests MPI TARGETS ARGUMENTS...: runs the test targets in TARGETS, a list of names in one word. If the list is empty, ARGUMENTS select the
# tests.
cargo_tests() {
  local mpi=$1 targets
  read -ra targets <<<"$2"
  shift 2
  "$with" "$mpi" cargo test --locked --workspace --no-fail-fast "${targets[@]/#/--test=}" "$@"
}
export -f cargo_tests
export with

part_setup() { "$CI_DIR/setup.sh" test; }

part_format() { cargo fmt --all --check && echo "all files are formatted"; }

part_scripts() {
  local scripts written
  mapfile -t scripts < <(git ls-files '*.sh' '*.env' '.ci/run' 'launch/simgrid/smpicc-rs' ':!launch/tests/golden')
  shellcheck --external-sources --source-path="$ROOT" --severity=info "${scripts[@]}"
  # The job scripts that armature submit writes quote a `$` in arguments on purpose, so that the shell does not expand it.
  mapfile -t written < <(git ls-files 'launch/tests/golden/*.sh')
  shellcheck --severity=info --exclude=SC2016 "${written[@]}"
  echo "$((${#scripts[@]} + ${#written[@]})) scripts have no findings"
  python_packages typos ci/typos-requirements.txt
  "$ROOT/target/typos/bin/typos"
  echo "no misspelled words"
}

part_lint() {
  "$with" openmpi cargo clippy --locked --workspace --all-targets -- -D warnings
  # Only the library is checked with other features: the tests do not depend on features, and checking them would take three quarters of the time.
  # `cargo check` cannot turn warnings into errors without other compiler flags, with which all dependencies would be compiled again.
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

# unit_targets: prints the test targets that no other part runs.
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
  # All tests are compiled first, so that time limits do not include compiling.
  cargo_tests openmpi "" --no-run
  for group in "${PROGRAMS[@]}"; do
    commands+=("cargo_tests openmpi '${group%% -- *}'$([[ $group != *" -- "* ]] || echo " -- ${group#* -- }")")
  done
  side_by_side 3 "${commands[@]}"
}

part_report() {
  python_packages perfetto report/tests/perfetto-requirements.txt
  cargo_tests openmpi "${REPORT[*]}" --no-run
  # The tests run in a network namespace with the loopback device only.
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

# Tests of settings that do not depend on the MPI library, and of workflows of commands, which do not use MPI, are left out with MPICH.
part_mpich() {
  local cases="one_rank three_ranks more_ranks live_balancing refused"
  cargo_tests mpich "mpi faults phases farm_deaths restarts workflows beside_mpi" --no-run
  side_by_side 3 "cargo_tests mpich mpi -- $cases" "cargo_tests mpich 'faults phases'" \
    "cargo_tests mpich 'farm_deaths restarts'" "cargo_tests mpich 'workflows beside_mpi'"
}

# The programs of MPICH 5 are not built again for Intel MPI, whose library has the same binary interface.
part_launchers() {
  local mpi
  for mpi in openmpi5 mpich5 intel; do python_packages $mpi "ci/launchers/$mpi-requirements.txt"; done
  binaries openmpi armature
  for mpi in openmpi5 mpich5; do
    "$with" $mpi cargo --config ci/launchers/build.toml build --locked \
      -p armature-probe -p mandelbrot -p matmul-stream -p sor
  done
  "$CI_DIR/launchers/test.sh" "$(target_of openmpi)/debug/armature" "$(target_of openmpi5)/debug" "$(target_of mpich5)/debug"
}

part_smpi() {
  local programs=(ferret synthetic-farm rabin-karp matmul-stream) built
  binaries openmpi "${programs[@]}" armature armature-burner
  binaries smpi "${programs[@]}" armature-workflow armature-cases
  built=$(target_of openmpi)/debug
  "$CI_DIR/smpi/test.sh" "${programs[@]/#/$built/}" "$built/armature-burner" "$built/armature"
}

part_slurm() {
  binaries openmpi armature armature-probe armature-stream armature-workflow ferret mandelbrot sor
  binaries mpich armature-probe ferret
  "$with" openmpi "$CI_DIR/slurm/test.sh" "$(target_of openmpi)/debug" "$(target_of mpich)/debug"
}

part_hosts() {
  binaries openmpi ferret sor armature-workflow armature-probe
  local built
  built=$(target_of openmpi)/debug
  "$CI_DIR/hosts/test.sh" "$built/ferret" "$built/sor" "$built/armature-workflow" "$built/armature-probe"
}

# is_changed EXPERIMENT: succeeds if the last 30 commits have changed the file or the directory of the experiment, not only its comments. Commits of
# merged branches do not count, because their trees lack the changes of the other branches.
is_changed() {
  local file base
  file=$(grep -rlF "name: \"$1\"" bench/src/experiments | head -n 1)
  [ "${file##*/}" != mod.rs ] || file=${file%/*}
  base=$(git rev-list -n 1 --first-parent --skip=30 HEAD)
  ! git diff --quiet -I'^[[:space:]]*//' -I'^[[:space:]]*$' "${base:-HEAD}" HEAD -- "$file"
}

# Runs a quarter of the experiments, a different one for each commit, and the experiments whose source has changed. Before a release, run
# all of them with ci/bench.sh --smoke.
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
