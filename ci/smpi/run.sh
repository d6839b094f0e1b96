#!/usr/bin/env bash
# Simulates a program that was built for SMPI, with `armature simulate`:
#
#   ci/mpi/with.sh openmpi cargo build -p armature-launch
#   ci/mpi/with.sh smpi cargo build --release -p ferret
#   ci/smpi/run.sh 14 [--OPTION VALUE]... PROGRAM ARGS...
#
# PROGRAM is the path of the program, or its name in the SMPI target directory: the release or the debug build, whichever is newer. Options are
# those of `armature simulate`.
# The time limit is ARMATURE_SMPI_TIMEOUT seconds (default 600).
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
usage="usage: ci/smpi/run.sh N [--OPTION VALUE]... PROGRAM ARGS..."
[ $# -ge 2 ] || die "$usage"
n=$1 options=(); shift
while [[ ${1:-} == --* ]]; do options+=("$1" "${2:?$usage}"); shift 2; done
[ $# -ge 1 ] || die "$usage"
# built MPI NAME: prints the path of the newer build of a program in the target directory of an MPI library.
built() {
  local target
  # shellcheck disable=SC2016  # for that shell
  target=$("$CI_DIR/mpi/with.sh" "$1" sh -c 'echo "$CARGO_TARGET_DIR/${CARGO_BUILD_TARGET:-}"')
  local release=$target/release/$2 debug=$target/debug/$2
  [ -f "$release" ] || [ -f "$debug" ] || die "no program '$2'; build it with: ci/mpi/with.sh $1 cargo build"
  if [ "$release" -nt "$debug" ]; then echo "$release"; else echo "$debug"; fi
}
program=$1; shift
[[ $program == */* ]] || program=$(built smpi "$program")
armature=$(built openmpi armature)
exec "$armature" simulate --no-run-directory -n "$n" --timeout "${ARMATURE_SMPI_TIMEOUT:-600}" "${options[@]}" "$program" "$@"
