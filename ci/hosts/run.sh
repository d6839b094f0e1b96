#!/usr/bin/env bash
# Runs a program on the emulated hosts of ci/hosts/up.sh, with Open MPI's mpirun on the first host. Each host has one slot.
#
#   ci/hosts/run.sh -n 4 PROGRAM ARGS...       passes all options to mpirun
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../lib.sh"
export HOSTS_DIR=${HOSTS_DIR:-$ROOT/target/hosts}
[ $# -ge 1 ] || die "usage: ci/hosts/run.sh -n 4 PROGRAM ARGS..."
[ -r "$HOSTS_DIR/env" ] || die "there are no hosts; make them first: ci/hosts/up.sh"
names=()
# shellcheck source=/dev/null
. "$HOSTS_DIR/env"
mpirun=$(command -v mpirun.openmpi || command -v mpirun) || die "there is no mpirun of Open MPI; run ci/setup.sh build"
# Variables of Open MPI that are meant for ranks on one machine are removed.
for name in ${!OMPI_MCA_@}; do unset "$name"; done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# All messages must use TCP over the network devices of the hosts.
words=("$mpirun" --hostfile "$HOSTS_DIR/hostfile"
  --mca plm rsh --mca plm_rsh_agent "$CI_DIR/hosts/exec.sh" --mca plm_rsh_no_tree_spawn 1
  --mca oob_tcp_if_include eth0 --mca btl "self,tcp" --mca btl_tcp_if_include eth0 --mca pml ob1
  --bind-to none "$@")
exec "$CI_DIR/hosts/exec.sh" "${names[0]}" "cd $(printf %q "$PWD") && exec $(printf '%q ' "${words[@]}")"
