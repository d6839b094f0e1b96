#!/usr/bin/env bash
# Runs a command with the environment of one MPI:
#
#   ci/mpi/with.sh openmpi|mpich|smpi [--no-eager] COMMAND...
#   ci/mpi/with.sh mpich cargo test -p armature-tests
#
# Each MPI has its own target directory: the bindings do not notice that MPICC has changed.
# --no-eager forces the eager limits of every transport down, so that a send is not over before its receive
# has begun; ci/mpi/eager-probe.sh shows that it works.
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
mpi=${1:-}; shift || true
[ -r "$CI_DIR/mpi/$mpi.env" ] || die "usage: ci/mpi/with.sh openmpi|mpich|smpi [--no-eager] COMMAND..., not '$mpi'"
set -a
# shellcheck source=/dev/null
. "$CI_DIR/mpi/$mpi.env"
if [ "${1:-}" = --no-eager ]; then
  shift
  export ARMATURE_TEST_NO_EAGER=1
  # shellcheck source=/dev/null
  . "$CI_DIR/mpi/$mpi.no-eager.env"
fi
set +a
[ $# -gt 0 ] || die "ci/mpi/with.sh $mpi: no command given"
exec "$@"
