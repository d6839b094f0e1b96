#!/usr/bin/env bash
# Runs a command in the environment of one MPI library:
#
#   ci/mpi/with.sh openmpi|mpich|smpi|openmpi5|mpich5|intel [--no-eager] COMMAND...
#   ci/mpi/with.sh mpich cargo test -p armature-tests
#
# The last three MPIs are from PyPI; ci/test.sh launchers installs them.
#
# Each MPI library has its own target directory, because the build script of the MPI bindings does not detect a change of MPICC.
#
# --no-eager sets the eager limits of all transports so low that a send completes only after its receive has started. ci/mpi/eager-probe.sh
# tests this.
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
mpi=${1:-}; shift || true
[ -r "$CI_DIR/mpi/$mpi.env" ] || die "usage: ci/mpi/with.sh openmpi|mpich|smpi|openmpi5|mpich5|intel [--no-eager] COMMAND..., not '$mpi'"
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
