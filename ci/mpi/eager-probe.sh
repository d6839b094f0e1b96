#!/usr/bin/env bash
# Checks that the option --no-eager of ci/mpi/with.sh is effective: a program that relies on eager sends (a send completes before its receive
# has started) must run without the option and hang with it. If the option had no effect, the tests that use it would prove nothing.
#
#   ci/mpi/eager-probe.sh openmpi|mpich
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
mpi=${1:?usage: ci/mpi/eager-probe.sh openmpi|mpich}
with=$CI_DIR/mpi/with.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2016  # the inner shell knows MPICC
"$with" "$mpi" sh -c '$MPICC -o "$1" "$2"' - "$work/probe" "$CI_DIR/mpi/eager-probe.c"

# probe SECONDS BYTES [--no-eager]: runs the program with messages of BYTES bytes for up to SECONDS. Prints that it ran or hung, or its exit code.
probe() {
  local limit=$1 bytes=$2 code=0
  shift 2
  # shellcheck disable=SC2016
  "$with" "$mpi" "$@" sh -c 'exec timeout -k 5 "$1" $ARMATURE_TEST_MPIRUN -n 2 "$2" "$3"' - \
    "$limit" "$work/probe" "$bytes" >"$work/log" 2>&1 </dev/null || code=$?
  case $code in
    0) echo ran ;;
    124) echo hung ;;
    *) echo "failed with $code"; cat "$work/log" >&2 ;;
  esac
}
for bytes in 16 200; do
  [ "$(probe 60 $bytes)" = ran ] || die "$mpi: $bytes bytes should have been sent eagerly"
  [ "$(probe 4 $bytes --no-eager)" = hung ] || die "$mpi: $bytes bytes went eagerly although that was forbidden"
done
say "$mpi: eager sends of 16 and 200 bytes happen by default and not with --no-eager"
