#!/usr/bin/env bash
# Runs a command on an emulated host of ci/hosts/up.sh with the interface of ssh: the arguments are joined and passed to a shell. mpirun
# starts its daemons with this script.
#
#   ci/hosts/exec.sh HOST COMMAND...
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../lib.sh"
HOSTS_DIR=${HOSTS_DIR:-$ROOT/target/hosts}
[ $# -ge 2 ] || die "usage: ci/hosts/exec.sh HOST COMMAND..."
[ -r "$HOSTS_DIR/env" ] || die "there are no hosts; make them first: ci/hosts/up.sh"
prefix="" groups=""
# shellcheck source=/dev/null
. "$HOSTS_DIR/env"
export HOSTS_DIR PATH=$PATH:/usr/sbin:/sbin
host=$1
shift
[ -e "/run/netns/$prefix$host" ] || die "there is no host $host; ci/hosts/up.sh makes them"
# This process joins the control group of the host before it runs the command, so that all processes of the command have the host's share of a
# core.
echo $$ >"$groups/$prefix$host/cgroup.procs"
# shellcheck disable=SC2016  # expanded inside
exec nsenter --net="/run/netns/$prefix$host" unshare --uts --mount --propagation private sh -c '
  hostname "$1" && mount --bind "$2/etc-hosts" /etc/hosts && mount -t tmpfs -o size=1g,mode=1777 tmpfs /dev/shm || exit 1
  exec sh -c "$3"' - "$host" "$HOSTS_DIR" "$*"
